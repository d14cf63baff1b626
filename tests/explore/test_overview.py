"""The plan and the first figure of measuring notebooks, on a short campaign of the model."""

import shutil

import nbformat
import pytest

import tsnrepro
from tsnrepro.common.repository import root
from tsnrepro.config import files as campaigns
from tsnrepro.config.registry import experiments
from tsnrepro.records.store import open_run


@pytest.fixture
def repository(short_repository, tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    shutil.copytree(short_repository, folder)
    monkeypatch.setattr(campaigns, "root", lambda: folder)
    return folder


def test_the_plan_has_trials_and_seconds(repository):
    table = tsnrepro.planned("tcp", "model", "short")
    assert table["trials"].sum() == table["recorded"].sum() == 18
    assert table["nominal_s"].sum() == 0
    assert set(table["duration_s"]) == {1, 2, 3}
    shutil.rmtree(repository / "data/raw/model/short/tcp")
    again = tsnrepro.planned("tcp", "model", "short")
    assert again["recorded"].sum() == 0
    # Three repetitions of two configurations, 6 s each, at a twentieth of their length.
    assert again["nominal_s"].sum() == pytest.approx(3 * 2 * 6 * 0.05)


def run_of(repository, experiment):
    """Return the manifest of a run as measuring returns it, with the folder of its store."""
    store, run = open_run(repository / f"results/model/short/{experiment}/run.json")
    return run | {"folder": str(store.folder)}


@pytest.mark.parametrize(
    ("experiment", "x", "y"),
    [("tcp", "duration_s", "goodput_mbps"), ("loss", "rate_mbps", "loss_percent")],
)
def test_the_first_figure_has_a_mark_for_each_trial(repository, experiment, x, y):
    run = run_of(repository, experiment)
    (axes,) = tsnrepro.first_look(run).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (x, y)
    assert sum(len(line.get_xdata()) for line in axes.lines) == len(run["trials"])
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"control", "frer"}


def test_without_a_figure_there_is_a_message(repository):
    run = run_of(repository, "tcp")
    assert isinstance(tsnrepro.first_look(run | {"trials": []}), str)


@pytest.mark.parametrize("name", list(experiments()))
def test_every_measuring_notebook_begins_with_its_plan_and_ends_with_a_figure(name):
    notebook = nbformat.read(root() / f"notebooks/measure/{name}.ipynb", as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert f'tsnrepro.planned("{name}", testbed, campaign)' in code[1]
    assert code[-1] == "tsnrepro.first_look(run)"
