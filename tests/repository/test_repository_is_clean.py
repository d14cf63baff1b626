"""What must not stand in the repository: notebook outputs, machine paths, registry addresses."""

import json
import re

from tracked_files import tracked

from tsnrepro.common.repository import root


def test_notebooks_are_tracked_without_outputs():
    notebooks = tracked("**/*.ipynb")
    assert notebooks
    for path in notebooks:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), path
            assert cell.get("execution_count") is None, path


def test_every_experiment_notebook_has_parameters():
    for path in tracked("notebooks/measure/*.ipynb", "notebooks/analyse/*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert any("parameters" in cell["metadata"].get("tags", []) for cell in cells), path


def test_no_machine_path_and_no_raw_data_is_tracked():
    home = re.compile(r"(^|[^A-Za-z0-9_.])/(work|farm|root|home)/")
    for path in tracked("**"):
        relative = path.relative_to(root())
        assert relative.parts[:2] != ("data", "raw"), relative
        assert relative.parts[0] != "results", relative
        if path.suffix in {".py", ".sh", ".md", ".smk", ".yaml", ".yml", ".ipynb", ".toml", ".c"}:
            text = path.read_text(encoding="utf-8")
            assert not home.search(text.replace("(work|farm|root|home)", "")), relative
