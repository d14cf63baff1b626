"""Settings of the experiment ``shaping``: parts, each comparing modes under one schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, cast

from pydantic import Field, ValidationError, ValidationInfo, create_model, model_validator

from tsnrepro.common.topology import TestbedKind
from tsnrepro.config.base import (
    CURRENT_KINDS,
    ConfigModel,
    LoadMbps,
    Named,
    OneOrMore,
    Packets,
    Percent,
    PositiveFloat,
    PositiveInt,
    QueueBytes,
    RateMbps,
    Repetitions,
    current_names,
    formerly,
)
from tsnrepro.config.gates import GateControlList, TrafficClass
from tsnrepro.config.registry import BENCH, EMULATED, GUEST, MODEL, NIC_PAIR, RACK, Experiment

Mode = Literal["tas", "prio", "cbs", "mqprio", "etf", "fifo", "direct", "toggled"]
Kind = Literal["end-station", "bridge", "tas-frer"]
Switch = Literal["kernel", "bridge"]
Threads = Literal[1, 2]
Receivers = Literal["one", "each"]

CARDS_MEDIUM = "network cards"
"""The medium of trials between two cards that a cable joins; others name their testbed."""
BOARD_MEDIUM = "LAN966x between network cards"
"""The medium of trials in which a port of a board shapes."""

# The sequence number and the send time that every datagram carries.
_StampedPayload = Annotated[int, Field(ge=12, le=1472)]

MODES_OF: dict[Kind, tuple[Mode, ...]] = {
    "end-station": ("tas", "prio", "cbs", "mqprio", "etf", "fifo", "toggled"),
    "bridge": ("tas", "prio", "cbs", "fifo", "direct", "toggled"),
    "tas-frer": ("tas", "prio", "fifo"),
}
_OF_A_KERNEL: tuple[Mode, ...] = ("mqprio", "etf")
GATED: tuple[Mode, ...] = ("tas",)
TOGGLED: Mode = "toggled"
"""Gates that are enabled and disabled in turn within a trial (GateEnabled, IEEE Std 802.1Q-2022,
8.6.9.4); while they are disabled, strict priority decides."""
LAUNCHED: tuple[Mode, ...] = ("etf",)
"""Modes whose datagrams carry the requested launch time instead of the send time."""


class _Conditions(ConfigModel):
    """Conditions of a part's trials, which may differ between kinds of testbeds."""

    modes: OneOrMore[Mode]
    """Modes to compare. ``tas``: gates; ``prio``: strict priority; ``cbs``: credit; ``mqprio``: one
    queue per class; ``etf``: launch times; ``fifo``: one queue; ``direct``: a cable instead of the
    bridge; ``toggled``: gates that are enabled and disabled in turn."""
    switch: Switch = "kernel"
    """What shapes on hosts. ``kernel``: its bridge and queueing disciplines. ``bridge``: the
    software bridge, which runs on any kernel and also shapes after FRER. In place of a talker's own
    port its frames have a VLAN tag, and its queues drop what exceeds them."""
    threads: Threads = 1
    """Threads of the software bridge: one that receives and sends in turn, or one for each. On few
    processors a further thread only waits for them."""
    receivers: Receivers = "one"
    """Receiving threads of the software bridge: ``one`` for all ports, or one for ``each`` port and
    another that sends."""
    link_rate_mbps: RateMbps = 1000.0
    """Wire rate of every link, in Mb/s."""
    queue_bytes: QueueBytes = 262144
    """Limit of each egress queue, in bytes. ``fifo`` has one queue, other modes one per class."""
    gates: GateControlList | None = None
    """Gate control list of ``tas``. Its cycle is also that of the phases in other modes."""
    toggles: PositiveInt | None = None
    """How often ``toggled`` disables or enables the gates during a trial, at even intervals. They
    are enabled at first."""
    idle_slope_mbps: RateMbps | None = None
    """idleSlope that ``cbs`` reserves for the stream's class, as a wire rate in Mb/s."""
    priority: TrafficClass = 5
    """Traffic class of the stream: its socket priority, and the PCP of tagged frames."""
    load_priority: TrafficClass = 0
    """Traffic class of the load."""
    payload_bytes: _StampedPayload
    """UDP payload of the stream, in bytes."""
    packets: Packets
    """Datagrams of the stream in a trial."""
    interval_us: PositiveFloat
    """Mean time between two datagrams of the stream, in microseconds."""
    interval_spread_us: Annotated[float, Field(ge=0)] = 0.0
    """Span over which send times are evenly distributed, in microseconds, for a talker that is not
    synchronised with the cycle. Hosts support 0 (synchronised) and whole cycles."""
    txtime_offset_us: Annotated[float, Field(ge=0), formerly("launch_phase_us")] = 0.0
    """Launch time of ``etf`` in the cycle, in microseconds after its start."""
    loads_mbps: OneOrMore[LoadMbps] = [0.0]
    """Payload rates of the load, in Mb/s. What exceeds the line waits in the sender's socket."""
    load_payload_bytes: _StampedPayload = 1472
    """UDP payload of the load, in bytes."""
    repetitions: Repetitions | None = None
    """Trials of each mode and load; by default the experiment's."""
    max_stalled_percent: Percent | None = None
    """Repeat a trial, within its attempts, in which a machine stalled at more than this share of
    the stall meter's checks, after all others are measured. If all attempts were disturbed, the
    steadiest counts. A quantile is the network's only if far fewer frames than lie beyond it meet a
    stall; frames meet fewer than the checks, because talker, listener and bridge run before the
    meter."""
    max_stall_ms: Annotated[float, Field(gt=0)] | None = None
    """In place of the campaign's ``max_stall_ms``; the trial is repeated after all others are
    measured. A single stall that delays as many frames as lie beyond a quantile decides it."""


def _all_optional(model: type[ConfigModel], name: str) -> Any:
    """Return a model with the same settings, all of them optional."""
    fields = {
        key: (
            Annotated[
                Optional[Annotated[field.annotation, *field.metadata, Field()]],  # noqa: UP045 - not typed
                Field(serialization_alias=field.serialization_alias),
            ],
            None,
        )
        for key, field in model.model_fields.items()
    }
    return create_model(name, __base__=model, **cast("dict[str, Any]", fields))


if TYPE_CHECKING:
    ShapingOverrides = ConfigModel
else:
    ShapingOverrides = _all_optional(_Conditions, "ShapingOverrides")


class ShapingPart(_Conditions):
    """Modes to compare under equal conditions."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=24)]
    """Name of the part in results."""
    kind: Kind
    """What shapes. ``end-station``: the talker's own port, which its load shares. ``bridge``: the
    switch's port to the listener, to which another host sends the load. ``tas-frer``: the switch's
    ports of the member paths, each with a load of its own."""
    testbeds: Annotated[dict[TestbedKind, ShapingOverrides], Field(min_length=1)] = {
        "model": ShapingOverrides()
    }
    """Kinds of testbeds that measure this part, each with the conditions that differ there. A gate
    in software cannot hold a cycle of a few microseconds, for example, so its cycle is longer and
    the line slower."""

    @model_validator(mode="before")
    @classmethod
    def _former_kinds(cls, values: Any, info: ValidationInfo) -> Any:
        if isinstance(values, dict) and isinstance(named := values.get("testbeds"), dict):
            return values | {"testbeds": current_names(named, CURRENT_KINDS, info)}
        return values

    @model_validator(mode="after")
    def _modes_fit(self) -> ShapingPart:
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
        if self.priority == self.load_priority:
            raise ValueError(
                f"priority and load_priority are both {self.priority}: no mode would shape"
            )
        if self.interval_spread_us > self.interval_us:
            raise ValueError(
                f"interval_spread_us of {self.interval_spread_us:g} is above interval_us of "
                f"{self.interval_us:g}: datagrams would be reordered"
            )
        if not self.software_bridge and (self.threads, self.receivers) != (1, "one"):
            raise ValueError("threads and receivers need switch: bridge")
        return self

    @model_validator(mode="after")
    def _hardware_can(self) -> ShapingPart:
        if RACK in self.testbeds:
            raise ValueError("testbeds.rack: a rack does not support shaping")
        if BENCH in self.testbeds and (
            self.kind != "end-station" or self._switch_on(BENCH) == "bridge"
        ):
            raise ValueError("testbeds.bench: only the talker's own port shapes")
        if NIC_PAIR not in self.testbeds:
            return self
        if self.kind == "tas-frer":
            raise ValueError("testbeds.nic-pair: it has no member paths for tas-frer")
        if self._switch_on(NIC_PAIR) == "bridge":
            raise ValueError("testbeds.nic-pair: its hardware shapes, not switch: bridge")
        given = self.testbeds[NIC_PAIR]
        if self.kind == "bridge" and "direct" in (getattr(given, "modes", None) or self.modes):
            raise ValueError("testbeds.nic-pair: the board cannot be bypassed: no mode direct")
        gates = getattr(given, "gates", None) or self.gates
        if self.kind == "bridge" and gates is not None and not gates.guard_band:
            raise ValueError("testbeds.nic-pair: the guard band of a LAN966x is always on")
        return self

    @model_validator(mode="after")
    def _can_toggle(self) -> ShapingPart:
        if (TOGGLED in self.modes) != (self.toggles is not None):
            raise ValueError("mode toggled and toggles need each other")
        if self.toggles is None:
            return self
        if self.modes != [TOGGLED]:
            raise ValueError("mode toggled needs a part of its own")
        if wrong := [kind for kind in self.testbeds if kind not in (MODEL, EMULATED)]:
            raise ValueError(f"testbeds.{wrong[0]}: only model and emulated toggle gates")
        if EMULATED in self.testbeds and self._switch_on(EMULATED) != "bridge":
            raise ValueError("testbeds.emulated: toggled needs switch: bridge")
        return self

    @model_validator(mode="after")
    def _can_shape_after_frer(self) -> ShapingPart:
        if self.kind != "tas-frer":
            return self
        if GUEST in self.testbeds:
            raise ValueError("testbeds.guest: only model and emulated support tas-frer")
        if EMULATED in self.testbeds and self._switch_on(EMULATED) != "bridge":
            raise ValueError("testbeds.emulated: tas-frer needs switch: bridge")
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
        """Return the part with the conditions of a kind of testbed.

        Raises KeyError if the part is not measured on such a testbed.
        """
        overrides = self.testbeds[kind].model_dump(exclude_unset=True)
        common = self.model_dump(exclude={"testbeds"})
        return ShapingPart.model_validate(common | overrides | {"testbeds": {kind: {}}})

    @property
    def tagged(self) -> bool:
        """Whether frames carry a VLAN tag, which switches need for the priority."""
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
        """How long toggled gates stay enabled or disabled, in seconds."""
        return self.packets * self.interval_us / 1e6 / ((self.toggles or 0) + 1)

    @property
    def loaded(self) -> bool:
        """Whether any trial of the part has a load."""
        return any(rate > 0 for rate in self.loads_mbps)


class ShapingSettings(ConfigModel):
    """Gates, credit and priority under load: end stations, switches, and gates after FRER."""

    repetitions: Repetitions
    """Repetitions of every part that has none of its own."""
    parts: Named[ShapingPart]
    """Comparisons of modes."""

    def uses_kernel_qdiscs(self, kind: TestbedKind) -> bool:
        """Tell whether any part needs the kernel's queueing disciplines on a kind of testbed."""
        parts = [part.on(kind) for part in self.parts if kind in part.testbeds]
        return any(not part.software_bridge for part in parts)


_LATENCY_MODES = "{tas,prio,cbs,mqprio,fifo,direct}"
_MODES = "{tas,prio,cbs,mqprio,etf,fifo,direct}"
_STATISTICS = "{mean,p50,p90,p95,p99,p99_9,max,jitter}"
_COMPARED = "{mean,p50,p99,p99_9}"

EXPERIMENT = Experiment(
    ShapingSettings,
    title="Shaping",
    kinds=(EMULATED, GUEST, MODEL, NIC_PAIR, BENCH),
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
        "latency-by-cycle": "Latency under load by cycle, scheduler and synchronisation",
        "cbs-against-tas": "Latency of CBS over that of TAS, by quantile and load",
        "*-idle": "One-way latency without load, histogram and distribution",
        "*-loaded": "One-way latency under load, by mode",
        "*-prio": "One-way latency under load, strict priority and none",
        "*-distributions": "Distribution of one-way latency, by mode and load",
    },
    # The first word is a part; after a mode comes its load: idle, loaded or a rate.
    singles="latency_us",
    keys=(
        "shaping.{medium,shaper}",
        "shaping.*.schedule.{cycle,window,closed,frame_window,full_frame_window}.us",
        "shaping.*.schedule.{window,frame}.bytes",
        f"shaping.*.{_LATENCY_MODES}.*.{_STATISTICS}.us",
        f"shaping.*.{_LATENCY_MODES}.*.fastest.us",
        f"shaping.*.etf.*.deviation.{_STATISTICS}.us",
        f"shaping.*.{_MODES}.*.{{talker,listener}}_wait_{{p50,p99}}.us",
        "shaping.*.conditions.{link.mbps,reserved.mbps,interval.us,payload.bytes,load_payload.bytes}",
        "shaping.*.conditions.{threads,queue.bytes,queue.ms}",
        f"shaping.*.{_MODES}.*.{{runs.count,sent.count,lost.count,load.mbps}}",
        "shaping.*.tas.*.outside.{count,percent,runs.percent}",
        f"shaping.*.{_LATENCY_MODES}.*.max.below_{{1,10,50}}ms",
        f"shaping.*.{_LATENCY_MODES}.*.{_COMPARED}.{{difference.percent,p,verdict}}",
        f"shaping.*.{_LATENCY_MODES}.idle.alike.{{difference.percent,verdict}}",
        f"shaping.*.{_LATENCY_MODES}.*.load_effect.{_COMPARED}.difference.us",
        f"shaping.*.{_LATENCY_MODES}.idle.bridge_cost.mean.difference.us",
        "shaping.*.toggled.*.{enabled,disabled}.{p50,p99,max}.us",
        "shaping.*.toggled.*.{p50,p99}.difference.us",
        "shaping.*.toggled.*.{toggles.count,phase.s}",
        "shaping.*.tas_against_prio.*.{p50,p95,p99,max}.{difference.us,ratio,p,verdict}",
        "shaping.*.cbs_against_tas.*.{p90,p99,p99_9}.{difference.us,ratio,p,verdict}",
    ),
)
