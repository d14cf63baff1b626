"""Settings of the experiment ``shaping``: parts, each comparing modes under one schedule."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.settings.strict import PositiveFloat, PositiveInt, Strict

TrafficClass = Annotated[int, Field(ge=0, le=7)]


class GateWindow(Strict):
    """One entry of a gate control list: the traffic classes that are open, and for how long."""

    open_classes: list[TrafficClass]
    interval_ns: PositiveInt

    @property
    def mask(self) -> int:
        """The gate states as taprio's ``sched-entry S`` takes them: bit n is traffic class n."""
        return sum(1 << number for number in set(self.open_classes))


class GateControlList(Strict):
    """A gate control list (IEEE Std 802.1Q-2022, 8.6.8.4 and 8.6.9).

    ``cycle_ns`` is the sum of the intervals where it is not given. ``base_time_ns`` is TAI.
    """

    entries: Annotated[list[GateWindow], Field(min_length=1)]
    cycle_ns: PositiveInt | None = None
    base_time_ns: Annotated[int, Field(ge=0)] = 0
    guard_band: bool = True

    @property
    def sum_ns(self) -> int:
        """The sum of the intervals, in nanoseconds."""
        return sum(entry.interval_ns for entry in self.entries)

    @property
    def cycle(self) -> int:
        """The cycle time, in nanoseconds."""
        return self.cycle_ns or self.sum_ns

    def windows_ns(self, traffic_class: int) -> list[tuple[int, int]]:
        """Return when a class is open in the cycle, as (from, until) in nanoseconds, in order.

        Neighbouring entries are joined, also through the cycle's end: such a window ends beyond
        the cycle. A class that never closes has one window of the whole cycle.
        """
        joined: list[tuple[int, int]] = []
        begin = 0
        for entry in self.entries:
            end = begin + entry.interval_ns
            if traffic_class in entry.open_classes:
                if joined and joined[-1][1] == begin:
                    joined[-1] = (joined[-1][0], end)
                else:
                    joined.append((begin, end))
            begin = end
        if len(joined) > 1 and joined[0][0] == 0 and joined[-1][1] == self.cycle:
            (_, first_end), (last_begin, _) = joined[0], joined[-1]
            joined = [*joined[1:-1], (last_begin, self.cycle + first_end)]
        return joined

    def always_open(self, traffic_class: int) -> bool:
        """Tell whether a class's gate never closes."""
        return self.windows_ns(traffic_class) == [(0, self.cycle)]


Mode = Literal["tas", "prio", "cbs", "mqprio", "etf", "fifo", "direct"]
Kind = Literal["end-station", "bridge", "tas-frer"]
TestbedKind = Literal["model", "guest", "emulated", "hardware"]

# The sequence number and the time of sending that every datagram carries.
StampedPayload = Annotated[int, Field(ge=12, le=1472)]

MODES_OF: dict[Kind, tuple[Mode, ...]] = {
    "end-station": ("tas", "prio", "cbs", "mqprio", "etf", "fifo"),
    "bridge": ("tas", "prio", "cbs", "fifo", "direct"),
    "tas-frer": ("tas", "prio", "fifo"),
}
GATED: tuple[Mode, ...] = ("tas",)


class ShapingPart(Strict):
    """Modes that are compared with everything else equal.

    ``end-station`` shapes the talker's own port, which its load shares; ``bridge`` the switch's
    port to the listener, to which another host sends the load; ``tas-frer`` the switch's ports of
    the member paths, each with a load of its own.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=24)]
    kind: Kind
    modes: Annotated[list[Mode], Field(min_length=1)]
    testbeds: Annotated[list[TestbedKind], Field(min_length=1)] = ["model"]
    """Kinds of testbeds that can run this part: software gates cannot hold cycles of a few us."""
    link_rate_mbps: PositiveFloat = 1000.0
    """Wire rate of every link."""
    queue_bytes: PositiveInt = 262144
    """Limit of each egress queue; one with ``fifo``, else one for each class."""
    gates: GateControlList | None = None
    """Schedule of ``tas``, and the cycle that every mode's phases are taken of."""
    idle_slope_mbps: PositiveFloat | None = None
    """Wire rate that ``cbs`` reserves for the stream's class."""
    priority: TrafficClass = 5
    """Traffic class of the stream: socket priority, and PCP where the frame is tagged."""
    load_priority: TrafficClass = 0
    payload_bytes: StampedPayload
    packets: PositiveInt
    interval_us: PositiveFloat
    """Mean time between two datagrams of the stream."""
    interval_spread_us: Annotated[float, Field(ge=0)] = 0.0
    """Span over which sends fall evenly, as of a talker that does not keep step with the gate."""
    launch_phase_us: Annotated[float, Field(ge=0)] = 0.0
    """Where in the cycle ``etf`` launches the stream's datagrams (``interval_us`` apart)."""
    loads_mbps: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)] = [0.0]
    """Payload rates of the load; what the line cannot take waits in the sender's socket."""
    load_payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 1472

    @model_validator(mode="after")
    def _modes_have_what_they_need(self) -> ShapingPart:
        known = MODES_OF[self.kind]
        if wrong := [mode for mode in self.modes if mode not in known]:
            raise ValueError(
                f"{self.kind} has no mode {', '.join(wrong)}; it has {', '.join(known)}"
            )
        if self.gates is None and any(mode in GATED for mode in self.modes):
            raise ValueError("mode tas needs gates")
        if self.idle_slope_mbps is None and "cbs" in self.modes:
            raise ValueError("mode cbs needs idle_slope_mbps")
        if self.priority == self.load_priority:
            raise ValueError(
                f"stream and load are both of class {self.priority}: no mode could tell them apart"
            )
        if self.interval_spread_us > self.interval_us:
            raise ValueError(
                f"interval_spread_us of {self.interval_spread_us:g} is above interval_us of "
                f"{self.interval_us:g}: datagrams would overtake each other"
            )
        return self

    @property
    def tagged(self) -> bool:
        """Whether frames carry a VLAN tag, without which a switch knows no priority."""
        return self.kind != "end-station"

    @property
    def rate_mbps(self) -> float:
        """The stream's payload rate."""
        return self.payload_bytes * 8 / self.interval_us

    @property
    def loaded(self) -> bool:
        """Whether any trial of the part has a load."""
        return any(rate > 0 for rate in self.loads_mbps)


class ShapingSettings(Strict):
    """Gates, credit and priority against a load: end stations, switches, and FRER behind gates."""

    repetitions: PositiveInt
    parts: Annotated[list[ShapingPart], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_unique(self) -> ShapingSettings:
        names = [part.name for part in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"part name used twice: {', '.join(twice)}")
        return self
