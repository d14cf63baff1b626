"""Counters that every Linux host keeps: queues, links and the IP stack."""

import json
from dataclasses import dataclass
from itertools import zip_longest

from tsnrepro.errors import ToolError

OFFLOADS = ("tso", "gso", "gro", "sg", "tx", "rx", "txvlan", "rxvlan")
SEPARATOR = "--- tsnrepro ---"
# One command, so that the counters of a host are read close together and at the price of one
# SSH session. The switch's or station's counters come first; "$1" is empty where there are none.
_SNAPSHOT = f"""\
if [ -n "$1" ]; then "$1" counters "$2" || exit; else echo '{{}}'; fi
echo '{SEPARATOR}'
tc -s -j qdisc show || exit
echo '{SEPARATOR}'
ip -s -j link show || exit
echo '{SEPARATOR}'
cat /proc/net/snmp /proc/net/netstat"""


@dataclass(frozen=True)
class QueueCounters:
    """An egress queue since it was set up."""

    packets: int
    bytes: int
    dropped: int
    waiting: int


@dataclass(frozen=True)
class LinkCounters:
    """A network device since it was made."""

    ifindex: int
    tx_dropped: int
    """As the driver counts them."""


def snapshot(frerctl: str, port: str) -> list[str]:
    """Return the command that prints all counters of a host."""
    return ["sh", "-c", _SNAPSHOT, "sh", frerctl, port]


def without_offloads(port: str) -> list[str]:
    """Return the command that turns a port's offloads off.

    One frame is then one packet everywhere, where a segment of many frames would get one sequence
    number; and a VLAN tag is in the frame when it leaves.
    """
    return ["ethtool", "-K", port, *(word for name in OFFLOADS for word in (name, "off"))]


def split_snapshot(text: str) -> list[str]:
    """Return the four parts of a snapshot: switch, queues, links, IP stack.

    Raises
    ------
    ToolError
        A part is missing.
    """
    parts = text.split(SEPARATOR)
    if len(parts) != 4:
        raise ToolError(f"a snapshot of counters has {len(parts)} parts, not 4")
    return parts


def parse_queues(text: str) -> dict[str, QueueCounters]:
    """Return the root queue of each device from ``tc -s -j qdisc show``."""
    return {
        item["dev"]: QueueCounters(item["packets"], item["bytes"], item["drops"], item["qlen"])
        for item in _json(text, "tc")
        if item.get("root")
    }


def parse_links(text: str) -> dict[str, LinkCounters]:
    """Return the devices from ``ip -s -j link show``."""
    return {
        item["ifname"]: LinkCounters(item["ifindex"], item["stats64"]["tx"]["dropped"])
        for item in _json(text, "ip")
        if item.get("ifname") != "lo"
    }


def _json(text: str, tool: str) -> list[dict]:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ToolError(f"{tool} printed no JSON: {text.strip()[:300]}") from error


def parse_stack(text: str) -> dict[str, int]:
    """Return the counters of /proc/net/snmp and netstat, named as nstat does (``UdpNoPorts``).

    Raises
    ------
    ToolError
        Lines of names and lines of values do not pair.
    """
    counters: dict[str, int] = {}
    lines = [line.split() for line in text.strip().splitlines()]
    for names, values in zip_longest(lines[::2], lines[1::2], fillvalue=["nothing"]):
        if names[0] != values[0]:
            raise ToolError(f"the kernel's counters {names[0]} and {values[0]} do not pair")
        prefix = names[0].removesuffix(":")
        try:
            counters |= {
                prefix + name: int(value) for name, value in zip(names[1:], values[1:], strict=True)
            }
        except ValueError as error:
            raise ToolError(f"the kernel's counters {names[0]} cannot be read: {error}") from error
    return counters
