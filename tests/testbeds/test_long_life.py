"""The program that looks for growth over hours, for a minute: it runs to its verdict."""

import re
import subprocess
import sys

import pytest

from tsnrepro.common.repository import root

pytestmark = [pytest.mark.namespaces, pytest.mark.long]


def test_all_phases_are_gone_through_and_judged(tmp_path):
    program = [sys.executable, "benchmarks/long_life.py"]
    few = ["--commands", "20", "--cycles", "20", "--minutes", "0.1"]
    done = subprocess.run(
        [*program, *few],
        cwd=root(),
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # So few steps may well show noise as growth, which is exit status 1.
    assert done.returncode in (0, 1), done.stderr
    for phase in ("commands", "cycles", "trials"):
        assert re.search(rf"^20 {phase} in \d+ s: ", done.stdout, re.MULTILINE), done.stdout
