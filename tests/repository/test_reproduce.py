"""``scripts/reproduce``: what it checks before Snakemake would end in a traceback."""

import os
import shutil
import subprocess

import pytest

from tsnrepro.common.repository import root


@pytest.fixture
def reproduce(tmp_path):
    """Return a function that runs the script in a folder, without set-up and Snakemake."""

    def run(folder, **environment):
        scripts = tmp_path / folder / "scripts"
        scripts.mkdir(parents=True)
        shutil.copy(root() / "scripts" / "reproduce", scripts)
        tools = {scripts / "setup": "exit 0", tmp_path / "bin" / "snakemake": "echo ran"}
        for path, line in tools.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{line}\n")
            path.chmod(0o755)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [scripts / "reproduce"],
            env={"PATH": path, "HOME": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_usual_folder_is_accepted(reproduce):
    done = reproduce("a folder")
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_braces_in_the_path_are_named(reproduce):
    done = reproduce("b{r}aces")
    assert done.returncode == 1
    assert "braces, which Snakemake replaces; rename it" in done.stderr


def test_a_home_that_cannot_be_written_is_named(reproduce, tmp_path):
    done = reproduce("first", HOME="/dev/null")
    assert done.returncode == 1
    assert "cannot write to /dev/null/.cache; set XDG_CACHE_HOME" in done.stderr
    done = reproduce("second", HOME="/dev/null", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.stdout == "ran\n"


def test_snakemake_alone_names_braces_in_the_path(tmp_path):
    folder = tmp_path / "b{r}aces"
    folder.mkdir()
    for entry in ("Snakefile", "workflow", "profiles", "config", "notebooks", "paper", "src"):
        if (root() / entry).exists():
            (folder / entry).symlink_to(root() / entry)
    done = subprocess.run(
        ["snakemake", "-n"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "this folder's path has braces, which Snakemake replaces; rename it" in done.stderr
    assert "Traceback" not in done.stderr
