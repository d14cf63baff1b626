"""Settings of the experiment ``shaping``: parts, each comparing modes under one schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, cast

from pydantic import Field, ValidationError, create_model, model_validator

from tsnrepro.config.base import (
    ConfigModel,
    LoadMbps,
    OneOrMore,
    Packets,
    Percent,
    PositiveFloat,
    PositiveInt,
    QueueBytes,
    RateMbps,
    Repetitions,
)
from tsnrepro.config.gates import GateControlList, TrafficClass
from tsnrepro.config.registry import CARDS, EMULATED, GUEST, MODEL, Experiment

Mode = Literal["tas", "prio", "cbs", "mqprio", "etf", "fifo", "direct", "toggled"]
Kind = Literal["end-station", "bridge", "tas-frer"]
Switch = Literal["kernel", "bridge"]
Threads = Literal[1, 2]
Receivers = Literal["one", "each"]
TestbedKind = Literal["model", "guest", "emulated", "cards"]

CARDS_MEDIUM = "network cards"
"""The medium of trials between two cards that a cable joins; others name their testbed."""
BOARD_MEDIUM = "LAN966x between network cards"
"""The medium of trials in which a port of a board shapes."""

# The sequence number and the time of sending that every datagram carries.
_StampedPayload = Annotated[int, Field(ge=12, le=1472)]

MODES_OF: dict[Kind, tuple[Mode, ...]] = {
    "end-station": ("tas", "prio", "cbs", "mqprio", "etf", "fifo", "toggled"),
    "bridge": ("tas", "prio", "cbs", "fifo", "direct", "toggled"),
    "tas-frer": ("tas", "prio", "fifo"),
}
_OF_A_KERNEL: tuple[Mode, ...] = ("mqprio", "etf")
GATED: tuple[Mode, ...] = ("tas",)
TOGGLED: Mode = "toggled"
"""Gates that are enabled and disabled in turn within a trial (GateEnabled of IEEE Std 802.1Q-2022,
8.6.9.4); while they are disabled, priorities alone decide."""
LAUNCHED: tuple[Mode, ...] = ("etf",)
"""Modes whose datagrams carry the launch time asked for in place of the time of sending."""


class _Conditions(ConfigModel):
    """What the trials of a part share, as far as it may differ between kinds of testbeds."""

    modes: OneOrMore[Mode]
    switch: Switch = "kernel"
    """What shapes on hosts: the kernel's bridge and queueing disciplines, or ``bridge``, the
    software bridge, which needs none of these of the kernel. It stands for a talker's own port too
    (frames have a VLAN tag then, and what its queues have no room for is lost), and it alone shapes
    behind FRER."""
    threads: Threads = 1
    """Of the software bridge: one that receives and sends in turn, or one for either. Where few
    processors do everything, a thread more is one more that waits for them."""
    receivers: Receivers = "one"
    """Of the software bridge: one receiving thread for all ports, or one for ``each`` and another
    that sends."""
    link_rate_mbps: RateMbps = 1000.0
    """Wire rate of every link."""
    queue_bytes: QueueBytes = 262144
    """Limit of each egress queue; one with ``fifo``, else one for each class."""
    gates: GateControlList | None = None
    """Schedule of ``tas``, and the cycle that every mode's phases are taken of."""
    toggles: PositiveInt | None = None
    """How often ``toggled`` disables or enables the gates, evenly over the time of sending. A trial
    begins with enabled ones."""
    idle_slope_mbps: RateMbps | None = None
    """Wire rate that ``cbs`` reserves for the stream's class."""
    priority: TrafficClass = 5
    """Traffic class of the stream: socket priority, and PCP where the frame is tagged."""
    load_priority: TrafficClass = 0
    payload_bytes: _StampedPayload
    packets: Packets
    interval_us: PositiveFloat
    """Mean time between two datagrams of the stream."""
    interval_spread_us: Annotated[float, Field(ge=0)] = 0.0
    """Span over which sends fall evenly, as of a talker that does not keep step with the gate.

    On hosts 0, which keeps step, or the whole cycle."""
    launch_phase_us: Annotated[float, Field(ge=0)] = 0.0
    """Where in the cycle ``etf`` launches the stream's datagrams (``interval_us`` apart)."""
    loads_mbps: OneOrMore[LoadMbps] = [0.0]
    """Payload rates of the load; what the line cannot take waits in the sender's socket."""
    load_payload_bytes: _StampedPayload = 1472
    repetitions: Repetitions | None = None
    """Of this part's trials, where they are not the experiment's."""
    repetitions_of: dict[Mode, Repetitions] = {}
    """Of single modes: one whose difference from the others is large is known by fewer."""
    max_stalled_percent: Percent | None = None
    """Measure a trial again, once the others are measured and within its attempts, if a machine
    kept threads waiting at more of the stall meter's checks; the steadiest attempt counts where all
    were like this. A quantile is the network's only while far fewer frames than those beyond it
    meet a stall. Fewer frames meet one than the meter's checks: talker, listener and bridge run
    before it."""
    max_stall_ms: Annotated[float, Field(gt=0)] | None = None
    """In place of the campaign's, and as ``max_stalled_percent`` put off until the others are
    measured: one stall that holds up as many frames as lie beyond a quantile is the quantile."""


def _all_optional(model: type[ConfigModel], name: str) -> Any:
    """Return a model with the same settings, each of which may be left out."""
    fields = {
        key: (Optional[Annotated[field.annotation, *field.metadata, Field()]], None)  # noqa: UP045 - not typed
        for key, field in model.model_fields.items()
    }
    return create_model(name, __base__=ConfigModel, **cast("dict[str, Any]", fields))


if TYPE_CHECKING:
    ShapingOverrides = ConfigModel
else:
    ShapingOverrides = _all_optional(_Conditions, "ShapingOverrides")


class ShapingPart(_Conditions):
    """Modes that are compared with everything else equal.

    ``end-station`` shapes the talker's own port, which its load shares; ``bridge`` the switch's
    port to the listener, to which another host sends the load; ``tas-frer`` the switch's ports of
    the member paths, each with a load of its own.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=24)]
    kind: Kind
    testbeds: Annotated[dict[TestbedKind, ShapingOverrides], Field(min_length=1)] = {
        "model": ShapingOverrides()
    }
    """The kinds of testbeds that measure this part, each with the settings that differ there.

    A part is one question under one name, whatever the testbed: a gate of software cannot hold a
    cycle of a few microseconds, so there the cycle is longer and the line slower."""

    @model_validator(mode="after")
    def _modes_have_what_they_need(self) -> ShapingPart:
        known = MODES_OF[self.kind]
        if wrong := [mode for mode in self.modes if mode not in known]:
            raise ValueError(
                f"{self.kind} has no mode {', '.join(wrong)}; it has {', '.join(known)}"
            )
        gated = [mode for mode in self.modes if mode in (*GATED, TOGGLED)]
        if self.gates is None and gated:
            raise ValueError(f"mode {gated[0]} needs gates")
        if self.idle_slope_mbps is None and "cbs" in self.modes:
            raise ValueError("mode cbs needs idle_slope_mbps")
        if self.software_bridge and (wrong := [m for m in self.modes if m in _OF_A_KERNEL]):
            raise ValueError(f"the software bridge has no mode {', '.join(wrong)}")
        if wrong := [mode for mode in self.repetitions_of if mode not in self.modes]:
            raise ValueError(f"repetitions_of names {', '.join(wrong)}, which no trial has")
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

    @model_validator(mode="after")
    def _only_the_bridge_has_threads(self) -> ShapingPart:
        if not self.software_bridge and (self.threads, self.receivers) != (1, "one"):
            raise ValueError("threads and receivers are the software bridge's: switch: bridge")
        return self

    @model_validator(mode="after")
    def _cards_can(self) -> ShapingPart:
        if CARDS not in self.testbeds:
            return self
        if self.kind == "tas-frer":
            raise ValueError("testbeds.cards: no path is replicated there, so there is no tas-frer")
        if self._switch_on(CARDS) == "bridge":
            raise ValueError(
                "testbeds.cards: cards and boards shape, so there is no switch: bridge"
            )
        given = self.testbeds[CARDS]
        if self.kind == "bridge" and "direct" in (getattr(given, "modes", None) or self.modes):
            raise ValueError("testbeds.cards: the board stays between the cards: no mode direct")
        gates = getattr(given, "gates", None) or self.gates
        if self.kind == "bridge" and gates is not None and not gates.guard_band:
            raise ValueError("testbeds.cards: a LAN966x always has its guard band")
        return self

    @model_validator(mode="after")
    def _toggles_what_it_can(self) -> ShapingPart:
        if (TOGGLED in self.modes) != (self.toggles is not None):
            raise ValueError("mode toggled needs toggles, and no other mode has any")
        if self.toggles is None:
            return self
        if self.modes != [TOGGLED]:
            raise ValueError("mode toggled needs a part of its own: it has both states in it")
        if wrong := [kind for kind in self.testbeds if kind not in (MODEL, EMULATED)]:
            raise ValueError(f"testbeds.{wrong[0]}: gates are toggled on model and emulated only")
        if EMULATED in self.testbeds and self._switch_on(EMULATED) != "bridge":
            raise ValueError("testbeds.emulated: only switch: bridge toggles its gates")
        return self

    @model_validator(mode="after")
    def _frer_has_what_shapes_behind_it(self) -> ShapingPart:
        if self.kind != "tas-frer":
            return self
        if GUEST in self.testbeds:
            raise ValueError("testbeds.guest: FRER behind gates runs on model and emulated only")
        if EMULATED in self.testbeds and self._switch_on(EMULATED) != "bridge":
            raise ValueError("testbeds.emulated: only switch: bridge shapes behind FRER")
        return self

    @model_validator(mode="after")
    def _holds_on_every_kind(self) -> ShapingPart:
        for kind, overrides in self.testbeds.items():
            if overrides.model_fields_set:
                try:
                    self.on(kind)
                except ValidationError as error:
                    problems = "; ".join(
                        ": ".join(
                            [*map(str, item["loc"]), item["msg"].removeprefix("Value error, ")]
                        )
                        for item in error.errors()
                    )
                    raise ValueError(f"testbeds.{kind}: {problems}") from None
        return self

    def _switch_on(self, kind: TestbedKind) -> Switch:
        return getattr(self.testbeds[kind], "switch", None) or self.switch

    def on(self, kind: TestbedKind) -> ShapingPart:
        """Return the part as a kind of testbed measures it.

        Raises
        ------
        KeyError
            The part is not measured on such a testbed.
        """
        overrides = self.testbeds[kind].model_dump(exclude_unset=True)
        common = self.model_dump(exclude={"testbeds"})
        return ShapingPart.model_validate(common | overrides | {"testbeds": {kind: {}}})

    @property
    def tagged(self) -> bool:
        """Whether frames carry a VLAN tag, without which a switch knows no priority."""
        return self.kind != "end-station" or self.software_bridge

    @property
    def software_bridge(self) -> bool:
        """Whether the software bridge switches on hosts."""
        return self.switch == "bridge"

    @property
    def rate_mbps(self) -> float:
        """The stream's payload rate."""
        return self.payload_bytes * 8 / self.interval_us

    @property
    def phase_s(self) -> float:
        """How long toggled gates stay enabled, or disabled."""
        return self.packets * self.interval_us / 1e6 / ((self.toggles or 0) + 1)

    @property
    def loaded(self) -> bool:
        """Whether any trial of the part has a load."""
        return any(rate > 0 for rate in self.loads_mbps)


class ShapingSettings(ConfigModel):
    """Gates, credit and priority against a load: end stations, switches, and FRER behind gates."""

    repetitions: Repetitions
    parts: Annotated[list[ShapingPart], Field(min_length=1)]

    def uses_kernel_qdiscs(self, kind: TestbedKind) -> bool:
        """Tell whether any part takes a kernel's queueing disciplines on a kind of testbed."""
        parts = [part.on(kind) for part in self.parts if kind in part.testbeds]
        return any(not part.software_bridge for part in parts)

    @model_validator(mode="after")
    def _names_are_unique(self) -> ShapingSettings:
        names = [part.name for part in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"part name used twice: {', '.join(twice)}")
        return self


_LATENCY_MODES = "{tas,prio,cbs,mqprio,fifo,direct}"
_MODES = "{tas,prio,cbs,mqprio,etf,fifo,direct}"
_STATISTICS = "{mean,p50,p90,p95,p99,p99_9,max,jitter}"
_COMPARED = "{mean,p50,p99,p99_9}"

EXPERIMENT = Experiment(
    ShapingSettings,
    title="Shaping",
    kinds=(EMULATED, GUEST, MODEL, CARDS),
    own_network=True,
    qdiscs=("mqprio", "taprio", "cbs", "etf", "802.1Q"),
    order=9,
    tables=(
        "toggled",
        *("schedules", "gates", "bounds", "idle-alike", "tas-against-prio", "cbs-against-tas"),
        *("*-statistics", "*-comparisons", "*-load-effect", "*-bridge-cost"),
    ),
    figures={
        "phase-scatter-*": "Place of each frame in the cycle",
        "phase-histogram-*": "Frames by their place in the cycle",
        "toggled-*": "Latency over time while gates are enabled and disabled in turn",
        "tas-against-prio": "Latency of TAS over that of strict priority, by quantile and load",
        "cbs-against-tas": "Latency of CBS over that of TAS, by quantile and load",
        "*-idle": "One-way latency without load, histogram and distribution",
        "*-loaded": "One-way latency under load, by mode",
        "*-prio": "One-way latency under load, strict priority and none",
        "*-distributions": "Distribution of one-way latency, by mode and load",
    },
    # The first word is a part; after a mode comes its load: idle, loaded or a rate.
    keys=(
        "shaping.{medium,shaper}",
        "shaping.*.schedule.{cycle,window,closed,frame_window,full_frame_window}.us",
        "shaping.*.schedule.{window,frame}.bytes",
        f"shaping.*.{_LATENCY_MODES}.*.{_STATISTICS}.us",
        f"shaping.*.etf.*.deviation.{_STATISTICS}.us",
        "shaping.*.conditions.{link.mbps,reserved.mbps,interval.us,payload.bytes,load_payload.bytes}",
        "shaping.*.conditions.threads",
        f"shaping.*.{_MODES}.*.{{runs.count,sent.count,lost.count,load.mbps}}",
        "shaping.*.tas.*.outside.{count,percent,runs.percent}",
        f"shaping.*.{_LATENCY_MODES}.*.max.below_{{1,10,50}}ms",
        f"shaping.*.{_LATENCY_MODES}.*.{_COMPARED}.{{difference.percent,verdict}}",
        f"shaping.*.{_LATENCY_MODES}.idle.alike.{{difference.percent,verdict}}",
        f"shaping.*.{_LATENCY_MODES}.*.load_effect.{_COMPARED}.difference.us",
        f"shaping.*.{_LATENCY_MODES}.idle.bridge_cost.mean.difference.us",
        "shaping.*.toggled.*.{enabled,disabled}.{p50,p99,max}.us",
        "shaping.*.toggled.*.{p50,p99}.difference.us",
        "shaping.*.toggled.*.{toggles.count,phase.s}",
        "shaping.*.tas_against_prio.*.{p50,p95,p99,max}.{difference.us,ratio,verdict}",
        "shaping.*.cbs_against_tas.*.{p90,p99,p99_9}.{difference.us,ratio,verdict}",
    ),
)
