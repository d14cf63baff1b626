"""Stamps of a rack's listener's card: asked for, set, told apart, and taken back."""

import json
import re
from types import SimpleNamespace

import pytest
from examined import examined, found
from hosts_of_cards import CARD, STAMPING, CardOfTest

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import RackSettings, load_testbed, parse
from tsnrepro.config.rack import RackStation
from tsnrepro.results import testbed as label
from tsnrepro.runner.backends.hosts import HostsBackend
from tsnrepro.runner.backends.receiver_options import receiver_options
from tsnrepro.runner.load import OF_TESTBED
from tsnrepro.testbeds.doctor import clocks
from tsnrepro.testbeds.doctor.findings import PASS, STOP
from tsnrepro.testbeds.hosts import nic_timestamps
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.rack.station import StationDriver

CLOCK = "PTP Hardware Clock: 0"
PTP = {"interfaces": {"talker": "eth0", "listener": "eth0"}}


class StampingCard(CardOfTest):
    """A PC whose driver takes a time stamping policy, or another one than it was told."""

    def __init__(self, receive_filter="all", policy=(0, 0), takes=None):
        super().__init__("listener", [])
        self.policy, self._filter, self._takes = list(policy), receive_filter, takes

    def _answer(self, words):
        if words == f"ethtool -T {CARD}":
            return STAMPING.format(clock=CLOCK, filters=self._filter)
        if told := re.fullmatch(rf"hwstamp_ctl -i {CARD} -t (\d) -r (\d+)", words):
            self.policy = [int(told[1]), self._takes or int(told[2])]
            return "new settings"
        if words == f"hwstamp_ctl -i {CARD}":
            transmit, receive = self.policy
            return f"current settings:\ntx_type {transmit}\nrx_filter {receive}\n"
        return super()._answer(words)


def station(card, *, stamps=True, sink=None):
    settings = RackStation(address="192.0.2.1", interface=CARD, ipv4="10.0.100.2")
    return StationDriver(Shell(card, sink), settings, "10.0.100.1", "frerctl", stamps=stamps)


@pytest.mark.parametrize("before", [(0, 0), (1, 12)])
def test_a_card_stamps_every_frame_and_then_as_before(before):
    """Its driver's policy goes to the journal: also a kill leaves it where it was."""
    card = StampingCard(policy=before)
    state = json.loads(json.dumps(station(card).save()))
    station(card).check(state)
    station(card).prepare()
    assert card.policy == [before[0], 1]
    assert station(card).save()["stamps"] != state["stamps"]
    station(card).restore(state)
    assert card.policy == list(before)
    assert station(card).save() == state


def test_a_card_whose_stamps_nobody_asks_for_is_left_alone():
    card = StampingCard()
    kernels = station(card, stamps=False)
    state = kernels.save()
    kernels.check(state)
    kernels.prepare()
    kernels.restore(state)
    assert "stamps" not in state
    assert not any("hwstamp_ctl" in line or "ethtool -T" in line for line in card.noted)


def test_a_card_that_stamps_only_ptp_is_refused():
    card = StampingCard("ptpv2-l2-event")
    with pytest.raises(TestbedError, match="it has no receive filter `all`"):
        station(card).check(station(card).save())


def test_a_driver_that_takes_another_filter_is_refused():
    card = StampingCard(takes=12)
    with pytest.raises(TestbedError, match="has receive filter 12 instead of `all`"):
        station(card).prepare()


def test_a_dry_run_tells_the_policy_and_sets_none():
    card, lines = StampingCard(), []
    station(card, sink=lambda _, argv: lines.append(" ".join(argv))).prepare()
    assert f"hwstamp_ctl -i {CARD} -t 0 -r 1" in lines
    assert card.policy == [0, 0]


def test_a_garbled_policy_is_refused():
    card = StampingCard()
    card._answer = lambda _: "SIOCGHWTSTAMP failed: Operation not supported"
    with pytest.raises(TestbedError, match=r"prints no time stamping.*not supported"):
        nic_timestamps.policy(Shell(card), CARD)


# --- settings, programs, pages ----------------------------------------------------------------


def rack(**changes):
    settings = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
    return parse(RackSettings, settings.model_dump(mode="json") | changes, "a rack")


@pytest.mark.parametrize("ptp", [None, PTP | {"free_running": True}])
def test_stamps_of_a_card_need_clocks_that_are_steered(ptp):
    with pytest.raises(ConfigurationError, match="rx_timestamping: hardware needs ptp"):
        rack(rx_timestamping="hardware", ptp=ptp)


@pytest.mark.parametrize(
    ("stamps", "log", "asked"),
    [
        ("hardware", "/run/log", "hardware"),
        # Clocks are kept together only where every arrival is kept.
        ("hardware", None, "software"),
        ("software", "/run/log", "software"),
    ],
)
def test_the_listener_asks_for_the_stamps_of_the_setting(stamps, log, asked):
    heard = []

    class Ended(Exception):
        pass

    def start(argv, **_):
        heard.extend(argv)
        raise Ended

    settings = rack(rx_timestamping=stamps, ptp=PTP)
    requests = HostsBackend.__new__(HostsBackend)
    requests._receiver = receiver_options(SimpleNamespace(settings=settings), OF_TESTBED)
    requests._listener = SimpleNamespace(start=start)
    with pytest.raises(Ended):
        requests._start_listener([5202], 1.0, log)
    text = " ".join(heard).replace("=", " ")
    assert f"--timestamps {asked}" in text


def test_the_doctor_looks_at_the_measured_card():
    settings = rack(rx_timestamping="hardware", ptp=PTP)
    card = settings.hosts.listener.interface
    has = {'sh -c command -v "$1" sh hwstamp_ctl': "/usr/sbin/hwstamp_ctl\n"}
    for printed, more, verdict in (
        ("all", has, PASS),
        ("ptpv2-event", has, STOP),
        ("all", {}, STOP),
    ):
        told = {f"ethtool -T {card}": STAMPING.format(clock=CLOCK, filters=printed)} | more
        host = examined(settings, "listener", {"card": card}, told)
        finding = found(clocks.rx_timestamping, host)[f"receive time stamps of {card}"]
        assert finding.verdict == verdict
    talker = examined(settings, "talker", {}, {})
    assert not found(clocks.rx_timestamping, talker)
    assert not found(clocks.rx_timestamping, examined(rack(), "listener", {}, {}))


@pytest.mark.parametrize(("stamps", "said"), [("hardware", True), ("software", False)])
def test_pages_say_that_a_card_stamped(monkeypatch, stamps, said):
    facts = {"testbed": "hardware", "settings": {"receive_stamps": stamps}}
    monkeypatch.setattr(label, "facts_of", lambda _: ("digest", facts))
    assert ("stamped by the listener's card" in label.label_of("manifest.json")) == said
