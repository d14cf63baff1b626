"""The device report in English and Korean: its source, and its pages of a bench with a baseline."""

import re

import pytest
from manuscript_checks import Manuscript, SourceChecks, latex
from synthetic_results import facts_of_testbed, latency
from test_device_report import BASELINE, median, source, throughput

from tsnrepro.papers.data_sources import DataSources
from tsnrepro.papers.html import write_html
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.submission import compiled, files_of

CONSTANTS = {"level": r"95\,\%"}
NAMES = re.compile(r"RFC[~ ]\d+|-rfc2544|26\.\d(?=\)|절)|\[4pt\]|iperf3|\.\d+\\linewidth")
ENGLISH, KOREAN = (Manuscript(name, NAMES) for name in ("device-report", "device-report-ko"))


class TestEnglishSources(SourceChecks):
    paper, constants = ENGLISH, CONSTANTS
    typed = ("the throughput is 941.2", "lost 12 frames", "within 3\\,ms")


class TestKoreanSources(SourceChecks):
    paper, constants = KOREAN, CONSTANTS
    typed = ("처리량은 941.2", "손실 12개", "3\\,ms 이내")


def prepared(paper, folder, kind):
    """Write the inputs of the report of a testbed, a bench's beside its baseline."""
    label = "bench testbed (two ends in namespaces of one machine), GS308 between them"
    own = source(
        folder,
        "selected",
        facts_of_testbed(kind=kind, label=label),
        rfc2544=[*throughput(64, 5000.0, "network"), *throughput(1518, 5000.0, "line")],
        latency=[*latency("higher"), *median(50.0)],
        loss={100: [0, 0], 900: [5, 6]},
    )
    cable = {"rfc2544": throughput(64, 9000.0, "line"), "latency": median(20.0)}
    beside = [source(folder, BASELINE, **cable)] if kind == "bench" else []
    write_paper_inputs(paper.folder, folder / "paper", DataSources([own, *beside]))
    return folder


class TestPages:
    pytestmark = latex

    @pytest.mark.parametrize("paper", [ENGLISH, KOREAN], ids=lambda paper: paper.name)
    def test_a_bench_has_its_device_and_its_baseline_on_the_pages(self, paper, tmp_path):
        results = paper.built(prepared(paper, tmp_path, "bench"))
        paper.assert_nothing_is_missing_or_off_the_page(results, 2)
        text = paper.squeezed(results)
        assert "GS308" in text
        device, cable, bench = (
            ("deviceundertest", "Cable", "device")
            if paper is ENGLISH
            else ("시험대상장치", "케이블", "장치")
        )
        for word in (device, cable, bench, "30.0", "40.0"):
            assert word in text, word
        # No test that was not made.
        assert "System recovery" not in paper.text(results)
        assert "시스템복구" not in text
        write_html(paper.folder, results / "paper", tmp_path / "page.html")
        assert "GS308" in (tmp_path / "page.html").read_text(encoding="utf-8")
        files = files_of(paper.folder, results / "paper", "arxiv")
        assert compiled(files, {paper.name: 2})[paper.name]

    @pytest.mark.parametrize("kind", ["imported", "model"])
    def test_other_testbeds_have_switches(self, kind, tmp_path):
        results = ENGLISH.built(prepared(ENGLISH, tmp_path, kind))
        assert "memberpaths" in ENGLISH.squeezed(results)
        assert "Cable" not in ENGLISH.text(results)
