"""The whole way once: namespaces, SSH, iperf3, record, statistics, PDF; then what follows."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tsnrepro.repository import root
from tsnrepro.testbed.requirements import missing

CAMPAIGN = "smoke"
SECONDS = 900

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.latex,
    pytest.mark.whole_way,
    pytest.mark.timeout(2 * SECONDS),
]


def snakemake(repository: Path, *arguments: str, campaign: str = CAMPAIGN):
    # The copy's own package comes first, so that its results and raw store are its own.
    environment = os.environ | {
        "PYTHONPATH": str(repository / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        ["snakemake", "--cores", "4", "--config", f"campaign={campaign}", *arguments],
        cwd=repository,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a copy of the tracked files in which the campaign has run once."""
    lacks = missing() + ([] if shutil.which("latexmk") else ["latexmk"])
    if lacks and not os.environ.get("CI"):
        pytest.skip(f"this machine lacks {', '.join(lacks)}")
    assert not lacks, f"CI must run the whole way, and lacks {', '.join(lacks)}"
    copy = tmp_path_factory.mktemp("repository")
    listed = subprocess.run(
        ["git", "-C", str(root()), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = root() / name
        if source.is_file():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    done = snakemake(copy)
    assert done.returncode == 0, done.stdout[-4000:]
    return copy


@pytest.fixture
def results(repository):
    return repository / "results" / "emulated" / CAMPAIGN


def test_the_paper_names_its_testbed_and_holds_every_table(results):
    pdf = results / "paper" / "frer-udp" / "frer-udp.pdf"
    text = subprocess.run(
        ["pdftotext", "-layout", str(pdf), "-"], capture_output=True, text=True, check=True
    ).stdout
    assert "emulated testbed" in text
    assert "국문" in text
    assert "contradicted" in text  # a verdict of the audit
    values = {
        item["key"]: item
        for path in (results / "values").glob("*.json")
        for item in json.loads(path.read_text(encoding="utf-8"))
    }
    for configuration in ("control", "frer"):
        goodput = values[f"tcp.goodput.{configuration}.mbps"]["value"]
        assert f"{goodput:.1f}" in text.replace("\u2009", "").replace(",", "")
    fonts = subprocess.run(["pdffonts", str(pdf)], capture_output=True, text=True, check=True)
    assert "Nanum" in fonts.stdout


def test_every_datagram_is_accounted_for(repository):
    trials = list((repository / "data/raw/emulated" / CAMPAIGN / "sweep").glob("*/trial.json"))
    assert len(trials) >= 14
    for path in trials:
        document = json.loads(path.read_text(encoding="utf-8"))
        accounting = document["values"]["accounting"]
        assert accounting["unaccounted"] == 0, path.parent.name
        if document["factors"]["configuration"] == "frer":
            assert accounting["copies"] == accounting["sent"]


def test_the_report_links_what_there_is(results):
    page = (results / "report" / "index.html").read_text(encoding="utf-8")
    assert "emulated testbed" in page
    for link in re.findall(r'(?:href|src)="([^"#][^"]*)"', page):
        if not link.startswith(("http", "data:", "mailto:")):
            assert (results / "report" / link).exists(), link


def test_a_second_run_does_nothing(repository):
    done = snakemake(repository)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


def test_editing_one_table_rebuilds_only_what_depends_on_it(repository):
    tables = repository / "src" / "tsnrepro" / "publish" / "tables.py"
    tables.write_text(tables.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    plan = snakemake(repository, "--dry-run").stdout
    rules = set(re.findall(r"^(\w+) +\d+$", plan, re.MULTILINE)) - {"total", "all"}
    assert "paper_inputs" in rules
    assert not {name for name in rules if name.startswith(("measure", "analyse"))}


def test_deleted_results_are_rebuilt_without_measuring_again(repository, results):
    raw = repository / "data" / "raw" / "emulated" / CAMPAIGN
    before = {path: path.stat().st_mtime_ns for path in raw.rglob("*") if path.is_file()}
    shutil.rmtree(results / "runs")
    shutil.rmtree(results / "values")
    done = snakemake(repository)
    assert done.returncode == 0, done.stdout[-4000:]
    after = {path: path.stat().st_mtime_ns for path in raw.rglob("*") if path.is_file()}
    assert after == before


def test_an_unknown_configuration_key_is_named(repository):
    done = snakemake(repository, "campain=quick", "--dry-run")
    assert done.returncode != 0
    assert "campain" in done.stdout


def test_a_missing_value_stops_the_paper(repository, results):
    values = results / "values" / "tcp.json"
    kept = values.read_text(encoding="utf-8")
    items = [item for item in json.loads(kept) if item["key"] != "tcp.goodput.frer.mbps"]
    pdf = results / "paper" / "frer-udp" / "frer-udp.pdf"
    values.write_text(json.dumps(items), encoding="utf-8")
    try:
        done = snakemake(repository, "--", str(pdf.relative_to(repository)))
        assert done.returncode != 0
        assert "tcp.goodput.frer.mbps" in done.stdout
    finally:
        values.write_text(kept, encoding="utf-8")
