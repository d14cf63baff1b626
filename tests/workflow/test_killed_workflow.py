"""A workflow that was killed goes on by itself; one that lives is not disturbed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tsnrepro.common.repository import root

RULES = """
from tsnrepro.workflow.startup import release_stale_lock

release_stale_lock()


rule slow:
    output:
        "made.txt",
    shell:
        "echo half > {output}; while [ ! -e go ]; do sleep 0.05; done; echo whole > {output}"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Snakefile").write_text(RULES)
    shutil.copytree(root() / "workflow/profiles/default", tmp_path / "profiles/default")
    return tmp_path


def start(folder: Path) -> subprocess.Popen:
    # Tests that are run under nohup have SIGHUP ignored, and so would what they start.
    return subprocess.Popen(
        ["env", "--default-signal=HUP", Path(sys.executable).parent / "snakemake", "--cores", "1"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_killed_run_is_gone_on_with(folder, number):
    killed = start(folder)
    wait_for(folder / "made.txt")
    assert list((folder / ".snakemake/locks").glob("*.lock"))
    os.killpg(killed.pid, number)
    killed.communicate(timeout=30)
    (folder / "go").touch()
    said, _ = (next_one := start(folder)).communicate(timeout=60)
    assert next_one.returncode == 0, said
    assert (folder / "made.txt").read_text() == "whole\n"


def test_a_second_run_is_refused_while_the_first_lives(folder):
    first = start(folder)
    wait_for(folder / "made.txt")
    said, _ = (second := start(folder)).communicate(timeout=60)
    assert second.returncode != 0
    assert "another run measures or builds in this folder" in said
    assert "unlock" not in said
    (folder / "go").touch()
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 0, said
