"""What keeps a rack from measuring, or makes its measurements doubtful, and what to do about it."""

import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import NicPairSettings, RackSettings
from tsnrepro.testbeds.nic_pair.hosts import LOADER, Pair
from tsnrepro.testbeds.rack import (
    doctor_clocks,
    doctor_ports,
    programs,
)
from tsnrepro.testbeds.rack import (
    doctor_conflicts as doctor_rivals,
)
from tsnrepro.testbeds.rack.connections import everywhere
from tsnrepro.testbeds.rack.findings import (
    PASS,
    STOP,
    WARN,
    Check,
    ExaminedHost,
    HostFinding,
    checked,
)
from tsnrepro.testbeds.rack.testbed import Rack

_BASE = ("ip", "tc", "ethtool", "timeout", "sysctl")
_OF_STATION = (*_BASE, "ss", "iperf3")
_OF_PTP = ("ptp4l", "pmc", "phc2sys")
# Without these some experiments cannot run, and others can.
_OF_EXPERIMENTS = {"sockperf": "latency", "mausezahn": "mausezahn", "ping": "ping", "chrt": "loss"}
_OF_BOARD = ("ip", "tc", "ethtool", "timeout", "bridge", "frer", "vcap")
_OF_BOARD_BETWEEN = ("ip", "tc", "ethtool", "timeout", "bridge", "dcb")
# A board runs no phc2sys: its own clock is the one that its gates go by.
_CLOCK_OF_BOARD = ("ptp4l", "pmc")
_VERSION = {
    **dict.fromkeys(("iperf3", "sockperf", "ethtool"), "--version"),
    **dict.fromkeys(("mausezahn", "ip", "tc"), "-V"),
    **dict.fromkeys(("ptp4l", "phc2sys"), "-v"),
}
_LEAST_FREE_KIB, _FREE_KIB = 20 << 10, 200 << 10
# A command that runs is a session: `streams` has sixteen talkers at once on one host.
_SESSIONS = 20
# Of the controlling machine, where records are written: some campaigns fill gigabytes.
_LEAST_HERE_MIB, _HERE_MIB = 500, 5000
_CONTROLLER = "here"
_GOVERNORS = "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null"


def examine(settings: RackSettings | NicPairSettings) -> list[HostFinding]:
    """Look at every host of a rack, or of a pair; nothing is changed."""
    findings: list[HostFinding] = []
    with ExitStack() as stack:
        try:
            pair = isinstance(settings, NicPairSettings)
            rack = Pair(settings, stack) if pair else Rack(settings, stack)
        except TestbedError as error:
            return [HostFinding("reachable", error.where or "rack", STOP, error.what, error.remedy)]
        findings += [_reached(role) for role in rack.parts]
        examined = everywhere(lambda role: _examined(ExaminedHost(rack, role)), [*rack.parts])
        findings += chain.from_iterable(examined.values())
        findings += [doctor_clocks.clock_of(role, shell) for role, shell in rack.shells.items()]
    return [*findings, _room_here(root())]


def _examined(host: ExaminedHost) -> list[HostFinding]:
    return [*chain.from_iterable(checked(check, host) for check in _CHECKS)]


def _reached(role: str) -> HostFinding:
    return HostFinding("reachable", role, PASS, "logged in, and its host key is the known one")


def _room_here(folder: Path) -> HostFinding:
    """Look whether this machine has room for what a campaign records."""
    free = shutil.disk_usage(folder).free >> 20
    verdict = STOP if free < _LEAST_HERE_MIB else WARN if free < _HERE_MIB else PASS
    remedy = "Make room on the controlling machine: a campaign's records lie there"
    return HostFinding("space", _CONTROLLER, verdict, f"{free} MiB free for records", remedy)


# --- the host ---------------------------------------------------------------------------------


def _privileges(host: ExaminedHost) -> Iterator[HostFinding]:
    user = host.shell.read(["id", "-u"]).strip()
    good = user == "0"
    found = "root" if good else f"user number {user}"
    yield host.finding("privileges", PASS if good else STOP, found, "Log in as root: set `user`")


def _tools(host: ExaminedHost) -> Iterator[HostFinding]:
    station = host.station and not host.of_pair
    needed = _needed(host)
    missing = [tool for tool in needed if not host.has(tool)]
    found = f"lacks {', '.join(missing)}" if missing else ", ".join(_versions(host, needed))
    remedy = "Install Microchip's BSP with qos-utils" if host.board else "Install the packages"
    yield host.finding("tools", STOP if missing else PASS, found, remedy)
    for tool, experiment in _OF_EXPERIMENTS.items():
        if station and not host.has(tool):
            remedy = f"Install it, or leave {experiment} out"
            yield host.finding("tools", WARN, f"lacks {tool}", remedy)
    if host.board and not host.between:
        yield _dialect(host)


def _needed(host: ExaminedHost) -> tuple[str, ...]:
    """Return the tools without which the host cannot do its part."""
    ptp = host.rack.settings.ptp
    if host.between:
        return (*_OF_BOARD_BETWEEN, *(_CLOCK_OF_BOARD if ptp else ()))
    if host.board:
        return _OF_BOARD
    if not host.station:
        return _BASE
    settings = host.rack.settings
    needed = _OF_STATION
    if isinstance(settings, NicPairSettings):
        # The listener speaks once, so that a switch learns where it is.
        needed = (*_BASE, "ping") if settings.hosts.sw else _BASE
    return (*needed, *(_OF_PTP if ptp and host.role != LOADER else ()))


def _versions(host: ExaminedHost, tools: tuple[str, ...]) -> list[str]:
    shown = []
    for tool in tools:
        lines = host.said(tool, _VERSION[tool]).splitlines() if tool in _VERSION else []
        shown.append(lines[0].split("(")[0].strip() if lines else tool)
    return shown


def _dialect(host: ExaminedHost) -> HostFinding:
    """Tell which of two incompatible vcap tools a board has."""
    done = host.shell.ask(["vcap", "-h"])
    new = "RULE_ID" in done.stdout + done.stderr
    found = "rules by number" if new else "an old vcap, whose rules have no numbers"
    remedy = "Update the board to a BSP whose `vcap -h` names RULE_ID"
    return host.finding("classifier", PASS if new else STOP, found, remedy)


def _sessions(host: ExaminedHost) -> Iterator[HostFinding]:
    """Look how many commands at once a station's SSH server lets run; OpenSSH's default is ten."""
    if not host.station or host.of_pair:
        return
    told = re.search(r"^maxsessions (\d+)", host.said("sshd", "-T"), re.MULTILINE)
    enough = told is None or int(told[1]) >= _SESSIONS
    found = f"{told[1]} at once" if told else "unknown: `sshd -T` does not say"
    remedy = "`MaxSessions 50` in its sshd_config, or leave out streams that are more at once"
    yield host.finding("sessions", PASS if enough else WARN, found, remedy)


def _programs(host: ExaminedHost) -> Iterator[HostFinding]:
    if host.role not in host.rack.with_programs:
        return
    machine = host.shell.read(["uname", "-m"]).strip()
    same = machine == platform.machine()
    remedy = "Run the campaign on a machine of the hosts' kind"
    yield host.finding("processor", PASS if same else STOP, machine, remedy)
    yield _c_library(host)
    btf = bool(host.said("ls", "/sys/kernel/btf/vmlinux"))
    library = host.shell.ask(["sh", "-c", "ldconfig -p | grep -q libbpf.so.1"]).exit_status == 0
    found = "there" if library else "no libbpf.so.1, which frerctl needs"
    yield host.finding("libbpf", PASS if library else STOP, found, "Install libbpf1")
    remedy = "Boot a kernel with CONFIG_DEBUG_INFO_BTF"
    found = "the kernel has BTF" if btf else "the kernel has no BTF, which our counters need"
    yield host.finding("eBPF", PASS if btf else STOP, found, remedy)


def _c_library(host: ExaminedHost) -> HostFinding:
    """Look whether the host's C library is as new as our programs need it, built here."""
    needed = programs.needed_glibc()
    told = re.search(r"^glibc (\d+)\.(\d+)", host.said("getconf", "GNU_LIBC_VERSION"))
    good = told is not None and (int(told[1]), int(told[2])) >= needed
    wanted = "glibc {}.{}".format(*needed)
    found = told[0] if told else "none of GNU"
    said = found if good else f"{found}, and our programs need {wanted}"
    remedy = "Run the campaign on a machine that is no newer than the hosts"
    return host.finding("C library", PASS if good else STOP, said, remedy)


def _space(host: ExaminedHost) -> Iterator[HostFinding]:
    fields = host.shell.read(["df", "-P", "-k", "/run"]).splitlines()[-1].split()
    free = int(fields[3])
    verdict = STOP if free < _LEAST_FREE_KIB and not host.board else PASS
    if verdict == PASS and free < _FREE_KIB and host.station:
        verdict = WARN
    remedy = "Make room: logs of every arrival lie there during a trial"
    yield host.finding("space", verdict, f"{free // 1024} MiB free in /run", remedy)


def _governor(host: ExaminedHost) -> Iterator[HostFinding]:
    governors = sorted({*host.said("sh", "-c", _GOVERNORS).split()})
    steady = governors in ([], ["performance"])
    found = " and ".join(governors) or "the kernel does not scale the processor"
    remedy = "`cpupower frequency-set --governor performance`"
    yield host.finding("processor speed", PASS if steady else WARN, found, remedy)


def _free_ports(host: ExaminedHost) -> Iterator[HostFinding]:
    driver = host.rack.parts[host.role]
    driver.refuse(driver.save())
    yield host.finding("ports", PASS, "free for a campaign")


_CHECKS: tuple[Check, ...] = (
    *(_privileges, doctor_ports.way_in, _sessions, _tools, _programs, _space, _governor),
    *(doctor_ports.links, doctor_ports.hardware, doctor_clocks.clock_hardware),
    doctor_clocks.arrival_stamps,
    *(doctor_clocks.time_services, doctor_rivals.managers, doctor_rivals.firewall),
    *(_free_ports, doctor_ports.idle),
)
