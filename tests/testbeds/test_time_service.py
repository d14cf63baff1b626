"""linuxptp beside a job: what it is told, and that nothing of it stays."""

import configparser
import json
import shlex
from contextlib import nullcontext

import pytest
from sound_outputs import PHC2SYS, RECEIVER, TRANSMITTER

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.config.ptp import PtpSettings, RackPtpSettings
from tsnrepro.testbeds import commands
from tsnrepro.testbeds.hosts import clock_sync
from tsnrepro.testbeds.hosts.clock_sync import ClockSynchronizer, _phc2sys, ptp4l_configuration
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure, add_stamping_card
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.tools.linuxptp import parse_phc2sys

CARDS = {"talker": "enp3s0", "listener": "enp4s0"}
PORTS = {role: [card] for role, card in CARDS.items()}
SLAVE = RECEIVER.replace("UNCALIBRATED", "SLAVE")
BOUNDARY = SLAVE.replace("LISTENING", "MASTER")


def test_the_talker_is_the_grandmaster():
    read = {}
    for role, card in CARDS.items():
        read[role] = configparser.ConfigParser(delimiters=" ")
        read[role].read_string(ptp4l_configuration(PtpSettings(domain=7), role, [card]))
        assert card in read[role].sections()
        assert read[role]["global"]["domainNumber"] == "7"
        assert read[role]["global"]["time_stamping"] == "hardware"
    first, second = (int(read[role]["global"]["priority1"]) for role in CARDS)
    assert first < second


def test_cards_keep_tai():
    assert _phc2sys("talker", "enp3s0", 37)[:7] == [
        *("phc2sys", "-s", "CLOCK_REALTIME", "-c", "enp3s0", "-O", "37"),
    ]
    assert _phc2sys("listener", "enp4s0", 37)[:7] == [
        *("phc2sys", "-s", "enp4s0", "-c", "CLOCK_REALTIME", "-O", "-37"),
    ]


class Process:
    def __init__(self, argv, running=True):
        self.argv, self.running, self.stopped = argv, running, False

    def stop(self):
        self.stopped = True

    def wait(self):
        return Completed("host", tuple(self.argv), 1, "", "no such device", 0.0, 0.0)


class Host:
    """A host apart, whose linuxptp says what it is told to."""

    def __init__(self, name, says, dies=False):
        self.name, self._says, self._dies = name, says, dies
        self.ran, self.processes, self.written = [], [], {}

    def run(self, argv, **_):
        self.ran.append(argv)
        text = " ".join(argv)
        kind = "pmc" if argv[0] == "pmc" else "log" if "tail" in text else ""
        clocks = {"tai_ns": 5, "monotonic_ns": 5, "tai_offset_s": 37, "resolution_ns": 1}
        printed = f"{self.name}\n{json.dumps(clocks)}" if "--show-clock" in text else ""
        said = self._says.get(kind, printed)
        return Completed(self.name, tuple(argv), 0, said, "", 0.0, 0.0)

    def start(self, argv, **_):
        self.processes.append(Process(argv, not self._dies))
        return self.processes[-1]

    def write(self, path, content, **_):
        self.written[path] = content


def keeper(talker, listener, **settings):
    chosen = PtpSettings(**{"lock_timeout_s": 0.001, "max_clock_error_ns": 200_000, **settings})
    hosts = {"talker": talker, "listener": listener}
    return ClockSynchronizer(hosts, PORTS, "/listener", chosen)


def hosts(dies=False):
    told = {"log": PHC2SYS.replace("s1", "s2")}
    talker = Host("talker", told | {"pmc": TRANSMITTER})
    grandmaster = "624c0b.fffe.e2f8c6"
    listener = Host("listener", told | {"pmc": SLAVE}, dies)
    assert grandmaster in TRANSMITTER
    return talker, listener


def test_a_block_begins_with_clocks_that_agree_and_leaves_nothing():
    talker, listener = hosts()
    with keeper(talker, listener).synchronized(10) as agreed:
        assert [type(each) for each in agreed] == [ClockSync]
        assert [p.argv[0] for p in talker.processes] == ["ptp4l", "sh"]
        assert not any(p.stopped for p in talker.processes)
    assert [each.method for each in agreed] == ["linuxptp"] * 2
    for host in (talker, listener):
        assert all(p.stopped for p in host.processes)
        assert host.ran[-1] == ["rm", "-rf", "/run/tsnrepro-programs/linuxptp"]


def test_a_card_that_stamps_arrivals_is_kept_on_its_systems_clock_in_tai():
    """Besides the card that linuxptp speaks over: what is left of doubt there adds to the rest."""
    talker, listener = hosts()
    with keeper(talker, listener).synchronized(10) as apart:
        alone = apart[0].uncertainty_ns
    talker, listener = hosts()
    chosen = PtpSettings(lock_timeout_s=0.001, max_clock_error_ns=200_000)
    both = {"talker": talker, "listener": listener}
    kept = ClockSynchronizer(both, PORTS, "/listener", chosen, {"listener": "enp9s0"})
    with kept.synchronized(10) as agreed:
        share = agreed[0].evidence["stamping_card_share_ns"]
    # The largest in the log: 9100 ns, and half of the 87000 that reading it took.
    assert share == 9100 + 87_000 / 2
    assert agreed[0].uncertainty_ns == alone + share
    assert [len(each.processes) for each in (talker, listener)] == [2, 3]
    line = " ".join(listener.processes[-1].argv)
    assert line.endswith("phc2sys -s CLOCK_REALTIME -c enp9s0 -O 37 -R 8 -m")
    assert all(p.stopped for p in listener.processes)


def test_cards_are_set_where_both_ends_have_one_clock():
    """On one machine there is no ptp4l: each card's clock follows the system's."""
    talker, listener = (Host("pc", {"log": PHC2SYS.replace("s1", "s2")}) for _ in range(2))
    cards = {"talker": "eth0", "listener": "eth0"}
    both = {"talker": talker, "listener": listener}
    kept = ClockSynchronizer(both, {}, "/listener", None, cards)
    with kept.synchronized(10) as agreed:
        assert [type(each) for each in agreed] == [ClockSync]
        for host in (talker, listener):
            (process,) = host.processes
            line = " ".join(process.argv)
            assert line.endswith("phc2sys -s CLOCK_REALTIME -c eth0 -O 37 -R 8 -m")
            assert not host.written
    assert agreed[0].uncertainty_ns >= 2 * (9100 + 87_000 / 2)
    assert all(host.processes[0].stopped for host in (talker, listener))


def test_a_stamping_card_that_is_not_locked_is_refused():
    told = parse_phc2sys(PHC2SYS)
    assert {each.state for each in told} >= {"s1"}
    found = add_stamping_card(ClockSync(5.0, "linuxptp"), told)
    assert isinstance(found, ClockSyncFailure)
    assert "stamping card's phc2sys is in servo state s1" in found.reason


def board(says):
    """Return a keeper with a board between the hosts, and the board."""
    talker, listener = hosts()
    between = Host("sw", {"pmc": says})
    kept = {"talker": talker, "sw": between, "listener": listener}
    chosen = PtpSettings(lock_timeout_s=0.001, max_clock_error_ns=200_000)
    return ClockSynchronizer(kept, PORTS | {"sw": ["eth1", "eth0"]}, "/listener", chosen), between


def test_a_board_between_keeps_its_own_clock_and_adds_its_doubt():
    """No phc2sys carries it on: gates go by the board's clock itself."""
    talker, listener = hosts()
    with keeper(talker, listener).synchronized(10) as apart:
        alone = apart[0].uncertainty_ns
    kept, between = board(BOUNDARY)
    with kept.synchronized(10) as agreed:
        share = agreed[0].evidence["switch_share_ns"]
        assert share > 0
        assert agreed[0].uncertainty_ns == alone + share
        assert [p.argv[0] for p in between.processes] == ["ptp4l"]
    assert all(p.stopped for p in between.processes)
    assert between.ran[-1] == ["rm", "-rf", "/run/tsnrepro-programs"]
    (written,) = between.written.values()
    assert written.decode().endswith("socket_priority 7\n[eth1]\n[eth0]\n")


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (SLAVE, "the switch's PTP ports are SLAVE, LISTENING, none MASTER"),
        (RECEIVER, "the switch's PTP ports are UNCALIBRATED, LISTENING, none SLAVE"),
        (
            BOUNDARY.replace("624c0b.fffe.e2f8c6", "aaaaaa.fffe.aaaaaa"),
            "has grandmaster aaaaaa",
        ),
    ],
)
def test_a_board_whose_clock_is_another_is_refused(says, said):
    kept, between = board(says)
    with pytest.raises(TestbedError, match=said), kept.synchronized(10):
        pass
    assert all(p.stopped for p in between.processes)


def test_clocks_that_part_during_a_block_are_told_after_it():
    """What was measured meanwhile is there, and may be worth something without them."""
    talker, listener = hosts()
    with keeper(talker, listener).synchronized(10) as agreed:
        listener._says["pmc"] = RECEIVER
    assert isinstance(agreed[0], ClockSync)
    assert agreed[1] == ClockSyncFailure(
        "the listener's PTP ports are UNCALIBRATED, LISTENING, none SLAVE"
    )


def test_a_program_that_ends_during_a_block_is_told_after_it():
    talker, listener = hosts()
    with keeper(talker, listener).synchronized(10) as agreed:
        listener.processes[0].running = False
    assert isinstance(agreed[1], ClockSyncFailure)
    assert "ended unexpectedly: no such device (listener: ptp4l)" in agreed[1].reason


@pytest.mark.parametrize(
    ("dies", "settings", "said"),
    [
        (False, {"max_clock_error_ns": 1}, "uncertainty is .* ns, the limit 1 ns"),
        (True, {}, "ended unexpectedly: no such device"),
    ],
)
def test_what_keeps_clocks_apart_is_said(dies, settings, said):
    talker, listener = hosts(dies)
    together = keeper(talker, listener, **settings).synchronized(10)
    with pytest.raises(TestbedError, match=said), together:
        pass
    assert all(p.stopped for host in (talker, listener) for p in host.processes)


def test_without_linuxptp_two_machines_do_not_agree(monkeypatch):
    monkeypatch.setattr(clock_sync, "_POLL_SECONDS", 0.0)
    talker, listener = hosts()
    apart = ClockSynchronizer({"talker": talker, "listener": listener}, PORTS, "/listener", None)
    with pytest.raises(TestbedError, match="no time service is configured"), apart.synchronized(1):
        nullcontext()


# --- a dry run --------------------------------------------------------------------------------


def test_a_racks_dry_run_tells_linuxptp_of_both_stations(capsys):
    """Over the cards of their own cable, each with the configuration that a trial would write."""
    rack = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
    commands.print_clock_commands(rack)
    assert capsys.readouterr().out == ""
    ptp = RackPtpSettings(interfaces=CARDS, domain=3)
    commands.print_clock_commands(rack.model_copy(update={"ptp": ptp}))
    started, ended = capsys.readouterr().out.split("# after it")
    for role, card in CARDS.items():
        assert ptp4l_configuration(ptp, role, [card]) in started
        assert f"{role}# ptp4l -f " in started
        assert f"{role}# kill -TERM $phc2sys\n{role}# kill -TERM $ptp4l\n" in ended
    assert shlex.join(_phc2sys("listener", CARDS["listener"], 37)) in started


def test_clocks_that_are_only_watched_are_carried_nowhere(capsys):
    rack = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
    ptp = RackPtpSettings(interfaces=CARDS, free_running=True)
    commands.print_clock_commands(rack.model_copy(update={"ptp": ptp}))
    told = capsys.readouterr().out
    assert "ptp4l" in told
    assert "phc2sys" not in told
