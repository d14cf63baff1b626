"""Settings of the experiment ``ping``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import ConfigModel, OneOrMore, Repetitions
from tsnrepro.config.registry import EMULATED, RACK, Experiment


class PingSettings(ConfigModel):
    """Round trips of ICMP echo requests, which belong to no FRER stream."""

    repetitions: Repetitions
    """Trials of each payload."""
    payloads_bytes: OneOrMore[Annotated[int, Field(ge=16, le=1472)]]
    """ICMP payloads, in bytes; ping needs 16 for its timestamp."""
    requests: Annotated[int, Field(ge=1, le=100_000)]
    """Echo requests of a trial."""
    interval_ms: Annotated[int, Field(ge=2, le=10_000)] = 10
    """Time between two requests, in ms."""


EXPERIMENT = Experiment(
    PingSettings,
    title="Round trips by ping",
    kinds=(EMULATED, RACK),
    figures={"round-trips": "Round trips by ping, by payload"},
    keys=("ping.payload_*.{median,p99}.us", "ping.{sent,lost,trials}.count"),
)
