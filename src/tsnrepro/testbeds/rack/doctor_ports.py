"""What the doctor looks at on a host's ports, told by ip, ethtool and sysfs.

Printed lines are matched as ethtool prints them over netlink and over ioctl alike: one puts a tab
behind the colon where the other puts a blank.
"""

import re
import time
from collections.abc import Iterator

from tsnrepro.common.topology import HOST_PORT
from tsnrepro.testbeds.rack import ports
from tsnrepro.testbeds.rack.findings import PASS, STOP, WARN, ExaminedHost, HostFinding

# A full frame with C-TAG and R-TAG, without its Ethernet header.
_LEAST_MTU = 1500 + 4 + 6
_STATION_MTU = 1500
_MOST_PPS = 20
_WATCHED_SECONDS = 1.0
_UNKNOWN = "unknown to the driver"

_EEE = re.compile(r"EEE status:\s*enabled(?: - (\w+))?", re.IGNORECASE)
_PAUSE = re.compile(r"^(RX|TX)(?: negotiated)?:\s+on\b", re.MULTILINE)
_WAITS = re.compile(r"^(rx-usecs|tx-usecs):\s+([1-9]\d*)", re.MULTILINE)
_ADAPTIVE = re.compile(r"^Adaptive RX:\s+(\S+)\s+TX:\s+(\S+)", re.MULTILINE)
_ERRORS = re.compile(
    r"^\s*(\S*(?:crc|error|_err\b|fifo|jabber|collision|missed|no_buffer)\S*):\s*(\d+)\s*$",
    re.MULTILINE | re.IGNORECASE,
)
# One packet of these is several frames, or has no tag: where they stay on, counts are wrong.
_JOINING = (
    *("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload"),
    "large-receive-offload",
)
_NOT_TURNED_OFF = "large-receive-offload"


# --- the way in -------------------------------------------------------------------------------


def way_in(host: ExaminedHost) -> Iterator[HostFinding]:
    """Find out whether the login comes over a measured port, which a campaign takes down."""
    measured = [*host.devices.values()]
    device = ports.login_over(host.shell, measured)
    found = f"over {device}" if device else "unknown: its server tells no SSH_CONNECTION"
    yield host.finding("way in", STOP if device in measured else PASS, found, ports.OTHER_WAY_IN)


# --- links ------------------------------------------------------------------------------------


def links(host: ExaminedHost) -> Iterator[HostFinding]:
    """Look at carrier, speed, duplex and MTU of each port."""
    for name, device in host.devices.items():
        link = ports.link_of(host.shell, device)
        carrier = host.said("cat", f"/sys/class/net/{device}/carrier").strip() == "1"
        remedy = f"Plug the cable in, or `ip link set {device} up`"
        found = "up" if carrier else "no carrier"
        yield host.finding(f"link of {device}", PASS if carrier else STOP, found, remedy)
        yield _speed(host, device)
        if host.station:
            yield _mtu_of_station(host, device, int(link["mtu"]))
        elif name != HOST_PORT and (most := int(link.get("max_mtu") or 0)):
            remedy = "The R-TAG needs room that this card does not give: take another"
            verdict = PASS if most >= _LEAST_MTU else STOP
            yield host.finding(f"MTU of {device}", verdict, f"up to {most} bytes", remedy)


def _speed(host: ExaminedHost, device: str) -> HostFinding:
    wanted = host.rack.settings.link_rate_mbps
    speed = host.said("cat", f"/sys/class/net/{device}/speed").strip()
    duplex = host.said("cat", f"/sys/class/net/{device}/duplex").strip()
    good = speed == str(wanted) and duplex == "full"
    found = f"{speed or 'unknown'} Mb/s, {duplex or 'unknown'} duplex"
    remedy = f"`ethtool -s {device} speed {wanted} duplex full`, or set `link_rate_mbps`"
    return host.finding(f"speed of {device}", PASS if good else WARN, found, remedy)


def _mtu_of_station(host: ExaminedHost, device: str, mtu: int) -> HostFinding:
    """Sizes of datagrams are chosen for frames of 1500 bytes; longer ones no switch lets pass."""
    remedy = f"`ip link set {device} mtu {_STATION_MTU}`: campaigns count frames of that size"
    verdict = PASS if mtu == _STATION_MTU else WARN
    return host.finding(f"MTU of {device}", verdict, f"{mtu} bytes", remedy)


# --- what the card does by itself -------------------------------------------------------------


def hardware(host: ExaminedHost) -> Iterator[HostFinding]:
    """Look at what a card does to frames and to their times by itself."""
    for device in host.devices.values():
        yield _energy(host, device)
        yield _pauses(host, device)
        yield _coalescing(host, device)
        if not host.board:
            yield _offloads(host, device)


def _energy(host: ExaminedHost, device: str) -> HostFinding:
    told = host.said("ethtool", "--show-eee", device)
    on = _EEE.search(told)
    remedy = f"`ethtool --set-eee {device} eee off`: waking up takes microseconds"
    if on and on[1] == "inactive":
        return host.finding(f"EEE of {device}", PASS, "on, and not active on this link")
    found = "on" if on else "off" if told else _UNKNOWN
    return host.finding(f"EEE of {device}", WARN if on else PASS, found, remedy)


def _pauses(host: ExaminedHost, device: str) -> HostFinding:
    told = host.said("ethtool", "-a", device)
    on = [*dict.fromkeys(_PAUSE.findall(told))]
    remedy = f"`ethtool -A {device} autoneg off rx off tx off`: they hide losses"
    found = f"{' and '.join(on)} on" if on else "off" if told else _UNKNOWN
    return host.finding(f"pause frames of {device}", WARN if on else PASS, found, remedy)


def _coalescing(host: ExaminedHost, device: str) -> HostFinding:
    told = host.said("ethtool", "-c", device)
    waits = [f"{name} {us}" for name, us in _WAITS.findall(told)]
    adaptive = _ADAPTIVE.search(told)
    words = ["rx-usecs 0 tx-usecs 0"]
    for side, value in zip(("rx", "tx"), adaptive.groups() if adaptive else (), strict=False):
        if value == "on":
            waits.append(f"adaptive-{side} on")
            words.insert(0, f"adaptive-{side} off")
    remedy = f"`ethtool -C {device} {' '.join(words)}` where latency is measured"
    found = ", ".join(waits) or ("none" if told else _UNKNOWN)
    return host.finding(f"coalescing of {device}", WARN if waits else PASS, found, remedy)


def _offloads(host: ExaminedHost, device: str) -> HostFinding:
    """Tell which offloads a campaign turns off, and those that it cannot or does not."""
    told = ports.features(host.said("ethtool", "-k", device))
    on = {name: fixed for name, (value, fixed) in told.items() if value and name in _JOINING}
    stay = [name for name, fixed in on.items() if fixed or name == _NOT_TURNED_OFF]
    if stay:
        fixed = [name for name in stay if on[name]]
        remedy = (
            "Take another card: this one makes one packet of several frames"
            if fixed
            else f"`ethtool -K {device} lro off`: one packet is several frames"
        )
        return host.finding(f"offloads of {device}", WARN, f"{', '.join(stay)} on", remedy)
    found = ", ".join(on) if on else "none that joins frames" if told else _UNKNOWN
    shown = f"{found}; off for a campaign" if on else found
    return host.finding(f"offloads of {device}", PASS, shown)


# --- while nothing is sent --------------------------------------------------------------------


def idle(host: ExaminedHost) -> Iterator[HostFinding]:
    """Watch each port for a while: who else sends there, and which errors grow."""
    before = {device: (_packets(host, device), _errors(host, device)) for device in _all(host)}
    time.sleep(_WATCHED_SECONDS)
    for device, (packets, errors) in before.items():
        rate = (_packets(host, device) - packets) / _WATCHED_SECONDS
        verdict = WARN if rate > _MOST_PPS else PASS
        remedy = "Find out who sends there: it is counted with the measured traffic"
        yield host.finding(f"other traffic on {device}", verdict, f"{rate:.0f} frames/s", remedy)
        yield _errors_found(host, device, errors)


def _all(host: ExaminedHost) -> list[str]:
    return list(host.devices.values())


def _packets(host: ExaminedHost, device: str) -> int:
    folder = f"/sys/class/net/{device}/statistics"
    shown = host.shell.read(["cat", f"{folder}/rx_packets", f"{folder}/tx_packets"])
    return sum(map(int, shown.split()))


def _errors(host: ExaminedHost, device: str) -> dict[str, int]:
    """Return the error counters of a port: the driver's own, and the kernel's, which all have."""
    names = ("rx_errors", "tx_errors", "collisions")
    folder = f"/sys/class/net/{device}/statistics"
    shown = host.shell.read(["cat", *(f"{folder}/{name}" for name in names)])
    found = dict(zip(names, map(int, shown.split()), strict=True))
    told = _ERRORS.findall(host.said("ethtool", "-S", device))
    return found | {name: int(count) for name, count in told}


def _errors_found(host: ExaminedHost, device: str, before: dict[str, int]) -> HostFinding:
    now = _errors(host, device)
    grown = {name: count - before.get(name, 0) for name, count in now.items()}
    grown = {name: count for name, count in grown.items() if count > 0}
    standing = {name: count for name, count in now.items() if count}
    check = f"errors of {device}"
    if grown:
        remedy = "Change the cable, or the card: frames are being lost right now"
        return host.finding(check, WARN, f"growing: {_listed(grown)}", remedy)
    remedy = "Change the cable, or look whether they grow under load"
    found = f"{_listed(standing)}, not growing" if standing else "none"
    return host.finding(check, WARN if standing else PASS, found, remedy)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in [*counts.items()][:5])
