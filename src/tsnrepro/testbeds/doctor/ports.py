"""Checks of a host's ports, by ip, ethtool and sysfs.

ethtool's output over netlink and over ioctl differs: after a colon there is a tab or a space.
"""

import re
import time
from collections.abc import Iterator

from tsnrepro.common.topology import HOST_PORT
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, ExaminedHost, Finding
from tsnrepro.testbeds.hosts import ports
from tsnrepro.tools import ethtool

# A full frame with C-TAG and R-TAG, without its Ethernet header.
_MIN_MTU = 1500 + 4 + 6

# Interrupts of a card, one for each vector of MSI or else its only one, and their processors.
_LIST_INTERRUPTS = """\
cd "/sys/class/net/$1/device" 2>/dev/null || exit 0
for irq in $(ls msi_irqs 2>/dev/null || cat irq 2>/dev/null); do
    [ -d "/proc/irq/$irq" ] && echo "$irq $(cat "/proc/irq/$irq/effective_affinity_list")"
done
true
"""
_INTERRUPT = re.compile(r"^(\d+) ([\d,-]+)$", re.MULTILINE)
_MAX_IDLE_PPS = 20
_WATCH_SECONDS = 1.0
_UNKNOWN = "not supported by the driver"

_EEE = re.compile(r"EEE status:\s*enabled(?: - (\w+))?", re.IGNORECASE)
_PAUSE = re.compile(r"^(RX|TX)(?: negotiated)?:\s+on\b", re.MULTILINE)
_DELAYS = re.compile(r"^(rx-usecs|tx-usecs):\s+([1-9]\d*)", re.MULTILINE)
_ADAPTIVE = re.compile(r"^Adaptive RX:\s+(\S+)\s+TX:\s+(\S+)", re.MULTILINE)
_KERNEL_COUNTERS = (
    *("rx_errors", "tx_errors", "rx_missed_errors", "collisions", "rx_dropped", "tx_dropped"),
)
# Drivers' names have blanks and colons (enetc: `MAC rx fcs errors`; be2net: `rxq0: rx_compl_err`).
_DRIVER_COUNTER = re.compile(r"^[ \t]*(\S.*):[ \t]*(\d+)[ \t]*$", re.MULTILINE)
# Not those of fifo alone: stmmac's `mtl_tx_fifo_not_empty` counts states. Nor long frames: tagged
# ones are. Of a gate control list stmmac's `mtl_est` count errors, and `tx_aged` what it kept.
_LOSS = re.compile(
    r"crc|fcs|err(?:s|ors?)?(?![a-z])|(?-i:Error[A-Z])|jabber|collision|overr|overfl|underr|underfl"
    r"|no_?(?:buf|desc|dma|mem)|out_of_buf|rx oob|(?:alloc|dma)[_ ]?(?:rx_\w+_)?fail|discard"
    r"|drop|align(?!ed)|(?<!steer_)(?<!timestamp_)miss(?:ed|es)(?!_irq)|undersi|undrsz|runt|fragment"
    r"|(?<![a-z])bad(?![a-z])|illegal|abort|trunc|late_?col|lcol|exc(?:ess)?_?col|qfull|mtl_est|_aged",
    re.IGNORECASE,
)
# What a filter or a program drops is meant to be dropped; so is what is for the port it came from.
_INTENDED = re.compile("filter|xdp|drop_local", re.IGNORECASE)
# Dropped on an idle port they are losses; before, a campaign's overload or unknown protocols.
_DROP = re.compile("drop|discard", re.IGNORECASE)
# A packet of these is several frames, or has no tag: counters are wrong while they are on.
_MERGING = (
    *("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload"),
    "large-receive-offload",
)
_NOT_DISABLED = "large-receive-offload"


# --- login ------------------------------------------------------------------------------------


def login_port(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the SSH connection does not use a measured port, which a campaign takes down."""
    measured = [*host.devices.values()]
    device = ports.login_device(host.shell, measured)
    found = device or "unknown: its server sets no SSH_CONNECTION"
    yield host.finding(
        "login port", STOP if device in measured else PASS, found, ports.LOGIN_REMEDY
    )


# --- links ------------------------------------------------------------------------------------


def links(host: ExaminedHost) -> Iterator[Finding]:
    """Check carrier, speed, duplex and MTU of each port."""
    for name, device in host.devices.items():
        link = ports.link_of(host.shell, device)
        carrier = host.output("cat", f"/sys/class/net/{device}/carrier").strip() == "1"
        remedy = f"Connect the cable, or `ip link set {device} up`"
        found = "up" if carrier else "no carrier"
        yield host.finding(f"link of {device}", PASS if carrier else STOP, found, remedy)
        yield _speed(host, device)
        if host.is_station and not host.on_bench:
            yield _mtu_of_station(host, device, int(link["mtu"]))
        elif name == HOST_PORT:
            # A campaign leaves it as it is.
            if int(link["mtu"]) < ports.STATION_MTU:
                yield _mtu_of_station(host, device, int(link["mtu"]))
        elif max_mtu := int(link.get("max_mtu") or 0):
            remedy = "Use a card with room for the R-TAG"
            # With one port each a bench sends no tags.
            untagged = host.on_bench and host.testbed.settings.paths == 1
            verdict = PASS if max_mtu >= (ports.STATION_MTU if untagged else _MIN_MTU) else STOP
            yield host.finding(f"MTU of {device}", verdict, f"up to {max_mtu} bytes", remedy)


def _speed(host: ExaminedHost, device: str) -> Finding:
    wanted = host.testbed.settings.link_rate_mbps
    found, good = ports.speed_and_duplex(host.shell, device, wanted)
    if good is None and getattr(host.testbed.settings, "virtual_ports", False):
        return host.finding(f"speed of {device}", PASS, f"{found}: not of a card, so not checked")
    verdict = {True: PASS, False: STOP, None: WARN}[good]
    remedy = f"`ethtool -s {device} speed {wanted} duplex full`, or set `link_rate_mbps`"
    return host.finding(f"speed of {device}", verdict, found, remedy)


def _mtu_of_station(host: ExaminedHost, device: str, mtu: int) -> Finding:
    """Check the MTU: datagrams are sized for 1500 bytes, and no switch forwards longer frames."""
    remedy = f"`ip link set {device} mtu {ports.STATION_MTU}`, which campaigns assume"
    verdict = PASS if mtu == ports.STATION_MTU else STOP if mtu < ports.STATION_MTU else WARN
    return host.finding(f"MTU of {device}", verdict, f"{mtu} bytes", remedy)


# --- hardware features ------------------------------------------------------------------------


def hardware(host: ExaminedHost) -> Iterator[Finding]:
    """Check a card's features that change frames or their timing."""
    for device in host.devices.values():
        yield _energy(host, device)
        yield _pauses(host, device)
        yield _coalescing(host, device)
        yield _interrupts(host, device)
        if not host.is_board:
            yield _offloads(host, device)


def _energy(host: ExaminedHost, device: str) -> Finding:
    text = host.output("ethtool", "--show-eee", device)
    on = _EEE.search(text)
    remedy = f"`ethtool --set-eee {device} eee off`: leaving low-power idle takes microseconds"
    if on and on[1] == "inactive":
        return host.finding(f"EEE of {device}", PASS, "on, but inactive on this link")
    found = "on" if on else "off" if text else _UNKNOWN
    return host.finding(f"EEE of {device}", WARN if on else PASS, found, remedy)


def _pauses(host: ExaminedHost, device: str) -> Finding:
    text = host.output("ethtool", "-a", device)
    on = [*dict.fromkeys(_PAUSE.findall(text))]
    remedy = f"`ethtool -A {device} autoneg off rx off tx off`: they hide losses"
    found = f"{' and '.join(on)} on" if on else "off" if text else _UNKNOWN
    return host.finding(f"pause frames of {device}", WARN if on else PASS, found, remedy)


def _coalescing(host: ExaminedHost, device: str) -> Finding:
    text = host.output("ethtool", "-c", device)
    delays = [f"{name} {us}" for name, us in _DELAYS.findall(text)]
    adaptive = _ADAPTIVE.search(text)
    options = ["rx-usecs 0 tx-usecs 0"]
    for side, value in zip(("rx", "tx"), adaptive.groups() if adaptive else (), strict=False):
        if value == "on":
            delays.append(f"adaptive-{side} on")
            options.insert(0, f"adaptive-{side} off")
    remedy = f"`ethtool -C {device} {' '.join(options)}` for latency measurements"
    found = ", ".join(delays) or ("none" if text else _UNKNOWN)
    return host.finding(f"coalescing of {device}", WARN if delays else PASS, found, remedy)


def _interrupts(host: ExaminedHost, device: str) -> Finding:
    """Check that interrupts stay on their processors."""
    check = f"interrupts of {device}"
    listed = _INTERRUPT.findall(host.output("sh", "-c", _LIST_INTERRUPTS, "sh", device))
    if not listed:
        return host.finding(check, PASS, _UNKNOWN)
    found = ", ".join(f"{irq} on processor {processors}" for irq, processors in listed)
    moved = "irqbalance" in host.output("ps", "-e", "-o", "comm=").split()
    found += "; irqbalance moves them" if moved else ""
    remedy = "`systemctl stop irqbalance` while a campaign runs"
    return host.finding(check, WARN if moved else PASS, found, remedy)


def _offloads(host: ExaminedHost, device: str) -> Finding:
    """Check for offloads that a campaign does not or cannot disable."""
    features = ethtool.parse_features(host.output("ethtool", "-k", device))
    on = {name: fixed for name, (value, fixed) in features.items() if value and name in _MERGING}
    remaining = [name for name, fixed in on.items() if fixed or name == _NOT_DISABLED]
    if remaining:
        fixed = [name for name in remaining if on[name]]
        remedy = (
            "Use another card: this one merges frames into packets"
            if fixed
            else f"`ethtool -K {device} lro off`: it merges frames into packets"
        )
        return host.finding(f"offloads of {device}", WARN, f"{', '.join(remaining)} on", remedy)
    found = ", ".join(on) if on else "none that merges frames" if features else _UNKNOWN
    shown = f"{found}; disabled during a campaign" if on else found
    return host.finding(f"offloads of {device}", PASS, shown)


# --- idle ports -------------------------------------------------------------------------------


def idle_traffic(host: ExaminedHost) -> Iterator[Finding]:
    """Watch each port for a second: other traffic, and increasing error counters."""
    before = {
        device: (_packets(host, device), _errors(host, device)) for device in host.devices.values()
    }
    time.sleep(_WATCH_SECONDS)
    for device, (packets, errors) in before.items():
        rate = (_packets(host, device) - packets) / _WATCH_SECONDS
        verdict = WARN if rate > _MAX_IDLE_PPS else PASS
        remedy = "Find its sender: it is counted with the measured traffic"
        yield host.finding(f"other traffic on {device}", verdict, f"{rate:.0f} frames/s", remedy)
        yield _error_finding(host, device, errors)


def _packets(host: ExaminedHost, device: str) -> int:
    folder = f"/sys/class/net/{device}/statistics"
    output = host.shell.read(["cat", f"{folder}/rx_packets", f"{folder}/tx_packets"])
    return sum(map(int, output.split()))


def _errors(host: ExaminedHost, device: str) -> dict[str, int]:
    """Return the error counters of a port: the kernel's, and the driver's own."""
    folder = f"/sys/class/net/{device}/statistics"
    output = host.shell.read(["cat", *(f"{folder}/{name}" for name in _KERNEL_COUNTERS)])
    found = dict(zip(_KERNEL_COUNTERS, map(int, output.split()), strict=True))
    by_driver = _DRIVER_COUNTER.findall(host.output("ethtool", "-S", device))
    return found | {
        name: int(count)
        for name, count in by_driver
        if _LOSS.search(name) and not _INTENDED.search(name)
    }


def _error_finding(host: ExaminedHost, device: str, before: dict[str, int]) -> Finding:
    now = _errors(host, device)
    increases = {name: count - before.get(name, 0) for name, count in now.items()}
    increases = {name: count for name, count in increases.items() if count > 0}
    constant = {name: count for name, count in now.items() if count and not _DROP.search(name)}
    check = f"errors of {device}"
    if increases:
        remedy = "Replace the cable or the card: frames are being lost"
        return host.finding(check, WARN, f"increasing: {_listed(increases)}", remedy)
    remedy = "Replace the cable, or check whether they increase under load"
    found = f"{_listed(constant)}, not increasing" if constant else "none"
    return host.finding(check, WARN if constant else PASS, found, remedy)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in [*counts.items()][:5])
