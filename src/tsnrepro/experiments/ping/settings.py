"""Settings of the experiment ``ping``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import ConfigModel, OneOrMore, Repetitions
from tsnrepro.config.registry import EMULATED, HARDWARE, Experiment


class PingSettings(ConfigModel):
    """Round trips of ICMP echo requests, which belong to no FRER stream."""

    repetitions: Repetitions
    payloads_bytes: OneOrMore[Annotated[int, Field(ge=16, le=1472)]]
    """ICMP payload; below 16 bytes ping has no room for its time stamp."""
    requests: Annotated[int, Field(ge=1, le=100_000)]
    interval_ms: Annotated[int, Field(ge=2, le=10_000)] = 10


EXPERIMENT = Experiment(
    PingSettings,
    title="Round trips by ping",
    kinds=(EMULATED, HARDWARE),
    figures={"round-trips": "Round trips by ping, by payload"},
    keys=("ping.payload_*.{median,p99}.us", "ping.{sent,lost,trials}.count"),
)
