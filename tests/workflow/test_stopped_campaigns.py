"""Signals and ``tsnrepro stop`` end a workflow after what runs; a second signal ends it at once."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.runner.control import RUN_CONTROL, WORKFLOW_CONTROL, controlled, holder_of
from tsnrepro.workflow import steering

# The first job is a run that asks before each trial, of which the second never ends by itself.
RULES = """
from tsnrepro.workflow.startup import stop_on_signals


onstart:
    stop_on_signals(workflow.scheduler, [("model", "short")], logger.info)


rule all:
    input:
        "second.txt",


rule first:
    output:
        "first.txt",
    shell:
        "python run.py && touch {output}"


rule second:
    input:
        "first.txt",
    output:
        "second.txt",
    shell:
        "touch {output}"
"""
RUN = """
import os
import signal
import sys
import time
from pathlib import Path

from tsnrepro.runner.control import RunControl, StoppedError

signal.signal(signal.SIGINT, signal.SIG_DFL if Path("obeys").exists() else signal.SIG_IGN)
control = RunControl(Path("data/raw/model/short/loss"))
try:
    with control.reachable():
        for number in range(3):
            control.check()
            Path(f"began-{number}").touch()
            while not Path(f"go-{number}").exists():
                time.sleep(0.05)
            Path(f"recorded-{number}").touch()
except StoppedError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Snakefile").write_text(RULES)
    (tmp_path / "run.py").write_text(RUN)
    shutil.copytree(root() / "workflow/profiles/default", tmp_path / "profiles/default")
    return tmp_path


@pytest.fixture
def workflow(folder):
    process = subprocess.Popen(
        # A test that runs in the background of a shell has SIGINT ignored.
        ["env", "--default-signal=INT", Path(sys.executable).parent / "snakemake", "--cores", "1"],
        cwd=folder,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_workflow_after_its_trial(folder, workflow, number):
    wait_for(folder / "began-0")
    os.killpg(workflow.pid, number) if number == signal.SIGINT else workflow.send_signal(number)
    time.sleep(0.5)
    assert workflow.poll() is None
    (folder / "go-0").touch()
    said, _ = workflow.communicate(timeout=60)
    assert workflow.returncode != 0
    assert "stopping after what runs now" in said
    assert (folder / "recorded-0").exists()
    assert not (folder / "began-1").exists()
    assert holder_of(folder / WORKFLOW_CONTROL) is None


@pytest.mark.parametrize("obeys", [True, False])
def test_a_second_signal_ends_it_within_five_seconds(folder, workflow, obeys):
    if obeys:
        (folder / "obeys").touch()
    wait_for(folder / "began-0")
    workflow.send_signal(signal.SIGINT)
    time.sleep(0.3)
    began = time.monotonic()
    workflow.send_signal(signal.SIGTERM)
    workflow.communicate(timeout=60)
    assert time.monotonic() - began < 5
    assert not (folder / "recorded-0").exists()
    assert holder_of(folder / "data/raw/model/short/loss" / RUN_CONTROL) is None


def test_the_command_stops_the_workflow_of_the_folder(folder, workflow, monkeypatch):
    monkeypatch.setattr(steering, "root", lambda: folder)
    monkeypatch.setattr(steering, "raw_root", lambda: folder / "data/raw")
    wait_for(folder / "began-0")
    with pytest.raises(ConfigurationError, match=r"nothing is being measured.*long on any testbed"):
        steering.stop("long")
    assert steering.stop("short", "model") == [
        "short on model: ends after the trial that is measured now"
    ]
    (folder / "go-0").touch()
    workflow.communicate(timeout=60)
    assert (folder / "recorded-0").exists()
    assert not (folder / "began-1").exists()


def test_the_command_stops_a_run_without_a_workflow(tmp_path, monkeypatch):
    monkeypatch.setattr(steering, "root", lambda: tmp_path)
    monkeypatch.setattr(steering, "raw_root", lambda: tmp_path)
    with pytest.raises(ConfigurationError, match="nothing is being measured"):
        steering.stop()
    path = tmp_path / "model" / "short" / "loss" / RUN_CONTROL
    with controlled(path, {}):
        assert steering.stop() == [
            "loss of short on model: ends after the trial that is measured now"
        ]
        assert '"stop"' in path.read_text()
