"""Rollback of a killed campaign where a host cannot be reached: the others are restored."""

import shutil
import signal
import subprocess
from contextlib import ExitStack

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import RackSettings, load_testbed
from tsnrepro.testbeds.hosts import lease, programs, remote
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.hosts.rollback import Journal, roll_back
from tsnrepro.testbeds.rack.testbed import RackHosts

RACK = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
HOSTS = ("talker", "sw1", "sw2", "listener")


class Connection:
    """A connected host on which every command succeeds."""

    commands: list
    refused: set

    def __init__(self, name, *_, **__):
        self.name = name
        if name in self.refused:
            raise TestbedError("no SSH connection: timed out", f"root@{name}")

    def run(self, argv, *, deadline_s):
        self.commands.append((self.name, argv))
        return Completed(self.name, tuple(argv), 0, "", "", 0.0, 0.0)

    def close(self):
        return None


@pytest.fixture
def connections(monkeypatch, tmp_path):
    """Return the class of connections; ``refused`` are the hosts that have none."""
    (tmp_path / "known_hosts").touch()
    monkeypatch.setattr(remote, "SshHost", Connection)
    monkeypatch.setattr(Connection, "commands", [], raising=False)
    monkeypatch.setattr(Connection, "refused", set(), raising=False)
    return Connection


@pytest.fixture
def settings(tmp_path):
    hosts = {
        name: getattr(RACK.hosts, name).model_copy(update={"key_file": None}) for name in HOSTS
    }
    known = {"known_hosts": str(tmp_path / "known_hosts"), "jump_host": None}
    return RACK.model_copy(update=known | {"hosts": RACK.hosts.model_copy(update=hosts)})


class Restored:
    """A driver that notes that its host was restored."""

    devices = {}

    def __init__(self, role, restored):
        self._role, self._restored = role, restored

    def save(self):
        return {}

    def restore(self, state):
        self._restored.append(self._role)


@pytest.mark.parametrize("state", [{name: {} for name in HOSTS}, None])
def test_the_others_are_restored_and_released_and_the_unreachable_host_is_named(
    connections, settings, tmp_path, monkeypatch, state
):
    restored = []
    monkeypatch.setattr(
        RackHosts, "drivers", property(lambda self: {r: Restored(r, restored) for r in self.shells})
    )
    journal = Journal("rack", tmp_path)
    entry = {"settings": settings.model_dump(mode="json"), "token": "a", "state": state}
    journal.write(entry)
    connections.refused = {"sw1"}
    with pytest.raises(TestbedError, match="root@sw1"):
        roll_back(journal, RackSettings, RackHosts, "restoring rack")
    others = {"talker", "sw2", "listener"}
    assert set(restored) == (others if state else set())
    released = {name for name, argv in connections.commands if lease._RELEASE in argv}
    assert released == others
    # Stall meters too, which outlive a campaign that is killed.
    ended = {name for name, argv in connections.commands if programs._REMOVE in argv}
    assert ended == ({"talker", "listener"} if state else set())
    assert journal.read() == entry
    connections.refused = set()
    assert roll_back(journal, RackSettings, RackHosts, "restoring rack")
    assert journal.read() is None


def test_a_campaign_needs_every_host(connections, settings):
    connections.refused = {"sw1"}
    with ExitStack() as stack, pytest.raises(TestbedError, match="root@sw1"):
        RackHosts(settings, stack)


def test_a_stall_meter_that_a_kill_left_is_ended_and_nothing_else(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    shutil.copy("/bin/sleep", folder / "stallmeter")
    left = subprocess.Popen([folder / "stallmeter", "60"])
    others = subprocess.Popen(["sleep", "60"])
    try:
        subprocess.run(["sh", "-c", programs._REMOVE, "sh", folder], check=True)
        assert left.wait() == -signal.SIGTERM
        assert others.poll() is None
        assert not folder.exists()
    finally:
        left.kill()
        others.kill()
        others.wait()
