"""What root makes in somebody's clone is that one's, also after a kill, and git reads it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tsnrepro.common import repository

OWNER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what others cannot touch")
STANDS = """\
import sys, time
from pathlib import Path
from tsnrepro.common import ownership

ownership.root = lambda: Path(sys.argv[1])
ownership.restore_ownership_at_exit()
folder = Path(sys.argv[1], "results")
folder.mkdir()
(folder / "page").touch()
(folder / "link").symlink_to("/etc/passwd")
print("made", flush=True)
if sys.argv[2] == "killed":
    time.sleep(600)
"""


def give_to_owner(folder):
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, OWNER, OWNER)


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "scripts").mkdir()
    for name in ("restore-ownership", "setup", "test"):
        shutil.copy(repository.root() / "scripts" / name, tmp_path / "scripts")
    give_to_owner(tmp_path)
    return tmp_path


def owners(folder):
    return {path.lstat().st_uid for path in folder.rglob("*")}


@as_root
@pytest.mark.parametrize("how", ["ended", "killed"])
def test_what_root_makes_belongs_to_whose_clone_it_is(clone, how):
    with subprocess.Popen(
        [sys.executable, "-c", STANDS, str(clone), how],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as stands:
        assert stands.stdout.readline() == b"made\n"
        if how == "killed":
            os.killpg(stands.pid, signal.SIGKILL)
    end = time.monotonic() + (10 if how == "killed" else 0)
    while owners(clone) != {OWNER} and time.monotonic() < end:
        time.sleep(0.05)
    assert owners(clone) == {OWNER}
    assert Path("/etc/passwd").stat().st_uid == 0


@as_root
@pytest.mark.parametrize("name", ["setup", "test"])
def test_so_do_the_scripts(clone, name):
    """Each fails at its first step here: there is neither a lock nor an environment."""
    (clone / ".venv").mkdir()
    words = ["bash", f"scripts/{name}", "--python-only"]
    done = subprocess.run(words, cwd=clone, capture_output=True, check=False)
    assert done.returncode != 0
    assert owners(clone) == {OWNER}


@as_root
def test_root_reads_the_commit_of_a_users_clone(tmp_path, monkeypatch):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    give_to_owner(tmp_path)
    monkeypatch.setattr(repository, "root", lambda: tmp_path)
    repository.commit.cache_clear()
    try:
        assert len(repository.commit()) == 40
    finally:
        repository.commit.cache_clear()
