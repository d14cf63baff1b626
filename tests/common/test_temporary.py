"""Temporary folders: made and gone, or refused in a sentence."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from left_behind import processes

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.temporary import LONGEST_SOCKET_PATH, temporary_folder


@pytest.fixture
def tempdir(monkeypatch):
    return lambda path: monkeypatch.setattr(tempfile, "tempdir", str(path))


def test_a_folder_is_gone_after_its_block(tempdir, tmp_path):
    tempdir(tmp_path)
    with temporary_folder() as folder:
        assert Path(folder).parent == tmp_path
        (Path(folder) / "file").touch()
    assert not list(tmp_path.iterdir())


OWN = """\
import time
from tsnrepro.common.temporary import temporary_folder

with temporary_folder() as early:
    print(early, flush=True)
    time.sleep(600)
"""
LIBRARY = """\
import tempfile, time
from tsnrepro.common import temporary

temporary.remove_temporary_folders()
print(tempfile.mkdtemp(), flush=True)
time.sleep(600)
"""


OUTLIVED = """\
import subprocess, time
from tsnrepro.common.temporary import temporary_folder

with temporary_folder() as early:
    again = 'sleep 1; mkdir -p "$1"; touch "$1/file"; sleep 0.5'
    subprocess.Popen(["sh", "-c", again, "sh", early], start_new_session=True)
    print(early, flush=True)
    time.sleep(600)
"""


def named(folder: Path) -> bool:
    """Return whether a process has the folder among its arguments."""
    return any(str(folder) in command for command, _, _ in processes().values())


@pytest.mark.parametrize("code", [OWN, LIBRARY, OUTLIVED], ids=["own", "library", "outlived"])
def test_what_a_killed_process_leaves_is_removed(tmp_path, code):
    """Also where its whole group is killed, and where a process of another makes it again."""
    stands = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        text=True,
    )
    with stands:
        early = Path(stands.stdout.readline().strip())
        assert early.is_dir()
        os.killpg(stands.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while (list(tmp_path.iterdir()) or named(early)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["no/such/folder", "a-file/folder"])
def test_where_none_can_be_made_it_is_said(tempdir, tmp_path, place):
    (tmp_path / "a-file").touch()
    tempdir(tmp_path / place)
    with pytest.raises(ConfigurationError, match=r"no temporary folder: .*TMPDIR"):
        temporary_folder().__enter__()


def test_a_full_disk_is_named(tempdir, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    tempdir(tmp_path)
    monkeypatch.setattr(tempfile._os, "mkdir", full)
    with pytest.raises(ConfigurationError, match="no temporary folder: No space left on device"):
        temporary_folder().__enter__()


def test_the_longest_path_that_the_kernel_takes(tempdir):
    """One byte below the limit a socket is bound, one above it is refused beforehand."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        random_part = len(f"/tsnrepro-{os.getpid()}-") + 8
        for length, fits in ((LONGEST_SOCKET_PATH, True), (LONGEST_SOCKET_PATH + 1, False)):
            deep = Path(short) / ("d" * (length - len(short) - 1 - random_part - len("/s-1")))
            deep.mkdir()
            tempdir(deep)
            if not fits:
                with pytest.raises(ConfigurationError, match="108 bytes is longer"):
                    temporary_folder(socket="s-1").__enter__()
                assert not list(deep.iterdir())
                continue
            with temporary_folder(socket="s-1") as folder, socket.socket(socket.AF_UNIX) as s:
                s.bind(f"{folder}/s-1")
