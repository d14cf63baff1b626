"""The manuscript on fail-operational FRER: the document's tables and figures, beside our own."""

import re

import pytest
from manuscript_checks import REPOSITORY, Manuscript, PageChecks, SourceChecks, latex
from synthetic_results import (
    RACK,
    entry_by_pattern,
    facts_of_testbed,
    write_figures,
    write_run,
    write_summary,
)

from tsnrepro.config.registry import experiment_of_key, experiments
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.manuscript import scan
from tsnrepro.published import documents as published
from tsnrepro.published.audit import CLAIMS_FILE
from tsnrepro.published.claims import load_claims

DOCUMENT = "frer-fail-operational"
CONSTANTS = {
    **{"level": r"95\,\%", "payload": "1472", "longestframe": "1518", "segment": "1448"},
    **{"headers": "46", "onwire": "20", "tagbytes": "6", "sequencebits": "16"},
    **{"gigabit": "1000", "planningshare": r"80\,\%"},
}
NAMES = re.compile(
    r"802\.1CB|RFC 2(?:544|889)|0xF1C1|iperf3|sw[12]\b|P(?:50|90|99(?:\.9{1,2})?)(?!\d)"
    r"|문서의 (?:그림 \d|\d\.\d(?:\.\d)?절)|(?:문서의 )?표 \d+[A-D]?(?:, \d+[A-D]?)*"
    r"|와 \d\.\d\.\d절"
    # the sections of RFC 2889 in the table of its patterns
    r"|\(5\.[123]\)(?=\n)"
)
PAPER = Manuscript(DOCUMENT, NAMES)
SIMULATED = "simulated"
UNITS = {"us": "us", "ms": "ms", "mbps": "Mb/s", "percent": "%", "mb": "MB", "kb": "kB", "s": "s"}
# Values by pattern of the key; three numbers are a value with its limits.
DEFAULTS = {
    "failure.failover.*.no_longer": "all",
    "capture.shown.*": "yes",
    "tcp.equivalence.verdict": "equivalent",
    "*.verdict": "cannot tell",
    "*.limited_by": "network",
    "*.generator": "talker",
    "*.lost_while_cut": 0.0,
    "*.count": 1234,
    "*.payload_bytes": 1472.0,
    "*.line_limit.*": 950.25,
    "*.link_rate.mbps": 1000.0,
    "*.margin.percent": (12.3, 10.1, 14.5),
    "*.difference.*": (-12.5, -20.5, 4.5),
    "*": (512.3, 487.6, 534.9),
}


def prepared(folder, kind="emulated", measured=True, chosen=None):
    """Write results and the inputs of the manuscript, and return their folder."""
    used = scan(PAPER.folder)
    verb = "Simulated on" if kind == "model" else "Measured on"
    rack = RACK if kind == "rack" else {}
    facts = facts_of_testbed(**rack | {"kind": kind, "verb": verb})
    patterns = [*(chosen or {}).items(), *DEFAULTS.items()]
    keys = {key.removeprefix(f"{SIMULATED}.") for key in used.measured}
    declared = {key: experiment_of_key(key).name for key in keys if experiment_of_key(key)}
    # Results that derived results use, which need not be printed.
    declared |= {
        key: experiment_of_key(key).name
        for key in (
            *("loss.payload_bytes", "loss.limit.payload_bytes", "loss.limit.end_to_end.frer.mbps"),
            *("mausezahn.frame_1518.frer.achieved_frame_mbps", "latency.p99_9.frer.us"),
            "rfc2544.throughput.binary_search.frame_1518.frer.payload_mbps",
        )
    }
    sources = []
    for source in ("selected", SIMULATED):
        runs = {}
        for name, experiment in experiments().items():
            if name not in set(declared.values()) | {"streams"}:
                continue
            if "model" in (source, kind) and "model" not in experiment.kinds:
                continue
            if source == SIMULATED and "model" not in experiment.kinds:
                continue
            if kind == "rack" and source != SIMULATED and kind not in experiment.kinds:
                continue
            run = folder / source / "testbed" / name
            keys = sorted(key for key, of in declared.items() if of == name)
            items = [
                entry_by_pattern(key, patterns, units=UNITS, run=name, decimals=1)
                for key in (keys if measured else ())
            ]
            write_run(run, items, facts, testbed=kind)
            if name == "loss":
                write_summary(run / "tables" / "summary.csv")
            if measured:
                write_figures(
                    run / "figures",
                    [path.split("/")[-1] for path in used.files if path.split("/")[-2] == name],
                )
            runs[name] = run
        sources.append(DataSource(source, runs))
    write_paper_inputs(PAPER.folder, folder / "paper", DataSources(sources))
    return folder


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"앞 {typed} 뒤"
        for typed in (
            "임계는 530",
            "341\\,Mb/s로",
            "2.15배",
            "64개를",
            "손실 0\\,\\%",
            "47\\,\\%의",
        )
    ]

    def test_every_claim_of_the_document_has_its_verdicts(self):
        claims = load_claims(REPOSITORY / "data" / "published" / CLAIMS_FILE)
        table = (PAPER.folder / "sections" / "claims.tex").read_text(encoding="utf-8")
        for claim in claims:
            if claim.document == DOCUMENT and not claim.ours:
                for command in ("verdictword", "recordverdictword"):
                    assert rf"\{command}{{{claim.id}}}" in table


class TestPages(PageChecks):
    pytestmark = latex
    paper = PAPER
    prepared = staticmethod(prepared)

    @pytest.mark.parametrize(
        ("table", "columns"),
        [
            ("table-4", ["throughput_mbps"]),
            ("table-7a", ["theoretical_mbps", "zero_loss_mbps"]),
            ("table-8", ["mean_latency_us", "max_latency_us", "p99_9_latency_us"]),
            ("table-9a", ["actual_mbps", "loss_percent"]),
            ("table-9b", ["actual_mbps", "loss_percent"]),
            ("table-9c", ["actual_mbps", "loss_percent"]),
            ("table-9d", ["saturation_mbps", "gap_factor"]),
            ("table-10", ["theoretical_mbps", "measured_mbps", "interval_us"]),
            ("table-10a", ["mausezahn_mbps"]),
        ],
    )
    def test_every_number_of_a_table_stands_on_the_pages(self, built, table, columns):
        text = PAPER.squeezed(built)
        rows = published.load_table(DOCUMENT, table)
        cells = published.catalog()
        for row in rows["row"]:
            for column in columns:
                printed = cells.cell(f"{DOCUMENT}/{table}/{row}/{column}").printed
                assert printed in text, (table, row, column)

    def test_measured_and_simulated_stand_beside_each_other(self, built):
        text = PAPER.squeezed(built)
        assert "측정값(에뮬레이션테스트베드)과95%구간" in text
        assert "시뮬레이션(모델테스트베드)과95%구간" in text

    def test_gates_with_frer_are_what_the_testbed_measured(self, tmp_path):
        chosen = {
            "shaping.tas_frer.conditions.link.mbps": 100.0,
            "shaping.tas_frer.tas.loaded.p50.us": (60.0, 58.0, 62.0),
            "shaping.tas_frer.fifo.loaded.p50.us": (90.0, 88.0, 92.0),
        }
        text = PAPER.squeezed(PAPER.typeset(prepared(tmp_path, chosen=chosen)))
        assert "측정값:링크100.0Mb/s" in text
        assert "부하중의중앙값은셰이퍼가없을때보다낮다." in text
        assert "측정값이아니다.시간인지셰이퍼" not in text

    @pytest.mark.parametrize("lost", [None, 7.0])
    def test_an_abstract_prints_limits_of_what_is_not_decided(self, tmp_path, lost):
        chosen = {"*.lost_while_cut": lost}
        results = PAPER.typeset(prepared(tmp_path, chosen=chosen))
        limits = "512.3[487.6,534.9]Mb/s"
        ends = ["이며,그동안시행마다평균7.0개의", ";7.0datagrams"] if lost else ["이다.", "."]
        said = [[f"수신률은{limits}{ends[0]}"], [f"listenerreceives{limits}{ends[1]}"]]
        PAPER.assert_abstracts_print_limits(results, said)

    def test_a_model_alone_is_never_called_measured(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, kind="model"))
        text = PAPER.squeezed(results)
        assert "시뮬레이션(모델테스트베드)과95%구간" in text
        assert "측정값(" not in text
        assert "캡처는프레임이있는테스트베드에서만" in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)

    def test_a_rack_is_described_as_it_is(self, tmp_path):
        text = PAPER.squeezed(PAPER.typeset(prepared(tmp_path, "rack")))
        assert "LAN966x보드두대" in text
        for word in ("네임스페이스", "토큰버킷", "이기계의", "에뮬레이션", "namespaces"):
            assert word not in text, word

    def test_what_was_not_measured_prints_a_dash(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, measured=False))
        assert "이캠페인에서는측정하지않았다." in PAPER.squeezed(results)
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)

    @pytest.mark.parametrize(
        ("chosen", "says"),
        [
            (
                {
                    **{"*.lost_while_cut": 0.0, "*.no_longer": "all"},
                    **{"failure.failover.frer.sent_while_cut.count": 90150},
                    **{"failure.failover.frer.loss_bound.percent": 0.5},
                    **{"*.as_long.percent": (4.0, 2.0, 6.0)},
                    **{"*.during_share.percent": (100.0, 99.0, 101.0)},
                    **{"*.generator.count": 9, "*.network.count": 1},
                    **{"latency.payload_*.p99_9.frer.us": (50.0, 48.0, 52.0)},
                },
                [
                    *("잃은데이터그램이없다.", "하나도잃지않았고"),
                    *("모두90150개이며", "신뢰상한(단측)은0.5%이다."),
                    *("최대수신공백을넘지않는다.", "다른시점공백의4.0[2.0,6.0]%이고"),
                    *("문서와달리반으로줄지않는다.", "값은생성기가보낼수있는속도이다."),
                    *(
                        "P99.9가모든크기에서그한계아래이다.",
                        "우리P99.99는가장작은페이로드에서512.3",
                    ),
                ],
            ),
            (
                {
                    **{"*.lost_while_cut": 7.0, "*.no_longer": "none"},
                    **{"capture.shown.tagged": "no", "failure.*.as_long.percent": None},
                    # Half of 320 µs: the half alone would keep the limit.
                    **{"latency.payload_512.p99_9.frer.us": (160.0, 158.0, 162.0)},
                    **{"latency.payload_*.p99_9.frer.us": (50.0, 48.0, 52.0)},
                    **{"latency.payload_*.p99_99.frer.us": None},
                },
                [
                    *("평균7.0개를잃었다.", "데이터그램일부를잃었다."),
                    "최대수신공백보다길다.FRER가없으면",
                    *("R-TAG가없는스트림프레임이있다.", "P99.9가그한계를넘는크기가있다."),
                    "우리P99.99는가장작은페이로드에서도",
                ],
            ),
            (
                {
                    "*.silent_death.frer.alarms": 0.0,
                    "loss.time.frer.trend.percent": (2.0, 1.0, 3.0),
                },
                ["잠재오류검출은그고장을알리지않았다.", "그손실은시간이갈수록는다."],
            ),
            (
                {"*.binary_search.generator": "iperf3"},
                [
                    "RFC2544의이분탐색도문서와같이iperf3로하되",
                    *("이분탐색은iperf3로하고,자체송수신기의", "회이며,iperf3로했다."),
                ],
            ),
            ({}, ["여기서는데이터그램마다간격을맞추는자체송수신기를쓴다.", "같은프로그램이며"]),
            (
                {"*.silent_death.frer.alarms": None, "loss.time.frer.trend.percent": None},
                ["이스위치에는잠재오류검출이없다.", "시간에따라변하는지는판정하지못했다."],
            ),
        ],
    )
    def test_sentences_follow_what_was_measured(self, tmp_path, chosen, says):
        text = PAPER.squeezed(PAPER.typeset(prepared(tmp_path, chosen=chosen)))
        for sentence in says:
            assert sentence in text
