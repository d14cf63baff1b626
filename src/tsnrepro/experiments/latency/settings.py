"""Settings of the experiment ``latency``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.common.ethernet import main_payload_bytes
from tsnrepro.config.base import (
    CONFIGURATIONS,
    Configurations,
    OneOrMore,
    Repetitions,
    WholeSeconds,
)
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment
from tsnrepro.config.sequential import SequentialSettings


class LatencySettings(SequentialSettings):
    """Half RTT by ``sockperf ping-pong``, one request at a time.

    Sequential stopping looks at the medians of the main payload, and adds repetitions of it alone.
    """

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions  # pyright: ignore[reportGeneralTypeIssues] - required here
    """Repetitions of every payload and configuration."""
    payloads_bytes: OneOrMore[Annotated[int, Field(ge=14, le=65507)]]
    """Sizes of sockperf's messages, in bytes; above 1472 a message is sent in fragments."""
    duration_s: WholeSeconds
    """Duration of a trial, in whole seconds."""

    @property
    def main_payload_bytes(self) -> int:
        """1472 bytes, or else the largest payload."""
        return main_payload_bytes(self.payloads_bytes)


EXPERIMENT = Experiment(
    LatencySettings,
    title="Latency",
    kinds=(EMULATED, MODEL, RACK, BENCH),
    order=3,
    tables=("latency-by-size",),
    figures={
        "latency-distribution": "Distribution of latencies",
        "latency-by-size": "Latency by message size",
    },
    outcomes=("mean_us", "p50_us", "p99_us"),
    singles="half_round_trip_us",
    keys=(
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.{control,frer}.us",
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.difference.{us,percent}",
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.{p,verdict}",
        "latency.p50.equivalence.{verdict,margin.percent}",
        "latency.observations.{control,frer}.count",
        "latency.precision.resolution.us",
        "latency.{duration_s,quantity,payload_bytes}",
        "latency.payload_*.{mean,min,max,p50,p90,p99,p99_9,p99_99,jitter}.{control,frer}.us",
        "latency.payload_*.{margin,round_trip_margin,waiting}.{control,frer}.percent",
        "latency.payload_*.{mean,p50,p99,p99_9}.difference.percent",
        "latency.payload_*.{observations,runs}.{control,frer}.count",
        "latency.payload_*.{duration_s,frame_bytes}",
    ),
)
