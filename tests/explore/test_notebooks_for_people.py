"""The notebooks for people, executed on a short campaign of the model."""

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from tracked_files import tracked

from tsnrepro.common.repository import root

HERE = "notebooks"
FOR_PEOPLE = [path.stem for path in tracked(f"{HERE}/*.ipynb")]


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


def test_there_are_notebooks_for_people():
    assert {"explore", "one_trial", "compare", "what_if"} <= {*FOR_PEOPLE}


# Each starts a kernel and reads a package of its own, half a minute: one of them is run always.
EACH = [n if n == "explore" else pytest.param(n, marks=pytest.mark.long) for n in FOR_PEOPLE]


@pytest.mark.parametrize("name", EACH)
def test_a_notebook_shows_pictures_and_no_error(notebooks_repository, name):
    folder = {"explore": "data", "compare": "."}.get(name, HERE)
    (notebooks_repository / folder).mkdir(exist_ok=True)
    document = executed(notebooks_repository, f"{name}.ipynb", notebooks_repository / folder)
    assert pictures(document), "no figure"
    said = str([w.get("value", "") for w in widgets_of(document)])
    assert "Nothing is measured" not in said
    offered = {str(w["_options_labels"]) for w in widgets_of(document) if "_options_labels" in w}
    assert name == "what_if" or any("model/short" in each for each in offered)


@pytest.mark.long
def test_where_nothing_is_measured_a_notebook_says_what_to_do(notebooks_repository, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(notebooks_repository, bare, ignore=shutil.ignore_patterns("results", "raw"))
    document = executed(bare, "explore.ipynb", bare)
    assert "snakemake --cores 4" in str([w.get("value", "") for w in widgets_of(document)])


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_code_lies_in_modules_not_in_cells(name):
    document = nbformat.read(root() / HERE / f"{name}.ipynb", as_version=4)
    for cell in document.cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 12, Path(name)
            assert "plt" not in cell.source
