"""Queueing disciplines that give a network card a mode of shaping, by what its queues can do.

A card sends at its line's rate by itself: unlike a veth port it needs no bucket for a line, and the
guard band of its gates is its own, or the kernel's, which knows the line's speed. The stream has
the first traffic class, and with it queue 0, which is the one of i210 that knows launch times and
the first to be served; everything else has the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsnrepro.experiments.shaping.schedule import flows_of
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.config.nic_pair import Chip
    from tsnrepro.experiments.shaping.settings import Mode, ShapingPart

_PRIORITIES = range(16)
_STREAM_CLASS, _OTHER_CLASS = 0, 1
# i225 takes a gate control list for all of its queues or none.
_CLASSES: dict[Chip, int] = {"i210": 2, "i225": 4, "other": 2}
_STREAM, _OTHERS = "100:1", "100:2"
# Before its launch a packet is handed to the card so early, and to the kernel earlier still.
_ETF_DELTA_NS, _TXTIME_DELAY_NS = 300_000, 500_000


def commands(part: ShapingPart, mode: Mode, device: str, chip: Chip) -> list[list[str]]:
    """Return the commands that give a card's port a mode.

    ``part``: of the experiment, with its gates, credit and priorities. ``mode``: of shaping; those
    of end stations. ``device``: the talker's card; ``chip``: what its queues can do.
    """
    launches = chip != "other"
    if mode == "tas":
        return _gates(part, device, chip)
    if mode == "prio":
        return [qdisc.prio(device)]
    if mode in ("fifo", "direct"):
        return [qdisc.bfifo(device, part.queue_bytes)]
    queues = [_queues(part, device, chip)]
    if mode == "cbs":
        return [*queues, qdisc.cbs(device, _credits(part, chip), parent=_STREAM, offload=launches)]
    if mode == "etf":
        return [*queues, qdisc.etf(device, _STREAM, delta_ns=_ETF_DELTA_NS, offload=launches)]
    return queues


def _classes_of(part: ShapingPart) -> list[int]:
    return [_STREAM_CLASS if p == part.priority else _OTHER_CLASS for p in _PRIORITIES]


def _queues(part: ShapingPart, device: str, chip: Chip) -> list[str]:
    return qdisc.mqprio(device, num_tc=_CLASSES[chip], priority_map=_classes_of(part))


def _gates(part: ShapingPart, device: str, chip: Chip) -> list[list[str]]:
    assert part.gates is not None
    number = _CLASSES[chip]
    gates = [(_mask(part, entry.mask, number), entry.interval_ns) for entry in part.gates.entries]
    common = {
        "num_tc": number,
        "priority_map": _classes_of(part),
        "base_time_ns": part.gates.base_time_ns,
        "cycle_time_ns": part.gates.cycle,
    }
    if chip == "i225":
        return [qdisc.taprio(device, gates, mode="offload", **common)]
    if chip == "other":
        return [qdisc.taprio(device, gates, **common)]
    # i210 has no gates: each packet gets a launch time within its class's window.
    assist = qdisc.taprio(
        device, gates, mode="txtime-assist", txtime_delay_ns=_TXTIME_DELAY_NS, **common
    )
    launched = {"delta_ns": _ETF_DELTA_NS, "offload": True, "skip_sock_check": True}
    return [assist, *(qdisc.etf(device, parent, **launched) for parent in (_STREAM, _OTHERS))]


def _mask(part: ShapingPart, mask: int, number: int) -> int:
    """Return the gates of the card's classes for those of the eight priorities."""
    stream = mask >> part.priority & 1
    others = mask >> part.load_priority & 1
    return stream | sum(others << traffic_class for traffic_class in range(1, number))


def _credits(part: ShapingPart, chip: Chip) -> qdisc.Credits:
    """Return cbs's parameters; a card counts all of a frame, the kernel less."""
    assert part.idle_slope_mbps is not None
    wires = [max(flow.wire_bytes) for flow in flows_of(part)]
    return qdisc.credits_of(
        part.idle_slope_mbps,
        part.link_rate_mbps,
        frame_wire_bytes=wires[0],
        interference_wire_bytes=wires[-1],
        uncounted_bytes=qdisc.UNCOUNTED_BYTES if chip == "other" else 0,
    )
