"""Every module can be the first that a program imports."""

import subprocess
import sys

import pytest

from tsnrepro.config.registry import experiments


@pytest.mark.parametrize("name", experiments())
def test_an_experiments_settings_can_be_imported_first(name):
    code = f"import tsnrepro.experiments.{name}.settings"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
