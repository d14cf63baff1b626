"""Settings of the experiment ``streams``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import (
    ConfigModel,
    LoadMbps,
    OneOrMore,
    PacketsPerSecond,
    Repetitions,
    Seconds,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment


class StreamsSettings(ConfigModel):
    """Several streams at once, with best effort beside them."""

    counts: OneOrMore[Annotated[int, Field(ge=1, le=16)]]
    repetitions: Repetitions
    duration_s: Seconds
    rate_pps: PacketsPerSecond = 2000.0
    """Of each stream."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 256
    best_effort_mbps: OneOrMore[LoadMbps] = [0.0]
    """Payload rate of the traffic of no stream."""


EXPERIMENT = Experiment(
    StreamsSettings,
    title="Several streams at once",
    kinds=(EMULATED, MODEL, HARDWARE),
    several_streams=True,
    order=6,
    figures={"loss-by-count": "Datagrams lost by number of streams"},
    keys=("streams.*.*.{own_sequences.count,trials.count,lost.percent}",),
)
