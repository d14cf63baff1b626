"""Notebooks: unknown parameters are refused, and a failed notebook is kept."""

import ast
import json
import os
import subprocess
import sys
import time

import pytest
import yaml
from tracked_files import tracked

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.workflow.notebooks import (
    NotebookError,
    append_only,
    execute,
    known_parameters,
    parse_parameters,
)


def write(path, *cells):
    document = {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{index}",
                "metadata": {"tags": tags},
                "execution_count": None,
                "outputs": [],
                "source": source.splitlines(keepends=True),
            }
            for index, (source, tags) in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_an_unknown_parameter_is_an_error_and_nothing_runs(tmp_path):
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    write(source, ("rate = 1", ["parameters"]), ("rate", []))
    with pytest.raises(ConfigurationError, match=r"raet.*parameters: rate"):
        execute(source, target, {"raet": 2})
    assert not target.exists()


def defaults(notebook):
    """Return what the cell tagged ``parameters`` assigns."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    (cell,) = [c for c in cells if "parameters" in c["metadata"].get("tags", [])]
    return {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse("".join(cell["source"])).body
        for target in node.targets
    }


@pytest.mark.parametrize(
    "path",
    tracked("notebooks/*/*.ipynb"),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_the_defaults_of_a_notebook_are_there(path):
    """A notebook that is opened by hand measures a campaign that exists, and reads its results."""
    given = defaults(path)
    if path.stem == "grid":  # of a campaign of one's own
        assert given["run"].endswith("/run.json")
        return
    if run := given.get("run"):
        folder, testbed, campaign, experiment, manifest = run.split("/")
        assert (folder, experiment, manifest) == ("results", path.stem, "run.json")
    else:
        testbed, campaign, experiment = given.get("testbed"), given.get("campaign"), path.stem
    if testbed is None:
        assert path.stem in ("loss-study", "threshold-study")
        return
    known = {found.stem for found in (root() / "config" / "testbeds").glob("*.yaml")}
    assert testbed in {*known, "published"}
    settings = yaml.safe_load((root() / f"config/campaigns/{campaign}.yaml").read_text("utf-8"))
    assert experiment in {*settings, "audit"}


def test_a_failed_notebook_is_kept_with_its_error(tmp_path):
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    write(source, ("rate = 1", ["parameters"]), ("print('before')", []), ("1 / (rate - 2)", []))
    with pytest.raises(NotebookError, match="division by zero"):
        execute(source, target, {"rate": 2})
    kept = target.read_text(encoding="utf-8")
    assert "before" in kept
    assert "ZeroDivisionError" in kept


def test_all_lines_of_an_error_are_told(tmp_path):
    source = tmp_path / "in.ipynb"
    write(source, ("", ["parameters"]), ("raise ValueError('rate: not a number\\nsee there')", []))
    with pytest.raises(NotebookError, match=r"ValueError: rate: not a number\nsee there"):
        execute(source, tmp_path / "out.ipynb", {})


def test_a_log_that_two_write_to_keeps_the_lines_of_both(tmp_path):
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as workflow:
        workflow.write(b"step 1\n")
        append_only(workflow.fileno())
        with path.open("a") as kernel:
            kernel.write("trial 1 of 9\n")
        workflow.write(b"step 2\n")
    assert path.read_text() == "step 1\ntrial 1 of 9\nstep 2\n"


def test_what_is_no_file_is_left_as_it_is():
    ends = os.pipe()
    append_only(ends[1])
    os.write(ends[1], b"x")
    assert os.read(ends[0], 1) == b"x"
    for end in ends:
        os.close(end)


def test_parameters_reach_the_notebook(tmp_path):
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    write(source, ("rate = 1", ["parameters"]), ("rate * 2", []))
    execute(source, target, parse_parameters(["rate=21"]))
    assert "42" in target.read_text(encoding="utf-8")


def test_a_word_without_a_value_is_refused():
    with pytest.raises(ConfigurationError, match="NAME=VALUE"):
        parse_parameters(["rate"])


@pytest.mark.parametrize("experiment", ["loss", "tcp", "latency"])
def test_measuring_notebooks_share_their_parameters(experiment):
    path = root() / "notebooks" / "measure" / f"{experiment}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert known_parameters(notebook) == {"testbed", "campaign", "manifest"}


def test_a_notebook_ends_when_its_workflow_is_killed(tmp_path):
    write(tmp_path / "in.ipynb", ("a = 1", ["parameters"]), ("import time; time.sleep(120)", []))
    workflow = subprocess.Popen(["sleep", "120"])
    notebook = subprocess.Popen(
        [sys.executable, "-m", "tsnrepro.cli", "notebook", "in.ipynb", "out.ipynb"],
        cwd=tmp_path,
        env=os.environ | {"TSNREPRO_WORKFLOW_PID": str(workflow.pid)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(4)
        assert notebook.poll() is None
        workflow.kill()
        workflow.wait()
        assert notebook.wait(timeout=30) != 0
    finally:
        notebook.kill()
        notebook.wait()
