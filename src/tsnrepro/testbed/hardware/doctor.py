"""What keeps a rack from measuring, or makes its measurements doubtful, and what to do about it."""

import platform
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from tsnrepro.errors import TestbedError
from tsnrepro.settings import CardsSettings, HardwareSettings
from tsnrepro.settings.hardware import Lan966xSwitch
from tsnrepro.settings.ptp import RackPtpSettings
from tsnrepro.testbed.hardware import ports
from tsnrepro.testbed.hardware.connected import everywhere
from tsnrepro.testbed.hardware.pair import Pair
from tsnrepro.testbed.hardware.shell import Shell
from tsnrepro.testbed.hardware.testbed import Rack
from tsnrepro.topology import HOST_PORT, SWITCHES

PASS, WARN, STOP = "pass", "warn", "stop"

_BASE = ("ip", "tc", "ethtool", "timeout", "sysctl")
_OF_STATION = (*_BASE, "ss", "iperf3")
_OF_PTP = ("ptp4l", "pmc", "phc2sys")
# Without these some experiments cannot run, and others can.
_OF_EXPERIMENTS = {"sockperf": "latency", "mausezahn": "mausezahn", "ping": "ping", "chrt": "loss"}
_OF_BOARD = ("ip", "tc", "ethtool", "timeout", "bridge", "frer", "vcap")
_VERSION = {"iperf3": "--version", "sockperf": "--version", "mausezahn": "-V", "ip": "-V"}
# A full frame with C-TAG and R-TAG, without its Ethernet header.
_LEAST_MTU = 1500 + 4 + 6
_LEAST_FREE_KIB, _FREE_KIB = 20 << 10, 200 << 10
_MOST_PPS = 20
_WATCHED_SECONDS = 1.0
# What no step of a campaign would notice.
_CLOCK_SECONDS = 0.1
_ERRORS = re.compile(r"^\s*(\S*(?:crc|error|fifo|jabber|collision)\S*):\s*([1-9]\d*)", re.M | re.I)


@dataclass(frozen=True)
class HostFinding:
    """One thing that was looked at on one host: what was found, and what to do."""

    check: str
    role: str
    verdict: str
    found: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        """Return the finding for machines."""
        return asdict(self)

    def line(self) -> str:
        """Return the finding for people."""
        remedy = f" -> {self.remedy}" if self.remedy and self.verdict != PASS else ""
        return f"{self.verdict:4}  {self.role:8}  {self.check}: {self.found}{remedy}"


def examine(settings: HardwareSettings | CardsSettings) -> list[HostFinding]:
    """Look at every host of a rack, or of a pair; nothing is changed."""
    findings: list[HostFinding] = []
    with ExitStack() as stack:
        try:
            pair = isinstance(settings, CardsSettings)
            rack = Pair(settings, stack) if pair else Rack(settings, stack)
        except TestbedError as error:
            return [HostFinding("reachable", error.where or "rack", STOP, error.what, error.remedy)]
        findings += [_reached(role) for role in rack.parts]
        examined = everywhere(lambda role: _examined(_Host(rack, role)), [*rack.parts])
        findings += chain.from_iterable(examined.values())
        findings += _clocks(rack)
    return findings


def _examined(host: "_Host") -> list[HostFinding]:
    return [*chain.from_iterable(_checked(check, host) for check in _CHECKS)]


def _reached(role: str) -> HostFinding:
    return HostFinding("reachable", role, PASS, "logged in, and its host key is the known one")


class _Host:
    """A host under examination."""

    def __init__(self, rack: Rack | Pair, role: str) -> None:
        self.rack, self.role, self.shell = rack, role, rack.shells[role]
        self.settings: Any = getattr(rack.settings.hosts, role)
        self.board = isinstance(self.settings, Lan966xSwitch)
        self.devices = rack.parts[role].devices

    def finding(self, check: str, verdict: str, found: str, remedy: str = "") -> HostFinding:
        return HostFinding(check, self.role, verdict, found, remedy)

    def said(self, *argv: str) -> str:
        """Return what a command prints, nothing where it fails."""
        done = self.shell.ask(list(argv))
        return done.stdout if done.exit_status == 0 else ""


Check = Callable[[_Host], Iterator[HostFinding]]


def _checked(check: Check, host: _Host) -> list[HostFinding]:
    try:
        return list(check(host))
    except TestbedError as error:
        name = check.__name__.strip("_").replace("_", " ")
        return [host.finding(name, STOP, error.what, error.remedy)]


# --- the host ---------------------------------------------------------------------------------


def _privileges(host: _Host) -> Iterator[HostFinding]:
    user = host.shell.read(["id", "-u"]).strip()
    good = user == "0"
    found = "root" if good else f"user number {user}"
    yield host.finding("privileges", PASS if good else STOP, found, "Log in as root: set `user`")


def _tools(host: _Host) -> Iterator[HostFinding]:
    station = host.role not in SWITCHES and isinstance(host.rack, Rack)
    needed = _OF_BOARD if host.board else _OF_STATION if station else _BASE
    if host.rack.settings.ptp and host.role not in SWITCHES:
        needed = (*needed, *_OF_PTP)
    missing = [tool for tool in needed if not _has(host.shell, tool)]
    found = f"lacks {', '.join(missing)}" if missing else ", ".join(_versions(host, needed))
    remedy = "Install Microchip's BSP with qos-utils" if host.board else "Install the packages"
    yield host.finding("tools", STOP if missing else PASS, found, remedy)
    for tool, experiment in _OF_EXPERIMENTS.items():
        if station and not _has(host.shell, tool):
            remedy = f"Install it, or leave {experiment} out"
            yield host.finding("tools", WARN, f"lacks {tool}", remedy)
    if host.board:
        yield _dialect(host)


def _has(shell: Shell, tool: str) -> bool:
    return shell.ask(["sh", "-c", 'command -v "$1"', "sh", tool]).exit_status == 0


def _versions(host: _Host, tools: tuple[str, ...]) -> list[str]:
    shown = []
    for tool in tools:
        lines = host.said(tool, _VERSION[tool]).splitlines() if tool in _VERSION else []
        shown.append(lines[0].split("(")[0].strip() if lines else tool)
    return shown


def _dialect(host: _Host) -> HostFinding:
    """Tell which of two incompatible vcap tools a board has."""
    done = host.shell.ask(["vcap", "-h"])
    new = "RULE_ID" in done.stdout + done.stderr
    found = "rules by number" if new else "an old vcap, whose rules have no numbers"
    remedy = "Update the board to a BSP whose `vcap -h` names RULE_ID"
    return host.finding("classifier", PASS if new else STOP, found, remedy)


def _programs(host: _Host) -> Iterator[HostFinding]:
    if host.role not in host.rack.with_programs:
        return
    machine = host.shell.read(["uname", "-m"]).strip()
    same = machine == platform.machine()
    remedy = "Run the campaign on a machine of the hosts' kind"
    yield host.finding("processor", PASS if same else STOP, machine, remedy)
    btf = bool(host.said("ls", "/sys/kernel/btf/vmlinux"))
    library = host.shell.ask(["sh", "-c", "ldconfig -p | grep -q libbpf.so.1"]).exit_status == 0
    found = "there" if library else "no libbpf.so.1, which frerctl needs"
    yield host.finding("libbpf", PASS if library else STOP, found, "Install libbpf1")
    remedy = "Boot a kernel with CONFIG_DEBUG_INFO_BTF"
    found = "the kernel has BTF" if btf else "the kernel has no BTF, which our counters need"
    yield host.finding("eBPF", PASS if btf else STOP, found, remedy)


def _space(host: _Host) -> Iterator[HostFinding]:
    fields = host.shell.read(["df", "-P", "-k", "/run"]).splitlines()[-1].split()
    free = int(fields[3])
    verdict = STOP if free < _LEAST_FREE_KIB and not host.board else PASS
    if verdict == PASS and free < _FREE_KIB and host.role not in SWITCHES:
        verdict = WARN
    remedy = "Make room: logs of every arrival lie there during a trial"
    yield host.finding("space", verdict, f"{free // 1024} MiB free in /run", remedy)


def _governor(host: _Host) -> Iterator[HostFinding]:
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    governor = host.said("cat", path).strip()
    steady = governor in ("", "performance")
    found = governor or "the kernel does not scale the processor"
    remedy = "`cpupower frequency-set --governor performance`"
    yield host.finding("processor speed", PASS if steady else WARN, found, remedy)


def _idle(host: _Host) -> Iterator[HostFinding]:
    before = {device: _packets(host, device) for device in host.devices.values()}
    time.sleep(_WATCHED_SECONDS)
    for device, packets in before.items():
        rate = (_packets(host, device) - packets) / _WATCHED_SECONDS
        verdict = WARN if rate > _MOST_PPS else PASS
        remedy = "Find out who sends there: it is counted with the measured traffic"
        yield host.finding(f"other traffic on {device}", verdict, f"{rate:.0f} frames/s", remedy)


def _packets(host: _Host, device: str) -> int:
    folder = f"/sys/class/net/{device}/statistics"
    shown = host.shell.read(["cat", f"{folder}/rx_packets", f"{folder}/tx_packets"])
    return sum(map(int, shown.split()))


# --- its ports ----------------------------------------------------------------------------------


def _links(host: _Host) -> Iterator[HostFinding]:
    for name, device in host.devices.items():
        link = ports.link_of(host.shell, device)
        carrier = host.said("cat", f"/sys/class/net/{device}/carrier").strip() == "1"
        remedy = f"Plug the cable in, or `ip link set {device} up`"
        found = "up" if carrier else "no carrier"
        yield host.finding(f"link of {device}", PASS if carrier else STOP, found, remedy)
        yield from _speed(host, device)
        most = int(link.get("max_mtu") or 0)
        if name not in (HOST_PORT,) and host.role in SWITCHES and most:
            remedy = "The R-TAG needs room that this card does not give: take another"
            verdict = PASS if most >= _LEAST_MTU else STOP
            yield host.finding(f"MTU of {device}", verdict, f"up to {most} bytes", remedy)


def _speed(host: _Host, device: str) -> Iterator[HostFinding]:
    wanted = host.rack.settings.link_rate_mbps
    speed = host.said("cat", f"/sys/class/net/{device}/speed").strip()
    duplex = host.said("cat", f"/sys/class/net/{device}/duplex").strip()
    good = speed == str(wanted) and duplex == "full"
    found = f"{speed or 'unknown'} Mb/s, {duplex or 'unknown'} duplex"
    remedy = f"`ethtool -s {device} speed {wanted} duplex full`, or set `link_rate_mbps`"
    yield host.finding(f"speed of {device}", PASS if good else WARN, found, remedy)


def _hardware(host: _Host) -> Iterator[HostFinding]:
    for device in host.devices.values():
        eee = "enabled" in host.said("ethtool", "--show-eee", device)
        remedy = f"`ethtool --set-eee {device} eee off`: waking up takes microseconds"
        found = "on" if eee else "off or unknown to the driver"
        yield host.finding(f"EEE of {device}", WARN if eee else PASS, found, remedy)
        pause = re.findall(r"^(RX|TX):\s+on", host.said("ethtool", "-a", device), re.M)
        remedy = f"`ethtool -A {device} autoneg off rx off tx off`: they hide losses"
        found = f"{' and '.join(pause)} on" if pause else "off or unknown to the driver"
        yield host.finding(f"pause frames of {device}", WARN if pause else PASS, found, remedy)
        waits = re.findall(r"^(rx-usecs|tx-usecs): ([1-9]\d*)", _coalescing(host, device), re.M)
        remedy = f"`ethtool -C {device} rx-usecs 0 tx-usecs 0` where latency is measured"
        found = ", ".join(f"{n} {us}" for n, us in waits) or "none, or unknown to the driver"
        yield host.finding(f"coalescing of {device}", WARN if waits else PASS, found, remedy)
        errors = _ERRORS.findall(host.said("ethtool", "-S", device))
        remedy = "Change the cable, or look whether they grow"
        found = ", ".join(f"{n} {count}" for n, count in errors[:5]) or "none"
        yield host.finding(f"errors of {device}", WARN if errors else PASS, found, remedy)


def _coalescing(host: _Host, device: str) -> str:
    return host.said("ethtool", "-c", device)


def _free_ports(host: _Host) -> Iterator[HostFinding]:
    driver = host.rack.parts[host.role]
    driver.refuse(driver.save())
    yield host.finding("ports", PASS, "free for a campaign")


def _clock_hardware(host: _Host) -> Iterator[HostFinding]:
    if host.role in SWITCHES:
        return
    for device in _clock_cards(host):
        found = re.search(r"(?:PTP Hardware Clock|provider index): (\S+)", _stamping(host, device))
        has = bool(found and found[1] != "none")
        said = f"clock {found[1]}" if has and found else "none"
        remedy, without = "One-way latency then rests on the kernel's time stamps", WARN
        if _by_card(host.rack.settings):
            remedy, without = "Take another card, or set `ptp: {time_stamping: software}`", STOP
        yield host.finding(f"hardware clock of {device}", PASS if has else without, said, remedy)


def _clock_cards(host: _Host) -> list[str]:
    """Return the devices whose clocks the host's time comes from."""
    ptp = host.rack.settings.ptp
    if isinstance(ptp, RackPtpSettings):
        return [getattr(ptp.cards, host.role)]
    return list(host.devices.values())


def _by_card(settings: HardwareSettings | CardsSettings) -> bool:
    return settings.ptp is not None and settings.ptp.time_stamping == "hardware"


def _stamping(host: _Host, device: str) -> str:
    return host.said("ethtool", "-T", device)


_CHECKS: tuple[Check, ...] = (
    *(_privileges, _tools, _programs, _space, _governor, _links, _hardware),
    *(_clock_hardware, _free_ports, _idle),
)


def _clocks(rack: Rack | Pair) -> list[HostFinding]:
    """Compare every host's clock with this machine's, as closely as asking over SSH allows."""
    return [_clock_of(role, shell) for role, shell in rack.shells.items()]


def _clock_of(role: str, shell: Shell) -> HostFinding:
    before = time.time()
    theirs, resolution = _read_clock(shell.read(["date", "+%s.%N"]))
    after = time.time()
    known = (after - before + resolution) / 2
    away = abs(theirs - (before + after) / 2)
    good = away <= max(known, _CLOCK_SECONDS)
    found = f"{_milliseconds(away)} from this machine's, known within {_milliseconds(known)}"
    remedy = "Set it, or start chrony or ptp4l: records are ordered by it"
    return HostFinding("clock", role, PASS if good else WARN, found, remedy)


def _read_clock(printed: str) -> tuple[float, float]:
    """Return the middle of the time that ``date`` printed and how long that is."""
    seconds, _, nanoseconds = printed.strip().partition(".")
    if re.fullmatch(r"\d{9}", nanoseconds):
        return int(seconds) + int(nanoseconds) / 1e9, 0.0
    # A board's has whole seconds only.
    return int(seconds) + 0.5, 1.0


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"
