"""Settings of the RFC 2544 benchmarks; the defaults are a campaign in full."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tsnrepro.common.ethernet import R_TAG_BYTES, udp_payload
from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    Distinct,
    OneOrMore,
    Percent,
    PositiveFloat,
    PositiveInt,
    Repetitions,
    Seconds,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment

FRAME_BYTES = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes for Ethernet, with FCS (RFC 2544, 9.1)."""
DOCUMENT_PAYLOADS_BYTES = (64, 128, 256, 512, 1024, 1518)
"""What fail-operational's Table 7A calls frame sizes; its counts show that they are payloads."""
DOCUMENT_LOADS_PERCENT = (50, 60, 70, 80, 90, 95, 98, 100, 102, 105, 110)
"""Loads of the loss test in fail-operational (5.4) and the methodology (2.5)."""

LatencyKind = Literal["round-trip", "one-way"]
LatencyLoad = Literal["idle", "throughput"]
LATENCY_REPETITIONS = 20
"""Trials of one case of latency that RFC 2544 (26.2) asks for."""

Frame = Annotated[int, Field(ge=64, le=1518)]
# The smallest frame's payload where the R-TAG counts, and what a sequence and a time need.
Payload = Annotated[int, Field(ge=12, le=65507)]
# iperf3's own header: it sends no smaller ones.
_IPERF3_PAYLOAD_BYTES = 16
_LossPercent = Annotated[float, Field(ge=0, lt=100)]
SearchMethod = Literal["binary-search", "mlrsearch", "mlrsearch-rfc2544", "systematic"]
_SEARCH_METHODS: tuple[SearchMethod, ...] = (
    "binary-search",
    "mlrsearch",
    "mlrsearch-rfc2544",
    "systematic",
)


class Sizes(ConfigModel):
    """The sizes of one benchmark, by frame and by payload, and its configurations."""

    configurations: Configurations = ["control", "frer"]
    frame_bytes: Distinct[Frame] = list(FRAME_BYTES)
    """Frames with FCS."""
    tag_counts: bool = False
    """Whether the R-TAG is part of the frame size: the payload is then 6 bytes smaller."""
    payloads_bytes: Distinct[Payload] = []
    """Payloads tried as such, beside the frame sizes."""

    @model_validator(mode="after")
    def _has_a_size(self) -> Self:
        if not (self.frame_bytes or self.payloads_bytes):
            raise ValueError("give at least one of frame_bytes and payloads_bytes")
        return self

    @property
    def smallest_payload(self) -> int:
        """The smallest payload of all sizes, in bytes."""
        tag = R_TAG_BYTES if self.tag_counts else 0
        framed = [udp_payload(frame) - tag for frame in self.frame_bytes]
        return min([*framed, *self.payloads_bytes])


class BinarySearchSettings(ConfigModel):
    """Bisection between nothing and the highest load, as the two documents ran it."""

    generator: Literal["talker", "iperf3"] = "talker"
    """Who sends and receives: our own programs, or ``iperf3 -u`` as in the documents, which takes
    payloads of at least 16 bytes."""
    from_line_rate: bool = False
    """Whether the range begins at the line's limit for the size, as the documents' does. Otherwise
    it begins at what the generator was seen to send there. In either case a load passes only as far
    as it was sent."""

    searches: Repetitions | None = None
    """Searches of each size and configuration, of which the mean is taken; none takes the
    repetitions of throughput. The documents took ten."""
    steps: Annotated[int, Field(ge=1, le=30)] = 10
    duration_s: Seconds = 30.0
    loss_percent: _LossPercent = 0.001
    resolution_mbps: PositiveFloat | None = None
    """End of the search, in payload rate: once no more than that lies between the highest load that
    passed and the next one. The documents' ends at 1 Mb/s; none takes all steps."""


class MlrGoal(ConfigModel):
    """One search goal of MLRsearch; the names are those of the library's ``SearchGoal``."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    loss_percent: _LossPercent = 0.0
    exceed_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the trials' time at a load that may be bad while the load still passes."""
    relative_width_percent: Percent = 0.5
    initial_trial_s: Seconds = 1.0
    final_trial_s: Seconds = 1.0
    duration_sum_s: Seconds = 8.0
    """Time of the trials at a load. The default outvotes a stall every 3 s, and waiting for late
    frames included it finds the throughput in less than 0.3 of the time of a binary search."""
    preceding_targets: Annotated[int, Field(ge=1, le=10)] = 1

    @model_validator(mode="after")
    def _durations_grow(self) -> Self:
        if not self.initial_trial_s <= self.final_trial_s <= self.duration_sum_s:
            raise ValueError(
                "durations must not fall: initial_trial_s <= final_trial_s <= duration_sum_s"
            )
        return self


class MlrSettings(ConfigModel):
    """MLRsearch: several goals in one search."""

    goals: OneOrMore[MlrGoal] = [
        MlrGoal(name="zero_loss"),
        MlrGoal(name="half_percent", loss_percent=0.5),
    ]
    lowest_load_percent: Percent = 0.1
    """Lowest load that is tried, relative to the highest."""
    warm_up_s: Annotated[float, Field(ge=0)] = 1.0
    deadline_s: Seconds = 7200.0
    """Wall time after which the search is given up."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [goal.name for goal in self.goals]
        if len(set(names)) < len(names):
            raise ValueError(f"goal names must differ: {', '.join(names)}")
        return self


RFC2544_GOAL = MlrGoal(
    name="rfc2544", exceed_ratio=0.0, final_trial_s=60.0, duration_sum_s=60.0, preceding_targets=3
)
"""Trials of 60 s of which none may lose a frame: conditional throughput is then throughput."""


class SystematicSettings(ConfigModel):
    """A grid of loads over the whole range, then finer grids around what it shows."""

    loads: Annotated[int, Field(ge=3, le=200)] = 10
    """Loads of each grid, evenly spaced."""
    duration_s: Seconds = 10.0
    repetitions: Repetitions = 2
    last_repetitions: Repetitions = 3
    resolution_percent: Percent = 0.5
    """Step of the last grid, relative to its loads; grids are refined until they reach it."""
    most_grids: PositiveInt = 8
    direction: Literal["up", "down"] = "up"
    loss_percent: _LossPercent = 0.0


class ThroughputSettings(Sizes):
    """Throughput (RFC 2544, 26.1), by up to four searches; the documents' payloads as well."""

    payloads_bytes: Distinct[Payload] = list(DOCUMENT_PAYLOADS_BYTES)
    repetitions: Repetitions = 1
    methods: OneOrMore[SearchMethod] = list(_SEARCH_METHODS)
    binary_search: BinarySearchSettings = BinarySearchSettings()
    mlrsearch: MlrSettings = MlrSettings()
    mlrsearch_rfc2544: MlrSettings = MlrSettings(goals=[RFC2544_GOAL])
    systematic: SystematicSettings = SystematicSettings()

    @property
    def by_iperf3(self) -> bool:
        """Whether iperf3 makes any of the trials."""
        return "binary-search" in self.methods and self.binary_search.generator == "iperf3"

    @model_validator(mode="after")
    def _iperf3_sends_all_sizes(self) -> Self:
        if self.by_iperf3 and self.smallest_payload < _IPERF3_PAYLOAD_BYTES:
            raise ValueError(
                f"a size has a payload of {self.smallest_payload} bytes, and iperf3 sends no less "
                f"than {_IPERF3_PAYLOAD_BYTES}: leave that size out, or let `generator: talker` of "
                "binary_search send"
            )
        return self


class FrameLossSettings(Sizes):
    """Frame loss rate (RFC 2544, 26.3): downward from the line's limit, and at given loads."""

    repetitions: Repetitions = 1
    duration_s: Seconds = 60.0
    step_percent: Percent | None = 10.0
    """Step downward from 100 %; none leaves the downward part out."""
    loads_percent: Distinct[PositiveFloat] = list(DOCUMENT_LOADS_PERCENT)

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.step_percent is None and not self.loads_percent:
            raise ValueError("give step_percent, loads_percent or both")
        return self


class BackToBackSettings(Sizes):
    """Back-to-back frames (RFC 2544, 26.4, as updated by RFC 9004)."""

    searches: Repetitions = 50
    """How often the longest burst is searched for; all are one stored trial."""
    longest_s: Seconds = 2.0
    resolution_percent: Percent = 1.0
    """Width of the last bracket, relative to its upper end; never below one datagram."""


class SystemRecoverySettings(Sizes):
    """System recovery (RFC 2544, 26.5): from overload to half of it."""

    repetitions: Repetitions = 5
    overload_percent: Annotated[float, Field(gt=100, le=1000)] = 110.0
    """Relative to the throughput; the line's limit caps it."""
    overload_s: Seconds = 60.0
    recovery_percent: Annotated[float, Field(gt=0, lt=100)] = 50.0
    """Relative to the overload."""
    recovery_s: Seconds = 30.0


class RfcLatencySettings(Sizes):
    """Latency (RFC 2544, 26.2): at the throughput rate and idle."""

    repetitions: Repetitions = LATENCY_REPETITIONS
    duration_s: Seconds = 120.0
    loads: OneOrMore[LatencyLoad] = ["idle", "throughput"]
    kinds: OneOrMore[LatencyKind] = ["round-trip", "one-way"]
    """One-way is measured where the clocks of talker and listener agree."""


class Rfc2544Settings(ConfigModel):
    """The RFC 2544 part of a campaign; what is left out is not measured."""

    throughput: ThroughputSettings | None = None
    frame_loss: FrameLossSettings | None = None
    back_to_back: BackToBackSettings | None = None
    system_recovery: SystemRecoverySettings | None = None
    latency: RfcLatencySettings | None = None
    ceiling_s: Seconds = 1.0
    """Length of the trial at the line's limit that shows what the generator can do."""
    shortfall_percent: Percent = 1.0
    """A trial that offers less of what was asked by more than this is the generator's limit."""

    full_waits: bool = False
    """Whether each load trial on hosts has the learning frames and the waits of section 23: 2 s
    before it, 2 s behind it and 5 s of rest. Without them no result is called compliant."""

    @model_validator(mode="after")
    def _throughput_comes_first(self) -> Self:
        need = [
            name for name in ("back_to_back", "system_recovery") if getattr(self, name) is not None
        ]
        if self.latency is not None and "throughput" in self.latency.loads:
            need.append("latency")
        if need and self.throughput is None:
            raise ValueError(f"{', '.join(need)} start from a throughput: set throughput too")
        return self

    @model_validator(mode="after")
    def _iperf3_can(self) -> Self:
        if self.throughput is None or not self.throughput.by_iperf3:
            return self
        if self.full_waits:
            raise ValueError(
                "full_waits are our talker's: iperf3 waits for no late frames, so binary_search "
                "needs `generator: talker`"
            )
        return self


EXPERIMENT = Experiment(
    Rfc2544Settings,
    title="RFC 2544 benchmarks",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=7,
    tables=(
        *("throughput", "beside-published", "frame-loss", "loss-by-load", "back-to-back"),
        *("system-recovery", "latency", "accuracy", "accuracy-summary"),
    ),
    figures={
        "throughput": "Throughput by frame size and search",
        "frame-loss": "Frame loss ratio against offered load",
        "buffer-time": "Buffer time that back-to-back bursts show",
        "accuracy": "How often each search finds a known capacity (simulated)",
    },
    keys=(
        "rfc2544.throughput.*.*.{control,frer}.{payload_mbps,frame_mbps,wire_mbps,pps}",
        "rfc2544.throughput.*.*.{control,frer}.{search_s,load_trials.count,limited_by}",
        "rfc2544.throughput.*.*.{control,frer}.{iterations.count,bracket_mbps,converged}",
        "rfc2544.throughput.*.*.{control,frer}.efficiency_percent",
        "rfc2544.throughput.*.*.difference.payload_mbps",
        "rfc2544.throughput.binary_search.{duration_s,searches.count,generator}",
        "rfc2544.frame_loss.duration_s",
        "rfc2544.frame_loss.*.{control,frer}.full_load.{percent,offered_percent}",
        "rfc2544.frame_loss.*.{control,frer}.load_*.{percent,offered_percent}",
        "rfc2544.frame_loss.*.{control,frer}.load_*.{offered,delivered}_payload_mbps",
        "rfc2544.saturation.*.{control,frer}.{payload_mbps,line_percent,ratio}",
        "rfc2544.back_to_back.*.{control,frer}.{burst.count,buffer.count,buffer_us}",
        "rfc2544.system_recovery.*.{control,frer}.ms",
        "rfc2544.latency.*.{control,frer}.*.*.{mean_us,p99_us}",
        "rfc2544.latency.*.{control,frer}.*.*.difference.{mean_us,p99_us}",
        "rfc2544.accuracy.*.{calm,stalls}.{within_percent,median_ratio_percent}",
        "rfc2544.accuracy.*.*.{calm,stalls}.{within_percent,median_ratio_percent}",
        "rfc2544.{compliant,trials}.count",
    ),
    # Which search to believe: simulated once, whatever testbed made the trials.
    reads=("results/studies/search-accuracy/accuracy.csv",),
)
