"""tc's queueing disciplines: taprio, cbs, etf, mqprio, prio, tbf; and what they counted.

Every function returns the words of one command. Names of options are those of tc-taprio(8),
tc-cbs(8), tc-etf(8), tc-mqprio(8), tc-prio(8), tc-tbf(8), tc-flower(8) and tc-skbedit(8).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tsnrepro.errors import ConfigurationError, ToolError
from tsnrepro.ethernet import FCS_BYTES, GAP_BYTES, PREAMBLE_BYTES

_CLASSES = 8
_SAME_CLASS = (*range(_CLASSES), *((0,) * 8))
"""Priority n to traffic class n; Linux maps 16 (TC_BITMASK + 1), and what no PCP carries is 0."""
_CLASS_QUEUES = (
    *("num_tc", str(_CLASSES), "map", *map(str, _SAME_CLASS)),
    *("queues", *(f"1@{number}" for number in range(_CLASSES))),
)
"""Each traffic class has a transmit queue of its own."""

UNCOUNTED_BYTES = PREAMBLE_BYTES + FCS_BYTES + GAP_BYTES
"""What the kernel does not count of a frame that occupies a line."""

VETH_MBPS = 10_000
"""Speed that veth reports, whatever shapes it: cbs reckons its sendslope from it."""


# --- taprio -----------------------------------------------------------------------------------


def taprio(
    device: str,
    entries: Sequence[tuple[int, int]],
    *,
    base_time_ns: int = 0,
    cycle_time_ns: int | None = None,
) -> list[str]:
    """Return the command that gives a port a gate control list (IEEE Std 802.1Q-2022, 8.6.8.4).

    An entry is a gate mask, whose bit n opens traffic class n, and an interval in ns. A kernel
    timer opens and closes the gates.

    Raises
    ------
    ConfigurationError
        A mask or an interval that no gate control list can have.
    """
    if not entries:
        raise ConfigurationError("a gate control list needs entries", f"taprio on {device}")
    for mask, interval in entries:
        if not 0 <= mask < 1 << _CLASSES or interval <= 0:
            raise ConfigurationError(
                f"entry {mask:#x} {interval}: masks have {_CLASSES} bits, intervals are above 0 ns",
                f"taprio on {device}",
            )
    words = [*_add(device, "root", "100:", "taprio"), *_CLASS_QUEUES]
    words += ["base-time", str(base_time_ns)]
    for mask, interval in entries:
        words += ["sched-entry", "S", f"{mask:02x}", str(interval)]
    if cycle_time_ns is not None:
        words += ["cycle-time", str(cycle_time_ns)]
    return [*words, "clockid", "CLOCK_TAI"]


def _add(device: str, parent: str, handle: str | None, kind: str) -> list[str]:
    place = ["root"] if parent == "root" else ["parent", parent]
    named = ["handle", handle] if handle else []
    return ["tc", "qdisc", "replace", "dev", device, *place, *named, kind]


# --- credit-based shaper ----------------------------------------------------------------------


@dataclass(frozen=True)
class Credits:
    """Parameters of cbs: slopes in kb/s, credit limits in bytes."""

    idleslope_kbps: int
    sendslope_kbps: int
    hicredit_bytes: int
    locredit_bytes: int


def credits_of(
    idle_slope_mbps: float,
    line_mbps: float,
    *,
    frame_wire_bytes: int,
    interference_wire_bytes: int,
    kernel_mbps: float | None = None,
    uncounted_bytes: int = 0,
) -> Credits:
    """Return the credit parameters of a class (IEEE Std 802.1Q-2022, 8.6.8.2 and annex L).

    hicredit is what builds up while the line sends the longest frame of other classes.

    Parameters
    ----------
    idle_slope_mbps
        The wire rate that the class gets.
    line_mbps
        The line's rate, for which other classes make this one wait.
    frame_wire_bytes, interference_wire_bytes
        The class's own frames and the longest of others, with everything that is on the wire:
        tags, FCS, preamble and gap.
    kernel_mbps
        The port's rate as the kernel knows it, where that is another (veth claims 10 Gb/s): it
        takes a frame's credit off at this rate, so sendslope and locredit have to go by it.
    uncounted_bytes
        What the kernel does not count of each frame: its slope is lower by their share.

    Raises
    ------
    ConfigurationError
        The slopes do not fit the line.
    """
    if not 0 < idle_slope_mbps < line_mbps:
        raise ConfigurationError(
            f"idle slope of {idle_slope_mbps:g} Mb/s does not fit a port of {line_mbps:g} Mb/s",
            "cbs",
            "Idle slopes are above 0 and below the port's rate",
        )
    counted_bytes = frame_wire_bytes - uncounted_bytes
    idle_slope = idle_slope_mbps * counted_bytes / frame_wire_bytes
    port_mbps = kernel_mbps or line_mbps
    waited = interference_wire_bytes / line_mbps
    return Credits(
        idleslope_kbps=round(idle_slope * 1000),
        sendslope_kbps=round((idle_slope - port_mbps) * 1000),
        hicredit_bytes=math.ceil(round(idle_slope * waited, 9)),
        locredit_bytes=math.ceil(round((idle_slope - port_mbps) * counted_bytes / port_mbps, 9)),
    )


def cbs(device: str, credits_: Credits, *, parent: str = "root") -> list[str]:
    """Return the command that shapes a queue by credit."""
    return [
        *_add(device, parent, None, "cbs"),
        *("idleslope", str(credits_.idleslope_kbps), "sendslope", str(credits_.sendslope_kbps)),
        *("hicredit", str(credits_.hicredit_bytes), "locredit", str(credits_.locredit_bytes)),
        *("offload", "0"),
    ]


# --- the others -------------------------------------------------------------------------------


def mqprio(device: str) -> list[str]:
    """Return the command that gives each traffic class its own transmit queue."""
    return [*_add(device, "root", "100:", "mqprio"), *_CLASS_QUEUES, "hw", "0"]


def etf(device: str, parent: str, *, delta_ns: int) -> list[str]:
    """Return the command that sends each packet at its SO_TXTIME time.

    The qdisc wakes ``delta_ns`` early.
    """
    words = _add(device, parent, None, "etf")
    return [*words, "clockid", "CLOCK_TAI", "delta", str(delta_ns)]


def prio(device: str, *, parent: str = "root", handle: str = "1:") -> list[str]:
    """Return the command of strict priority: band 0 is served first, and priority 7 is band 0."""
    bands = [str(_CLASSES - 1 - number) for number in _SAME_CLASS]
    words = _add(device, parent, handle, "prio")
    return [*words, "bands", str(_CLASSES), "priomap", *bands]


def tbf(
    device: str,
    rate_mbps: float,
    *,
    burst_bytes: int,
    limit_bytes: int,
    overhead_bytes: int = UNCOUNTED_BYTES,
    parent: str = "root",
    handle: str | None = "1:",
) -> list[str]:
    """Return the command that holds a port to a wire rate, ``overhead_bytes`` a frame included."""
    return [
        *_add(device, parent, handle, "tbf"),
        *("rate", f"{round(rate_mbps * 1e6)}bit", "burst", str(burst_bytes)),
        *("limit", str(limit_bytes), "overhead", str(overhead_bytes)),
    ]


def pin_queues(device: str, queue_of_pcp: Mapping[int, int]) -> list[list[str]]:
    """Return the commands that choose a port's transmit queue by the frame's PCP.

    Without them a frame keeps the queue its talker's socket chose, also through a bridge and into
    another namespace, and may pass by the shaper of its class.
    """
    commands = [["tc", "qdisc", "replace", "dev", device, "clsact"]]
    for number, (pcp, queue) in enumerate(sorted(queue_of_pcp.items()), 1):
        commands.append(
            [
                *("tc", "filter", "replace", "dev", device, "egress", "pref", str(number)),
                *("protocol", "802.1Q", "flower", "vlan_prio", str(pcp)),
                *("action", "skbedit", "queue_mapping", str(queue), "priority", str(pcp)),
            ]
        )
    return commands


# --- what they counted ------------------------------------------------------------------------


def show(device: str) -> list[str]:
    """Return the command that prints what a port's queueing disciplines counted."""
    return ["tc", "-s", "-j", "qdisc", "show", "dev", device]


_COUNTERS = {
    "sent_bytes": "bytes",
    "sent_packets": "packets",
    "drops": "drops",
    "overlimits": "overlimits",
    "backlog_packets": "qlen",
}


def parse_statistics(text: str) -> list[dict[str, Any]]:
    """Return what ``tc -s -j qdisc show`` printed, a row a queueing discipline.

    Rows have ``kind``, ``handle``, ``parent`` (``root`` or a class), ``sent_bytes`` (of frames
    without FCS), ``sent_packets``, ``drops``, ``overlimits`` and ``backlog_packets``, which were
    waiting when it was read.

    Raises
    ------
    ToolError
        It is no such output.
    """
    try:
        found = json.loads(text)
        if not isinstance(found, list):
            raise TypeError("no list")
        return [
            {
                "kind": item["kind"],
                "handle": item["handle"],
                "parent": "root" if item.get("root") else item.get("parent", ""),
                **{name: item[printed] for name, printed in _COUNTERS.items()},
            }
            for item in found
        ]
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(
            f"tc printed no statistics of queueing disciplines ({error}): "
            f"{text.strip()[:200] or 'nothing'}"
        ) from error


def counted_between(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what each queueing discipline counted between two readings, and what waits in it.

    Raises
    ------
    ToolError
        A counter went back or a discipline is gone: it was replaced in between.
    """
    names = ("kind", "handle", "parent")
    earlier = {tuple(row[name] for name in names): row for row in before}
    rows = []
    for row in after:
        first = earlier.get(tuple(row[name] for name in names))
        if first is None or any(row[n] < first[n] for n in ("sent_packets", "drops")):
            raise ToolError(
                "{kind} {handle} at {parent} was replaced between the readings".format(**row)
            )
        growing = [name for name in _COUNTERS if name != "backlog_packets"]
        rows.append(row | {name: row[name] - first[name] for name in growing})
    return rows
