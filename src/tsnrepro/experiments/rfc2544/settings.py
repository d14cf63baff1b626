"""Settings of the RFC 2544 benchmarks; the defaults are a campaign in full."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tsnrepro.common.ethernet import R_TAG_BYTES, udp_payload
from tsnrepro.config.base import (
    CONFIGURATIONS,
    BurstBytes,
    ConfigModel,
    Configurations,
    Distinct,
    LinkRateMbps,
    OneOrMore,
    Percent,
    PositiveFloat,
    PositiveInt,
    QueueBytes,
    Repetitions,
    Seconds,
    SocketBufferBytes,
    formerly,
)
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment

FRAME_BYTES = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes for Ethernet, with FCS (RFC 2544, 9.1)."""
DOCUMENT_PAYLOADS_BYTES = (64, 128, 256, 512, 1024, 1518)
"""What Table 7A of fail-operational calls frame sizes; its counts show that they are payloads."""
DOCUMENT_LOADS_PERCENT = (50, 60, 70, 80, 90, 95, 98, 100, 102, 105, 110)
"""Loads of the loss test in fail-operational (5.4) and the methodology (2.5)."""

LatencyKind = Literal["round-trip", "one-way"]
LatencyLoad = Literal["idle", "throughput"]
LATENCY_REPETITIONS = 20
"""Trials of one case of latency that RFC 2544 (26.2) asks for."""

Frame = Annotated[int, Field(ge=64, le=1518)]
# The smallest frame's payload beside an R-TAG, enough for a sequence number and a timestamp.
Payload = Annotated[int, Field(ge=12, le=65507)]
# iperf3's own header.
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
    """The sizes of a benchmark, by frame and by payload, and its configurations."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    frames_bytes: Annotated[Distinct[Frame], formerly("frame_bytes")] = list(FRAME_BYTES)
    """Frame sizes with FCS, in bytes; by default those of RFC 2544, 9.1."""
    include_r_tag: Annotated[bool, formerly("tag_counts")] = False
    """Count the R-TAG as part of the frame size, which makes the payload 6 bytes smaller."""
    payloads_bytes: Distinct[Payload] = []
    """UDP payloads to try in addition to the frame sizes, in bytes."""

    @model_validator(mode="after")
    def _has_a_size(self) -> Self:
        if not (self.frames_bytes or self.payloads_bytes):
            raise ValueError("give at least one of frames_bytes and payloads_bytes")
        return self

    @property
    def smallest_payload(self) -> int:
        """The smallest payload of all sizes, in bytes."""
        tag = R_TAG_BYTES if self.include_r_tag else 0
        framed = [udp_payload(frame) - tag for frame in self.frames_bytes]
        return min([*framed, *self.payloads_bytes])


class BinarySearchSettings(ConfigModel):
    """Bisection between zero and the highest load, as in two of the documents."""

    generator: Literal["talker", "iperf3"] = "talker"
    """What sends and receives: our own talker and listener, or ``iperf3 -u`` as in the documents,
    for payloads of at least 16 bytes."""
    from_line_rate: bool = False
    """Start the search at line rate, as the documents do. By default it starts at what the
    generator can send. Either way a load only counts as far as it was sent."""
    searches: Repetitions | None = None
    """Searches of each size and configuration, whose mean is reported; by default the repetitions
    of ``throughput``. The documents have 10."""
    steps: Annotated[int, Field(ge=1, le=30)] = 10
    """Most loads of a search."""
    duration_s: Seconds = 30.0
    """Duration of each load trial, in seconds."""
    loss_percent: _LossPercent = 0.001
    """Loss up to which a load passes."""
    resolution_mbps: PositiveFloat | None = None
    """Payload rate, in Mb/s: the search ends once the highest load that passed and the lowest that
    failed are this close. The documents have 1; by default all steps are taken."""


class MlrGoal(ConfigModel):
    """One search goal of MLRsearch, as the library's ``SearchGoal``."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    """Name of the goal in results."""
    loss_percent: _LossPercent = 0.0
    """Loss up to which a trial is good (``loss_ratio``)."""
    exceed_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the time at a load during which trials may be bad while the load still passes."""
    relative_width_percent: Percent = 0.5
    """Width of the final interval of loads, in percent of its upper end (``relative_width``)."""
    initial_trial_s: Seconds = 1.0
    """Duration of the first trials, in seconds."""
    final_trial_s: Seconds = 1.0
    """Duration of the last trials, in seconds."""
    duration_sum_s: Seconds = 8.0
    """Total duration of the trials at a load, in seconds. The default outvotes a stall every 3 s
    and takes less than 0.3 of the time of a binary search, with the wait for late frames."""
    preceding_targets: Annotated[int, Field(ge=1, le=10)] = 1
    """Coarser targets before the final one."""

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
    """Goals of the search."""
    min_load_percent: Annotated[Percent, formerly("lowest_load_percent")] = 0.1
    """Lowest load to try, in percent of the highest (``min_load``)."""
    warm_up_s: Annotated[float, Field(ge=0)] = 1.0
    """Duration of a trial that precedes the search and does not count, in seconds."""
    deadline_s: Seconds = 7200.0
    """Wall time after which the search fails, in seconds."""

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
    """A grid of loads over the whole range, then finer grids around the throughput."""

    loads: Annotated[int, Field(ge=3, le=200)] = 10
    """Loads of each grid, evenly spaced."""
    duration_s: Seconds = 10.0
    """Duration of each load trial, in seconds."""
    repetitions: Repetitions = 2
    """Trials of each load."""
    last_repetitions: Repetitions = 3
    """Trials of each load of the last grid."""
    resolution_percent: Percent = 0.5
    """Step of the last grid, in percent of its loads; grids are refined until they reach it."""
    max_refinements: Annotated[PositiveInt, formerly("most_grids")] = 8
    """Most grids, the first included."""
    direction: Literal["up", "down"] = "up"
    """Order of a grid's loads."""
    loss_percent: _LossPercent = 0.0
    """Loss up to which a load passes."""


class ThroughputSettings(Sizes):
    """Throughput (RFC 2544, 26.1), by up to four searches."""

    payloads_bytes: Distinct[Payload] = list(DOCUMENT_PAYLOADS_BYTES)
    """UDP payloads to try in addition to the frame sizes, in bytes; by default the documents'."""
    repetitions: Repetitions = 1
    """Searches of each size and configuration."""
    methods: OneOrMore[SearchMethod] = list(_SEARCH_METHODS)
    """Search methods; the keys below set each."""
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
                f"iperf3 needs payloads of at least {_IPERF3_PAYLOAD_BYTES} bytes, and a size has "
                f"{self.smallest_payload}: leave it out, or set binary_search.generator to talker"
            )
        return self


class SlowLinks(ConfigModel):
    """Links that the talker fills with the smallest frames, so that every load is offered."""

    link_rate_mbps: LinkRateMbps
    """Wire rate of all links, in Mb/s."""
    queue_bytes: QueueBytes
    """Limit of each egress queue of a switch, in bytes. A trial has to send far more than it holds
    beyond a member link's limit."""
    burst_bytes: BurstBytes
    """Depth of each link's token bucket, in bytes, as much time as timers may be late. On the model
    links have none."""
    send_buffer_bytes: SocketBufferBytes
    """Send buffer of the talker's socket, on the scale of net.core.wmem_default. If the switches
    share the talker's machine, a smaller one than all queues hold would slow the talker down where
    a network drops."""
    receive_buffer_bytes: SocketBufferBytes
    """Receive buffer of the listener's socket, on the scale of net.core.rmem_default."""


class FrameLossSettings(Sizes):
    """Frame loss rate (RFC 2544, 26.3): downward from line rate, and at given loads."""

    repetitions: Repetitions = 1
    """Trials of each load."""
    duration_s: Seconds = 60.0
    """Duration of each load trial, in seconds."""
    step_percent: Percent | None = 10.0
    """Step downward from line rate, in percent of it; null leaves the downward part out."""
    loads_percent: Distinct[PositiveFloat] = list(DOCUMENT_LOADS_PERCENT)
    """Further loads, in percent of line rate; by default the documents'."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.step_percent is None and not self.loads_percent:
            raise ValueError("give step_percent, loads_percent or both")
        return self


class BackToBackSettings(Sizes):
    """Back-to-back frames (RFC 2544, 26.4, as updated by RFC 9004)."""

    searches: Repetitions = 50
    """Searches for the longest burst of each size and configuration, recorded as one trial."""
    max_burst_s: Annotated[Seconds, formerly("longest_s")] = 2.0
    """Longest burst to try, in seconds at line rate; RFC 2544 asks for 2."""
    resolution_percent: Percent = 1.0
    """Width of the last bracket, in percent of its upper end, and at least one datagram."""


class SystemRecoverySettings(Sizes):
    """System recovery (RFC 2544, 26.5): from overload to half of it."""

    repetitions: Repetitions = 5
    """Trials of each size and configuration."""
    overload_percent: Annotated[float, Field(gt=100, le=1000)] = 110.0
    """Load of the overload, in percent of the throughput, at most line rate."""
    overload_s: Seconds = 60.0
    """Duration of the overload, in seconds."""
    recovery_percent: Annotated[float, Field(gt=0, lt=100)] = 50.0
    """Load afterwards, in percent of the overload."""
    recovery_s: Seconds = 30.0
    """Duration of the load afterwards, in seconds."""


class RfcLatencySettings(Sizes):
    """Latency (RFC 2544, 26.2): at the throughput rate and idle."""

    repetitions: Repetitions = LATENCY_REPETITIONS
    """Trials of each size, load and configuration."""
    duration_s: Seconds = 120.0
    """Duration of a trial, in seconds."""
    loads: OneOrMore[LatencyLoad] = ["idle", "throughput"]
    """Loads during which latency is measured."""
    kinds: OneOrMore[LatencyKind] = ["round-trip", "one-way"]
    """Latencies to measure. One-way latency needs synchronised clocks."""


class Rfc2544Settings(ConfigModel):
    """The RFC 2544 benchmarks of a campaign; what is left out is not measured."""

    throughput: ThroughputSettings | None = None
    """Throughput (section 26.1)."""
    frame_loss: FrameLossSettings | None = None
    """Frame loss rate (section 26.3)."""
    back_to_back: BackToBackSettings | None = None
    """Back-to-back frames (section 26.4)."""
    system_recovery: SystemRecoverySettings | None = None
    """System recovery (section 26.5)."""
    latency: RfcLatencySettings | None = None
    """Latency (section 26.2)."""
    link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of all links, in Mb/s, one that the talker can fill with the smallest frames; by
    default the testbed's. A rack cannot change its links."""
    slow_links: SlowLinks | None = None
    """Links of all benchmarks, with queues and sockets to match, in place of ``link_rate_mbps``. A
    rack and a bench keep their links."""
    line_rate_trial_s: Annotated[Seconds, formerly("ceiling_s")] = 1.0
    """Duration of the trial at line rate that shows what the generator can send, in seconds."""
    shortfall_percent: Percent = 1.0
    """Shortfall of the offered load from its target, in percent, beyond which the generator is the
    limit."""
    rfc2544_waits: Annotated[bool, formerly("full_waits")] = False
    """Precede each load trial on hosts by learning frames and have the waits of RFC 2544, 23: 2 s
    before it, 2 s after it and 5 s of rest. Without them no result is called compliant."""

    @model_validator(mode="after")
    def _has_one_link_rate(self) -> Self:
        if self.slow_links is not None and self.link_rate_mbps is not None:
            raise ValueError("slow_links have a link_rate_mbps of their own: give one of the two")
        return self

    @model_validator(mode="after")
    def _throughput_comes_first(self) -> Self:
        need = [
            name for name in ("back_to_back", "system_recovery") if getattr(self, name) is not None
        ]
        if self.latency is not None and "throughput" in self.latency.loads:
            need.append("latency")
        if need and self.throughput is None:
            raise ValueError(f"{', '.join(need)} start from the throughput: set throughput too")
        return self

    @model_validator(mode="after")
    def _iperf3_can(self) -> Self:
        if self.throughput is None or not self.throughput.by_iperf3:
            return self
        if self.rfc2544_waits:
            raise ValueError(
                "rfc2544_waits needs binary_search.generator: talker, because iperf3 does not wait "
                "for late frames"
            )
        return self


EXPERIMENT = Experiment(
    Rfc2544Settings,
    title="RFC 2544 benchmarks",
    kinds=(EMULATED, MODEL, RACK, BENCH),
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
        "rfc2544.throughput.*.*.{control,frer}.{efficiency,path_limit}_percent",
        "rfc2544.throughput.*.*.difference.payload_mbps",
        "rfc2544.throughput.binary_search.{duration_s,searches.count,generator}",
        "rfc2544.link_rate.mbps",
        "rfc2544.frame_loss.{duration_s,left_out.count,link_rate.mbps}",
        "rfc2544.frame_loss.*.{control,frer}.full_load.{percent,offered_percent}",
        "rfc2544.frame_loss.*.{control,frer}.load_*.{percent,offered_percent}",
        "rfc2544.frame_loss.*.{control,frer}.load_*.{offered,delivered}_payload_mbps",
        "rfc2544.saturation.*.{control,frer}.{payload_mbps,line_percent,clean_percent,ratio}",
        "rfc2544.back_to_back.*.{control,frer}.{burst.count,buffer.count,buffer_us}",
        "rfc2544.system_recovery.*.{control,frer}.ms",
        "rfc2544.latency.*.{control,frer}.*.*.{mean_us,p50_us,p99_us}",
        "rfc2544.latency.*.{control,frer}.*.*.difference.{mean_us,p99_us}",
        "rfc2544.accuracy.*.{calm,stalls}.{within_percent,median_ratio_percent}",
        "rfc2544.accuracy.*.*.{calm,stalls}.{within_percent,median_ratio_percent}",
        "rfc2544.{compliant,trials}.count",
    ),
    # Which search to believe: simulated once, whatever testbed made the trials.
    reads=("results/studies/search-accuracy/accuracy.csv",),
)
