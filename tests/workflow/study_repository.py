"""A copy of the files that studies need, whose results and compiled model are its own."""

import shutil
from pathlib import Path

from tsnrepro.common.repository import root


def copy_for_studies(target: Path) -> Path:
    for name in ("Snakefile", "environment.yml", "pyproject.toml"):
        shutil.copy2(root() / name, target / name)
    for name in ("src", "config", "workflow"):
        shutil.copytree(root() / name, target / name)  # with what is compiled, where it is
    (target / "profiles").symlink_to("workflow/profiles")
    return target
