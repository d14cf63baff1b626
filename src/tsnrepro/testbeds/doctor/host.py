"""Checks of a host: login, tools, our programs, disk space, processor."""

import platform
import re
from collections.abc import Iterator

from tsnrepro.common.topology import LISTENER, LOADER
from tsnrepro.config import NicPairSettings
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, ExaminedHost, Finding
from tsnrepro.testbeds.hosts import programs
from tsnrepro.tools import iperf3, sockperf

_BASE_TOOLS = ("ip", "tc", "ethtool", "timeout", "sysctl")
_STATION_TOOLS = (*_BASE_TOOLS, "ss", "iperf3")
_PTP_TOOLS = ("ptp4l", "pmc", "phc2sys")
# Tools of some experiments, and an experiment that needs each.
_OPTIONAL_TOOLS = {"sockperf": "latency", "mausezahn": "mausezahn", "ping": "ping", "chrt": "loss"}
_BOARD_TOOLS = ("ip", "tc", "ethtool", "timeout", "bridge", "frer", "vcap")
_INLINE_SWITCH_TOOLS = ("ip", "tc", "ethtool", "timeout", "bridge", "dcb")
# A switch runs no phc2sys: its gates are driven by its own clock.
_INLINE_SWITCH_PTP_TOOLS = ("ptp4l", "pmc")
_VERSION_OPTIONS = {
    **dict.fromkeys(("iperf3", "sockperf", "ethtool"), "--version"),
    **dict.fromkeys(("mausezahn", "ip", "tc"), "-V"),
    **dict.fromkeys(("ptp4l", "phc2sys"), "-v"),
}
_MARK = "tsnrepro"
_MIN_FREE_KIB, _FREE_KIB = 20 << 10, 200 << 10
# A running command is a session: `streams` runs sixteen talkers at once on one host.
_SESSIONS = 20
_GOVERNORS = "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null"


def login_shell(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the login shell's set-up prints nothing, which would be in every output."""
    printed = host.shell.read(["echo", _MARK])
    found = printed.replace(_MARK, "").strip()
    remedy = "Print in ~/.bashrc or ~/.cshrc of interactive shells only"
    shown = f"prints {found[:200]!r} before each command" if found else "prints nothing itself"
    yield host.finding("login shell", STOP if found else PASS, shown, remedy)


def privileges(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the login is root's."""
    user = host.shell.read(["id", "-u"]).strip()
    is_root = user == "0"
    found = "root" if is_root else f"user ID {user}"
    yield host.finding("privileges", PASS if is_root else STOP, found, "Log in as root: set `user`")


def tools(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the tools of the host's role are installed."""
    needed = _needed_tools(host)
    missing = [tool for tool in needed if not host.has(tool)]
    found = f"missing: {', '.join(missing)}" if missing else ", ".join(_versions(host, needed))
    remedy = "Install Microchip's BSP with qos-utils" if host.is_board else "Install the packages"
    yield host.finding("tools", STOP if missing else PASS, found, remedy)
    for tool, experiment in _OPTIONAL_TOOLS.items():
        if host.is_station and not host.in_nic_pair and not host.has(tool):
            remedy = f"Install it, or leave out {experiment}"
            yield host.finding("tools", WARN, f"missing: {tool}", remedy)
    if host.is_board and not host.is_inline_switch:
        yield _vcap_version(host)


def _needed_tools(host: ExaminedHost) -> tuple[str, ...]:
    """Return the tools that the host's role requires."""
    settings = host.testbed.settings
    if host.is_inline_switch:
        return (*_INLINE_SWITCH_TOOLS, *(_INLINE_SWITCH_PTP_TOOLS if settings.ptp else ()))
    if host.is_board:
        return _BOARD_TOOLS
    if not host.is_station:
        return _BASE_TOOLS
    needed = _STATION_TOOLS
    if isinstance(settings, NicPairSettings):
        # The listener sends once, so that a switch learns its address.
        needed = (*_BASE_TOOLS, "ping") if settings.hosts.sw else _BASE_TOOLS
    return (*needed, *(_PTP_TOOLS if settings.ptp and host.role != LOADER else ()))


def _versions(host: ExaminedHost, names: tuple[str, ...]) -> list[str]:
    shown = []
    for name in names:
        option = _VERSION_OPTIONS.get(name)
        lines = host.output(name, option).splitlines() if option else []
        shown.append(lines[0].split("(")[0].strip() if lines else name)
    return shown


def _vcap_version(host: ExaminedHost) -> Finding:
    """Check which of two incompatible vcap tools a board has."""
    completed = host.shell.query(["vcap", "-h"])
    supported = "RULE_ID" in completed.stdout + completed.stderr
    found = "rules by number" if supported else "an old vcap, whose rules have no numbers"
    remedy = "Update the board to a BSP whose `vcap -h` lists RULE_ID"
    return host.finding("classifier", PASS if supported else STOP, found, remedy)


def sessions(host: ExaminedHost) -> Iterator[Finding]:
    """Check MaxSessions of a station's SSH server, which bounds the commands at a time."""
    if not host.is_station or host.in_nic_pair:
        return
    limit = re.search(r"^maxsessions (\d+)", host.output("sshd", "-T"), re.MULTILINE)
    sufficient = limit is None or int(limit[1]) >= _SESSIONS
    found = f"MaxSessions {limit[1]}" if limit else "unknown: `sshd -T` prints no MaxSessions"
    remedy = "Set `MaxSessions 50` in its sshd_config, or leave out more parallel streams"
    yield host.finding("sessions", PASS if sufficient else WARN, found, remedy)


def our_programs(host: ExaminedHost) -> Iterator[Finding]:
    """Check that our programs, built on this machine, can run on the host."""
    if host.role not in host.testbed.program_hosts:
        return
    machine = host.shell.read(["uname", "-m"]).strip()
    same = machine == platform.machine()
    remedy = "Run the campaign on a machine of the hosts' architecture"
    yield host.finding("processor", PASS if same else STOP, machine, remedy)
    yield _c_library(host)
    btf = bool(host.output("ls", "/sys/kernel/btf/vmlinux"))
    libbpf = host.shell.query(["sh", "-c", "ldconfig -p | grep -q libbpf.so.1"]).exit_status == 0
    found = "installed" if libbpf else "no libbpf.so.1, which frerctl needs"
    yield host.finding("libbpf", PASS if libbpf else STOP, found, "Install libbpf1")
    remedy = "Boot a kernel with CONFIG_DEBUG_INFO_BTF"
    found = "the kernel has BTF" if btf else "the kernel has no BTF, which our counters need"
    yield host.finding("eBPF", PASS if btf else STOP, found, remedy)


def _c_library(host: ExaminedHost) -> Finding:
    """Check that the host's C library is not older than our programs need."""
    needed = programs.needed_glibc()
    version = re.search(r"^glibc (\d+)\.(\d+)", host.output("getconf", "GNU_LIBC_VERSION"))
    good = version is not None and (int(version[1]), int(version[2])) >= needed
    found = version[0] if version else "no glibc"
    if not good:
        found += ", and our programs need glibc {}.{}".format(*needed)
    remedy = "Run the campaign on a machine that is no newer than the hosts"
    return host.finding("C library", PASS if good else STOP, found, remedy)


def space(host: ExaminedHost) -> Iterator[Finding]:
    """Check the free space in /run."""
    fields = host.shell.read(["df", "-P", "-k", "/run"]).splitlines()[-1].split()
    free = int(fields[3])
    verdict = STOP if free < _MIN_FREE_KIB and not host.is_board else PASS
    if verdict == PASS and free < _FREE_KIB and host.is_station:
        verdict = WARN
    remedy = "Free space there: a trial stores logs of all received frames"
    yield host.finding("space", verdict, f"{free // 1024} MiB free in /run", remedy)


def governor(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the processors run at a constant speed."""
    governors = sorted({*host.output("sh", "-c", _GOVERNORS).split()})
    constant = governors in ([], ["performance"])
    found = " and ".join(governors) or "no frequency scaling"
    remedy = "`cpupower frequency-set --governor performance`"
    yield host.finding("processor speed", PASS if constant else WARN, found, remedy)


def other_servers(host: ExaminedHost) -> Iterator[Finding]:
    """Check that no other program listens where a listener's servers will."""
    if host.role != LISTENER or host.in_nic_pair:
        return
    servers = ("sport", "=", f":{iperf3.PORT}", "or", "sport", "=", f":{sockperf.PORT}")
    used = host.output("ss", "-H", "-n", "-l", "-p", "-t", "-u", *servers).split("\n")
    found = "; ".join(" ".join(line.split()) for line in used if line)
    remedy = "End it: it would answer the talker in place of the campaign's server"
    yield host.finding("servers", STOP if found else PASS, found or "none", remedy)


def port_use(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the measured ports are not in use."""
    driver = host.testbed.drivers[host.role]
    driver.check(driver.save())
    yield host.finding("ports", PASS, "not in use")
