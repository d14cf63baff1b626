"""The lock of a testbed: one holder, named, and none after its end."""

import os
import subprocess
import sys
import tempfile

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.lease import TestbedLock

HOLDER = """\
import sys, tempfile, time
from tsnrepro.testbeds.hosts.lease import TestbedLock
tempfile.tempdir = sys.argv[1]
with TestbedLock("emulated", "campaign quick, experiment loss"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_holder_is_refused_with_the_first_ones_name(holder):
    with pytest.raises(TestbedError) as refused, TestbedLock("emulated"):
        pass
    message = str(refused.value)
    assert f"in use by process {holder.pid} (campaign quick, experiment loss) since 20" in message
    assert "tsnrepro-emulated.lock" in message


def test_kill_frees_the_lock(holder):
    holder.kill()
    holder.wait()
    with TestbedLock("emulated", "next"):
        pass


def test_the_same_process_cannot_hold_it_twice():
    first = TestbedLock("emulated", "first")
    with first, pytest.raises(TestbedError, match=rf"process {os.getpid()} \(first\)"):
        TestbedLock("emulated", "second").__enter__()
    with TestbedLock("emulated", "third"):
        pass


def test_a_refused_attempt_does_not_hide_the_holders_name(holder):
    for _ in range(2):
        with pytest.raises(TestbedError, match=rf"process {holder.pid} "):
            TestbedLock("emulated", "impatient").__enter__()


def test_two_testbeds_have_a_lock_each():
    with TestbedLock("emulated", "one"), TestbedLock("guest", "other"):
        pass


def test_a_holder_that_has_not_written_its_name_yet(tmp_path):
    path = tmp_path / "tsnrepro-emulated.lock"
    script = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); \
print('held', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", script, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as silent:
        silent.stdout.readline()
        with pytest.raises(TestbedError, match="an unidentified process"):
            TestbedLock("emulated").__enter__()
        silent.kill()


@pytest.mark.parametrize("make", ["symlink", "link", "fifo", "folder"])
def test_what_somebody_put_in_the_locks_place_is_left_alone(tmp_path, make):
    treasure = tmp_path / "treasure"
    treasure.write_text("precious")
    place = tmp_path / "tsnrepro-emulated.lock"
    if make == "symlink":
        place.symlink_to(treasure)
    elif make == "link":
        place.hardlink_to(treasure)
    elif make == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(TestbedError, match=r"lock file .*tsnrepro-emulated\.lock"):
        TestbedLock("emulated", "a victim").__enter__()
    assert treasure.read_text() == "precious"


def test_a_link_to_nothing_makes_no_file(tmp_path):
    (tmp_path / "tsnrepro-emulated.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TestbedError, match="cannot be opened"):
        TestbedLock("emulated", "a victim").__enter__()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_lock_is_refused_but_not_to_root(tmp_path):
    place = tmp_path / "tsnrepro-emulated.lock"
    place.touch()
    os.chown(place, 12345, 12345)
    with TestbedLock("emulated", "root"):
        pass
    os.chown(place, 0, 0)
    os.seteuid(12345)
    try:
        with pytest.raises(TestbedError, match="cannot be opened: Permission denied"):
            TestbedLock("emulated", "somebody").__enter__()
    finally:
        os.seteuid(0)
