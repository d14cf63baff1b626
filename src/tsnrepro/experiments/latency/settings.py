"""Settings of the experiment ``latency``."""

from typing import Annotated

from pydantic import Field, model_validator

from tsnrepro.common.ethernet import main_payload_bytes
from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    OneOrMore,
    Percent,
    Repetitions,
    WholeSeconds,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment
from tsnrepro.config.sequential import check_sequential


class LatencySettings(ConfigModel):
    """Half round trip by ``sockperf ping-pong``, one request at a time."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    most_repetitions: Repetitions | None = None
    """How many there may be in all of the main payload alone, where ``repetitions`` leave the ratio
    of the medians less well known than ``ratio_within_percent``: one more is measured until it is.
    """
    ratio_within_percent: Percent | None = None
    """How far the 95 % limits of FRER's median over that of control may lie from their middle."""
    payloads_bytes: OneOrMore[Annotated[int, Field(ge=14, le=65507)]]
    """Sizes of sockperf's messages; above 1472 bytes a message goes in several fragments."""
    duration_s: WholeSeconds

    @property
    def main_payload_bytes(self) -> int:
        """1472 bytes, or else the largest payload."""
        return main_payload_bytes(self.payloads_bytes)

    @model_validator(mode="after")
    def _most_is_more(self) -> "LatencySettings":
        check_sequential(self, self.repetitions)
        return self


EXPERIMENT = Experiment(
    LatencySettings,
    title="Latency",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=3,
    tables=("latency-by-size",),
    figures={
        "latency-distribution": "Distribution of half round trips",
        "latency-by-size": "Latency by message size",
    },
    keys=(
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.{control,frer}.us",
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.difference.percent",
        "latency.{mean,sd,min,p25,p50,p75,p90,p99,p99_9,max}.verdict",
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
