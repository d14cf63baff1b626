"""The notebook that explores an audit: parameters, no outputs, and cells that run."""

import contextlib
import io
from pathlib import Path

import nbformat
import pandas as pd

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "analyse" / "audit.ipynb"


def code_cells():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebook_takes_parameters_and_holds_no_outputs():
    tagged = [c for c in code_cells() if "parameters" in c.metadata.get("tags", [])]
    assert len(tagged) == 1
    names = {}
    exec(tagged[0].source, names)
    assert {"testbed", "campaign", "results"} <= set(names)
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code_cells())


def test_the_cells_run_on_the_published_record():
    shown = []
    names = {"display": shown.append}
    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        pd.option_context("display.max_colwidth", 50),
    ):
        for cell in code_cells():
            exec(cell.source, names)
    assert "findings of" in printed.getvalue()
    assert len(names["findings"]) == len(names["audit"].findings)
    assert len(shown) >= 4
