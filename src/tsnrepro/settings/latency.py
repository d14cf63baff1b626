"""Settings of the experiment ``latency``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.registry import EMULATED, HARDWARE, MODEL, Experiment
from tsnrepro.settings.strict import Configurations, OneOrMore, Repetitions, Strict, WholeSeconds


class LatencySettings(Strict):
    """Half round trip by ``sockperf ping-pong``, one request at a time."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    payloads_bytes: OneOrMore[Annotated[int, Field(ge=14, le=65507)]]
    duration_s: WholeSeconds


EXPERIMENT = Experiment(
    LatencySettings,
    title="Latency",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=3,
    tables=("latency-by-size",),
    figures={
        "latency-distribution": "Distribution of half round trips",
        "latency-by-size": "Latency by frame size",
    },
    keys=(
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.{control,frer}.us",
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.difference.percent",
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.verdict",
        "latency.p50.equivalence.{verdict,margin.percent}",
        "latency.observations.{control,frer}.count",
        "latency.{duration_s,quantity,payload_bytes}",
        "latency.payload_*.{mean,min,max,p50,p90,p99,p99_9,p99_99,jitter}.{control,frer}.us",
        "latency.payload_*.{margin,round_trip_margin,waiting}.{control,frer}.percent",
        "latency.payload_*.{mean,p50,p99,p99_9}.difference.percent",
        "latency.payload_*.{observations,runs}.{control,frer}.count",
        "latency.payload_*.{duration_s,frame_bytes}",
    ),
)
