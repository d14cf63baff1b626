"""Shaping by a kernel's queueing disciplines on veth ports, in software.

veth sends at no rate of its own: a token bucket holds the port to the line's, above the scheduler
where one qdisc can hold it, below each class where it cannot (taprio, mqprio). There

- gates close a frame's time on the line before their window ends, since the kernel's own guard
  band is that of veth's 10 Gb/s (``guard_band``);
- with launch times or separate queues alone (etf, mqprio) nothing arbitrates between classes, so
  the load's bucket has what the stream leaves of the line.

What network cards do themselves is in :mod:`.card_queues`.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from tsnrepro.common.ethernet import VLAN_TAG_BYTES
from tsnrepro.experiments.shaping.schedule import flows_of, smallest_window_ns
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.experiments.shaping.settings import Mode, ShapingPart

# Without a card that holds packets until their launch, etf lets each go this long before it; one
# that its timer wakes later than the launch is dropped.
_ETF_DELTA_NS = 20_000
# Besides one frame, what a token bucket may send at once: a timer late by less costs no rate.
_BURST_SLACK_BYTES = 250


def _uncounted_bytes(part: ShapingPart) -> int:
    """Return what a qdisc does not count of a frame; a tag stands beside it, not in it."""
    return qdisc.UNCOUNTED_BYTES + (VLAN_TAG_BYTES if part.tagged else 0)


def wire(
    part: ShapingPart,
    device: str,
    rate_mbps: float | None = None,
    *,
    parent: str = "root",
    handle: str = "1:",
) -> list[str]:
    """Return the command that holds a port or a class to the line's rate, or to another."""
    longest = max(max(flow.wire_bytes) for flow in flows_of(part))
    return qdisc.tbf(
        device,
        part.link_rate_mbps if rate_mbps is None else rate_mbps,
        burst_bytes=longest + _BURST_SLACK_BYTES,
        limit_bytes=part.queue_bytes,
        overhead_bytes=_uncounted_bytes(part),
        parent=parent,
        handle=handle,
    )


def commands(part: ShapingPart, mode: Mode, device: str) -> list[list[str]]:
    """Return the commands that give a veth port a mode, in software; see the module's head."""
    if mode in ("fifo", "direct"):
        return [wire(part, device)]
    if mode in ("prio", "cbs"):
        commands = [wire(part, device), qdisc.prio(device, parent="1:1", handle="2:")]
        if mode == "cbs":
            # Band n of prio is class 2:(n + 1), and priority 7 is band 0.
            commands.append(qdisc.cbs(device, _credits(part), parent=f"2:{8 - part.priority}"))
        return commands
    if mode == "tas":
        assert part.gates is not None
        taprio = qdisc.taprio(
            device,
            gate_entries(part),
            base_time_ns=part.gates.base_time_ns,
            cycle_time_ns=part.gates.cycle,
        )
        classes = sorted({part.priority, part.load_priority})
        return [taprio, *(_class_wire(part, device, number) for number in classes)]
    stream, wire_ns = flows_of(part)[0], part.interval_us * 1000
    left_mbps = part.link_rate_mbps - sum(stream.wire_bytes) * 8000 / wire_ns
    return [
        qdisc.mqprio(device),
        _class_wire(part, device, part.load_priority, left_mbps),
        qdisc.etf(device, f"100:{part.priority + 1}", delta_ns=_ETF_DELTA_NS)
        if mode == "etf"
        else _class_wire(part, device, part.priority),
    ]


def gate_entries(part: ShapingPart) -> list[tuple[int, int]]:
    """Return the masks and intervals (ns) of a part's gates, guard bands of the line included."""
    assert part.gates is not None
    gates, rate = part.gates, part.link_rate_mbps
    if not gates.guard_band:
        return [(entry.mask, entry.interval_ns) for entry in gates.entries]
    closed = {}
    for flow in flows_of(part):
        if not gates.always_open(flow.traffic_class):
            guard = smallest_window_ns(flow, rate)
            closed[flow.traffic_class] = [
                (until - guard, until) for _, until in gates.windows_ns(flow.traffic_class)
            ]
    starts = [0, *accumulate(entry.interval_ns for entry in gates.entries)]
    edges = {*starts, *(edge % gates.cycle for band in closed.values() for e in band for edge in e)}
    entries = []
    for begin, end in pairwise(sorted(edges)):
        mask = gates.entries[bisect_right(starts, begin) - 1].mask
        for number, bands in closed.items():
            if any(a <= begin + turn < b for a, b in bands for turn in (0, gates.cycle)):
                mask &= ~(1 << number)
        entries.append((mask, end - begin))
    return entries


def _class_wire(
    part: ShapingPart, device: str, traffic_class: int, rate_mbps: float | None = None
) -> list[str]:
    parent, handle = f"100:{traffic_class + 1}", f"{11 + traffic_class}:"
    return wire(part, device, rate_mbps, parent=parent, handle=handle)


def _credits(part: ShapingPart) -> qdisc.Credits:
    """Return cbs's parameters: slopes against the speed that veth claims, credit for the line."""
    assert part.idle_slope_mbps is not None
    wires = [max(flow.wire_bytes) for flow in flows_of(part)]
    return qdisc.credits_of(
        part.idle_slope_mbps,
        part.link_rate_mbps,
        frame_wire_bytes=wires[0],
        interference_wire_bytes=wires[-1],
        kernel_mbps=qdisc.VETH_MBPS,
        uncounted_bytes=_uncounted_bytes(part),
    )
