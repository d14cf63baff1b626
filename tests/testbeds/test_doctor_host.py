"""What the doctor makes of a host's processors and of the room for what a campaign writes."""

import platform
import re
import subprocess
from collections import namedtuple
from contextlib import nullcontext

import pytest
from examined import PrintingShell, examined, found
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.testbeds.doctor import examine
from tsnrepro.testbeds.doctor import host as checks
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, Finding, run_check
from tsnrepro.testbeds.hosts import programs, remote
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.hosts.remote import RemoteHosts, UnreachableError

RACK = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
GOVERNORS = "sh -c cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null"


@pytest.mark.parametrize(
    ("printed", "verdict", "shown"),
    [
        ("performance\nperformance\n", PASS, "performance"),
        ("performance\npowersave\n", WARN, "performance and powersave"),
        (None, PASS, "no frequency scaling"),
    ],
)
def test_every_processor_runs_at_one_speed(printed, verdict, shown):
    host = examined(RACK, "talker", {}, {GOVERNORS: printed} if printed else {})
    finding = found(checks.governor, host)["processor speed"]
    assert (finding.verdict, finding.found) == (verdict, shown)


@pytest.mark.parametrize(("mib", "verdict"), [(100, STOP), (3000, WARN), (80_000, PASS)])
def test_there_is_room_for_records_on_the_controlling_machine(monkeypatch, tmp_path, mib, verdict):
    usage = namedtuple("usage", "total used free")(1 << 40, 0, mib << 20)
    monkeypatch.setattr(examine.shutil, "disk_usage", lambda _: usage)
    finding = examine.space_here(tmp_path)
    assert (finding.verdict, finding.role) == (verdict, "here")
    assert finding.remedy


def df(free_kib):
    return {
        "df -P -k /run": "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        f"tmpfs 800000 1000 {free_kib} 1% /run\n"
    }


@pytest.mark.parametrize(
    ("role", "free_kib", "verdict"),
    [
        ("talker", 500_000, PASS),
        ("talker", 100_000, WARN),
        ("listener", 10_000, STOP),
        ("sw1", 10_000, PASS),  # a board gets none of our programs
    ],
)
def test_there_is_room_for_programs_and_logs(role, free_kib, verdict):
    host = examined(RACK, role, {}, df(free_kib))
    assert found(checks.space, host)["space"].verdict == verdict


def test_programs_go_by_their_versions():
    """As each prints its own; ``command -v`` alone tells no version."""
    versions = {
        "ip -V": "ip utility, iproute2-6.9.0, libbpf 1.4.5\n",
        "ethtool --version": "ethtool version 6.7\n",
        "iperf3 --version": "iperf 3.16 (cJSON 1.7.15)\nLinux talker\n",
    }
    tools = ("ip", "tc", "ethtool", "timeout", "sysctl", "ss", "iperf3", "sockperf")
    present = {f'sh -c command -v "$1" sh {tool}': "there\n" for tool in tools}
    host = examined(RACK, "talker", {}, versions | present)
    (first, *others) = checks.tools(host)
    assert first.verdict == PASS
    for version in ("iproute2-6.9.0", "ethtool version 6.7", "iperf 3.16"):
        assert version in first.found
    assert {(o.verdict, o.found) for o in others} == {
        (WARN, f"missing: {tool}") for tool in ("mausezahn", "ping", "chrt")
    }


@pytest.mark.parametrize(
    ("role", "printed", "verdict"),
    [
        ("talker", "port 22\nmaxsessions 10\nmaxstartups 10:30:100\n", WARN),
        ("listener", "port 22\nmaxsessions 50\n", PASS),
        ("talker", None, PASS),
        ("sw1", "maxsessions 10\n", None),
    ],
)
def test_as_many_commands_as_streams_have_talkers_may_run_at_once(role, printed, verdict):
    """What ``sshd -T`` prints; a switch is never asked for more than one."""
    host = examined(RACK, role, {}, {"sshd -T": printed} if printed else {})
    finding = found(checks.sessions, host).get("sessions")
    assert (finding and finding.verdict) == verdict


# --- our programs -----------------------------------------------------------------------------


def test_what_our_programs_need_of_the_c_library_is_what_readelf_tells():
    outputs = [
        subprocess.run(["readelf", "-V", path], capture_output=True, text=True, check=True).stdout
        for path in programs.on_host()
    ]
    named = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", "".join(outputs))
    assert programs.needed_glibc() == max((int(major), int(minor)) for major, minor in named)
    here = platform.libc_ver()[1].split(".")
    assert programs.needed_glibc() <= (int(here[0]), int(here[1]))


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [("glibc 2.38\n", PASS), ("glibc 2.34\n", PASS), ("glibc 2.31\n", STOP), (None, STOP)],
)
def test_a_host_with_an_older_c_library_is_told_before_a_program_fails(
    monkeypatch, printed, verdict
):
    monkeypatch.setattr(programs, "needed_glibc", lambda: (2, 34))
    host = examined(RACK, "talker", {}, {"getconf GNU_LIBC_VERSION": printed} if printed else {})
    finding = checks._c_library(host)
    assert finding.verdict == verdict
    assert ("need glibc 2.34" in finding.found) == (verdict == STOP)


@pytest.mark.parametrize(
    ("role", "needs", "without"),
    [
        ("sw", {"dcb", "bridge", "ptp4l", "pmc"}, {"phc2sys", "frer", "vcap", "iperf3"}),
        ("listener", {"ping", "phc2sys"}, {"dcb", "iperf3"}),
        ("loader", {"ethtool"}, {"ptp4l", "phc2sys"}),
    ],
)
def test_around_a_board_each_host_needs_its_own_tools(role, needs, without):
    settings = load_testbed(root() / "config" / "testbeds" / "lan966x-example.yaml")
    (tools, *_) = checks.tools(examined(settings, role, {}, {}))
    lacking = {*tools.found.removeprefix("missing: ").split(", ")}
    assert tools.verdict == STOP
    assert needs <= lacking
    assert not without & lacking


# --- odd hosts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "verdict", "shown"),
    [
        ("tsnrepro\n", PASS, "prints nothing itself"),
        ("Welcome\x1b[0m!\ntsnrepro\n", STOP, r"prints 'Welcome\x1b[0m!' before"),
    ],
)
def test_a_login_shell_that_prints_is_named(printed, verdict, shown):
    finding = found(checks.login_shell, examined(RACK, "talker", {}, {"echo tsnrepro": printed}))
    assert finding["login shell"].verdict == verdict
    assert finding["login shell"].found.startswith(shown)


@pytest.mark.parametrize("check", examine._CHECKS)
@pytest.mark.parametrize("printed", ["", "Welcome!\n", "[]\n", "[1]\n", '{"a": null}\n', "1\n"])
def test_any_output_ends_in_findings(monkeypatch, check, printed):
    host = examined(RACK, "talker", {"card": "enp3s0"}, {})
    host.testbed.program_hosts = ["talker"]
    host.shell.query = lambda argv: Completed("talker", tuple(argv), 0, printed, "", 0.0, 0.0)
    monkeypatch.setattr(examine.ports.time, "sleep", lambda _: None)
    assert all(finding.line() for finding in run_check(check, host))


# What the tools print of a sound host, parts of which come in any order, cut or changed.
SOUND = [
    '[{"ifname": "enp3s0", "flags": ["UP"], "mtu": 1500, "max_mtu": 9216, "addr_info": []}]\n',
    '{"nftables": [{"chain": {"family": "ip", "table": "t", "name": "c", "hook": "input"}}]}\n',
    "1792300000.123456789\n",
    "Features for enp3s0:\ntcp-segmentation-offload: on [fixed]\n",
    "Time stamping parameters for enp3s0:\nCapabilities:\n\thardware-transmit\n",
    "PTP Hardware Clock: 0\nHardware Receive Filter Modes:\n\tall\n",
    "glibc 2.36\n100 (connected)\n",
    "uid=0(root)\nLinux 6.1\n",
]


@given(
    pieces=st.lists(st.sampled_from(SOUND) | st.text(max_size=40), max_size=4),
    cut=st.integers(0, 200),
)
def test_mutated_output_ends_in_findings(pieces, cut):
    printed = "".join(pieces)[cut:] or "".join(pieces)[:cut]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examine.ports.time, "sleep", lambda _: None)
        host = examined(RACK, "talker", {"card": "enp3s0"}, {})
        host.testbed.program_hosts = ["talker"]
        host.shell.query = lambda argv: Completed("talker", tuple(argv), 0, printed, "", 0.0, 0.0)
        for check in examine._CHECKS:
            for finding in run_check(check, host):
                assert {*filter(lambda c: not c.isprintable(), finding.line())} <= {*"\n\t\xa0"}


def test_every_unreachable_host_is_a_finding(monkeypatch):
    problems = {"talker": TestbedError("no route", "root@talker"), "sw1": TestbedError("refused")}

    def refuse(*_):
        raise UnreachableError(problems)

    monkeypatch.setattr(examine, "RackHosts", refuse)
    findings = [f for f in examine.examine(RACK) if f.check == "reachable"]
    assert [(f.role, f.verdict, f.found) for f in findings] == [
        ("talker", STOP, "no route"),
        ("sw1", STOP, "refused"),
    ]


class Undriven(RemoteHosts):
    drivers = {}


@pytest.mark.parametrize(
    ("identities", "same"),
    [
        (("1\nnet:[1]\n", "1\nnet:[2]\n", "2\nnet:[1]\n"), []),
        (("1\nnet:[1]\n", "1\nnet:[2]\n", "1\nnet:[1]\n"), ["talker", "sw2"]),
        # Hosts that do not tell: BusyBox without readlink.
        ((None, None, "1\nnet:[1]\n"), []),
    ],
)
def test_two_roles_on_one_host_under_two_names_are_found(identities, same):
    line = " ".join(remote._IDENTITY)
    prints = [{} if each is None else {line: each} for each in identities]
    shells = {
        role: PrintingShell(role, printed)
        for role, printed in zip(("talker", "sw1", "sw2"), prints, strict=True)
    }
    assert remote.same_hosts(shells) == same
    assert [(f.role, f.verdict) for f in examine._same_hosts(shells)] == [
        (role, STOP) for role in same[1:]
    ]
    hosts = Undriven({})
    hosts.shells = shells
    with pytest.raises(TestbedError, match="talker and sw2") if same else nullcontext():
        hosts.check({})


def test_control_characters_of_a_host_do_not_reach_the_terminal():
    line = Finding("tools", "sw1", WARN, "\x1b]0;title\x07", "\x9b2J").line()
    assert line.isprintable()
    assert "\\x1b]0;title" in line


SERVERS = "ss -H -n -l -p -t -u sport = :5201 or sport = :11111"


@pytest.mark.parametrize(
    ("role", "printed", "verdict"),
    [
        ("listener", "", PASS),
        ("listener", 'tcp LISTEN 0 4096 *:5201 *:* users:(("iperf3",pid=7,fd=3))\n', STOP),
        ("listener", 'udp UNCONN 0 0 *:11111 *:* users:(("sockperf",pid=7,fd=3))\n', STOP),
        ("talker", "anything", None),
    ],
)
def test_no_other_server_answers_in_place_of_a_trials(role, printed, verdict):
    finding = found(checks.other_servers, examined(RACK, role, {}, {SERVERS: printed}))
    assert (finding["servers"].verdict if finding else None) == verdict
    if verdict == STOP:
        assert "pid=7" in finding["servers"].found
