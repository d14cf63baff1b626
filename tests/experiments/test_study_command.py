"""The command ``tsnrepro study``."""

import subprocess
import sys

import pytest

STUDY = """\
description: As small as can be
duration_s: 0.01
replications: 2
points_per_job: 2
measure: {kind: loss}
base: {rate_mbps: 900, stall_length_ms: 2, stall_interval_ms: 2, receive_buffer_bytes: 20000}
parts:
  only:
    factors: {configuration: [control, frer]}
"""


def tsnrepro(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "tsnrepro.cli", "study", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.yaml").write_text(STUDY, encoding="utf-8")
    return tmp_path


def test_plan_prints_the_size(folder):
    done = tsnrepro("plan", "small.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "4 points in 2 jobs" in done.stdout
    assert "2 configuration x 2 replications" in done.stdout


def test_jobs_and_collecting_give_what_run_gives(folder):
    assert tsnrepro("run", "small.yaml", "--folder", "whole", cwd=folder).returncode == 0
    for number in (1, 0):
        output = f"jobs/chunks/{number:05d}.json"
        done = tsnrepro("chunk", "small.yaml", number, output, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert tsnrepro("collect", "small.yaml", "jobs", cwd=folder).returncode == 0
    for name in ("study.csv", "study.parquet"):
        made = (folder / "jobs" / name).read_bytes()
        assert made == (folder / "whole" / name).read_bytes()
    assert len((folder / "whole" / "study.csv").read_text(encoding="utf-8").splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "other.yaml"), "small"),
        (("chunk", "small.yaml", 9, "out.json"), "no chunk 9"),
        (("collect", "small.yaml", "nowhere"), "missing"),
    ],
)
def test_errors_are_one_line(folder, arguments, message):
    done = tsnrepro(*arguments, cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("tsnrepro: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
