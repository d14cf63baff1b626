"""Counters of one host: of its station or switch, its queues, its links and its IP stack."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from tsnrepro.common.errors import ToolError
from tsnrepro.tools import frerctl
from tsnrepro.tools.parsing import count, json_rows

SEPARATOR = "--- tsnrepro ---"
# One command, so that a host's counters are read close together and in a single SSH session. Those
# of the switch or station come first; "$1" is empty on hosts without. JSON of a device that is not
# measured may be broken, so only those behind are asked for: an object of lists, by device. Without
# any, all are asked for: a list.
_SNAPSHOT = f"""\
each() {{
    [ -n "$devices" ] || {{ "$@"; return; }}
    start='{{'
    for device in $devices; do
        printf '%s"%s":' "$start" "$device"
        "$@" dev "$device" || return
        start=,
    done
    echo '}}'
}}
if [ -n "$1" ]; then "$1" counters "$2" || exit; else echo '{{}}'; fi
[ $# -lt 2 ] || shift 2
devices=$*
echo '{SEPARATOR}'
each tc -s -j qdisc show || exit
echo '{SEPARATOR}'
each ip -s -s -j link show || exit
echo '{SEPARATOR}'
cat /proc/net/snmp /proc/net/netstat"""
# The same and other frequent requests, served by a shell that keeps running, since a session takes
# longer than the reading itself. A line is a request; the last line of a response has its status.
END = "--- ended "
_SERVE = f"""\
while read -r what; do
    case $what in
    snapshot) timeout -k 2 "$4" sh -c "$3" sh "$1" "$2" ;;
    counters | reset) timeout -k 2 "$4" "$1" "$what" "$2" ;;
    *) false ;;
    esac 2>&1 </dev/null
    echo "{END}$? ---"
done"""
Request = Literal["snapshot", "counters", "reset"]


@dataclass(frozen=True)
class QueueCounters:
    """Counters of an egress queue since it was set up."""

    packets: int
    bytes: int
    dropped: int
    waiting: int


@dataclass(frozen=True)
class LinkCounters:
    """Counters of a network device since it was created."""

    ifindex: int
    tx_dropped: int
    """By the driver's count."""
    no_room: int = 0
    """Frames received while no buffer was free (``missed_errors``, and ``fifo_errors``, which in
    Intel's drivers are the drops of their queues)."""
    damaged: int = 0
    """Frames received with a wrong checksum or malformed (``errors``)."""


@dataclass(frozen=True)
class HostCounters:
    """Counters of a host.

    ``station`` is frerctl's JSON, empty on a host without station or switch. ``queues`` and
    ``links`` are by device, ``stack`` by name as in nstat(8).
    """

    station: dict
    queues: dict[str, QueueCounters]
    links: dict[str, LinkCounters]
    stack: dict[str, int]

    @property
    def indices(self) -> dict[str, int]:
        """The kernel's index of each device."""
        return {name: link.ifindex for name, link in self.links.items()}


def snapshot(frerctl: str, port: str, devices: Iterable[str] = ()) -> list[str]:
    """Return the command that prints all counters of a host, and of all or some devices."""
    return ["sh", "-c", _SNAPSHOT, "sh", frerctl, port, *devices]


def serve(frerctl: str, port: str, deadline_s: float) -> list[str]:
    """Return the command that serves :data:`Request` lines until its standard input ends.

    They print all counters as :func:`snapshot`, print those of the switch or station alone, and
    reset its recovery, each within ``deadline_s``.
    """
    arguments = [frerctl, port, _SNAPSHOT, f"{deadline_s:g}"]
    return ["sh", "-c", _SERVE, "sh", *arguments]


def read_host(text: str) -> HostCounters:
    """Parse the counters that :func:`snapshot` prints.

    Raises ToolError if a part is missing, or is not what its tool prints.
    """
    station, queues, links, stack = split_snapshot(text)
    return HostCounters(
        frerctl.parse_counters(station),
        parse_queues(queues),
        parse_links(links),
        parse_stack(stack),
    )


def split_snapshot(text: str) -> list[str]:
    """Return the four parts of a snapshot: switch or station, queues, links, IP stack.

    Raises ToolError if a part is missing.
    """
    parts = text.split(SEPARATOR)
    if len(parts) != 4:
        raise ToolError(f"a snapshot of counters has {len(parts)} parts instead of 4")
    return parts


def parse_queues(text: str) -> dict[str, QueueCounters]:
    """Return the root queue of each device from ``tc -s -j qdisc show``, or by device."""
    return {
        _name(item, "tc", "dev"): QueueCounters(
            *(_count(item, "tc", name) for name in ("packets", "bytes", "drops", "qlen"))
        )
        for item in _rows(text, "tc", "dev")
        if item.get("root")
    }


def parse_links(text: str) -> dict[str, LinkCounters]:
    """Return the devices from ``ip -s -s -j link show``.

    Older records have the output of a single ``-s``, without the reasons of receive errors.
    """
    return {
        _name(item, "ip", "ifname"): LinkCounters(
            _count(item, "ip", "ifindex"),
            _count(item, "ip", "stats64", "tx", "dropped"),
            _received(item, "missed_errors") + _received(item, "fifo_errors"),
            _received(item, "errors"),
        )
        for item in _rows(text, "ip", "ifname")
        if item.get("ifname") != "lo"
    }


def _rows(text: str, tool: str, key: str) -> list[dict[str, Any]]:
    """Return the entries of a list, or of lists by device, each with its device under a key."""
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        if isinstance(document, dict):
            parts = {name: json_rows(json.dumps(rows), tool) for name, rows in document.items()}
            return [{key: name} | row for name, rows in parts.items() for row in rows]
    return json_rows(text, tool)


def _name(item: dict[str, Any], tool: str, key: str) -> str:
    if not isinstance(name := item.get(key), str):
        raise ToolError(f"{tool} printed an entry without {key}: {str(item)[:200]}")
    return name


def _received(item: dict[str, Any], name: str) -> int:
    """Return a receive counter, 0 if an older record lacks it."""
    received = item["stats64"].get("rx")
    present = isinstance(received, dict) and name in received
    return _count(item, "ip", "stats64", "rx", name) if present else 0


def _count(item: dict[str, Any], tool: str, *path: str) -> int:
    value: Any = item
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return count(value, f"{tool}'s {' '.join(path)}")


def parse_stack(text: str) -> dict[str, int]:
    """Return the counters of /proc/net/snmp and netstat, named as by nstat (``UdpNoPorts``).

    Raises ToolError if lines of names and lines of values do not match.
    """
    counters: dict[str, int] = {}
    lines = [words for line in text.splitlines() if (words := line.split())]
    for names, values in zip_longest(lines[::2], lines[1::2], fillvalue=["nothing"]):
        if names[0] != values[0]:
            pair = f"{names[0][:50]} and {values[0][:50]}"
            raise ToolError(f"the kernel's counters {pair} do not match")
        prefix = names[0].removesuffix(":")
        try:
            counters |= {
                prefix + name: int(value) for name, value in zip(names[1:], values[1:], strict=True)
            }
        except ValueError as error:
            reason = str(error)[:200]
            raise ToolError(
                f"the kernel's counters {prefix[:50]} cannot be read: {reason}"
            ) from error
    return counters
