"""Nothing of a testbed is left, however the program that brought it up ends."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from left_behind import (
    MAPS,
    PROGRAMS,
    kernel_objects,
    names_left,
    processes,
    surroundings,
)

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import EmulatedSettings
from tsnrepro.native import frer
from tsnrepro.testbeds.emulated import namespace
from tsnrepro.testbeds.emulated.testbed import HOSTS, EmulatedTestbed

pytestmark = [pytest.mark.namespaces, pytest.mark.usefixtures("alone")]

GONE_SECONDS = 10
UP_SECONDS = 60

OWNER = """\
import signal, sys, time
from tsnrepro.config import EmulatedSettings
from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed
from tsnrepro.tools.frerctl import StreamFilter

# A test suite ignores the interrupt where a script started it in the background, and the hang-up
# under nohup; a program that it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
print("starting", flush=True)
with EmulatedTestbed(EmulatedSettings(), "a test of its end") as testbed:
    testbed.configure("frer", StreamFilter("udp", 5201))
    server = testbed.hosts["listener"].start(["iperf3", "-s"], deadline_s=600)
    client = ["iperf3", "-u", "-b", "50M", "-t", "600", "-c", testbed.address("listener")]
    testbed.hosts["talker"].start(client, deadline_s=600)
    print("up", *(space.network_inode() for space in testbed._spaces.values()), flush=True)
    if sys.argv[1] == "succeed":
        sys.exit(0)
    if sys.argv[1] == "fail":
        raise RuntimeError("on purpose")
    time.sleep(600)
"""


class Owner:
    """A program that brings the testbed up; its descendants are told by a mark."""

    def __init__(self, folder: Path, then: str) -> None:
        self.folder, self._mark = folder, f"TSNREPRO_TEST_MARK={uuid.uuid4()}"
        name, value = self._mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, then],
            env=os.environ | {"TMPDIR": str(folder), name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.spaces: set[int] = set()

    def wait_until(self, word: str) -> None:
        while line := self.process.stdout.readline().split():
            if line[0] == word:
                self.spaces = {int(inode) for inode in line[1:]}
                return
        pytest.fail(f"the owner never said {word}: {self.process.stderr.read()}")

    def end(self) -> str:
        """Wait for the program's end and return what it said on standard error."""
        _, said = self.process.communicate(timeout=UP_SECONDS)
        return said

    def processes(self) -> list[str]:
        """Return the processes that descend from this program or live in its hosts."""
        return [
            command
            for command, environment, space in processes().values()
            if self._mark in environment or space in self.spaces
        ]

    def left(self) -> list[str]:
        """Return what is left of its testbed; the kernel removes namespaces in the background."""
        end = time.monotonic() + GONE_SECONDS
        while (left := self.processes() + kernel_objects()) and time.monotonic() < end:
            time.sleep(0.05)
        return left


@pytest.fixture
def start(tmp_path):
    """Return the function that starts an owner; no testbed outlives the test, whatever happens."""
    owners = []

    def started(then: str) -> Owner:
        owners.append(Owner(tmp_path, then))
        return owners[-1]

    yield started
    for owner in owners:
        owner.process.kill()
        owner.end()
        owner.left()


def assert_gone(owner: Owner, before: dict[str, list[str]]) -> None:
    assert owner.left() == []
    assert surroundings() == before
    assert names_left(owner.folder) in ([], ["tsnrepro-emulated.lock"])


def test_an_owner_that_is_up_shows(start):
    """The checks of this module see a testbed where there is one."""
    owner = start("wait")
    owner.wait_until("up")
    assert len(owner.spaces) == len(HOSTS)
    said = " ".join(owner.processes())
    for part in ("sleep infinity", "sshd", "iperf3 -s", "frerctl"):
        assert part in said
    assert {name.split()[1] for name in kernel_objects()} >= PROGRAMS | MAPS


def test_success(start):
    before = surroundings()
    owner = start("succeed")
    owner.wait_until("up")
    assert (owner.end(), owner.process.returncode) == ("", 0)
    assert_gone(owner, before)


def test_an_exception(start):
    before = surroundings()
    owner = start("fail")
    owner.wait_until("up")
    assert "RuntimeError: on purpose" in owner.end()
    assert_gone(owner, before)


@pytest.mark.parametrize("whom", ["the program", "everything in its terminal"])
def test_control_c(start, whom):
    before = surroundings()
    owner = start("wait")
    owner.wait_until("up")
    interrupt = os.kill if whom == "the program" else os.killpg
    interrupt(owner.process.pid, signal.SIGINT)
    said = owner.end()
    assert said.strip().endswith("KeyboardInterrupt")
    assert "During handling" not in said, "ending the testbed failed too"
    assert_gone(owner, before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_leaves_no_time(start, number):
    before = surroundings()
    owner = start("wait")
    owner.wait_until("up")
    os.kill(owner.process.pid, number)
    owner.end()
    assert_gone(owner, before)


@pytest.mark.slow
def test_kill_at_any_moment_of_bringing_up(start):
    before = surroundings()
    for moment in range(12):
        owner = start("wait")
        owner.wait_until("starting")
        time.sleep(0.035 * moment)
        owner.process.kill()
        owner.end()
        assert_gone(owner, before)


def test_the_next_run_after_a_kill(start):
    owner = start("wait")
    owner.wait_until("up")
    owner.process.kill()
    owner.end()
    again = start("succeed")
    again.wait_until("up")
    assert (again.end(), again.process.returncode) == ("", 0)


def test_a_second_testbed_is_refused_and_told_by_whom(start):
    owner = start("wait")
    owner.wait_until("up")
    second = start("wait")
    said = second.end()
    assert second.process.returncode == 1
    assert f"the testbed is in use by process {owner.process.pid}" in said
    assert "a test of its end" in said
    assert len(owner.processes()) > 5, "the first goes on"


# --- in this process -----------------------------------------------------------------------------


@pytest.fixture
def own_lock(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("own_lock")
def test_a_step_that_fails_takes_all_down(monkeypatch):
    before = surroundings()
    monkeypatch.setattr(frer, "frerctl", lambda: "/bin/false")
    testbed = EmulatedTestbed(EmulatedSettings())
    with pytest.raises(TestbedError, match=r"exit status 1.*sw[12]: /bin/false switch"):
        testbed.__enter__()
    end = time.monotonic() + GONE_SECONDS
    while kernel_objects() and time.monotonic() < end:
        time.sleep(0.05)
    assert kernel_objects() == []
    assert surroundings() == before
    assert all(space._holder.poll() is not None for space in testbed._spaces.values())


@pytest.mark.usefixtures("own_lock")
def test_the_same_object_is_not_left_locked_by_a_failure(monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(frer, "frerctl", lambda: "/bin/false")
        with pytest.raises(TestbedError):
            EmulatedTestbed(EmulatedSettings()).__enter__()
    with EmulatedTestbed(EmulatedSettings()) as testbed:
        assert set(testbed.hosts) == set(HOSTS)


@pytest.mark.usefixtures("own_lock")
def test_without_root_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert namespace.missing_requirements() == ["root (run with sudo)"]
    with pytest.raises(TestbedError, match=r"^this machine lacks root \(run with sudo\)"):
        EmulatedTestbed(EmulatedSettings()).__enter__()


def test_a_kernel_that_refuses_namespaces(monkeypatch, tmp_path):
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert namespace.missing_requirements() == [
        "network namespaces (cannot create namespaces: unshare failed: Operation not permitted)"
    ]


def test_what_only_root_has_on_its_path_is_found_by_others_too(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert not [lack for lack in namespace.missing_requirements() if "program" in lack]


def test_programs_that_are_missing_are_named(monkeypatch, tmp_path):
    for name in namespace.PROGRAMS:
        if name not in ("iperf3", "clang"):
            (tmp_path / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(namespace, "SYSTEM_FOLDERS", "")
    assert namespace.missing_requirements() == ["the program clang", "the program iperf3"]
