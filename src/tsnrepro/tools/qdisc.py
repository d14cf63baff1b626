"""Queueing disciplines of tc(8), and their statistics.

Each function returns a command. Options are named as in tc-taprio(8), tc-cbs(8), tc-etf(8),
tc-mqprio(8), tc-prio(8), tc-tbf(8), tc-flower(8) and tc-skbedit(8).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tsnrepro.common.errors import ConfigurationError, ToolError
from tsnrepro.common.ethernet import FCS_BYTES, GAP_BYTES, PREAMBLE_BYTES
from tsnrepro.tools.parsing import count, json_rows

_TaprioMode = Literal["software", "txtime-assist", "offload"]

_PRIORITIES = 16
"""Linux maps 16 socket priorities to traffic classes (TC_BITMASK + 1)."""

_SAME_CLASS = (0, 1, 2, 3, 4, 5, 6, 7, *((0,) * 8))
"""Priority n to traffic class n; priorities without a PCP to class 0."""

UNCOUNTED_BYTES = PREAMBLE_BYTES + FCS_BYTES + GAP_BYTES
"""Bytes of a frame on the wire that the kernel does not count."""

VETH_MBPS = 10_000
"""Speed that veth reports, whatever shapes it: cbs uses it for its sendslope."""

_TXTIME_ASSIST, _OFFLOAD = 0x1, 0x2


# --- taprio -----------------------------------------------------------------------------------


def taprio(
    device: str,
    entries: Sequence[tuple[int, int]],
    *,
    mode: _TaprioMode = "software",
    num_tc: int = 8,
    priority_map: Sequence[int] = _SAME_CLASS,
    base_time_ns: int = 0,
    cycle_time_ns: int | None = None,
    txtime_delay_ns: int | None = None,
    handle: str = "100:",
    verb: Literal["add", "replace"] = "replace",
) -> list[str]:
    """Return the command that sets a port's gate control list (IEEE Std 802.1Q-2022, 8.6.8.4).

    An entry is a gate mask, whose bit n opens traffic class n, and an interval in ns. Mode
    ``software`` opens gates by a kernel timer; ``txtime-assist`` assigns each packet a launch time
    and needs ``txtime_delay_ns`` (the longest time from the qdisc to the card) and an etf child;
    ``offload`` uses the gates of the network card. Each class has a queue. The clock is CLOCK_TAI,
    or the card's.

    Raises ConfigurationError if a mask or an interval is invalid, or an option does not match the
    mode.
    """
    if not entries:
        raise ConfigurationError("a gate control list needs entries", f"taprio on {device}")
    for mask, interval in entries:
        if not 0 <= mask < 1 << num_tc or interval <= 0:
            raise ConfigurationError(
                f"entry {mask:#x} {interval}: masks have {num_tc} bits, intervals are above 0 ns",
                f"taprio on {device}",
            )
    if (mode == "txtime-assist") != (txtime_delay_ns is not None):
        raise ConfigurationError(
            "txtime-delay is for mode txtime-assist only", f"taprio on {device}"
        )
    words = [*_add(device, "root", handle, "taprio", verb), *_classes(num_tc, priority_map)]
    words += ["base-time", str(base_time_ns)]
    for mask, interval in entries:
        words += ["sched-entry", "S", f"{mask:02x}", str(interval)]
    if cycle_time_ns is not None:
        words += ["cycle-time", str(cycle_time_ns)]
    if mode == "offload":
        return [*words, "flags", f"{_OFFLOAD:#x}"]  # by the card's clock: no clockid
    if mode == "txtime-assist":
        words += ["flags", f"{_TXTIME_ASSIST:#x}", "txtime-delay", str(txtime_delay_ns)]
    return [*words, "clockid", "CLOCK_TAI"]


def _add(device: str, parent: str, handle: str | None, kind: str, verb: str) -> list[str]:
    place = ["root"] if parent == "root" else ["parent", parent]
    return [
        *("tc", "qdisc", verb, "dev", device),
        *place,
        *(("handle", handle) if handle else ()),
        kind,
    ]


def _classes(num_tc: int, priority_map: Sequence[int]) -> list[str]:
    if len(priority_map) != _PRIORITIES or not all(0 <= c < num_tc for c in priority_map):
        raise ConfigurationError(
            f"priority map {list(priority_map)}: {_PRIORITIES} traffic classes below {num_tc} "
            "are needed",
            "qdisc",
        )
    queues = [f"1@{number}" for number in range(num_tc)]
    return ["num_tc", str(num_tc), "map", *map(str, priority_map), "queues", *queues]


def taprio_lan966x(
    device: str, entries: Sequence[tuple[int, int]], base_time_ns: int = 0
) -> list[str]:
    """Return the command for a port of a LAN966x, which has gates in hardware."""
    return taprio(
        device,
        entries,
        mode="offload",
        base_time_ns=base_time_ns,
        cycle_time_ns=sum(interval for _, interval in entries),
        handle="1:",
        verb="add",
    )


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
    above: tuple[float, int] | None = None,
    kernel_mbps: float | None = None,
    uncounted_bytes: int = 0,
) -> Credits:
    """Return the credit parameters of a class (IEEE Std 802.1Q-2022, 8.6.8.2 and annex L).

    hicredit accumulates while the line sends the longest frame of other classes.

    Parameters
    ----------
    idle_slope_mbps
        Wire rate of the class.
    line_mbps
        Rate of the line.
    frame_wire_bytes, interference_wire_bytes
        The class's own frames and the longest of other classes, with all bytes on the wire: tags,
        FCS, preamble and interframe gap.
    above
        Idle slope in Mb/s and longest frame of a shaped class of higher priority.
    kernel_mbps
        The port's rate in the kernel if it differs (veth reports 10 Gb/s): credit decreases at this
        rate, which determines sendslope and locredit.
    uncounted_bytes
        Bytes of each frame that the kernel does not count: the slope is reduced by their share.

    Raises
    ------
    ConfigurationError
        The slopes exceed the line's rate.
    """
    reserved = above[0] if above else 0.0
    if not idle_slope_mbps > 0 or idle_slope_mbps + reserved >= line_mbps:
        raise ConfigurationError(
            f"idle slope of {idle_slope_mbps:g} Mb/s with {reserved:g} Mb/s above it does not fit "
            f"a port of {line_mbps:g} Mb/s",
            "cbs",
            "Set idle slopes above 0, and their sum below the port's rate",
        )
    counted_bytes = frame_wire_bytes - uncounted_bytes
    idle_slope = idle_slope_mbps * counted_bytes / frame_wire_bytes
    port_mbps = kernel_mbps or line_mbps
    waiting = interference_wire_bytes / (line_mbps - reserved)
    if above:
        waiting += above[1] / line_mbps
    return Credits(
        idleslope_kbps=round(idle_slope * 1000),
        sendslope_kbps=round((idle_slope - port_mbps) * 1000),
        hicredit_bytes=math.ceil(round(idle_slope * waiting, 9)),
        locredit_bytes=math.ceil(round((idle_slope - port_mbps) * counted_bytes / port_mbps, 9)),
    )


def cbs(
    device: str,
    credits_: Credits,
    *,
    parent: str = "root",
    handle: str | None = None,
    offload: bool = False,
) -> list[str]:
    """Return the command that shapes a queue by credit."""
    return [
        *_add(device, parent, handle, "cbs", "replace"),
        *("idleslope", str(credits_.idleslope_kbps), "sendslope", str(credits_.sendslope_kbps)),
        *("hicredit", str(credits_.hicredit_bytes), "locredit", str(credits_.locredit_bytes)),
        *("offload", str(int(offload))),
    ]


def cbs_lan966x(device: str, traffic_class: int, credits_: Credits) -> list[list[str]]:
    """Return the commands for a port of a LAN966x (slopes in steps of 100 kb/s).

    Raises ConfigurationError if the idle slope is not a multiple of the step.
    """
    if credits_.idleslope_kbps % 100:
        raise ConfigurationError(
            f"idle slope of {credits_.idleslope_kbps} kb/s",
            "cbs of LAN966x",
            "Set a multiple of 100 kb/s",
        )
    return [
        ["tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "mqprio"],
        cbs(device, credits_, parent=f"1:{traffic_class + 1}", handle="2:", offload=True),
    ]


# --- the others -------------------------------------------------------------------------------


def mqprio(device: str, *, num_tc: int = 8, priority_map: Sequence[int] = _SAME_CLASS) -> list[str]:
    """Return the command that assigns a transmit queue to each traffic class."""
    words = _add(device, "root", "100:", "mqprio", "replace")
    return [*words, *_classes(num_tc, priority_map), "hw", "0"]


def etf(
    device: str,
    parent: str,
    *,
    delta_ns: int,
    offload: bool = False,
    skip_sock_check: bool = False,
) -> list[str]:
    """Return the command that sends each packet at its SO_TXTIME time.

    The qdisc wakes ``delta_ns`` early. ``skip_sock_check`` accepts packets of sockets without
    SO_TXTIME, to which taprio's txtime-assist assigns times.
    """
    return [
        *_add(device, parent, None, "etf", "replace"),
        *("clockid", "CLOCK_TAI", "delta", str(delta_ns)),
        *(("offload",) if offload else ()),
        *(("skip_sock_check",) if skip_sock_check else ()),
    ]


def prio(device: str, *, parent: str = "root", handle: str = "1:") -> list[str]:
    """Return the command of strict priority in eight bands: priority 7 is band 0, served first."""
    bands = [str(7 - number) for number in _SAME_CLASS]
    words = _add(device, parent, handle, "prio", "replace")
    return [*words, "bands", "8", "priomap", *bands]


def bfifo(device: str, limit_bytes: int) -> list[str]:
    """Return the command of a FIFO queue of ``limit_bytes``."""
    return [*_add(device, "root", None, "bfifo", "replace"), "limit", str(limit_bytes)]


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
    """Return the command that limits a port to a wire rate, with ``overhead_bytes`` per frame."""
    return [
        *_add(device, parent, handle, "tbf", "replace"),
        *("rate", f"{round(rate_mbps * 1e6)}bit", "burst", str(burst_bytes)),
        *("limit", str(limit_bytes), "overhead", str(overhead_bytes)),
    ]


def pin_queues(device: str, queue_of_pcp: Mapping[int, int]) -> list[list[str]]:
    """Return the commands that select a port's transmit queue by the frame's PCP.

    Otherwise a frame keeps the queue of its talker's socket, even through a bridge and in another
    namespace, and may bypass the shaper of its class.
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


def priority_of_pcp(device: str, priority: int | None = None) -> list[str]:
    """Return the command that maps a frame's PCP to its priority in hardware, see dcb-app(8).

    Each PCP, whether drop eligible (``de``) or not (``nd``), has the priority of its number, or all
    have the given one.
    """
    mapped = [
        f"{pcp}{drop}:{pcp if priority is None else priority}"
        for drop in ("nd", "de")
        for pcp in range(8)
    ]
    return ["dcb", "app", "replace", "dev", device, "pcp-prio", *mapped]


def tag_by_priority(device: str, program: str) -> list[list[str]]:
    """Return the commands that tag frames if the kernel has no VLAN devices.

    ``program`` is an eBPF object with a section ``push``, which tags sent frames with the socket's
    priority as PCP, and a section ``pop``, which removes the tag from received frames.
    """
    sides = (("egress", "push"), ("ingress", "pop"))
    return [
        ["tc", "qdisc", "replace", "dev", device, "clsact"],
        *(
            [
                *("tc", "filter", "replace", "dev", device, side, "pref", "1"),
                *("bpf", "direct-action", "object-file", program, "section", section),
            ]
            for side, section in sides
        ),
    ]


# --- statistics -------------------------------------------------------------------------------


# iproute2 before 6.5 prints broken JSON while taprio has a schedule that is not in force yet: it is
# asked again for 5 s.
_SHOW = (
    'tries=0; while output=$(tc -s -j qdisc show dev "$1") || exit; do case $output in '
    """*'],{"base_time"'* | *'",{"base_time"'*) ;; *) break ;; esac; """
    '[ "$tries" -lt 50 ] || break; tries=$((tries + 1)); sleep 0.1; done; '
    "printf '%s\\n' \"$output\""
)


def show(device: str) -> list[str]:
    """Return the command that prints the statistics of a port's queueing disciplines."""
    return ["sh", "-c", _SHOW, "sh", device]


_COUNTERS = {
    "sent_bytes": "bytes",
    "sent_packets": "packets",
    "drops": "drops",
    "overlimits": "overlimits",
    "backlog_packets": "qlen",
}


def parse_statistics(text: str) -> list[dict[str, Any]]:
    """Parse ``tc -s -j qdisc show``: a row per queueing discipline.

    Rows have ``kind``, ``handle``, ``parent`` (``root`` or a class), ``sent_bytes`` (without FCS),
    ``sent_packets``, ``drops``, ``overlimits`` and ``backlog_packets``, the queue length at
    the reading.

    Raises ToolError if it is not such an output.
    """
    try:
        return [
            {
                "kind": item["kind"],
                "handle": item["handle"],
                "parent": "root" if item.get("root") else item.get("parent", ""),
                **{name: count(item[printed], printed) for name, printed in _COUNTERS.items()},
            }
            for item in json_rows(text, "tc")
        ]
    except (KeyError, ToolError) as error:
        if isinstance(error, ToolError) and error.remedy:
            raise
        raise ToolError(
            f"tc printed no statistics of queueing disciplines ({str(error)[:100]}): "
            f"{text.strip()[:200] or 'nothing'}"
        ) from error


def statistics_between(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the differences of statistics between two readings, and the last backlogs.

    Raises ToolError if a queueing discipline was replaced in between.
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
