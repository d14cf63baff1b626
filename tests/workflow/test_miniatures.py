"""Every campaign in miniature, through Snakemake, from measuring to pages and papers.

The miniature is made from the campaign's own file, so a new part, mode, method or scenario is run
without a new test.
"""

import os
import re
from pathlib import Path

import pytest
from repository_copy import SECONDS, environment_of, snakemake
from tracked_files import tracked

from tsnrepro.config.files import campaign
from tsnrepro.config.papers import manuscripts, sources_of
from tsnrepro.config.registry import experiments
from tsnrepro.papers.pdf_text import numbered_items
from tsnrepro.published.audit import run_audit
from tsnrepro.published.audit_findings import Severity
from tsnrepro.published.measured_runs import find_measured_runs
from tsnrepro.testbeds.choose import availability
from tsnrepro.workflow.notebooks import execute

# Testbeds that the README gives each campaign. What takes minutes runs with scripts/test --all.
RUNS = [
    ("quick", "auto", ()),
    ("quick", "model", (pytest.mark.long,)),
    ("quick", "guest", (pytest.mark.long,)),
    ("rfc2544-full", "auto", (pytest.mark.long,)),
    ("documents", "auto", (pytest.mark.long,)),
    ("documents", "model", (pytest.mark.long,)),
    ("soak", "auto", (pytest.mark.long,)),
    ("smoke", "auto", (pytest.mark.long,)),
    ("bridge", "emulated", (pytest.mark.long,)),
]

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.latex,
    pytest.mark.whole_way,
    pytest.mark.timeout(2 * SECONDS),
]


def test_every_campaign_is_run():
    there = {path.stem for path in tracked("config/campaigns/*.yaml")}
    assert {name for name, _, _ in RUNS} == there


# Pages of the report that are no experiment's.
OF_ALL = {"index", "ledger", "provenance", "published"}


@pytest.mark.parametrize(
    ("name", "testbed"), [pytest.param(name, on, marks=marks) for name, on, marks in RUNS]
)
def test_a_campaign_runs_to_its_pages_and_papers(miniatures, name, testbed):
    if testbed == "guest" and availability()["guest"] and not os.environ.get("CI"):
        pytest.skip(f"this machine lacks {', '.join(availability()['guest'])}")
    done = snakemake(miniatures, campaign=name, testbed=testbed)
    assert done.returncode == 0, done.stdout[-6000:]
    report = (
        miniatures / "results" / "reports" / (name if testbed == "auto" else f"{testbed}-{name}")
    )
    assert (report / "index.html").is_file()
    assert (report / "ledger.html").is_file()
    assert impossible(miniatures / "results", name) == []
    measured = {path.stem for path in report.glob("*.html")} - OF_ALL
    expected = expected_experiments(name, testbed)
    assert measured == expected
    for manuscript in manuscripts() if campaign(name).papers else ():
        sources = sources_of(manuscript)
        if {*sources.experiments} <= expected and not sources.shown.isdisjoint(expected):
            folder = miniatures / "results/papers" / report.name / manuscript
            assert (folder / f"{manuscript}.pdf").is_file()
            log = (folder / f"{manuscript}.log").read_text(encoding="utf-8", errors="replace")
            assert not off_the_page(log), manuscript
            if document := sources_of(manuscript).document:
                named = numbered_items(folder / f"{manuscript}.pdf", document)
                assert None not in named.values(), named


def impossible(results, name):
    """Return what the audit finds in a campaign that no network and no arithmetic gives.

    Trials that end late are left out: the machine may be busy with other tests.
    """
    testbeds = {path.parents[2].name for path in results.glob(f"*/{name}/*/values.json")}
    audits = [run_audit(find_measured_runs(results, testbed, name)) for testbed in sorted(testbeds)]
    findings = [found for audit in audits for found in audit.findings]
    weighty = [found for found in findings if found.severity is Severity.IMPOSSIBLE]
    return [found for found in weighty if found.rule != "timeout_as_result"]


def off_the_page(log):
    """Return what LaTeX says of glyphs and citations it lacks, and of what is too large."""
    overfull = re.findall(r"^Overfull .*?\((\d+\.\d+)pt too.*", log, re.MULTILINE)
    said = r"(?:Float too large|(?:Citation|Reference) .*undefined)"
    lines = re.findall(rf"^(?:Missing character|LaTeX Warning: {said}).*", log, re.MULTILINE)
    return lines + [f"{points} pt overfull" for points in overfull if float(points) > 2]


def expected_experiments(name, testbed):
    """Return what can be measured there: on ``auto`` each experiment finds a testbed."""
    found = {*campaign(name).experiments}
    return found if testbed == "auto" else {n for n in found if testbed in experiments()[n].kinds}


def test_the_notebook_to_explore_runs_on_what_was_measured(miniatures, monkeypatch, tmp_path):
    if not (miniatures / "results/emulated/quick/loss/values.json").is_file():
        pytest.skip("the quick campaign was not run before")
    for name, value in environment_of(miniatures).items():
        monkeypatch.setenv(name, value)
    execute(miniatures / "notebooks" / "explore.ipynb", tmp_path / "explore.ipynb", {})


def test_every_declared_figure_is_drawn_by_some_campaign(miniatures):
    """Run after the campaigns above, on all that they left."""
    folders = [path for path in (miniatures / "results").glob("*/*/*/figures")]
    if {path.parent.name for path in folders} < {*experiments()}:
        pytest.skip("not every experiment was run before")
    for name, declared in experiments().items():
        drawn = {Path(f).stem for d in folders if d.parent.name == name for f in d.glob("*.pdf")}
        for pattern, caption in declared.figures.items():
            assert any(declared.caption(figure) == caption for figure in drawn), (name, pattern)
