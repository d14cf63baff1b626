"""The whole way once: namespaces, SSH, iperf3, record, statistics, PDF; then what follows.

Once is the default campaign in miniature (conftest.py); test_miniatures.py runs the others.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest
import repository_copy
from one_answer import disagreements
from printed_values import implausible
from repository_copy import SECONDS, environment_of, jobs_of

from tsnrepro.config import registry

CAMPAIGN = "quick"
# One paper and what it needs; test_miniatures.py runs the whole campaign.
PAPER = "frer-udp"
EXPERIMENTS = ("loss", "tcp", "latency", "ping")
SELECTION = f"{CAMPAIGN}-{'-'.join(EXPERIMENTS)}"
STUDY = "threshold-coarse"
ASSERTED = re.compile(r"\\asserted\{[^{}]*\}")
HOLDS = 'measured("testbed.kind") == "emulated"'
# What is lost here, as behind a queue that a stall of the machine filled, is never copied.
BEFORE_THE_COPIES = ("talker socket", "talker queue", "sw1 port p0")

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.latex,
    pytest.mark.whole_way,
    pytest.mark.timeout(2 * SECONDS),
]


def snakemake(repository, *arguments, **chosen):
    """Run Snakemake with those experiments and that paper, or others where they are chosen."""
    chosen = {"experiments": f"[{', '.join(EXPERIMENTS)}]", "papers": f"[{PAPER}]", **chosen}
    return repository_copy.snakemake(repository, *arguments, **chosen)


@pytest.fixture(scope="module")
def repository(miniatures):
    """Return the copy after the default campaign has run in it."""
    done = snakemake(miniatures, campaign=CAMPAIGN)
    assert done.returncode == 0, done.stdout[-6000:]
    return miniatures


@pytest.fixture
def results(repository):
    return repository / "results" / "emulated" / CAMPAIGN


@pytest.fixture
def paper(repository):
    return repository / "results/papers" / SELECTION / "frer-udp"


def values_of(folder):
    return {
        item["key"]: item
        for item in json.loads((folder / "values.json").read_text(encoding="utf-8"))
    }


def test_the_paper_names_its_testbed_and_holds_every_table(results, paper):
    pdf = paper / "frer-udp.pdf"
    text = "".join(
        subprocess.run(
            ["pdftotext", "-layout", str(path), "-"], capture_output=True, text=True, check=True
        ).stdout
        for path in (pdf, paper / "frer-udp-supplement.pdf")
    )
    assert "emulated testbed" in text
    assert "국문" in text
    assert "contradicted" in text  # a verdict of the audit
    values = values_of(results / "tcp")
    for configuration in ("control", "frer"):
        goodput = values[f"tcp.goodput.{configuration}.mbps"]["value"]
        assert f"{goodput:.1f}" in text.replace("\u2009", "").replace(",", "")
    fonts = subprocess.run(["pdffonts", str(pdf)], capture_output=True, text=True, check=True)
    assert "Nanum" in fonts.stdout


def test_some_experiments_of_a_campaign_have_a_report_of_their_own(repository):
    chosen = {"testbed": "model", "experiments": "[tcp, latency]", "papers": "[device-report]"}
    done = snakemake(repository, campaign=CAMPAIGN, **chosen)
    assert done.returncode == 0, done.stdout[-6000:]
    pages = (repository / "results" / "reports" / "model-quick-tcp-latency").glob("*.html")
    common = {"index", "ledger", "published", "provenance"}
    assert {page.stem for page in pages} == {*common, "tcp", "latency"}


def test_snakemakes_own_report_holds_figures_tables_and_papers(repository, tmp_path):
    """It is one file that asks nothing of the network; its contents are in it as data."""
    path = tmp_path / "report.html"
    done = snakemake(repository, "--report", str(path), campaign=CAMPAIGN)
    assert done.returncode == 0, done.stdout[-6000:]
    page = path.read_text(encoding="utf-8")
    for held in ("Figures", "Tables", "Papers", "frer-udp.pdf", "frame-size.png"):
        assert held in page, held
    assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', page)


def test_the_paper_has_measured_and_simulated_columns(repository, paper):
    """The model runs beside the namespaces, and each number says whose it is."""
    simulated = values_of(repository / "results" / "model" / CAMPAIGN / "tcp")
    record = json.loads((paper / "provenance.json").read_text(encoding="utf-8"))
    printed = {item["key"]: item for item in record["measured"]}
    key = "tcp.goodput.frer.mbps"
    assert printed[f"simulated.{key}"]["value"] == simulated[key]["value"]
    assert printed[key]["sha256"] != printed[f"simulated.{key}"]["sha256"]


def test_no_value_is_implausible(repository):
    found = {p: implausible(p) for p in (repository / "results").glob("*/*/*/values.json")}
    assert len(found) >= len(EXPERIMENTS)
    assert not any(found.values()), found


def test_paper_claims_and_results_give_one_answer(repository):
    assert disagreements(repository / "results" / "papers" / SELECTION, CAMPAIGN, EXPERIMENTS) == []


def test_every_datagram_is_accounted_for(repository):
    trials = list((repository / "data/raw/emulated" / CAMPAIGN / "loss").glob("*/trial.json"))
    assert len(trials) >= 14
    for path in trials:
        document = json.loads(path.read_text(encoding="utf-8"))
        accounting = document["values"]["accounting"]
        assert accounting["unaccounted"] == 0, path.parent.name
        if document["factors"]["configuration"] == "frer":
            further_paths = (document["factors"].get("paths") or 2) - 1
            lost_before = sum(accounting["drops"][place] for place in BEFORE_THE_COPIES)
            came = accounting["sent"] - lost_before
            assert accounting["copies"] == further_paths * came, path.parent.name


def test_the_report_links_what_there_is(repository):
    report = repository / "results" / "reports" / SELECTION
    for page in ("index", *EXPERIMENTS):
        text = (report / f"{page}.html").read_text(encoding="utf-8")
        assert "emulated testbed" in text
    page = (report / "index.html").read_text(encoding="utf-8")
    for link in re.findall(r'(?:href|src)="([^"#][^"]*)"', page):
        if not link.startswith(("http", "data:", "mailto:")):
            assert (report / link.partition("#")[0]).exists(), link


def test_a_second_run_does_nothing(repository):
    done = snakemake(repository, campaign=CAMPAIGN)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


def test_every_byte_is_verified(repository):
    done = subprocess.run(
        [sys.executable, "-m", "tsnrepro.cli", "verify"],
        cwd=repository,
        env=environment_of(repository),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in EXPERIMENTS:
        assert re.search(rf"emulated/{CAMPAIGN}/{name}: \d+ trials, sound", done.stdout)


@pytest.mark.parametrize(
    "name", ["data/raw/emulated/quick/tcp", "results/emulated/quick/tcp/values.json"]
)
def test_what_was_altered_is_not_used_although_all_is_up_to_date(repository, name):
    path = repository / name
    path = path if path.is_file() else next(path.glob("*-r1-*/trial.json"))
    kept, times = path.read_bytes(), path.stat()
    path.write_bytes(kept.replace(b"1", b"2", 1))
    done = snakemake(repository, campaign=CAMPAIGN)
    path.write_bytes(kept)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert done.returncode == 1
    assert str(path.relative_to(repository)) in done.stdout
    assert "Traceback" not in done.stdout


def after_edit(repository, name, old, new):
    """Return the jobs that an edit of a file makes necessary; the file is then as before."""
    path = repository / name
    kept = path.read_text(encoding="utf-8")
    times = path.stat()
    assert kept.count(old) == 1, name
    path.write_text(kept.replace(old, new), encoding="utf-8")
    try:
        done = snakemake(repository, "--dry-run", "--quiet", "host", "--", "all", campaign=CAMPAIGN)
        assert done.returncode == 0, done.stdout[-2000:]
        return jobs_of(done.stdout)
    finally:
        path.write_text(kept, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


REPORT, FOLDER = f"results/reports/{SELECTION}", f"results/papers/{SELECTION}/{PAPER}"
PRINTED = {
    f"paper_inputs {FOLDER}/values.tex",
    f"paper {FOLDER}/{PAPER}.pdf",
    f"paper_html {FOLDER}/{PAPER}.html",
}
AUDITED = {f"audit {REPORT}/ledger.html", f"report {REPORT}/index.html"}


def analysed(*experiments):
    """Return the jobs that follow from another analysis of some experiments."""
    return {
        f"analyse results/{testbed}/{CAMPAIGN}/{name}/values.json"
        for name in experiments
        for testbed in ("emulated", "model")
        if testbed in registry.experiment(name).kinds
    } | {*AUDITED, *PRINTED}


# A function of each room on the way, a change of what it does, and the jobs that depend on it.
EDITS = {
    "statistics": (
        "src/tsnrepro/stats/estimate.py",
        "class Estimate:",
        "class Estimate:\n    edited = True\n",
        analysed(*EXPERIMENTS) | {f"analyse_study results/studies/{STUDY}/values.json"},
    ),
    "one analysis": (
        "src/tsnrepro/experiments/tcp/analysis.py",
        "def analyse(",
        "EDITED = True\n\n\ndef analyse(",
        analysed("tcp"),
    ),
    "audit": (
        "src/tsnrepro/published/ledger.py",
        "def write_ledger(",
        "EDITED = True\n\n\ndef write_ledger(",
        {*AUDITED, *PRINTED},
    ),
    "generated tables": (
        "src/tsnrepro/papers/loss_tables.py",
        "def loss_rows(",
        "EDITED = True\n\n\ndef loss_rows(",
        {*PRINTED, f"report {REPORT}/index.html"},
    ),
    "template of the report": (
        "src/tsnrepro/report/templates/overview.html.j2",
        'heading("Experiments"',
        'heading("The experiments"',
        {f"report {REPORT}/index.html"},
    ),
    "manuscript": (
        "paper/frer-udp/main.tex",
        "\\maketitle",
        "\\maketitle{}",
        {*PRINTED, f"report {REPORT}/index.html"},
    ),
    "another manuscript": (
        "paper/device-report/main.tex",
        "\\begin{document}",
        "\\begin{document}%",
        set(),
    ),
    "nothing but its time": (
        "src/tsnrepro/stats/estimate.py",
        "class Estimate:",
        "class Estimate:",
        set(),
    ),
    "comment of a rule": (
        "workflow/rules/measure.smk",
        "rule measure:",
        "# edited\nrule measure:",
        set(),
    ),
}


@pytest.mark.parametrize("room", EDITS)
def test_an_edit_runs_what_depends_on_it_and_nothing_else(repository, room):
    name, old, new, expected = EDITS[room]
    assert after_edit(repository, name, old, new) == expected


def test_an_edit_of_an_experiment_measures_that_one_again(repository):
    found = after_edit(
        repository,
        "src/tsnrepro/experiments/tcp/measure.py",
        "def measure(",
        "EDITED = True\n\n\ndef measure(",
    )
    measured = {job for job in found if job.startswith("measure ")}
    runs = [f"results/{testbed}/{CAMPAIGN}/tcp/run.json" for testbed in ("emulated", "model")]
    assert measured == {f"measure {run}" for run in runs}


@pytest.mark.long
def test_deleted_results_are_rebuilt_without_measuring_again(repository, results):
    raw = repository / "data" / "raw" / "emulated" / CAMPAIGN
    before = {path: path.stat().st_mtime_ns for path in raw.rglob("*") if path.is_file()}
    for folder in (results / "tcp", repository / "results/reports", repository / "results/papers"):
        shutil.rmtree(folder)
    done = snakemake(repository, campaign=CAMPAIGN)
    assert done.returncode == 0, done.stdout[-4000:]
    after = {path: path.stat().st_mtime_ns for path in raw.rglob("*") if path.is_file()}
    assert after == before


def test_an_unknown_configuration_key_is_named(repository):
    done = snakemake(repository, "--dry-run", campaign=CAMPAIGN, campain="quick")
    assert done.returncode != 0
    assert "campain" in done.stdout


def test_a_value_that_is_promised_but_not_there_is_a_dash_with_its_reason(repository, results):
    values = results / "tcp" / "values.json"
    kept = values.read_text(encoding="utf-8")
    items = [item for item in json.loads(kept) if item["key"] != "tcp.goodput.frer.mbps"]
    values.write_text(json.dumps(items), encoding="utf-8")
    try:
        output = repository / "results" / "dashes"
        runs = [f"--run=measured={results / name}" for name in EXPERIMENTS]
        runs += [f"--run=simulated={results / name}" for name in EXPERIMENTS]
        study = repository / "results" / "studies" / STUDY
        command = [sys.executable, "-m", "tsnrepro.cli", "paper-inputs"]
        subprocess.run(
            [*command, "paper/frer-udp", str(output), *runs, f"--study={study}"],
            cwd=repository,
            env=environment_of(repository),
            check=True,
        )
        record = json.loads((output / "provenance.json").read_text(encoding="utf-8"))
        (item,) = [i for i in record["measured"] if i["key"] == "tcp.goodput.frer.mbps"]
        assert item["value"] is None
        assert item["method"].startswith("not measured")
    finally:
        values.write_text(kept, encoding="utf-8")


@contextmanager
def carried_text(manuscript):
    """Let all conditions hold, of which a miniature carries few, and name a deposit."""
    paths = [*manuscript.rglob("*.tex"), manuscript.parent / "authors.tex"]
    before = {path: path.read_text(encoding="utf-8") for path in paths}
    try:
        for path, text in before.items():
            held = ASSERTED.sub(lambda _: rf"\asserted{{{HOLDS}}}", text)
            held = held.replace(r"\deposit{--}", r"\deposit{doi:10.5281/zenodo.7654321}")
            path.write_text(held, encoding="utf-8")
        yield
    finally:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")


def test_papers_are_packed(repository):
    """The last of these tests: the results are then of another text."""
    with carried_text(repository / "paper/frer-udp"):
        pack(repository)


def pack(repository):
    folder = repository / "results/papers" / SELECTION / "frer-udp/submission"
    tarball = folder / "frer-udp-anonymous.tar.gz"
    before = folder / "frer-udp-arxiv.tar.gz"
    packed = [str(path.relative_to(repository)) for path in (tarball, before)]
    wanted = ("--", "html", "wordcount", *packed)
    done = snakemake(repository, *wanted, campaign=CAMPAIGN)
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"frer-udp +text +\d{3,} +\d{4,}", done.stdout)
    assert tarball.is_file()
    for part in ("", "-supplement"):
        assert (folder / f"frer-udp-anonymous{part}.pdf").is_file()
    assert (folder.parent / "frer-udp.html").is_file()
    # Of the tarball's paper alone, in which no number moved.
    against = str(before.relative_to(repository))
    done = snakemake(repository, "--", "diff", campaign=CAMPAIGN, against=against)
    assert done.returncode == 0, done.stdout[-6000:]
    assert [path.name for path in repository.rglob("*-diff.pdf")] == ["frer-udp-diff.pdf"]
