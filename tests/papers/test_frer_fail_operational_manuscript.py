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
from tsnrepro.papers.assertions import read_assertions
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
    r"|원 논문의 (?:그림 \d|\d\.\d(?:\.\d)?절)|(?:원 논문의 )?표 \d+[A-D]?(?:, \d+[A-D]?)*"
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


# A record that carries every sentence.
CARRIED = {
    "failure.failover.control.lost_while_cut": 14000.0,
    "failure.failover.control.no_longer": "none",
    "failure.cuts.frer.longest_silence_ms": 2001.0,
    "failure.failover.frer.offered.mbps": 530.0,
    "failure.*.control.longest_silence_ms": 1.5,
    "failure.restart_sw1.control.lost": 0.0,
    "failure.restart_sw2.frer.lost": 0.0,
    "failure.restart_sw2.frer.alarms": 0.0,
    "loss.unaccounted.total.count": 0,
    "failure.stuck_generator.control.lost": 0.0,
    "failure.silent_death.frer.lost": 0.0,
    "failure.none.frer.alarms": 0.0,
    "failure.lossy.frer.lost": 0.0,
    "failure.duplicating.frer.lost": 0.0,
    "failure.delay_10_ms.frer.lost": 0.0,
    "capture.frer.single_copies.count": 0,
    "latency.p50.verdict": "higher",
    "latency.p50.difference.us": (0.9, 0.8, 1.0),
    "latency.payload_*.p50.difference.percent": (20.0, 15.0, 25.0),
    "latency.p99_9.frer.us": (80.0, 70.0, 90.0),
    "tcp.limit.equivalence.verdict": "equivalent",
    "tcp.retransmits.frer.count": 1700,
    "tcp.retransmits.control.count": 700,
    "loss.share.listener_socket.*.percent": 99.0,
    "loss.intervention.buffer.verdict": "lower",
    "loss.threshold.frer.mbps": (320.0, 260.0, 400.0),
    "loss.highest_clean.frer.mbps": None,
    "mausezahn.limited_by.network.count": 0,
    "meshed.uncongested.lost.count": 0,
}


def lacking(results, section):
    """Return how many sentences of a section the record does not carry."""
    judged = read_assertions(results / "paper")
    return sum(section in one.place and not one.carried for one in judged)


def asserted_keys():
    """Return the keys of all results on which a sentence rests."""
    texts = [path.read_text(encoding="utf-8") for path in PAPER.sources]
    return {key for text in texts for key in re.findall(r'measured\("([^"]+)"\)', text)}


def prepared(folder, kind="emulated", measured=True, chosen=None):
    """Write results and the inputs of the manuscript, and return their folder."""
    used = scan(PAPER.folder)
    verb = "Simulated on" if kind == "model" else "Measured on"
    rack = RACK if kind == "rack" else {}
    facts = facts_of_testbed(**rack | {"kind": kind, "verb": verb})
    patterns = [*(chosen or {}).items(), *DEFAULTS.items()]
    keys = {key.removeprefix(f"{SIMULATED}.") for key in {*used.measured, *asserted_keys()}}
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
        chosen = {"shaping.tas_frer.conditions.link.mbps": 100.0}
        text = PAPER.squeezed(PAPER.typeset_once(prepared(tmp_path, chosen=chosen)))
        assert "측정값:링크100.0Mb/s" in text

    @pytest.mark.parametrize("lost", [0.0, 7.0])
    def test_an_abstract_strikes_what_the_record_does_not_carry(self, tmp_path, lost):
        chosen = CARRIED | {"failure.failover.frer.lost_while_cut": lost}
        results = prepared(tmp_path, chosen=chosen)
        assert lacking(results, "abstract") == (2 if lost else 0)
        struck = "[failure.failover.frer.lostwhilecut(7),not=0"
        for text in PAPER.abstracts(results):
            assert (struck in text.replace("_", "")) == bool(lost)

    def test_a_model_alone_is_never_called_measured(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, kind="model"))
        text = PAPER.squeezed(results)
        assert "시뮬레이션(모델테스트베드)과95%구간" in text
        assert "측정값(" not in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)

    def test_a_rack_is_described_as_it_is(self, tmp_path):
        results = prepared(tmp_path, "rack", chosen=CARRIED)
        judged = read_assertions(results / "paper")
        others = [one for one in judged if "testbed.kind" in one.condition]
        assert others
        assert not any(one.carried for one in others)
        text = PAPER.squeezed(PAPER.typeset_once(results))
        assert "LAN966x보드두대" in text
        for word in ("네임스페이스", "토큰버킷", "에뮬레이션", "namespaces"):
            assert word not in text, word

    def test_what_was_not_measured_prints_a_dash(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, measured=False))
        assert "이캠페인에서는측정하지않았다." in PAPER.squeezed(results)
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)

    @pytest.mark.parametrize(
        ("chosen", "sentences"),
        [
            ({}, []),
            (
                {"failure.restart_sw1.control.lost": 5.0},
                [*("abstract", "abstract"), *("discussion", "failover")],
            ),
            ({"failure.cuts.frer.longest_silence_ms": 1000.0}, ["failover"]),
            ({"failure.failover.control.no_longer": "some"}, ["failover"]),
            ({"failure.silent_death.frer.alarms": 0.0}, ["failover"]),
            ({"latency.p50.verdict": "cannot tell"}, ["abstract"] * 2 + ["latency"]),
            # A difference whose interval has zero in it shows nothing.
            ({"latency.p50.difference.us": (0.9, -0.1, 1.9)}, ["discussion", "latency"]),
            (
                {"tcp.limit.equivalence.verdict": "different"},
                [*("abstract", "abstract"), *("discussion", "tcp")],
            ),
            ({"tcp.retransmits.frer.count": 5}, ["tcp"]),
            ({"capture.shown.tagged": "no"}, ["method"]),
            ({"mausezahn.limited_by.network.count": 1}, ["throughput"]),
        ],
        ids=lambda value: next(iter(value), "carried") if isinstance(value, dict) else "",
    )  # fmt: skip
    def test_sentences_follow_what_was_measured(self, tmp_path, chosen, sentences):
        results = prepared(tmp_path, chosen=CARRIED | chosen)
        judged = read_assertions(results / "paper")
        places = [one.place for one in judged if not one.carried]
        assert [place.split("/")[1].split(".")[0] for place in places] == sentences
