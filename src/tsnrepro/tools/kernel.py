"""Counters that every Linux host keeps: queues, links and the IP stack."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.plausible import count, json_rows

OFFLOADS = ("tso", "gso", "gro", "sg", "tx", "rx", "txvlan", "rxvlan")
SEPARATOR = "--- tsnrepro ---"
# One command, so that the counters of a host are read close together and at the price of one
# SSH session. The switch's or station's counters come first; "$1" is empty where there are none.
_SNAPSHOT = f"""\
if [ -n "$1" ]; then "$1" counters "$2" || exit; else echo '{{}}'; fi
echo '{SEPARATOR}'
tc -s -j qdisc show || exit
echo '{SEPARATOR}'
ip -s -s -j link show || exit
echo '{SEPARATOR}'
cat /proc/net/snmp /proc/net/netstat"""
# The same, and what else is asked over and over, by a shell that stays: a session and its shells
# take longer than all that they read. A line asks; the last line of an answer says how it ended.
ENDED = "--- ended "
_ANSWERING = f"""\
while read -r what; do
    case $what in
    snapshot) timeout -k 2 "$4" sh -c "$3" sh "$1" "$2" ;;
    counters | reset) timeout -k 2 "$4" "$1" "$what" "$2" ;;
    *) false ;;
    esac 2>&1 </dev/null
    echo "{ENDED}$? ---"
done"""
Asked = Literal["snapshot", "counters", "reset"]


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
    no_room: int = 0
    """Frames that came when no buffer was free for them (``missed_errors``, and ``fifo_errors``,
    where Intel's drivers have the drops of their queues)."""
    damaged: int = 0
    """Frames that came with a wrong checksum, or were none (``errors``)."""


def snapshot(frerctl: str, port: str) -> list[str]:
    """Return the command that prints all counters of a host."""
    return ["sh", "-c", _SNAPSHOT, "sh", frerctl, port]


def answering(frerctl: str, port: str, deadline_s: float) -> list[str]:
    """Return the command that answers lines until its input ends, each within ``deadline_s``.

    See :data:`Asked`: all counters as :func:`snapshot`, those of the switch or station alone, and
    its recovery started afresh.
    """
    words = [frerctl, port, _SNAPSHOT, f"{deadline_s:g}"]
    return ["sh", "-c", _ANSWERING, "sh", *words]


def disable_offloads(port: str) -> list[str]:
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
        _name(item, "tc", "dev"): QueueCounters(
            *(_count(item, "tc", name) for name in ("packets", "bytes", "drops", "qlen"))
        )
        for item in json_rows(text, "tc")
        if item.get("root")
    }


def parse_links(text: str) -> dict[str, LinkCounters]:
    """Return the devices from ``ip -s -s -j link show``.

    Older records were printed with one ``-s``, which leaves out why a card lost what came to it.
    """
    return {
        _name(item, "ip", "ifname"): LinkCounters(
            _count(item, "ip", "ifindex"),
            _count(item, "ip", "stats64", "tx", "dropped"),
            _received(item, "missed_errors") + _received(item, "fifo_errors"),
            _received(item, "errors"),
        )
        for item in json_rows(text, "ip")
        if item.get("ifname") != "lo"
    }


def _name(item: dict[str, Any], tool: str, key: str) -> str:
    if not isinstance(name := item.get(key), str):
        raise ToolError(f"{tool} printed an entry without {key}: {str(item)[:200]}")
    return name


def _received(item: dict[str, Any], name: str) -> int:
    """Return a counter of what came to a device; none of a record that has not got it."""
    received = item["stats64"].get("rx")
    there = isinstance(received, dict) and name in received
    return _count(item, "ip", "stats64", "rx", name) if there else 0


def _count(item: dict[str, Any], tool: str, *path: str) -> int:
    value: Any = item
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return count(value, f"{tool}'s {' '.join(path)}")


def parse_stack(text: str) -> dict[str, int]:
    """Return the counters of /proc/net/snmp and netstat, named as nstat does (``UdpNoPorts``).

    Raises
    ------
    ToolError
        Lines of names and lines of values do not pair.
    """
    counters: dict[str, int] = {}
    lines = [words for line in text.splitlines() if (words := line.split())]
    for names, values in zip_longest(lines[::2], lines[1::2], fillvalue=["nothing"]):
        if names[0] != values[0]:
            pair = f"{names[0][:50]} and {values[0][:50]}"
            raise ToolError(f"the kernel's counters {pair} do not pair")
        prefix = names[0].removesuffix(":")
        try:
            counters |= {
                prefix + name: int(value) for name, value in zip(names[1:], values[1:], strict=True)
            }
        except ValueError as error:
            why = str(error)[:200]
            raise ToolError(f"the kernel's counters {prefix[:50]} cannot be read: {why}") from error
    return counters
