"""The manuscript on the RFC 2544 methodology: no typed result, and pages for what was measured."""

import re

import pytest
from manuscript_checks import Manuscript, PageChecks, SourceChecks, latex
from synthetic_results import RACK, entry_by_pattern, facts_of_testbed, write_figures, write_run

from tsnrepro.config.papers import sources_of
from tsnrepro.experiments.rfc2544.accuracy import AccuracySettings
from tsnrepro.papers.assertions import read_assertions
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.manuscript import scan

ACCURACY = AccuracySettings()
CONSTANTS = {
    **{"level": r"95\,\%", "headers": "46", "onwire": "20", "tagbytes": "6", "gigabit": "1000"},
    "copies": "2",
    **{"trialseconds": "60", "latencyseconds": "120", "latencyrepeats": "20"},
    **{"segment": "1448", "segmentheaders": "70"},
    "searchtolerance": rf"{ACCURACY.tolerance_percent:g}\,\%",
    "stalllength": rf"{ACCURACY.stall_ms:g}\,ms",
}
# Numbers of the text that no measurement can change.
NAMES = re.compile(
    r"802\.1CB|RFC[ ~](?:1242|2544|2889|6815|8172|8204|9004)|(?<=RFC~2544, )20\b"
    r"|R-TAG|iperf3|switch [12]|SHA-256|\\pos=\.25"
    r"|\(26\.[1-5]\)|\(24\)|(?<=Section )[1-4](?:\.[1-6])?(?= of the report)|\bP\d\d(?:\.9{1,2})?\b"
)
PAPER = Manuscript("rfc2544-methodology", NAMES)
SIMULATED = "simulated"
TESTBEDS = {
    "model": ("model testbed (simulated queues, no measurement)", "Simulated on"),
    "emulated": ("emulated testbed (network namespaces on one machine)", "Measured on"),
    "rack": (RACK["label"], "Measured on"),
}
UNITS = {"us": "us", "mbps": "Mb/s", "percent": "%", "payload_mbps": "Mb/s", "duration_s": "s"}
# Values by pattern of the key; three numbers are a value with its limits.
DEFAULTS = {
    "*.between.verdict": "lost",
    "*.verdict": "equivalent",
    "*.converged": "yes",
    "*.limited_by": "generator, network",
    "*.highest_clean.*": 512.3,
    "*.lowest_share.percent": 98.7,
    "*.generator": "talker",
    "*.count": 123_456,
    "*.duration_s": 30.0,
    "*.deadline_s": 40.0,
    "*.link_rate.mbps": 1000.0,
    "mausezahn.*.achieved_frame_mbps": (189.5, 153.5, 987.5),
    "*.percent": (12.345, 0.123, 114.567),
    "*": (1234.5, 1034.25, 1434.75),
}
NO_COLLAPSE = {"*.collapse.*.mbps": None}
# Results that carry every sentence, by pattern of their keys.
CARRYING = NO_COLLAPSE | {
    "*.calm.within_percent": (100.0, 83.2, 100.0),
    "rfc2544.accuracy.mlrsearch.*.stalls.within_percent": (100.0, 83.2, 100.0),
    "rfc2544.accuracy.systematic.threshold.stalls.within_percent": (90.0, 70.0, 98.0),
    "*.stalls.within_percent": (15.0, 3.2, 37.9),
    "*.searches.count": 1,
    "*.compliant.count": 0,
    "*.unaccounted.total.count": 0,
    "loss.precision.accuracy.percent": 0.0,
    "loss.threshold.verdict": "cannot tell",
    "*.listener_socket.percent": 100.0,
    "*.waiting.frer.percent": 49.8,
    "mausezahn.frame_64.frer.load_100.efficiency_percent": 0.7,
    "rfc2544.saturation.frame_64.control.line_percent": 99.0,
    "rfc2544.saturation.frame_64.frer.line_percent": 93.0,
    "rfc2544.saturation.*.ratio": 1.02,
    "rfc2544.throughput.binary_search.*.control.efficiency_percent": 98.4,
    "rfc2544.throughput.binary_search.*.frer.efficiency_percent": 93.8,
    "rfc2544.frame_loss.*.load_100.offered_percent": 99.9,
    "loss.intervention.buffer.without.lossy.count": 8,
    "loss.intervention.buffer.with.lossy.count": 1,
}


def prepared(folder, kind="emulated", measured=True, chosen=NO_COLLAPSE):
    """Write results and the inputs of the manuscript, and return their folder."""
    used = scan(PAPER.folder)
    experiments = sources_of(PAPER.name).experiments
    label, verb = TESTBEDS[kind]
    rack = RACK if kind == "rack" else {}
    facts = facts_of_testbed(**rack | {"kind": kind, "label": label, "verb": verb})
    patterns = [*chosen.items(), *DEFAULTS.items()]
    sources = []
    for source, prefix in (("selected", ""), (SIMULATED, f"{SIMULATED}.")):
        bare = [key.removeprefix(prefix) for key in used.measured if key.startswith(prefix)]
        runs = {}
        for name in experiments:
            keys = sorted(key for key in bare if key.startswith(f"{name}."))
            # Every campaign has the verdicts, whatever its loads.
            kept = keys if measured else [key for key in keys if key.endswith("verdict")]
            decimals = 1 if name == "mausezahn" else 2
            items = [
                entry_by_pattern(key, patterns, units=UNITS, run=name, decimals=decimals)
                for key in kept
            ]
            run = folder / source / name
            write_run(run, items, facts, testbed=kind)
            if measured:
                figures = [file.split("/")[-1] for file in used.files if f"{name}/" in file]
                write_figures(run / "figures", sorted(set(figures)))
            runs[name] = run
        sources.append(DataSource(source, runs))
    write_paper_inputs(PAPER.folder, folder / "paper", DataSources(sources))
    return folder


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"Text before {typed} and after."
        for typed in (
            *("at 565\\,\\units{}", "a loss of 0.053\\,\\%", "1420 datagrams", "& 341.47 &"),
            *("25\\,\\%", "10 iterations", "1518 bytes", "a ceiling of 924", "P99.9 of 262.14"),
            *("\\calc{1}{112/565}", "\\ifcalc{\\rawval{a.b} < 300}{then}{else}", "64 & 18 &"),
        )
    ]

    def test_every_table_of_the_report_is_printed(self):
        cells = scan(PAPER.folder).published
        tables = {key.split("/")[0] for key in cells}
        numbered = ("2-1-results", "2-2-results", "2-2-sizes", "2-3-phases", "2-3-rates")
        more = ("2-3-results", "2-4-results", "2-5-results", "2-6-results", "3-2-intervals")
        last = ("3-2-reproducibility", "4-2-precision")
        assert tables >= {f"section-{number}" for number in (*numbered, *more, *last)}


class TestPages(PageChecks):
    pytestmark = latex
    paper = PAPER
    prepared = staticmethod(prepared)

    def test_measured_and_simulated_stand_beside_the_published(self, built):
        text = PAPER.text(built)
        for words in ("Measured on the emulated testbed, FRER", "Simulated on the model testbed"):
            assert words in text
        for printed in ("341.47", "941.38", "246.50", "[528, 537]", "0.053"):
            assert printed in text

    @pytest.mark.parametrize(
        ("chosen", "lacking"),
        [
            ({}, []),
            ({"rfc2544.accuracy.binary_search.*.stalls.within_percent": (90.0, 70.0, 98.0)},
             [*["abstract"] * 3, "conclusion", *["searches"] * 2]),
            ({"loss.collapse.frer.lowest_share.percent": 23.4}, ["benchmarks"]),
            ({"*.listener_socket.percent": 40.0}, ["abstract", "benchmarks", "conclusion"]),
            ({"latency.p50.difference.us": (1.0, -2.0, 4.0)},
             ["abstract", "benchmarks", "conclusion"]),
            ({"loss.elimination.between.verdict": "none lost"}, ["further"]),
            ({"*.generator": "iperf3"}, ["searches"]),
        ],
        ids=["carried", "bisection", "collapse", "place", "latency", "copies", "sender"],
    )  # fmt: skip
    def test_sentences_follow_what_was_measured(self, tmp_path, chosen, lacking):
        results = prepared(tmp_path, chosen=chosen | CARRYING | chosen)
        judged = read_assertions(results / "paper")
        # Other experiments are in some campaigns only.
        judged = [one for one in judged if "has no value" not in one.found]
        places = [one.place for one in judged if not one.carried]
        assert [place.split("/")[1].split(".")[0] for place in places] == lacking

    def test_a_sentence_that_is_not_carried_says_what_was_found(self, tmp_path):
        chosen = {"loss.collapse.frer.lowest_share.percent": 23.4} | CARRYING
        text = PAPER.squeezed(PAPER.typeset_once(prepared(tmp_path, chosen=chosen)))
        assert "(23.4),not>50" in text

    def test_a_model_alone_is_never_called_measured(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, kind="model"))
        text = PAPER.text(results)
        assert "Simulated on the model testbed, FRER" in text
        assert "Nothing was measured for this copy" in text
        assert "Measured on the" not in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)

    def test_a_rack_is_described_as_it_is(self, tmp_path):
        text = PAPER.text(PAPER.typeset_once(prepared(tmp_path, "rack")))
        assert "two LAN966x boards" in text
        for word in ("namespace", "token bucket", "emulated", "this machine"):
            assert word not in text, word

    def test_what_was_not_measured_prints_a_dash(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, measured=False))
        text = PAPER.text(results)
        assert "Not measured in this campaign." in text
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)

    def test_without_lower_loads_mausezahn_has_no_columns_of_dashes(self, tmp_path, built):
        full = {"mausezahn.*.load_100.*": (189.5, 153.5, 987.5), "mausezahn.*.load_*": None}
        results = PAPER.typeset(prepared(tmp_path, chosen=NO_COLLAPSE | full))
        said = "What mausezahn reaches at full load"
        assert said in PAPER.text(results)
        assert said not in PAPER.text(built)
        PAPER.assert_nothing_is_missing_or_off_the_page(results, points=3)
