"""Shaping's bridges on a LAN966x board between cards: words, limits, and taking all back."""

import json
import math
import re
import shlex

import pytest
from gate_lists import two_windows
from hosts_of_cards import MACS, CardOfTest
from lan966x_queues import Board, Killed
from shaping_parts import part

from tsnrepro.common.errors import CommandError, ConfigurationError, TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import NicPairSettings, load_testbed, parse
from tsnrepro.config import files as campaigns
from tsnrepro.config.gates import GateControlList
from tsnrepro.experiments.shaping import board_queues
from tsnrepro.experiments.shaping import dry_run as told
from tsnrepro.runner.plan import planned_and_left_out
from tsnrepro.testbeds.hosts import programs
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.jobs.job import CabledSwitch
from tsnrepro.testbeds.jobs.sessions import SessionJobs
from tsnrepro.testbeds.nic_pair.hosts import NicPairHosts, ptp_ports
from tsnrepro.testbeds.nic_pair.inline_switch import InlineSwitch
from tsnrepro.testbeds.nic_pair.testbed import NicPairTestbed

NAME = "lan966x-example"
BOARD = CabledSwitch("sw", {"talker": "eth1", "loader": "eth2", "listener": "eth0"}, 10)
MODES = ("tas", "cbs", "prio", "fifo")


@pytest.fixture
def settings():
    return load_testbed(root() / "config" / "testbeds" / f"{NAME}.yaml")


@pytest.fixture
def rack(monkeypatch, tmp_path):
    """Stand in for the connections; what is noted is of all hosts, in order."""
    noted = []
    made = {role: CardOfTest(role, noted) for role in MACS} | {"sw": Board(tmp_path, noted)}
    monkeypatch.setattr("tsnrepro.testbeds.nic_pair.hosts.connect", lambda *_: made)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return made


def lines(mode, **changes):
    """Return the commands for the board, as a person would type them."""
    values = {"modes": [mode], "idle_slope_mbps": 20.0, **changes}
    return [
        shlex.join(argv) for argv in board_queues.commands(part("bridge", **values), mode, BOARD)
    ]


# --- words ------------------------------------------------------------------------------------


def test_the_gates_are_those_of_microchips_documentation():
    """Command, flags, classes and queues as in Microchip's BSP documentation of TAS."""
    *_, taprio = lines("tas")
    assert taprio == (
        "tc qdisc add dev eth0 root handle 1: taprio num_tc 8"
        " map 0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0 queues 1@0 1@1 1@2 1@3 1@4 1@5 1@6 1@7"
        " base-time 0 sched-entry S 20 20000 sched-entry S df 80000 cycle-time 100000 flags 0x2"
    )


def test_classes_of_neither_have_the_loads_gates():
    """PTP's frames, of class 7, are not starved where the schedule does not name it."""
    gates = two_windows(20_000, 80_000, scheduled=5, others=[0, 2])
    *_, taprio = lines("tas", gates=gates, load_priority=2)
    assert re.findall(r"sched-entry S (\w+)", taprio) == ["20", "df"]
    *_, taprio = lines("tas", gates=gates, load_priority=0, priority=7)
    assert re.findall(r"sched-entry S (\w+)", taprio) == ["00", "7f"]


def test_the_credit_is_counted_as_the_chip_counts():
    """20 Mb/s of the wire, without the 20 bytes of preamble and gap, in whole 100 kb/s."""
    *_, mqprio, cbs = lines("cbs")
    assert mqprio == "tc qdisc add dev eth0 root handle 1: mqprio"
    assert "parent 1:6 handle 2: cbs" in cbs
    assert cbs.endswith("offload 1")
    told = dict(re.findall(r"(\w+) (-?\d+)", cbs.partition(" cbs ")[2]))
    frame = 256 + 8 + 20 + 18 + 4
    exact_kbps = 20_000 * frame / (frame + 20)
    assert int(told["idleslope"]) == math.ceil(exact_kbps / 100) * 100
    assert int(told["idleslope"]) - int(told["sendslope"]) == 1_000_000


@pytest.mark.parametrize("mode", ["prio", "fifo"])
def test_strict_priority_is_what_the_chip_does(mode):
    told = lines(mode)
    assert "root" in told[0]
    assert [line.partition(" pcp-prio ")[0] for line in told[1:]] == [
        "dcb app replace dev eth1",
        "dcb app replace dev eth2",
    ]
    classes = set(re.findall(r"(\d)(?:nd|de):(\d)", told[1]))
    assert classes == {(str(pcp), "0" if mode == "fifo" else str(pcp)) for pcp in range(8)}


# --- limits -----------------------------------------------------------------------------------


def gates(*intervals, **others):
    windows = [{"open_classes": [0, 5], "interval_ns": length} for length in intervals]
    return GateControlList.model_validate({"entries": windows, **others})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (gates(999, 99_001), "an interval of 999 ns"),
        (gates(*[2_000] * 257), "257 entries"),
        (gates(500_000_000, 500_000_000), "a cycle of 1,000,000,000 ns"),
        (gates(20_000, 80_000, guard_band=False), "its guard band is always on"),
    ],
)
def test_what_the_driver_refuses_is_refused_by_name_before(given, said):
    with pytest.raises(ConfigurationError, match=said):
        lines("tas", gates=given)


@pytest.mark.parametrize("given", [gates(1_000, 99_000), gates(*[2_000] * 256)])
def test_what_the_driver_takes_is_taken(given, tmp_path):
    board = Board(tmp_path)
    for argv in board_queues.commands(part("bridge", modes=["tas"], gates=given), "tas", BOARD):
        board.run(argv).check()
    assert board.state["ports"]["eth0"]["root"]["kind"] == "taprio"


@pytest.mark.parametrize(
    "words",
    [
        "taprio num_tc 4 map 0 queues 1@0 base-time 0 sched-entry S 1 2000 flags 0x2",
        "taprio num_tc 8 map 0 queues 1@0 1@1 1@2 1@3 1@4 1@5 1@6 1@7 base-time 0"
        " sched-entry S 1 999 flags 0x2",
        "mqprio num_tc 4",
    ],
)
def test_the_stand_in_refuses_as_the_driver_does(words, tmp_path):
    done = Board(tmp_path).run(f"tc qdisc add dev eth0 root handle 1: {words}".split())
    assert done.exit_status == 2
    assert "Invalid argument" in done.stderr


def test_a_mode_is_set_whatever_stood_there_before(tmp_path):
    """Also what a trial that failed has left, which would gate the next one's frames."""
    board = Board(tmp_path)
    for first in MODES:
        for then in MODES:
            for mode in (first, then):
                settings = part("bridge", modes=[mode], idle_slope_mbps=20.0)
                for argv in board_queues.commands(settings, mode, BOARD):
                    board.run(argv).check()
            queues = board.state["ports"]["eth0"]["root"]
            kind = {"tas": "taprio", "cbs": "mqprio"}.get(then)
            assert (queues and queues["kind"]) == kind


# --- a trial ----------------------------------------------------------------------------------


def run(rack, settings, mode):
    """Run a trial's job, after the campaign has set the hosts up; return what hosts were told."""
    pair = NicPairHosts(settings, None)
    saved = pair.save()
    pair.check(saved)
    pair.drivers["sw"].prepare()
    testbed = NicPairTestbed(settings, NAME)
    trial = told.trial_of(campaigns.campaign("documents"), "documents", mode, kind="bridge")
    job = told.job_for(trial, testbed)
    noted = rack["sw"].noted
    noted.clear()
    hosts = {role: AliasedHost(host, {}, programs.on_host()) for role, host in rack.items()}
    SessionJobs(hosts).run(job)
    return job, list(noted)


@pytest.mark.parametrize("mode", MODES)
def test_a_trial_sets_the_boards_port_and_leaves_it_clear(rack, settings, mode):
    job, noted = run(rack, settings, mode)
    told_board = [line for line in noted if line.startswith("sw# ")]
    wanted = [f"sw# {shlex.join(step.argv)}" for step in job.set_up if step.host == "sw"]
    places = [told_board.index(line) for line in wanted]
    assert places == sorted(places)
    assert rack["sw"].state["ports"]["eth0"]["root"] is None
    first_sender = next(n for n, line in enumerate(noted) if " --priority" in line)
    assert all(noted.index(line) < first_sender for line in wanted)
    spoken = next(n for n, line in enumerate(noted) if line.startswith("listener# ping "))
    assert spoken < noted.index(wanted[-1])
    assert {port.host for port in job.ports()} == {"talker", "loader", "listener"}
    assert all(port.vlans[0].vlan_id == settings.hosts.sw.vlan for port in job.ports())


def test_a_board_that_refuses_ends_the_trial_before_anything_is_sent(rack, settings, monkeypatch):
    """As one whose 256 entries other ports have taken."""
    monkeypatch.setattr("lan966x_queues._MOST_ENTRIES", 1)
    with pytest.raises(CommandError, match="Invalid argument"):
        run(rack, settings, "tas")
    noted = rack["sw"].noted
    assert not any("--priority" in line for line in noted)
    assert rack["sw"].state["ports"]["eth0"]["root"] is None


@pytest.mark.parametrize("mode", ["tas", "cbs"])
def test_a_dry_run_prints_what_a_trial_runs_and_changes_nothing(rack, settings, capsys, mode):
    board = rack["sw"]
    before = json.dumps(board.state)
    told.print_dry_run(NAME, settings, mode, "documents")
    assert json.dumps(board.state) == before
    printed = capsys.readouterr().out
    job, _ = run(rack, settings, mode)
    for step in job.set_up:
        assert f"{step.host}# {shlex.join(step.argv)}" in printed
    for line in (
        "sw# ip link add name br0 type bridge vlan_filtering 1 mcast_snooping 0",
        "sw# bridge vlan add dev eth0 vid 10",
        "sw# dcb apptrust set dev eth1 order pcp",
        "sw# ptp4l -f /run/tsnrepro-programs/linuxptp/ptp4l.conf",
        "socket_priority 7\n[eth1]\n[eth0]",
    ):
        assert line in printed
    assert not any("phc2sys" in line for line in printed.splitlines() if line.startswith("sw#"))
    gates = printed.index(" taprio " if mode == "tas" else " cbs ")
    assert printed.index("sw# ptp4l -f") < gates < printed.index("talker# /run/tsnrepro-programs/")


def test_the_boards_clock_is_kept_with_the_others(settings):
    assert ptp_ports(settings) == {
        "talker": ["enp3s0"],
        "sw": ["eth1", "eth0"],
        "listener": ["enp3s0"],
    }


# --- taking back ------------------------------------------------------------------------------


def between(board, settings):
    return InlineSwitch(Shell(board), settings.hosts.sw)


def test_a_board_is_as_before(tmp_path, settings):
    board = Board(tmp_path)
    board.state["pcp"]["eth1"] = ["3nd:1"]
    board.state["ports"]["eth2"]["up"] = False
    before = json.dumps(board.state)
    driver = between(board, settings)
    state = driver.save()
    driver.prepare()
    assert board.state["ports"]["eth2"]["vlans"] == [10]
    driver.restore(state)
    assert json.dumps(board.state) == before


def changes_of(folder, settings):
    """Return how many commands of a campaign change a board."""
    board = Board(folder)
    campaign_on(board, settings)
    return board.changes


def campaign_on(board, settings):
    between(board, settings).prepare()
    for mode in MODES:
        chosen = part("bridge", modes=[mode], idle_slope_mbps=20.0)
        for argv in board_queues.commands(chosen, mode, BOARD):
            board.run(argv).check()


def test_a_board_is_as_before_whichever_command_a_kill_follows(tmp_path, settings):
    """From the journal alone, as the next campaign or ``tsnrepro restore`` reads it."""
    number = changes_of(tmp_path, settings)
    assert number > len(MODES) + len(BOARD.ports)
    for at in range(1, number + 1):
        board = Board(tmp_path)
        before = json.dumps(board.state)
        Journal("kills", tmp_path).write(
            {"settings": {}, "token": "", "state": between(board, settings).save()}
        )
        board.killed_at = at
        with pytest.raises(Killed):
            campaign_on(board, settings)
        board.killed_at = None
        state = Journal("kills", tmp_path).read()["state"]
        between(board, settings).restore(state)
        assert json.dumps(board.state) == before, f"after change {at}"
        told_before = len(board.noted)
        between(board, settings).restore(state)
        again = [line for line in board.noted[told_before:] if " show" not in line]
        assert all("sh -c" in line for line in again), "what is as it was is left alone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tc qdisc add dev eth0 root handle 1: mqprio", "eth0 has configured queues: mqprio"),
        ("ip link add name br0 type bridge", "device br0 already exists"),
    ],
)
def test_a_board_in_use_is_refused(tmp_path, settings, words, said):
    board = Board(tmp_path)
    board.run(words.split()).check()
    driver = between(board, settings)
    with pytest.raises(TestbedError, match=said):
        driver.check(driver.save())


def test_a_port_of_another_bridge_is_refused(tmp_path, settings):
    board = Board(tmp_path)
    for words in ("ip link add name br9 type bridge", "ip link set dev eth2 master br9"):
        board.run(words.split()).check()
    driver = between(board, settings)
    with pytest.raises(TestbedError, match="eth2 is a port of br9"):
        driver.check(driver.save())


# --- which trials, and settings ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("testbed", "kinds"), [(NAME, {"bridge"}), ("i210-example", {"end-station"})]
)
def test_what_is_measured_follows_from_what_stands_between(testbed, kinds):
    planned, others = planned_and_left_out("shaping", testbed, "quick")
    assert {item.trial.factors["kind"] for item in planned} == kinds
    (reason,) = others
    assert "switch" in reason


def document(settings, **hosts):
    told_hosts = settings.model_dump(mode="json")["hosts"]
    return settings.model_dump(mode="json") | {"hosts": told_hosts | hosts}


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ({"loader": None}, "sw and loader need each other"),
        (
            {"sw": {"address": "a", "talker_port": "e", "loader_port": "e", "listener_port": "f"}},
            "ports and bridge need different names",
        ),
    ],
)
def test_a_board_that_cannot_be_is_refused(settings, hosts, said):
    with pytest.raises(ConfigurationError, match=said):
        parse(NicPairSettings, document(settings, **hosts), "a testbed")


def test_gates_need_clocks_in_hardware(settings):
    software = document(settings) | {"ptp": {"time_stamping": "software"}}
    with pytest.raises(ConfigurationError, match="gates follow its own clock"):
        parse(NicPairSettings, software, "a testbed")


def test_a_name_too_long_for_its_vlan_device_is_refused(settings):
    talker = settings.model_dump(mode="json")["hosts"]["talker"] | {"interface": "enx00051b5103b"}
    with pytest.raises(ConfigurationError, match="more than 15 characters"):
        parse(NicPairSettings, document(settings, talker=talker), "a testbed")
