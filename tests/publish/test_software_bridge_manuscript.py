"""The manuscript on the software bridge: the document's tables and figures, beside our own."""

import re

import pytest
from invented_shaping import PagesOfShaping, prepared
from printed import Manuscript, SourceChecks, latex

from tsnrepro.analysis.shaping_modes import ALIKE_MARGIN_PERCENT
from tsnrepro.audit import published

DOCUMENT = "software-bridge"
CONSTANTS = {
    **{"level": r"95\,\%", "familylevel": r"5\,\%", "onwire": "70"},
    "alikemargin": rf"{ALIKE_MARGIN_PERCENT:g}\,\%",
}
NAMES = re.compile(
    r"\bi210|P(?:90|99(?:\.9)?)(?!\d)|2홉|문서의 (?:그림|표) \d(?:, \d)?|99th percentile"
)
PAPER = Manuscript("software-bridge", NAMES)


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"앞 {typed} 뒤" for typed in ("평균은 32.4", "718\\,µs로", "44와", "3개가", "1\\,ms를")
    ]


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
        assert "문서의그림2는옮길수없다" in text
        for drawn in ("Rx프로세서", "Tx프로세서", "OS프로세서", "PTP큐", "단말A", "단말C"):
            assert drawn in text

    def test_it_says_that_the_program_is_not_rebuilt(self, built):
        assert "문서의DPDK프로그램은다시만들지않았다" in PAPER.squeezed(built)

    @pytest.mark.parametrize(
        ("verdict", "below", "says"),
        [
            ("higher", "yes", ["CBS의P99는TAS보다높다.", "TAS는가장좁은조건을지킨다."]),
            ("lower", "no", ["CBS의P99는TAS보다낮다.", "TAS는가장좁은조건을어긴다."]),
        ],
    )
    def test_sentences_follow_what_was_measured(self, tmp_path, verdict, below, says):
        chosen = {"*.alike.verdict": "different", "*.verdict": verdict, "*.below_*": below}
        results = PAPER.built(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        for sentence in says:
            assert sentence in text

    def test_it_says_that_the_bridge_was_written_anew(self, tmp_path):
        chosen = {"*.shaper": "software bridge"}
        results = PAPER.built(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        assert "문서에적힌구조와절차대로브릿지를새로작성하였다" in text
        assert "aDPDKbridgeofthesamestructure" in text
        assert "커널의브릿지와큐" not in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_a_growing_gap_is_told_by_its_limits(self, tmp_path):
        chosen = {
            "*.loaded.p90.difference.us": (10.0, 9.0, 11.0),
            "*.loaded.p99_9.difference.us": (20.0, 19.0, 21.0),
        }
        results = PAPER.built(prepared(PAPER, tmp_path, chosen=chosen))
        assert "P99.9의차이는P90의차이보다크며" in PAPER.squeezed(results)
