"""Settings of the experiment ``loss``."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.config.base import (
    CONFIGURATIONS,
    ConfigModel,
    Configurations,
    Distinct,
    LinkRateMbps,
    Objective,
    OneOrMore,
    Paths,
    PositiveFloat,
    PositiveInt,
    RatesMbps,
    Repetitions,
    Seconds,
    SocketBufferBytes,
    UdpPayload,
    formerly,
)
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment
from tsnrepro.config.sequential import SequentialSettings

_SEQUENTIAL: tuple[Objective, ...] = ("limit", "bottleneck")
_OWN_LINKS: tuple[Objective, ...] = (*_SEQUENTIAL, "elimination", "paths")
Generator = Literal["iperf3", "talker"]
# What all parts of an objective have in common, apart from loads, sizes and durations.
_SHARED = (
    *("generator", "receive_buffers_bytes", "listener_sched_fifo", "send_buffer_bytes"),
    *("link_rate_mbps", "member_link_rate_mbps", "paths"),
    *("max_repetitions", "ratio_precision_percent", "max_stall_ms"),
)


class LossPart(SequentialSettings):
    """Loads to try at one payload, and what they are measured for."""

    objective: Annotated[Objective, formerly("question")] = "sweep"
    """What the trials are measured for. Trials of different objectives are never pooled.

    ``sweep``: loss against offered load, as the documents measured it. ``limit``: what the path
    carries to a listener that can wait. ``bottleneck``: the same with member links slower than the
    others. ``intervention``: what the listener's buffer and priority do to the loss.
    ``elimination``: loss if the listener eliminates, so that one link carries all copies to it.
    ``paced``: the loads of the sweep with every datagram paced, to a listener that can wait.
    ``paths``: what FRER carries over different numbers of member paths. A rack leaves out
    ``elimination`` and ``paths``.
    """
    phase: PositiveInt | None = None
    """Number of a phase of the sweep, for loads of one payload in trials of different duration, as
    in the documents. Trials of a phase are not pooled with others. By default none."""
    payload_bytes: UdpPayload
    """UDP payload, in bytes."""
    rates_mbps: RatesMbps
    """Offered loads as payload rates, in Mb/s."""
    duration_s: Seconds
    """Duration of a trial, in seconds."""
    generator: Generator = "iperf3"
    """What sends and receives: ``iperf3 -u`` as in the documents, or our own talker and listener.
    """
    receive_buffers_bytes: Annotated[Distinct[SocketBufferBytes | None], Field(min_length=1)] = [
        None
    ]
    """Receive buffers of the listener's socket to try, on the scale of net.core.rmem_default; null
    is the testbed's."""
    listener_sched_fifo: Annotated[
        Distinct[bool | None], Field(min_length=1), formerly("realtime_listeners")
    ] = [None]
    """Whether the listener runs under SCHED_FIFO, each value to try; null is the testbed's."""
    send_buffer_bytes: SocketBufferBytes | None = None
    """Send buffer of our talker's socket, on the scale of net.core.wmem_default; by default that
    default. If the switches share the talker's machine, it bounds what all queues hold together, so
    a switch drops only what the talker could still send."""
    link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of all links in this part, in Mb/s, one that the hosts can fill; by default the
    testbed's. A rack cannot change its links and leaves such a part out."""
    member_link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of the member paths in this part, in Mb/s; by default that of the other links."""
    max_stall_ms: PositiveFloat | None = None
    """In place of the campaign's ``max_stall_ms``. After a stall the talker catches up at once,
    which fills a bottleneck's queue sooner than the listener's buffer. A disturbed trial is
    deferred until the others on its testbed are measured."""
    paths: Annotated[Distinct[Paths], Field(min_length=2)] | None = None
    """Numbers of member paths to compare, for the objective ``paths``. Control uses the first path
    and is measured once."""

    @model_validator(mode="after")
    def _fits_its_objective(self) -> "LossPart":
        objective = self.objective
        if self.phase is not None and objective != "sweep":
            raise ValueError(f"phase is for the objective sweep, not for {objective}")
        if self.link_rate_mbps and objective not in _OWN_LINKS:
            raise ValueError(
                f"link_rate_mbps is for the objectives {', '.join(_OWN_LINKS)}, not for {objective}"
            )
        if (self.paths is not None) != (objective == "paths"):
            raise ValueError("paths and the objective paths need each other, as in paths: [2, 3]")
        if self.generator == "iperf3" and self.send_buffer_bytes:
            raise ValueError("send_buffer_bytes needs generator: talker")
        if self.max_repetitions and objective not in _SEQUENTIAL:
            raise ValueError(
                f"max_repetitions is for the objectives {', '.join(_SEQUENTIAL)}, not for "
                f"{objective}"
            )
        listeners = len(self.receive_buffers_bytes) * len(self.listener_sched_fifo)
        if listeners > 1 and objective != "intervention":
            raise ValueError(
                "several receive_buffers_bytes or listener_sched_fifo are for the objective "
                f"intervention, not for {objective}"
            )
        return self


class LossSettings(ConfigModel):
    """Loss against offered load."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Repetitions of every part that has none of its own."""
    parts: OneOrMore[LossPart]
    """Sweeps of the load and questions beside them."""

    @model_validator(mode="after")
    def _parts_of_an_objective_agree(self) -> "LossSettings":
        shared: dict[str, list] = {}
        for part in self.parts:
            values = [getattr(part, name) for name in _SHARED]
            if shared.setdefault(part.objective, values) != values:
                raise ValueError(
                    f"all parts of the objective {part.objective} need the same "
                    f"{', '.join(_SHARED[:-1])} and {_SHARED[-1]}"
                )
            part.check_repetitions(part.repetitions or self.repetitions)
        return self

    @model_validator(mode="after")
    def _one_duration_per_series(self) -> "LossSettings":
        durations: dict[tuple, float] = {}
        payloads: dict[int, int] = {}
        for part in self.parts:
            if part.objective != "sweep":
                continue
            series = (part.phase, part.payload_bytes)
            if durations.setdefault(series, part.duration_s) != part.duration_s:
                raise ValueError(
                    f"trials of {part.payload_bytes} bytes and different duration_s are never "
                    "pooled: give each duration a phase of its own"
                )
            if part.phase and payloads.setdefault(part.phase, part.payload_bytes) != series[1]:
                raise ValueError(f"phase {part.phase} needs one payload_bytes")
        return self


EXPERIMENT = Experiment(
    LossSettings,
    title="Loss against offered load",
    kinds=(EMULATED, MODEL, RACK, BENCH),
    order=1,
    tables=("summary", "by-payload", "by-phase", "intervention", "over-time"),
    figures={
        "loss-against-load": "Loss against offered load",
        "intervention": "Loss against offered load by receive buffer and priority",
        "where-lost": "Where datagrams were lost on the way to the listener's socket",
        "frame-size": "Loss by frame size",
        "loss-over-time": "Loss over the time of the run, a mark a repetition",
    },
    outcomes=("loss_percent", "delivered_mbps"),
    keys=(
        "loss.{threshold,highest_clean,line_limit}.{control,frer}.mbps",
        "loss.threshold.{ratio,difference.mbps,verdict,margin.percent}",
        "loss.threshold.{network,socket}.{control.mbps,frer.mbps,ratio,difference.mbps,verdict}",
        "loss.highest_clean.socket.{control,frer}.mbps",
        "loss.{limit,bottleneck,paced}.{end_to_end,network}.{control.mbps,frer.mbps,ratio}",
        "loss.{limit,bottleneck,paced}.{end_to_end,network}.{difference.mbps,verdict}",
        "loss.{limit,bottleneck,paced}.{highest_clean,line_limit}.{control,frer}.mbps",
        "loss.{limit,bottleneck,paced}.line_limit.ratio",
        "loss.{limit,bottleneck,paced}.{lost,network_lost}.total.count",
        "loss.{limit,bottleneck,paced}.{receive_buffer.mb,link_rate_mbps,member_link_rate_mbps}",
        "loss.{limit,bottleneck,paced}.{payload_bytes,duration_s,trials.count}",
        "loss.elimination.{both_copies.mbps,one_copy.mbps,link_rate_mbps,payload_bytes,duration_s}",
        "loss.elimination.{trials.count,between.verdict,load_*.target_mbps}",
        "loss.elimination.load_*.{control,frer}.{offered_mbps,percent}",
        "loss.elimination.load_*.frer.{dropped,excess}.percent",
        "loss.paths.{trials.count,fewest.count,most.count,payload_bytes,duration_s}",
        "loss.paths.{member_link_rate_mbps,lost.total.count,network_lost.total.count}",
        "loss.paths.line_limit.{control,frer}.mbps",
        "loss.paths.load_*.{target_mbps,verdict}",
        "loss.paths.load_*.{control,frer_*}.{offered_mbps,delivered_mbps,percent}",
        "loss.paths.load_*.{delivered,loss}.difference.percent",
        "loss.intervention.{size_1,size_2,size_3,size_4,size_5}.mb",
        "loss.intervention.size_*.{ordinary,realtime}.{control,frer}.{percent,lossy.percent}",
        "loss.intervention.{buffer,realtime,frer}.{difference.percent,p,verdict}",
        "loss.intervention.{buffer,realtime,frer}.{with,without}.{trials,lossy}.count",
        "loss.intervention.{duration_s,highest.mbps,trials.count}",
        "loss.prediction.{control,frer}.{mbps,error.percent}",
        "loss.stalls.{longest.ms,median.ms,interval_s,length_ms}",
        "loss.{frame_*,size_*}.{control,frer,difference}.percent",
        "loss.{frame_*,size_*}.{target_mbps,control.offered_mbps,frer.offered_mbps}",
        "loss.frame_*.threshold.{control,frer}.frame_mbps",
        "loss.size_*.{payload_bytes,frame_bytes}",
        "loss.sizes.loads.count",
        "loss.share.{listener_socket,talker,switches,other}.percent",
        "loss.share.{listener_socket,talker,switches,other}.{control,frer}.percent",
        "loss.{sent,lost,received,copies,eliminated,unaccounted,untraced}.total.count",
        "loss.socket_lost.total.count",
        "loss.unread.{total,trials}.count",
        "loss.{limit,bottleneck,paced,intervention}.unread.{total,trials}.count",
        "loss.{elimination,paths}.unread.{total,trials}.count",
        "loss.time.{control,frer}.{earlier.percent,later.percent,trend.percent,lossy.count}",
        "loss.time.{span.hours,repetitions.count}",
        "loss.{trials.count,duration_s,payload_bytes}",
        "loss.phase_*.{duration_s,trials.count}",
        "loss.phase_*.{highest_clean,threshold,collapse}.{control,frer}.mbps",
        "loss.phase_*.rate_*.{control,frer}.{percent,lost.count,offered_mbps,delivered_mbps}",
        "loss.collapse.{control,frer}.{mbps,lowest_share.percent}",
        "loss.phase_*.collapse.{control,frer}.lowest_share.percent",
        "loss.variation.{zero_loss,loss_onset,catastrophic}.{control,frer}.delivered.percent",
        "loss.variation.{zero_loss,loss_onset,catastrophic}.{control,frer}.loss.percent",
        "loss.precision.{resolution,accuracy}.{percent,mbps}",
        "loss.jitter.{control,frer}.us",
    ),
    # The model predicts what the metered stalls of the testbed cost.
    reads=("config/testbeds/model.yaml",),
)
