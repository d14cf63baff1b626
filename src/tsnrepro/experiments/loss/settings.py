"""Settings of the experiment ``loss``."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    Distinct,
    LinkRateMbps,
    OneOrMore,
    Paths,
    Percent,
    PositiveFloat,
    PositiveInt,
    RatesMbps,
    Repetitions,
    Seconds,
    SocketBufferBytes,
    UdpPayload,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment
from tsnrepro.config.sequential import check_sequential
from tsnrepro.records.columns import Question

_KNOWN_BY_RATIO: tuple[Question, ...] = ("limit", "bottleneck")
_OWN_LINKS: tuple[Question, ...] = (*_KNOWN_BY_RATIO, "elimination", "paths")
Generator = Literal["iperf3", "talker"]


class LossPart(ConfigModel):
    """Loads to try at one payload, and the question that they answer."""

    question: Question = "sweep"
    """``sweep``: loss against load, as the documents measured it. ``limit``: what the path carries
    to a program that can wait. ``bottleneck``: the same where the network is the narrowest place.
    ``intervention``: what the listener's buffer and priority do to the loss. ``elimination``: what
    is lost where the listener eliminates, so that one link carries all copies to it; a rack leaves
    it out. ``paced``: the sweep's loads over the testbed's links, each datagram paced by itself, to
    a program that can wait: what the sweep's threshold is set against. ``paths``: what FRER carries
    over different numbers of member paths; a rack has those that it has and leaves it out. Results
    of different questions are never pooled."""
    phase: PositiveInt | None = None
    """Number of a phase of the sweep, where loads of one payload are tried in trials of different
    length, as the documents did: trials of a phase are pooled neither with those of another nor
    with the rest of the sweep."""
    payload_bytes: UdpPayload
    rates_mbps: RatesMbps
    duration_s: Seconds
    repetitions: Repetitions | None = None
    """By default the experiment's."""
    most_repetitions: Repetitions | None = None
    """How many there may be in all, where ``repetitions`` leave the ratio of the thresholds less
    well known than ``ratio_within_percent``: one more is measured until it is."""
    ratio_within_percent: Percent | None = None
    """How far the 95 % limits of FRER's threshold over that of control may lie from their middle.
    """
    generator: Generator = "iperf3"
    """Who sends and receives: ``iperf3 -u`` as in the documents, or our own programs."""
    receive_buffers_bytes: Annotated[Distinct[SocketBufferBytes | None], Field(min_length=1)] = [
        None
    ]
    """Buffers of the receiving socket, on the scale of net.core.rmem_default; null is what the
    testbed's settings say, the kernel's default where they say nothing."""
    realtime_listeners: Annotated[Distinct[bool | None], Field(min_length=1)] = [None]
    """Whether the receiving program runs under SCHED_FIFO; null is what the testbed says."""
    send_buffer_bytes: SocketBufferBytes | None = None
    """Buffer of our talker's socket, as above. Where switches share the talker's machine it bounds
    what lies in all queues together: a switch can drop only what the talker could still send."""
    link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of all links in this part, where it is not the testbed's: one that its machines can
    fill. A rack's links are as fast as they are, so it leaves such a part out."""
    member_link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of the member paths in this part, where it is not that of the others."""
    max_stall_ms: PositiveFloat | None = None
    """In place of the campaign's: where a queue is the narrowest place, what a talker makes up for
    after a stall comes to it at once, and fills it sooner than the listener's buffer. A trial
    beyond it is put off until the others on its testbed are measured."""
    paths: Annotated[Distinct[Paths], Field(min_length=2)] | None = None
    """Over how many member paths FRER replicates in the question ``paths``, each number in trials
    of its own. The control takes the first path however many there are, and is measured once."""

    @model_validator(mode="after")
    def _can_be_asked(self) -> "LossPart":
        if self.phase is not None and self.question != "sweep":
            raise ValueError(f"a phase belongs to the sweep; the {self.question} has none")
        if self.link_rate_mbps and self.question not in _OWN_LINKS:
            raise ValueError(
                f"a {self.question} runs on the testbed's links: link_rate_mbps is for `limit`, "
                "`bottleneck`, `elimination` and `paths`"
            )
        if self.paths and self.question != "paths":
            raise ValueError(
                f"a {self.question} runs over the testbed's own paths; the question `paths` over "
                "the numbers of them that it names"
            )
        if self.question == "paths" and not self.paths:
            raise ValueError(
                "the question `paths` needs the numbers of member paths to compare: paths: [2, 3]"
            )
        if self.generator == "iperf3" and self.send_buffer_bytes:
            raise ValueError("iperf3 has no send_buffer_bytes of its own; `generator: talker` has")
        if self.most_repetitions and self.question not in _KNOWN_BY_RATIO:
            raise ValueError(f"only a limit or bottleneck has most_repetitions, no {self.question}")
        readers = len(self.receive_buffers_bytes) * len(self.realtime_listeners)
        if readers > 1 and self.question != "intervention":
            raise ValueError(
                f"{readers} ways to read are an `intervention`; a {self.question} has one"
            )
        return self


class LossSettings(ConfigModel):
    """Loss against offered load."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    parts: OneOrMore[LossPart]

    @model_validator(mode="after")
    def _one_way_a_question(self) -> "LossSettings":
        ways: dict[str, tuple] = {}
        for part in self.parts:
            way = (
                part.generator,
                part.receive_buffers_bytes,
                part.realtime_listeners,
                part.send_buffer_bytes,
                part.link_rate_mbps,
                part.member_link_rate_mbps,
                part.paths,
                part.most_repetitions,
                part.ratio_within_percent,
                part.max_stall_ms,
            )
            if ways.setdefault(part.question, way) != way:
                raise ValueError(
                    f"all parts of the {part.question} need the same generator, "
                    "receive_buffers_bytes, realtime_listeners, send_buffer_bytes, "
                    "link_rate_mbps, member_link_rate_mbps, paths, most_repetitions, "
                    "ratio_within_percent and max_stall_ms"
                )
        return self

    @model_validator(mode="after")
    def _most_is_more(self) -> "LossSettings":
        for part in self.parts:
            check_sequential(part, part.repetitions or self.repetitions)
        return self

    @model_validator(mode="after")
    def _one_length_a_series(self) -> "LossSettings":
        lengths: dict[tuple, float] = {}
        payloads: dict[int, int] = {}
        for part in self.parts:
            if part.question != "sweep":
                continue
            series = (part.phase, part.payload_bytes)
            if lengths.setdefault(series, part.duration_s) != part.duration_s:
                raise ValueError(
                    f"trials of {part.payload_bytes} bytes and different duration_s are never "
                    "pooled: give each length a phase of its own"
                )
            if part.phase and payloads.setdefault(part.phase, part.payload_bytes) != series[1]:
                raise ValueError(f"phase {part.phase} needs one payload_bytes")
        return self


EXPERIMENT = Experiment(
    LossSettings,
    title="Loss against offered load",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=1,
    tables=("summary", "by-payload", "by-phase", "intervention", "over-time"),
    figures={
        "loss-against-load": "Loss against offered load",
        "intervention": "Loss against offered load by receive buffer and priority",
        "where-lost": "Where the lost datagrams were lost",
        "frame-size": "Loss by frame size",
        "loss-over-time": "Loss over the time of the run, a mark a repetition",
    },
    keys=(
        "loss.{threshold,highest_clean,line_limit}.{control,frer}.mbps",
        "loss.threshold.{ratio,difference.mbps,verdict,margin.percent}",
        "loss.threshold.network.{control.mbps,frer.mbps,ratio,difference.mbps,verdict}",
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
        "loss.intervention.{buffer,realtime,frer}.{difference.percent,verdict}",
        "loss.intervention.{buffer,realtime,frer}.pairs.{count,with.count,without.count,p}",
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
        "loss.{sent,lost,received,copies,eliminated,unaccounted,untraced,unread}.total.count",
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
