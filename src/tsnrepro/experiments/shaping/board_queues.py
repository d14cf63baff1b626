"""Gates, credit and priorities of a LAN966x board's port, which the chip has in hardware.

Frames between two ports never meet the kernel: what tc sets at a port is passed to the chip
(``flags 0x2``, ``offload 1``), and the queue of a frame is that of the priority which the port it
came in by read from its tag (dcb-app(8)). The chip's queues are served by strict priority, the
highest first, where nothing else is set. Their lengths are the chip's, not
``queue_bytes``.

Limits are those of the kernel's driver (drivers/net/ethernet/microchip/lan966x): entries of 1 us to
1 s, 256 of them, a guard band that is always on; credit in steps of 100 kb/s and of 4096 bytes,
counted without preamble and gap. Commands are those of Microchip's BSP documentation 2025.12.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.ethernet import GAP_BYTES, PREAMBLE_BYTES
from tsnrepro.experiments.shaping.schedule import flows_of
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.experiments.shaping.settings import Mode, ShapingPart
    from tsnrepro.testbeds.jobs.job import CabledSwitch

_PRIORITIES = range(8)
_MOST_ENTRIES = 256
_INTERVAL_NS = (1_000, 999_999_999)
_SLOPE_STEP_KBPS = 100
# The kernel gives its own queueing disciplines no number, and refuses to have them deleted.
_CLEAR = """\
if tc qdisc show dev "$1" | grep -q '^qdisc [a-z_]* [1-9a-f][0-9a-f]*: root'; then
    exec tc qdisc del dev "$1" root
fi"""


def commands(part: ShapingPart, mode: Mode, board: CabledSwitch) -> list[list[str]]:
    """Return the commands that give the board's port to the listener a mode.

    The first takes off what a trial that failed may have left.

    Raises ConfigurationError if the chip has no such gates, or no such mode.
    """
    device = board.ports["listener"]
    classes = [
        qdisc.priority_of_pcp(board.ports[sender], 0 if mode == "fifo" else None)
        for sender in ("talker", "loader")
    ]
    return [cleared(device), *classes, *_queues(part, mode, device)]


def cleared(device: str) -> list[str]:
    """Return the command that takes all queues of ours off a port."""
    return ["sh", "-c", _CLEAR, "sh", device]


def _queues(part: ShapingPart, mode: Mode, device: str) -> list[list[str]]:
    if mode == "tas":
        assert part.gates is not None
        return [qdisc.taprio_lan966x(device, _entries(part), part.gates.base_time_ns)]
    if mode == "cbs":
        return qdisc.cbs_lan966x(device, part.priority, _credits(part))
    if mode in ("prio", "fifo"):
        # Nothing to set at the chip: strict priority is what it does, and all are of one class.
        return []
    raise ConfigurationError(
        f"a LAN966x has no mode {mode}",
        f"shaping part {part.name}",
        "It has tas, cbs, prio and fifo",
    )


def _entries(part: ShapingPart) -> list[tuple[int, int]]:
    """Return gate masks and intervals: what is neither stream nor load has the load's gates.

    PTP's frames, which the board sends itself, are among them: without a gate of theirs a
    schedule would starve them.
    """
    assert part.gates is not None
    _check(part)
    return [(_mask(part, entry.mask), entry.interval_ns) for entry in part.gates.entries]


def _mask(part: ShapingPart, mask: int) -> int:
    others = mask >> part.load_priority & 1
    stream = mask >> part.priority & 1
    return sum((stream if number == part.priority else others) << number for number in _PRIORITIES)


def _check(part: ShapingPart) -> None:
    """Refuse what the driver would, with the reason that its error number lacks."""
    assert part.gates is not None
    where, gates = f"shaping part {part.name}, gates, on a LAN966x", part.gates
    low, high = _INTERVAL_NS
    if len(gates.entries) > _MOST_ENTRIES:
        raise ConfigurationError(
            f"{len(gates.entries)} entries", where, f"All its ports share {_MOST_ENTRIES}"
        )
    if wrong := [e.interval_ns for e in gates.entries if not low <= e.interval_ns <= high]:
        raise ConfigurationError(
            f"an interval of {wrong[0]:,} ns", where, f"Intervals are {low:,} to {high:,} ns"
        )
    if gates.cycle > high:
        raise ConfigurationError(
            f"a cycle of {gates.cycle:,} ns", where, f"Cycles are {high:,} ns at most"
        )
    if not gates.guard_band:
        raise ConfigurationError("its guard band is always on", where, "Set guard_band: true")


def _credits(part: ShapingPart) -> qdisc.Credits:
    """Return cbs's parameters, the slope rounded up to the next step, as the driver rounds.

    The chip counts a frame with FCS, without preamble and gap.
    """
    assert part.idle_slope_mbps is not None
    wires = [max(flow.wire_bytes) for flow in flows_of(part)]
    exact = qdisc.credits_of(
        part.idle_slope_mbps,
        part.link_rate_mbps,
        frame_wire_bytes=wires[0],
        interference_wire_bytes=wires[-1],
        uncounted_bytes=PREAMBLE_BYTES + GAP_BYTES,
    )
    steps = math.ceil(exact.idleslope_kbps / _SLOPE_STEP_KBPS)
    slope = steps * _SLOPE_STEP_KBPS
    port_kbps = exact.idleslope_kbps - exact.sendslope_kbps
    return replace(exact, idleslope_kbps=slope, sendslope_kbps=slope - port_kbps)
