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
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment


class StreamsSettings(ConfigModel):
    """Several FRER streams at once, with best-effort traffic."""

    counts: OneOrMore[Annotated[int, Field(ge=1, le=16)]]
    """Numbers of streams to try."""
    repetitions: Repetitions
    """Trials of each combination."""
    duration_s: Seconds
    """Duration of a trial, in seconds."""
    rate_pps: PacketsPerSecond = 2000.0
    """Datagrams per second of each stream."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 256
    """UDP payload, in bytes."""
    best_effort_mbps: OneOrMore[LoadMbps] = [0.0]
    """Payload rates of traffic that belongs to no stream, in Mb/s."""


EXPERIMENT = Experiment(
    StreamsSettings,
    title="Several streams at once",
    kinds=(EMULATED, MODEL, RACK, BENCH),
    several_streams=True,
    order=6,
    figures={"loss-by-count": "Datagrams lost by number of streams"},
    keys=("streams.*.*.{own_sequences.count,trials.count,lost.percent}",),
)
