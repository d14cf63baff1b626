"""Settings of the experiment ``loss``."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.registry import Experiment
from tsnrepro.settings.strict import (
    Configurations,
    OneOrMore,
    RatesMbps,
    Repetitions,
    SocketBufferBytes,
    Strict,
    UdpPayload,
    WholeSeconds,
)


class LossPart(Strict):
    """Loads to try at one payload."""

    payload_bytes: UdpPayload
    rates_mbps: RatesMbps
    duration_s: WholeSeconds


class LossSettings(Strict):
    """Loss against offered load."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    generator: Literal["iperf3", "talker"] = "iperf3"
    """Who sends and receives: ``iperf3 -u`` as in the documents, or our own programs."""
    receive_buffers_bytes: Annotated[list[SocketBufferBytes | None], Field(min_length=1)] = [None]
    """Buffers of the receiving socket, on the scale of net.core.rmem_default; null is what the
    testbed's settings say, the kernel's default where they say nothing."""
    realtime_listeners: Annotated[list[bool | None], Field(min_length=1)] = [None]
    """Whether the receiving program runs under SCHED_FIFO; null is what the testbed says."""
    parts: OneOrMore[LossPart]


EXPERIMENT = Experiment(
    LossSettings,
    title="Loss against offered load",
    order=1,
    tables=("summary",),
    figures={
        "loss-against-load": "Loss against offered load",
        "where-lost": "Where the lost datagrams were lost",
        "frame-size": "Loss by frame size",
    },
    keys=(
        "loss.{threshold,highest_clean,line_limit}.{control,frer}.mbps",
        "loss.threshold.{ratio,difference.mbps,verdict,margin.percent}",
        "loss.threshold.network.{control.mbps,frer.mbps,ratio,difference.mbps,verdict}",
        "loss.{frame_*,size_*}.{control,frer,difference}.percent",
        "loss.{frame_*,size_*}.{target_mbps,control.offered_mbps,frer.offered_mbps}",
        "loss.size_*.{payload_bytes,frame_bytes}",
        "loss.share.{listener_socket,talker,switches,other}.percent",
        "loss.share.{listener_socket,talker,switches,other}.{control,frer}.percent",
        "loss.{sent,lost,received,copies,eliminated,unaccounted,unread}.total.count",
        "loss.{trials.count,duration_s}",
    ),
)
