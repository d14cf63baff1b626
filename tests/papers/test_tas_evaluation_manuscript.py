"""The manuscript on TAS and strict priority: the document's tables and figures, beside our own."""

import re

import pytest
from manuscript_checks import Manuscript, SourceChecks, latex
from synthetic_shaping import PagesOfShaping, prepared

from tsnrepro.experiments.shaping.modes import ALIKE_MARGIN_PERCENT
from tsnrepro.published import documents as published
from tsnrepro.stats.quantiles import MIN_SAMPLES_BEYOND

DOCUMENT = "tas-i210-i225"
CONSTANTS = {
    **{"level": r"95\,\%", "familylevel": r"5\,\%", "gigabit": "1000", "ethernetload": "1500"},
    "alikemargin": rf"{ALIKE_MARGIN_PERCENT:g}\,\%",
    "fewestbeyond": str(MIN_SAMPLES_BEYOND),
}
NAMES = re.compile(
    r"802\.1Q(?:bv)?|RFC~5481|\bi2(?:10|25)|P(?:50|95|99)(?!\d)"
    r"|보고서의 (?:방법|(?:Prio )?결과) \d절|보고서의 그림 \d(?:, \d)?|정의상 0과"
)
PAPER = Manuscript("tas-evaluation", NAMES)


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"앞 {typed} 뒤" for typed in ("평균은 8.5", "194\\,µs로", "75배", "99개가", "결과는 3절")
    ]


class TestPages(PagesOfShaping):
    pytestmark = latex
    paper = PAPER

    def test_every_table_of_the_document_stands_on_the_pages(self, built):
        text = PAPER.squeezed(built)
        for name in ("table-idle", "table-load", "table-prio"):
            table = published.load_table(DOCUMENT, name)
            latencies = [column for column in table if column.endswith("_latency_ns")]
            for cell in table[latencies].to_numpy(float).ravel():
                assert f"{cell / 1000:.2f}" in text, (name, cell)
        for caption in ("방법2절", "결과3절", "결과4절", "Prio결과1절"):
            assert f"(보고서의{caption})" in text

    def test_every_figure_of_the_document_stands_on_the_pages(self, built):
        text = PAPER.squeezed(built)
        assert "(보고서의마지막그림)" in text
        drawn = {path.stem for path in (built / "paper" / "figures").rglob("*.pdf")}
        assert drawn >= {
            *("phase-scatter-idle", "phase-histogram-loaded", "long-cycle-idle"),
            *("long-cycle-loaded", "long-cycle-prio", "tas-against-prio"),
        }

    @pytest.mark.parametrize(
        ("verdict", "outside", "says"),
        [
            ("lower", 0, ["P99는TAS가더낮다.", "꼬리지연이낮다.", "게이트는지켜졌다."]),
            ("higher", 17, ["P99는TAS가더높다.", "우선순위가꼬리지연을더", "17개가벗어났다."]),
        ],
    )
    def test_sentences_follow_what_was_measured(self, tmp_path, verdict, outside, says):
        chosen = {"*.alike.verdict": "different", "*.verdict": verdict, "*.outside.count": outside}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        for sentence in says:
            assert sentence in text

    def test_cards_are_described_as_cards(self, tmp_path):
        text = PAPER.squeezed(PAPER.typeset(prepared(PAPER, tmp_path, kind="nic-pair")))
        assert "카드테스트베드" in text
        assert "게이트와큐는네트워크카드의것이다." in text
        assert "여기에없다" not in text

    def test_of_a_board_between_cards_it_says_that_end_stations_were_not_measured(self, tmp_path):
        chosen = {"*.shaper": "board"}
        text = PAPER.squeezed(
            PAPER.typeset(prepared(PAPER, tmp_path, kind="nic-pair", chosen=chosen))
        )
        assert "게이트와큐는TSN스위치보드의것이다" in text
        assert "보고서가다룬단말의카드는재지않았으므로" in text

    def test_a_software_bridge_in_place_of_the_port_is_described_as_one(self, tmp_path):
        chosen = {"*.shaper": "software bridge"}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        assert "송신단말의포트자리에는DPDK로작성한소프트웨어브릿지가있어" in text
        assert "커널의taprio" not in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_the_guest_stands_beside_in_the_tables(self, tmp_path):
        results = prepared(PAPER, tmp_path, kind="emulated", beside=["guest"])
        text = PAPER.squeezed(PAPER.typeset(results))
        beside = "측정값(게스트테스트베드,리눅스커널의큐)"
        assert text.count(beside) == 6
        assert text.count(f"{beside}과95%구간") == 3
        assert "커널의taprio가게이트를,prio가우선순위를맡는다." in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_toggling_without_load_is_printed_where_it_was_measured(self, tmp_path, built):
        assert "무부하에서는P99의차이가" in PAPER.squeezed(built)
        chosen = {"*.toggled.idle.*": None}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        assert "무부하에서는P99의차이가" not in PAPER.squeezed(results)
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    @pytest.mark.parametrize(
        ("limits", "korean", "english"),
        [
            ((-8.25, -20.5, 4.5), "양의값과음의값이모두든다.", "anintervalonbothsidesofzero."),
            ((8.25, 2.5, 20.5), "Holm의보정을하면유의하지않다.", "afterHolm'scorrection."),
        ],
    )
    def test_an_abstract_prints_limits_of_what_is_not_decided(
        self, tmp_path, limits, korean, english
    ):
        chosen = {"*.loaded.p9?.difference.us": limits}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        shown = "[−20.50,+4.50]µs" if limits[0] < 0 else "[+2.50,+20.50]µs"
        said = [[shown, korean], [shown, english.replace("'", "’")]]
        PAPER.assert_abstracts_print_limits(results, said)

    def test_a_tail_of_few_frames_is_not_told(self, tmp_path):
        chosen = {"*p99*": None}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        assert "짧은주기의부하에서P99의차이는이캠페인으로알수없다." in text
        assert "ToofewframesliebeyondtheP99tolocateit." in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_an_unexpected_verdict_stops_the_build(self, tmp_path):
        chosen = {"*.tas_against_prio.*.verdict": "perhaps"}
        done = PAPER.latexmk(prepared(PAPER, tmp_path, chosen=chosen))
        assert done.returncode != 0
        assert "No case for `perhaps'" in done.stdout
