"""Gate control lists, and the arithmetic by which frames fit or not, before sending.

A frame occupies its preamble, itself with every tag and FCS, and the interpacket gap: at 1 Gb/s a
byte takes 8 ns, so a window of 5 us carries 625 bytes and no 1500-byte packet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.ethernet import udp_frames, wire_bytes
from tsnrepro.config.gates import GateControlList
from tsnrepro.experiments.shaping.settings import GATED, ShapingPart, ShapingSettings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Flow:
    """What a class carries: UDP datagrams of one size, at a payload rate where that is fixed.

    ``scheduled`` flows must get their rate through; of others (a load) only the frames must fit.
    """

    name: str
    traffic_class: int
    payload_bytes: int
    rate_mbps: float | None = None
    vlan: bool = False
    r_tag: bool = False
    scheduled: bool = True

    @property
    def wire_bytes(self) -> tuple[int, ...]:
        """What each of a datagram's frames occupies, with every tag, FCS, preamble and gap."""
        frames = udp_frames(self.payload_bytes, tagged=self.r_tag, vlan=self.vlan)
        return tuple(map(wire_bytes, frames))


def wire_time_ns(wire: int, link_mbps: float) -> float:
    """Return how long ``wire`` bytes occupy a line, in nanoseconds."""
    return wire * 8000 / link_mbps


def smallest_window_ns(flow: Flow, link_mbps: float) -> int:
    """Return the shortest whole-nanosecond window in which the flow's longest frame fits."""
    return math.ceil(round(wire_time_ns(max(flow.wire_bytes), link_mbps), 6))


def check_schedule(
    gates: GateControlList,
    flows: Iterable[Flow],
    link_mbps: float,
    *,
    where: str = "gate control list",
) -> None:
    """Refuse a schedule that cannot carry its flows.

    Raises ConfigurationError if the intervals do not add up to the cycle, a class is never open, a
    window is shorter than a frame (naming the smallest that fits), or a scheduled flow has more to
    send than its windows carry.
    """
    _check_cycle(gates, where)
    for flow in flows:
        _check_flow(gates, flow, link_mbps, where)


def _check_cycle(gates: GateControlList, where: str) -> None:
    if gates.sum_ns != gates.cycle:
        relation = "fall short of" if gates.sum_ns < gates.cycle else "exceed"
        raise ConfigurationError(
            f"the {len(gates.entries)} intervals sum to {gates.sum_ns:,} ns and {relation} "
            f"the cycle of {gates.cycle:,} ns by {abs(gates.cycle - gates.sum_ns):,} ns",
            where,
            # 802.1Q holds the last entry to the cycle's end, software taprio starts over at once.
            "Give the rest of the cycle as an entry, or leave cycle_time_ns out",
        )


def _check_flow(gates: GateControlList, flow: Flow, link_mbps: float, where: str) -> None:
    windows = gates.windows_ns(flow.traffic_class)
    if not windows:
        raise ConfigurationError(
            f"traffic class {flow.traffic_class} of {flow.name} is never open",
            where,
            f"Open class {flow.traffic_class} for at least "
            f"{smallest_window_ns(flow, link_mbps):,} ns in some entry",
        )
    if gates.always_open(flow.traffic_class):
        return
    needed = smallest_window_ns(flow, link_mbps)
    longest = max(until - begin for begin, until in windows)
    if longest < needed:
        wire = max(flow.wire_bytes)
        raise ConfigurationError(
            f"no frame of {flow.name} fits: {flow.payload_bytes} bytes of payload occupy {wire} "
            f"bytes of the wire, and the longest window of class {flow.traffic_class}, "
            f"{longest:,} ns, carries {carried_bytes(longest, link_mbps)} at {link_mbps:g} Mb/s",
            where,
            f"The smallest window that fits is {needed:,} ns",
        )
    limit = payload_limit_mbps(gates, flow, link_mbps)
    if flow.scheduled and flow.rate_mbps is not None and flow.rate_mbps > limit * (1 + 1e-9):
        raise ConfigurationError(
            f"{flow.name} sends {flow.rate_mbps:g} Mb/s of payload, but the windows of class "
            f"{flow.traffic_class} carry {limit:.6g} Mb/s in a cycle of {gates.cycle:,} ns",
            where,
            "Send less, lengthen the window, or shorten the cycle",
        )


def carried_bytes(window_ns: int, link_mbps: float) -> int:
    """Return how many whole bytes of the wire a window lets through."""
    return math.floor(round(window_ns * link_mbps / 8000, 6))


def _frames_in(window_ns: int, wire: int, link_mbps: float) -> int:
    """Return how many frames of equal size a window carries whole, gap included."""
    return math.floor(round(window_ns / wire_time_ns(wire, link_mbps), 9))


def payload_limit_mbps(gates: GateControlList, flow: Flow, link_mbps: float) -> float:
    """Return the highest payload rate, in Mb/s, of a flow that has its class to itself.

    Whole datagrams a cycle; a datagram of several fragments may spread over windows, each frame
    of which is taken at the longest one's size.
    """
    longest, number = max(flow.wire_bytes), len(flow.wire_bytes)
    if gates.always_open(flow.traffic_class):
        return link_mbps * flow.payload_bytes / sum(flow.wire_bytes)
    frames = sum(
        _frames_in(until - begin, longest, link_mbps)
        for begin, until in gates.windows_ns(flow.traffic_class)
    )
    return frames / number * flow.payload_bytes * 8000 / gates.cycle


def arithmetic(gates: GateControlList, flows: Sequence[Flow], link_mbps: float) -> pd.DataFrame:
    """Return the schedule's arithmetic, one row a flow and window of its class.

    ``carries_bytes`` is what the window lets through on the wire; ``guard_band_ns`` the end of
    the window in which the flow's longest frame may no longer start; ``payload_limit_mbps`` what
    the class's windows carry of the flow together.
    """
    import pandas as pd  # noqa: PLC0415 - the command line starts without it

    rows = []
    for flow in flows:
        wire = max(flow.wire_bytes)
        closes = not gates.always_open(flow.traffic_class)
        for number, (begin, until) in enumerate(gates.windows_ns(flow.traffic_class), 1):
            length = until - begin
            rows.append(
                {
                    "flow": flow.name,
                    "traffic_class": flow.traffic_class,
                    "window": number,
                    "opens_ns": begin,
                    "length_ns": length,
                    "share_of_cycle_percent": 100 * length / gates.cycle,
                    "line_share_mbps": link_mbps * length / gates.cycle,
                    "carries_bytes": carried_bytes(length, link_mbps),
                    "payload_bytes": flow.payload_bytes,
                    "wire_bytes": wire,
                    "needs_ns": smallest_window_ns(flow, link_mbps),
                    "frames_per_window": _frames_in(length, wire, link_mbps),
                    "guard_band_ns": smallest_window_ns(flow, link_mbps) if closes else 0,
                    "payload_limit_mbps": payload_limit_mbps(gates, flow, link_mbps),
                }
            )
    return pd.DataFrame(rows)


def flows_of(part: ShapingPart) -> list[Flow]:
    """Return a part's stream and its load, where there is one, for the schedule's check."""
    stream = Flow(
        "the stream",
        part.priority,
        part.payload_bytes,
        part.rate_mbps,
        vlan=part.tagged,
        r_tag=part.kind == "tas-frer",
    )
    load = Flow(
        "the load",
        part.load_priority,
        part.load_payload_bytes,
        max(part.loads_mbps),
        vlan=part.tagged,
        scheduled=False,
    )
    return [stream, load] if part.loaded else [stream]


def check_part(part: ShapingPart) -> None:
    """Refuse a schedule that cannot carry the part's flows, before anything is sent.

    Raises ConfigurationError as :func:`check_schedule`.
    """
    if part.gates is not None and any(mode in GATED for mode in part.modes):
        where = f"shaping part {part.name}, gates"
        check_schedule(part.gates, flows_of(part), part.link_rate_mbps, where=where)


def schedules(settings: ShapingSettings, kind: str) -> dict[str, pd.DataFrame]:
    """Return the arithmetic of every gated part that a kind of testbed measures, by its name.

    Raises ConfigurationError if a schedule cannot carry the flows of its part; see
    :func:`check_schedule`.
    """
    found = {}
    for part in (part.on(kind) for part in settings.parts if kind in part.testbeds):
        check_part(part)
        if part.gates is not None:
            found[part.name] = arithmetic(part.gates, flows_of(part), part.link_rate_mbps)
    return found
