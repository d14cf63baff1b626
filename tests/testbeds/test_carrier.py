"""A rack measures once its links are up again, and a port that is saved needs no IPv6."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from examined import PrintingShell

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.testbeds.hosts import ports, remote
from tsnrepro.testbeds.rack import testbed
from tsnrepro.testbeds.rack.testbed import RackTestbed

DEVICES = {"talker": {"eth0": "enp2s0"}, "sw1": {"p0": "eth4", "m0": "eth1", "m1": "eth2"}}


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Links:
    """A host's shell; each of its ports has a link from some time on, None for never."""

    def __init__(self, clock, up_from):
        self._clock, self._up_from = clock, up_from

    def query_all(self, commands):
        return [self._carrier(argv[1].split("/")[4]) for argv in commands]

    def _carrier(self, device):
        since = self._up_from.get(device, 0.0)
        if since is None:
            return 1, f"cat: /sys/class/net/{device}/carrier: Invalid argument\n"
        return 0, "1\n" if self._clock.now >= since else "0\n"


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(remote, "time", made)
    return made


def waited(clock, **up_from):
    shells = {role: Links(clock, up_from) for role in DEVICES}
    remote.wait_for_links(shells, DEVICES)
    return clock.now


def test_links_that_are_up_are_not_waited_for(clock):
    assert waited(clock) == 0


def test_the_last_link_is_waited_for(clock):
    """As copper takes after a card's MTU was set."""
    assert waited(clock, eth1=2.6, eth2=3.1) == pytest.approx(3.1, abs=0.2)


def test_links_that_stay_down_are_named_all(clock):
    with pytest.raises(TestbedError, match=r"no link within 30 s: talker eth0 .enp2s0., sw1 m1"):
        waited(clock, eth2=None, enp2s0=float("inf"), eth1=5)
    assert clock.now == pytest.approx(30, abs=1)


def test_a_rack_waits_after_it_is_set_up_and_reads_speeds_before_it_measures(monkeypatch):
    done = []
    driver = SimpleNamespace(devices={"eth0": "enp2s0"})
    rack = SimpleNamespace(
        **{"drivers": {"talker": driver}, "shells": {"talker": None}},
        **{"connections": {"talker": SimpleNamespace(name="talker")}},
        prepare=lambda: done.append("prepared"),
        check_speeds=lambda: done.append("speeds"),
    )
    monkeypatch.setattr(testbed, "LeasedHosts", lambda *_, **__: nullcontext(rack))
    monkeypatch.setattr(testbed, "wait_for_links", lambda *asked: done.append(asked[1]))
    settings = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
    with RackTestbed(settings, "a-rack"):
        done.append("measures")
    assert done == ["prepared", {"talker": {"eth0": "enp2s0"}}, "speeds", "measures"]


# --- a kernel without IPv6 --------------------------------------------------------------------


class WithoutIpv6(PrintingShell):
    """A host whose kernel has no IPv6; procps' sysctl says nothing of a key when told to ignore."""

    def __init__(self):
        link = {"ifname": "eth1", "flags": ["UP"], "mtu": 1500}
        super().__init__("sw1", {"ip -j -d link show": json.dumps([link])})
        self.changed = []

    def query_all(self, commands):
        return [self._ended(" ".join(argv)) for argv in commands]

    def _ended(self, line):
        if line.startswith("sysctl"):
            return (0, "") if "--ignore" in line else (255, "sysctl: cannot stat /proc/sys/net")
        return 0, "[]" if line.startswith("tc") else "generic-receive-offload: on\n"

    def change_all(self, commands):
        self.changed += [" ".join(argv) for argv in commands]
        assert all(self._ended(line)[0] == 0 for line in self.changed if "sysctl" in line)


def test_a_port_of_a_kernel_without_ipv6_is_saved_set_up_and_brought_back():
    shell = WithoutIpv6()
    state = ports.save(shell, "eth1")
    ports.prepare(shell, "eth1", 1600, silent=True)
    assert any("sysctl --ignore" in line for line in shell.changed)
    shell.changed.clear()
    ports.restore(shell, "eth1", state)
    assert shell.changed == []
