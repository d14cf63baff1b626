"""Every figure of a campaign on the model, in both languages, as a reader sees it."""

import json
import re
import shutil
import subprocess

import matplotlib.pyplot as plt
import pytest
from figure_flaws import flaws, texts_of

from tsnrepro.common.repository import root
from tsnrepro.config.registry import MODEL, experiments
from tsnrepro.records.values import FIGURES_FOLDER, KOREAN_FOLDER
from tsnrepro.results import figures
from tsnrepro.results.language import in_korean
from tsnrepro.runner import run as measuring

# Half a minute each.
LONG = {"loss", "occupancy", "rfc2544", "shaping", "topologies", "traffic"}
DRAWN = [
    pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
    for name, declared in experiments().items()
    if declared.figures and MODEL in declared.kinds
]
# Names of programs and shapers, of streams in a campaign, and units.
SAME = re.compile(r"mathdefault|mqprio|mausezahn|MLRsearch|RFC|v2x|Mb/s|Gb/s|bytes?\b|[mµ]s\b|max")
# Trials that a figure shows, of how many.
COUNT = re.compile(
    r"([\d,]+) of ([\d,]+) (?:trials|searches|repetitions)"
    r"|(?:시행|탐색|반복) ([\d,]+)회 중 ([\d,]+)회"
)
WORD = re.compile(r"[a-z]{3}")


def analyse(name, run):
    """Run the cells of an experiment's analysis without a kernel."""
    cells = json.loads((root() / f"notebooks/analyse/{name}.ipynb").read_text("utf-8"))["cells"]
    first, *others = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    names = {"display": lambda *_, **__: None}
    exec(first, names)
    names["run"] = str(run)
    for source in others:
        exec(source, names)


@pytest.mark.parametrize("name", DRAWN)
def test_figures_of_a_campaign_have_no_flaws(name, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "raw_root", lambda: tmp_path / "raw")
    found, save_pdf = {}, figures.save_pdf

    def look(figure, folder, figure_name):
        korean = folder.name == KOREAN_FOLDER
        seen = flaws(figure) + uncounted(figure) + (foreign(figure) if korean else [])
        found[f"{folder.name}/{figure_name}"] = seen
        return save_pdf(figure, folder, figure_name)

    monkeypatch.setattr(figures, "save_pdf", look)
    run = tmp_path / name / "run.json"
    run.parent.mkdir()
    measuring.run_experiment(name, MODEL, "quick", str(run))
    analyse(name, run)
    assert found
    assert {figure: seen for figure, seen in found.items() if seen} == {}
    written = [*(run.parent / FIGURES_FOLDER).rglob("*.pdf")]
    assert len(written) == len(found)
    assert strange_fonts(written) == {}


def uncounted(figure):
    """Return that a figure lacks how many trials of how many it shows."""
    counts = [
        found.groups() for text in texts_of(figure) if (found := COUNT.search(text.get_text()))
    ]
    if not counts:
        return ["no number of trials"]
    numbers = [int(number.replace(",", "")) for count in counts for number in count if number]
    return [] if min(numbers) > 0 else ["none of the trials is shown"]


def foreign(figure):
    """Return what a figure in Korean says in English."""
    shown = [SAME.sub("", text.get_text()) for text in texts_of(figure)]
    return [f"{text!r} is not Korean" for text in shown if WORD.search(text)]


def strange_fonts(paths):
    """Return the fonts of PDFs that are not those of the papers, by file."""
    if shutil.which("pdffonts") is None:
        pytest.skip("this machine lacks pdffonts")
    found = {}
    for path in paths:
        printed = subprocess.run(["pdffonts", path], capture_output=True, text=True, check=True)
        assert not printed.stderr, printed.stderr
        fonts = {line.split()[0].partition("+")[2] for line in printed.stdout.splitlines()[2:]}
        if strange := fonts - {"TeXGyreHeros-Regular", "NanumGothic", "UnDotum"}:
            found[path.name] = strange
    return found


def drawn(**options):
    figure, axes = figures.new(2, "")
    axes.plot([0, 1], [0, 1])
    axes.set(**options)
    return figure, axes


def test_flaws_are_found():
    figure, axes = drawn(xlim=(0, 10))
    assert flaws(figure) == ["panel 0: data use 0.10 of the x axis"]
    axes.set(xlim=(0.5, 1))
    assert "data outside of the x axis" in flaws(figure)[0]
    axes.set(xlim=(0, 1))
    assert flaws(figure) == []
    for text in ("one", "other"):
        axes.text(0.5, 0.5, text)
    assert flaws(figure) == ["'one' overlaps 'other'"]
    axes.texts[0].remove()
    axes.texts[0].set_fontsize(6)
    figure.text(0.98, 0.5, "beyond")
    assert flaws(figure) == ["'other' has 6 points", "'beyond' is cut at the edge"]
    plt.close(figure)


def test_an_empty_panel_is_a_flaw():
    figure, axes = figures.stacked(3, "", 2)
    axes[0].plot([0, 1], [0, 1])
    assert flaws(figure) == ["panel 1 is empty"]
    plt.close(figure)


def test_a_figure_is_in_both_languages_the_same_bytes_each_time(tmp_path):
    for folder in ("one", "other"):
        figure, _ = drawn(xlabel="one-way latency (µs)", ylabel="control")
        figures.save(figure, tmp_path / folder, "drawn")
        assert figure.axes[0].get_ylabel() == "control"
    for name in ("drawn.pdf", "drawn.png", f"{KOREAN_FOLDER}/drawn.pdf"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_label_is_translated_with_its_numbers_and_by_its_parts():
    assert in_korean("cycle 400 µs") == "주기 400 µs"
    assert in_korean("TAS, loaded") == "TAS, 부하"
    assert in_korean("ring 5\ncut") == "고리 5\n단절"
    assert in_korean("share of something") == "share of something"
