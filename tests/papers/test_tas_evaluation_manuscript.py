"""The manuscript on TAS and strict priority: the document's tables and figures, beside our own."""

import re

import pytest
from manuscript_checks import Manuscript, SourceChecks, latex
from synthetic_shaping import PagesOfShaping, prepared

from tsnrepro.experiments.shaping.modes import ALIKE_MARGIN_PERCENT
from tsnrepro.papers.assertions import read_assertions
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
    # Of formulas.
    r"|RFC~\d+|0과 \$L\$|[LT]/2|4L|\^2|\{2T\}|\(1-q\)"
)
PAPER = Manuscript("tas-evaluation", NAMES)
# Results that carry every sentence, by pattern of their keys.
CARRYING = {
    "shaping.shaper": "software bridge",
    "simulated.*.outside.count": 0,
    # The waiting that the schedule of equal times predicts.
    "*_synchronised.tas.loaded.mean.us": 100.0,
    "*_cycle.tas.loaded.mean.us": 2100.0,
    "*.tas.loaded.load_effect.mean.difference.us": (-10.0, -15.0, -5.0),
    "*.outside.count": 1,
    "*_synchronised.tas_against_prio.loaded.p50.difference.us": (-20.0, -24.0, -16.0),
    "*_synchronised.tas_against_prio.loaded.p50.verdict": "lower",
    "simulated.*_synchronised.tas_against_prio.loaded.p99.verdict": "lower",
    "*_synchronised.tas_against_prio.loaded.p99.difference.us": (111.0, -953.0, 2030.0),
    "*.long_cycle.tas_against_prio.loaded.p95.difference.us": (90.0, 80.0, 95.0),
    "*.wide_cycle.tas_against_prio.loaded.p95.difference.us": (800.0, 700.0, 900.0),
    "*.tas_against_prio.*.verdict": "higher",
    "*.idle.mean.verdict": "higher",
    "*.loaded.mean.verdict": "lower",
    "*.alike.verdict": "different",
    "*.loaded.mean.difference.percent": (-99.0, -99.5, -98.0),
    "*.tas.loaded.load.mbps": 37.8,
    "*.prio.loaded.load.mbps": 83.6,
    "*.prio.idle.jitter.us": (352.0, 303.0, 396.0),
}


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
        for caption in ("방법2절", "결과3절", "결과4절과보고서의Prio결과1절"):
            assert f"(보고서의{caption})".lower() in text.lower()

    def test_every_figure_of_the_document_stands_on_the_pages(self, built):
        text = PAPER.squeezed(built)
        assert "보고서의마지막그림)" in text
        drawn = {path.stem for path in (built / "paper" / "figures").rglob("*.pdf")}
        assert drawn >= {
            *("phase-scatter-idle", "phase-histogram-loaded", "long-cycle-idle"),
            *("long-cycle-loaded", "long-cycle-synchronised-loaded", "latency-by-cycle"),
        }

    @pytest.mark.parametrize(
        ("chosen", "lacking"),
        [
            ({}, []),
            ({"*.tas_against_prio.loaded.p95.verdict": "cannot tell"},
             [*["abstract"] * 4, *["discussion"] * 2, "results"]),
            ({"*_synchronised.tas_against_prio.loaded.p50.verdict": "higher"},
             [*["abstract"] * 4, *["discussion"] * 2, *["results"] * 2]),
            ({"*.tas.loaded.load.mbps": 80.0}, ["abstract", "abstract", "discussion", "results"]),
            ({"shaping.*.outside.count": 123_456}, ["results"]),
            ({"shaping.shaper": "card"},
             ["abstract", "abstract", "discussion", "method", "results"]),
        ],
        ids=["carried", "tail", "synchronised", "bandwidth", "outside", "cards"],
    )  # fmt: skip
    def test_sentences_follow_what_was_measured(self, tmp_path, chosen, lacking):
        results = prepared(PAPER, tmp_path, kind="emulated", chosen=chosen | CARRYING | chosen)
        judged = read_assertions(results / "paper")
        places = [one.place for one in judged if not one.carried]
        assert [place.split("/")[1].split(".")[0] for place in places] == lacking

    def test_cards_are_described_as_cards(self, tmp_path):
        text = PAPER.squeezed(PAPER.typeset_once(prepared(PAPER, tmp_path, kind="nic-pair")))
        assert "카드테스트베드" in text
        assert "송신단말의카드가제어한다" in text
        assert "[shaping.shaper(card),not" in text

    def test_of_a_board_between_cards_it_says_that_end_stations_were_not_measured(self, tmp_path):
        chosen = {"*.shaper": "board"}
        text = PAPER.squeezed(
            PAPER.typeset_once(prepared(PAPER, tmp_path, kind="nic-pair", chosen=chosen))
        )
        assert "TSN스위치보드의포트에서이루어졌다" in text
        assert "보고서가다룬단말의카드는측정하지않았다" in text

    def test_a_software_bridge_in_place_of_the_port_is_described_as_one(self, tmp_path):
        chosen = {"*.shaper": "software bridge"}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        text = PAPER.squeezed(results)
        assert "송신단말의포트자리에는DPDK로구현한소프트웨어브릿지를두어" in text
        assert "커널의taprio" not in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_the_guest_stands_beside_in_the_tables(self, tmp_path):
        results = prepared(PAPER, tmp_path, kind="emulated", beside=["guest"])
        text = PAPER.squeezed(PAPER.typeset(results))
        beside = "측정값(게스트테스트베드,리눅스커널의큐)"
        assert text.count(beside) == 3
        assert text.count(f"{beside}과95%구간") == 2
        assert "커널의taprio가게이트를,prio가우선순위를맡는다." in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_toggling_without_load_is_printed_where_it_was_measured(self, tmp_path, built):
        assert "무부하켬" in PAPER.squeezed(built)
        chosen = {"*.toggled.idle.*": None}
        results = PAPER.typeset(prepared(PAPER, tmp_path, kind="emulated", chosen=chosen))
        assert "무부하켬" not in PAPER.squeezed(results)
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_abstracts_print_limits_of_a_difference_of_either_sign(self, tmp_path):
        results = prepared(PAPER, tmp_path, kind="emulated", chosen=CARRYING)
        limits = "[−24.00,−16.00]µs"
        PAPER.assert_abstracts_print_limits(results, [[limits], [limits]])

    def test_a_tail_of_few_frames_has_no_limits(self, tmp_path):
        results = prepared(PAPER, tmp_path, kind="emulated", chosen={"*p99*": None} | CARRYING)
        lacking = [one.found for one in read_assertions(results / "paper") if not one.carried]
        assert any("p99.verdict has no value" in found for found in lacking)
        PAPER.typeset(results)
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=2)
