"""The manuscript on the software bridge: the document's tables and figures, beside our own."""

import json
import re

import pytest
from manuscript_checks import Manuscript, SourceChecks, latex
from synthetic_shaping import PagesOfShaping, prepared

from tsnrepro.experiments.shaping.modes import ALIKE_MARGIN_PERCENT
from tsnrepro.papers.assertions import read_assertions
from tsnrepro.published import documents as published
from tsnrepro.stats.quantiles import MIN_SAMPLES_BEYOND

DOCUMENT = "software-bridge"
CONSTANTS = {
    **{"level": r"95\,\%", "familylevel": r"5\,\%", "onwire": "70"},
    "alikemargin": rf"{ALIKE_MARGIN_PERCENT:g}\,\%",
    "fewestbeyond": str(MIN_SAMPLES_BEYOND),
}
NAMES = re.compile(
    r"\bi210|P(?:90|99(?:\.9)?)(?!\d)|2홉|원 논문의 (?:그림|표) \d(?:, \d)?|그림 2는"
    r"|\(\d\)~|99th percentile"
    # Of formulas.
    r"|RFC~\d+|0과 \$L\$|L/2|\^2|\(2T\)|0\.99?L"
)
PAPER = Manuscript("software-bridge", NAMES)
# No part has a receiving thread for each port.
NOT_EACH = {"shaping.bridge_receiver_each.*": None}
# Results that carry every sentence but those on verdicts, by pattern of their keys.
CARRYING = {
    "shaping.shaper": "software bridge",
    "*.below_*": "no",
    "*.tas.loaded.load.mbps": 40.0,
    "*.bridge.cbs.loaded.load.mbps": 80.0,
    "*.cbs.loaded.load_effect.mean.difference.us": (500.0, 400.0, 600.0),
    "*.tas.loaded.load_effect.p99.difference.us": (10.0, 5.0, 15.0),
    "*.bridge_cost.mean.difference.us": (30.0, 20.0, 40.0),
    "*.cbs_against_tas.loaded.*.difference.us": (10.0, 9.0, 11.0),
    "*_any_time.tas.loaded.mean.us": 9000.0,
}
GUEST = "게스트테스트베드,리눅스커널의브릿지와큐"


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"앞 {typed} 뒤" for typed in ("평균은 32.4", "718\\,µs로", "44와", "3개가", "1\\,ms를")
    ]


@pytest.mark.parametrize("beside", [[], ["guest"]])
def test_the_appendix_lists_the_guest_only_where_it_is_printed(tmp_path, beside):
    results = prepared(PAPER, tmp_path, kind="emulated", beside=beside)
    record = json.loads((results / "paper/provenance.json").read_text(encoding="utf-8"))
    listed = {item["key"].partition(".")[0] for item in record["measured"]}
    drawn = {item["path"].partition("/")[0] for item in record["files"]}
    assert {*listed} == {"shaping", "simulated", "testbed", *beside}
    assert {*drawn} == {"shaping", "simulated", *beside}


class TestPages(PagesOfShaping):
    pytestmark = latex
    paper = PAPER

    def test_every_table_of_the_document_stands_on_the_pages(self, built):
        text = PAPER.squeezed(built)
        numbers = [
            *published.load_table(DOCUMENT, "figure-4")["latency_us"],
            *published.load_table(DOCUMENT, "figure-4-differences")["difference_us"],
        ]
        for number in numbers:
            assert f"{number:g}" in text
        for word in published.load_table(DOCUMENT, "table-3")["text"].dropna():
            assert re.sub(r"\s", "", str(word)) in text

    def test_every_figure_of_the_document_stands_on_the_pages(self, built):
        text = PAPER.squeezed(built)
        assert "원논문의그림2는개발품의사진이므로재현대상이아니다" in text
        for drawn in ("Rx프로세서", "Tx프로세서", "OS프로세서", "PTP큐", "단말A", "단말C"):
            assert drawn in text

    def test_it_says_that_the_program_is_not_rebuilt(self, built):
        assert "원논문의DPDK프로그램은구할수없었다" in PAPER.squeezed(built)

    def test_the_guest_stands_beside_with_numbers_of_its_own(self, tmp_path):
        chosen = {
            "shaping.shaper": "software bridge",
            "guest.*.tas.idle.bridge_cost.mean.difference.us": (61.25, 60.5, 62.75),
            "guest.*.cbs_against_tas.loaded.p90.difference.us": (71.25, 70.5, 72.75),
            "guest.*.cbs_against_tas.loaded.p99.difference.us": (81.25, 80.5, 82.75),
            "guest.*.cbs_against_tas.loaded.p99_9.difference.us": (91.25, 90.5, 92.75),
        }
        results = prepared(PAPER, tmp_path, kind="emulated", chosen=chosen, beside=["guest"])
        text = PAPER.squeezed(PAPER.typeset(results))
        for whose in ("에뮬레이션테스트베드", GUEST):
            assert text.count(f"측정값({whose})과95%구간") == 2
        assert "시뮬레이션(모델테스트베드)과95%구간" in text
        assert "가운데는게스트테스트베드의측정값이고아래는시뮬레이션이다." in text
        # In its table and in the supplement.
        for number in ("61.25[+60.50", "71.25[+70.50", "81.25[+80.50", "91.25[+90.50"):
            assert text.count(number) == 2, number
        assert "이가상머신의시각은가상이므로" in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_the_guest_stands_beside_the_model_alone(self, tmp_path):
        results = prepared(PAPER, tmp_path, kind="model", beside=["guest"])
        text = PAPER.squeezed(PAPER.typeset_once(results))
        assert f"측정값({GUEST})과95%구간" in text
        assert text.count("시뮬레이션(모델테스트베드)과95%구간") == 2
        assert "이논문의결과는게스트테스트베드를제외하면모두시뮬레이션으로얻었다" in text
        assert "위는시뮬레이션,아래는게스트테스트베드의측정값이다." in text

    @pytest.mark.parametrize(
        ("chosen", "lacking"),
        [
            ({"*.loaded.p90.verdict": "higher", "*.alike.verdict": "different"}, []),
            ({"*.loaded.p90.verdict": "lower", "*.alike.verdict": "equivalent"},
             ["abstract", "abstract", "discussion", "discussion", "results", "results"]),
            ({"*.p99.difference.us": (20.0, 19.0, 21.0), "*.below_*": "yes",
              "*.loaded.p90.verdict": "higher", "*.alike.verdict": "different"},
             ["results", "results"]),
            ({"*_any_time.tas.loaded.mean.us": 9.0,
              "*.loaded.p90.verdict": "higher", "*.alike.verdict": "different"},
             ["discussion", "results"]),
        ],
        ids=["carried", "unlike the text", "a gap that grows", "gates that cost nothing"],
    )  # fmt: skip
    def test_sentences_follow_what_was_measured(self, tmp_path, chosen, lacking):
        chosen = chosen | CARRYING | chosen
        results = prepared(PAPER, tmp_path, kind="emulated", chosen=chosen)
        judged = read_assertions(results / "paper")
        places = [one.place for one in judged if not one.carried]
        assert [place.split("/")[1].split(".")[0] for place in places] == lacking

    def test_it_says_that_the_bridge_was_written_anew(self, tmp_path):
        chosen = {"shaping.shaper": "software bridge"}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        assert "원논문에적힌구조와절차대로브릿지를새로구현하였다" in text
        assert "aDPDKbridgeofthesamestructure" in text
        assert "커널의브릿지와큐" not in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    @pytest.mark.parametrize(
        ("threads", "says"),
        [
            ("one", "스레드하나가둘을번갈아처리한다."),
            ("two", "두스레드가분담하지만"),
            ("each", "포트마다스레드하나가"),
        ],
    )
    def test_it_says_how_threads_divide_the_work(self, tmp_path, threads, says):
        chosen = {"shaping.shaper": "software bridge", "*.conditions.threads": threads}
        results = PAPER.typeset_once(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        assert says in PAPER.squeezed(results)

    def test_threads_that_were_not_measured_are_dashes_in_the_supplement(self, tmp_path):
        each = {"*receiver_each.fifo.idle.mean.us": 43.75}
        for number, threads in ((1, each), (0, NOT_EACH)):
            chosen = {"shaping.shaper": "software bridge"} | threads
            results = prepared(PAPER, tmp_path / f"{number}", kind="emulated", chosen=chosen)
            text = PAPER.squeezed(PAPER.typeset_once(results))
            assert ("43.75" in text.partition("스레드배치별평균지연")[2]) == bool(number)

    @pytest.mark.parametrize("verdict", ["higher", "cannot tell"])
    def test_a_conclusion_of_the_abstracts_is_struck_where_it_is_not_decided(
        self, tmp_path, verdict
    ):
        chosen = {"*.loaded.p9?.verdict": verdict, "shaping.shaper": "software bridge"}
        results = prepared(PAPER, tmp_path, kind="emulated", chosen=chosen)
        judged = read_assertions(results / "paper")
        lacking = [one for one in judged if "abstract" in one.place and not one.carried]
        assert len(lacking) == (0 if verdict == "higher" else 2)
        for text in PAPER.abstracts(results):
            assert ("(cannottell),not=higher]" in text) == (verdict != "higher")

    def test_what_is_of_the_bridge_alone_is_struck_on_the_model(self, tmp_path):
        results = prepared(PAPER, tmp_path, kind="model")
        lacking = [one for one in read_assertions(results / "paper") if not one.carried]
        of_the_bridge = [one for one in lacking if "software bridge" in one.condition]
        assert len(of_the_bridge) == 10
        assert "shaping.shaper (model), not = software bridge" in of_the_bridge[0].found

    @pytest.mark.parametrize("unknown", ["*p99_9*", "*p99*"])
    def test_a_tail_of_few_frames_is_not_told(self, tmp_path, unknown):
        chosen = {unknown: None}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        # The text's conclusion rests on P99; P99.9 stands in the table.
        assert ("p99.difference.ushasnovalue" in text) == (unknown == "*p99*")
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)
