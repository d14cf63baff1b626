"""The interactive notebooks, executed on a short campaign of the model."""

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from tracked_files import tracked

from tsnrepro.common.repository import root

HERE = "notebooks"
INTERACTIVE = [path.stem for path in tracked(f"{HERE}/*.ipynb")]


def executed(repository, notebook, cwd):
    """Execute a notebook in a working directory, with the repository's package."""
    document = nbformat.read(repository / HERE / notebook, as_version=4)
    environment = os.environ | {"PYTHONPATH": str(repository / "src")}
    client = NotebookClient(document, timeout=120, kernel_name="python3")
    client.create_kernel_manager()
    client.execute(cwd=str(cwd), env=environment)
    return document


def widgets_of(document):
    """Return the state of every widget that a notebook shows."""
    kept = document.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    return [widget["state"] for widget in kept.values()]


def pictures(document):
    return [w for w in widgets_of(document) if w["_model_name"] == "ImageModel"]


def test_there_are_interactive_notebooks():
    assert {"explore", "one_trial", "compare", "what_if"} <= {*INTERACTIVE}


# Each takes half a minute to start a kernel and import the package: only one always runs.
FIGURES = [name for name in INTERACTIVE if name != "watch"]
EACH = [n if n == "explore" else pytest.param(n, marks=pytest.mark.long) for n in FIGURES]


@pytest.mark.parametrize("name", EACH)
def test_a_notebook_shows_figures(notebooks_repository, name):
    folder = {"explore": "data", "compare": "."}.get(name, HERE)
    (notebooks_repository / folder).mkdir(exist_ok=True)
    document = executed(notebooks_repository, f"{name}.ipynb", notebooks_repository / folder)
    assert pictures(document), "no figure"
    text = str([w.get("value", "") for w in widgets_of(document)])
    assert "There are no results yet" not in text
    offered = {str(w["_options_labels"]) for w in widgets_of(document) if "_options_labels" in w}
    assert name == "what_if" or any("model/short" in each for each in offered)


def test_what_is_measured_is_shown(notebooks_repository):
    document = executed(notebooks_repository, "watch.ipynb", notebooks_repository / HERE)
    shown = str(document.cells[-1].outputs)
    assert "of short on model: not measuring" in shown
    assert "none left" in shown


@pytest.mark.long
def test_without_results_a_notebook_shows_how_to_measure(notebooks_repository, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(notebooks_repository, bare)
    for measured in ("results", "data/raw"):
        shutil.rmtree(bare / measured)
    document = executed(bare, "explore.ipynb", bare)
    assert "snakemake --cores 4" in str([w.get("value", "") for w in widgets_of(document)])


@pytest.mark.parametrize("name", INTERACTIVE)
def test_cells_have_little_code(name):
    document = nbformat.read(root() / HERE / f"{name}.ipynb", as_version=4)
    for cell in document.cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 12, Path(name)
            assert "plt" not in cell.source
