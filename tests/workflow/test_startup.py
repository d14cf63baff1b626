"""Times in the future are clamped, with a notice, and a second signal leaves nothing behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tsnrepro.workflow.startup import clamp_future_mtimes

HOUR_NS = 3_600_000_000_000


def stamps(paths):
    return [path.lstat().st_mtime_ns for path in paths]


@pytest.fixture
def results(tmp_path):
    """Return five results in the order that they were made in, the last three after now."""
    paths = [tmp_path / name for name in ("run.json", "old", "values.json", "link", "paper.pdf")]
    for path in paths[:3] + paths[4:]:
        path.touch()
    paths[3].symlink_to("nowhere")
    begin = time.time_ns() - 2 * HOUR_NS
    for number, path in enumerate(paths):
        stamp = begin + HOUR_NS * number * 3 // 2
        os.utime(path, ns=(stamp, stamp), follow_symlinks=False)
    return paths


def test_the_order_stays_and_nothing_is_of_tomorrow(results, capsys):
    before = stamps(results)
    clamp_future_mtimes(results[0].parent)
    after = stamps(results)
    assert after[:2] == before[:2]
    assert sorted(after) == after
    assert len(set(after)) == len(after)
    assert after[-1] < time.time_ns()
    (results[0].parent / "campaign.yaml").touch()
    assert (results[0].parent / "campaign.yaml").stat().st_mtime_ns > after[-1]
    assert "3 files and folders" in capsys.readouterr().err


def test_what_is_of_the_past_stays_as_it_is_without_a_word(results, capsys):
    clamp_future_mtimes(results[0].parent)
    capsys.readouterr()
    before = stamps(results)
    clamp_future_mtimes(results[0].parent)
    assert stamps(results) == before
    assert capsys.readouterr().err == ""


def test_where_nothing_was_made_there_is_nothing_to_say(tmp_path, capsys):
    clamp_future_mtimes(tmp_path / "results")
    assert capsys.readouterr().err == ""


JOB = """\
import signal, time
from tsnrepro.common.temporary import temporary_folder
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with temporary_folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""
WORKFLOW = """\
import subprocess, sys
from pathlib import Path
from tsnrepro.workflow.startup import _cleans_up, _end_jobs
job = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(job.stdout.readline().strip(), flush=True)
children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
while not any(map(_cleans_up, map(int, children.read_text().split()))):
    pass  # it was started, but exec(2) has not set its arguments yet
_end_jobs()
assert job.wait(20) == -9
"""


def test_a_killed_job_is_cleaned_up_after(tmp_path):
    # The process that removes its folder is below it, and is not killed with it.
    done = subprocess.run(
        [sys.executable, "-c", WORKFLOW, JOB],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    end = time.monotonic() + 60
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not folder.exists()
