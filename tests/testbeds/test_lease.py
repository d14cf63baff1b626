"""Reservations of hosts: a real shell runs what a host is told, in folders of a test."""

import fcntl
import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import soon

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts import lease
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.hosts.lease import HostLease

MINUTES = 5
SEEN_SECONDS = 10.0


class LocalShell:
    """A host's shell: its ``/run`` is a folder of its own."""

    def __init__(self, name, folder):
        self.name, self.folder, self.reachable = name, folder, True
        folder.mkdir()

    @property
    def place(self):
        return self.folder / "reservation"

    def query(self, argv):
        if not self.reachable:
            raise TestbedError("the connection is gone", self.name)
        words = [str(self.place) if word == lease._FOLDER else word for word in argv]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return Completed(
            self.name, tuple(argv), done.returncode, done.stdout, done.stderr, 0.0, 0.0
        )


@pytest.fixture
def shells(tmp_path):
    return {name: LocalShell(name, tmp_path / name) for name in ("talker", "sw1")}


def until(shell):
    return int((shell.place / "until").read_text())


def end(shell):
    (shell.place / "until").write_text("1\n")


def test_another_is_told_who_has_it_what_for_since_when_and_how_long(shells):
    HostLease(shells, MINUTES, "a campaign").acquire()
    told = rf"leased by \S+ on \S+ \(a campaign\) since 20\d\d-.*, for another {MINUTES} min"
    with pytest.raises(TestbedError, match=told):
        HostLease(shells, MINUTES, "another").acquire()


def test_whoever_gets_only_some_hosts_lets_them_go(shells):
    other = HostLease({"sw1": shells["sw1"]}, MINUTES, "other")
    other.acquire()
    with pytest.raises(TestbedError, match="leased by"):
        HostLease(shells, MINUTES, "all").acquire()
    assert not shells["talker"].place.exists()
    assert shells["sw1"].place.exists()
    other.release()
    assert not shells["sw1"].place.exists()


def test_a_host_that_is_gone_keeps_no_other_leased(shells):
    held = HostLease(shells, MINUTES, "a campaign")
    held.acquire()
    shells["talker"].reachable = False
    with pytest.raises(TestbedError, match="connection is gone"):
        held.release()
    assert not shells["sw1"].place.exists()


def test_one_of_many_gets_a_reservation_that_has_ended(shells):
    """Two must not both find it ended, and each move the other's new one away."""
    for _ in range(5):
        HostLease(shells, MINUTES, "gone").acquire()
        for shell in shells.values():
            end(shell)
        wanting = [HostLease({"sw1": shells["sw1"]}, MINUTES, f"no {n}") for n in range(6)]

        def got(wants):
            try:
                wants.acquire()
            except TestbedError:
                return False
            return True

        with ThreadPoolExecutor(len(wanting)) as pool:
            assert sum(pool.map(got, wanting)) == 1
        for each in wanting:
            each.release()
        assert not shells["sw1"].place.exists()


def test_what_another_is_just_making_is_not_taken_for_abandoned(shells):
    """Between its folder and its end a reservation looks as if it had none."""
    shell = shells["sw1"]
    lock = os.open(shell.folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    shell.place.mkdir()
    refused = []

    def acquire():
        try:
            HostLease({"sw1": shell}, MINUTES, "second").acquire()
        except TestbedError as error:
            refused.append(str(error))

    second = threading.Thread(target=acquire)
    second.start()
    second.join(0.5)
    assert second.is_alive()
    (shell.place / "token").write_text("first\n")
    (shell.place / "holder").write_text("the first\n")
    (shell.place / "until").write_text(f"{int(time.time()) + 600}\n")
    os.close(lock)
    second.join(10)
    assert "leased by the first" in refused[0]


def test_what_nobody_finished_making_is_no_hindrance(shells):
    shells["sw1"].place.mkdir()
    HostLease(shells, MINUTES, "next").acquire()
    assert until(shells["sw1"]) > time.time()


def test_a_lock_of_ours_leaves_nothing_on_the_host(shells):
    mine = HostLease(shells, MINUTES, "mine")
    mine.acquire()
    mine.release()
    assert [list(shell.folder.iterdir()) for shell in shells.values()] == [[], []]


def test_a_sign_of_life_that_fails_lets_no_host_go(shells):
    """They are still set up: whoever took them would find a rack in the middle of a trial."""
    mine = HostLease(shells, MINUTES, "mine")
    mine.acquire()
    mine._renewed_s -= 60 * MINUTES
    shells["sw1"].reachable = False
    with pytest.raises(TestbedError, match="the connection is gone"):
        mine.renew()
    assert shells["talker"].place.exists()
    with pytest.raises(TestbedError, match="mine"):
        HostLease({"talker": shells["talker"]}, MINUTES, "next").acquire()


def test_a_sign_of_life_too_soon_is_none(shells):
    mine = HostLease(shells, MINUTES, "mine")
    mine.acquire()
    end(shells["sw1"])
    mine.renew()
    assert until(shells["sw1"]) == 1
    mine._renewed_s -= 60 * MINUTES / 9
    mine.renew()
    assert until(shells["sw1"]) > time.time() + 60 * MINUTES - 30


def test_a_trial_longer_than_the_reservation_keeps_it(shells):
    mine = HostLease(shells, MINUTES, "a long trial")
    mine._seconds = 2
    mine.acquire()
    with mine.renewed_in_background():
        end(shells["sw1"])
        assert soon(lambda: until(shells["sw1"]) > 1, SEEN_SECONDS)
        # Also after the way to a host was cut for a moment.
        shells["talker"].reachable = False
        time.sleep(1.5)
        shells["talker"].reachable = True
        end(shells["sw1"])
        assert soon(lambda: until(shells["sw1"]) > 1, SEEN_SECONDS)
    end(shells["sw1"])
    time.sleep(1.5)
    assert until(shells["sw1"]) == 1


def test_a_host_that_somebody_else_has_meanwhile_ends_the_campaign(shells):
    mine = HostLease(shells, MINUTES, "mine")
    mine.acquire()
    end(shells["sw1"])
    HostLease({"sw1": shells["sw1"]}, MINUTES, "theirs").acquire()
    mine._renewed_s -= 60 * MINUTES
    with pytest.raises(TestbedError, match="theirs"):
        mine.renew()
    mine.release()
    assert (shells["sw1"].place / "holder").read_text().count("theirs") == 1
