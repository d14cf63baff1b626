"""The choice of a testbed: what is missing and what else can be chosen, in one sentence."""

import os
import subprocess
import sys

import pytest

from tsnrepro.errors import ConfigurationError, TestbedError
from tsnrepro.repository import root
from tsnrepro.testbed import choose, requirements


def test_without_root_the_error_names_what_is_missing_and_what_else_can_run(monkeypatch):
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError) as error:
        choose.choose("auto")
    message = str(error.value)
    assert "root (run with sudo)" in message
    assert "--config testbed=emulated" in message
    assert "\n" not in message


def test_a_missing_tool_is_named(monkeypatch):
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements.shutil, "which", lambda name: None)
    lacks = requirements.missing()
    assert "the program iperf3" in lacks
    assert "the program clang" in lacks


def test_an_unknown_testbed_is_refused_with_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"emulatd.*auto, emulated"):
        choose.choose("emulatd")


@pytest.mark.namespaces
def test_a_workflow_of_an_ordinary_user_ends_with_one_sentence(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to become an ordinary user")
    code = (
        "import os\n"
        "from tsnrepro.testbed.choose import choose\n"
        "from tsnrepro.testbed import requirements\n"
        "from tsnrepro.errors import TsnreproError\n"
        "os.setuid(65534)\n"
        "try: choose('auto')\n"
        "except TsnreproError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root()
    )
    assert "root (run with sudo)" in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1
