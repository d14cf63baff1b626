"""Settings of the experiment ``occupancy``."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    LinkRateMbps,
    OneOrMore,
    QueueBytes,
    RatesMbps,
    Repetitions,
    Seconds,
)
from tsnrepro.config.registry import MODEL, Experiment

Memory = Literal["per_port", "shared"]


class OccupancySettings(ConfigModel):
    """How full the first switch's buffer is while the member links are too slow for the load."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    rates_mbps: RatesMbps
    """Payload rates offered."""
    duration_s: Seconds
    """Longer than the buffer takes to fill, or nothing is lost."""
    buffers_bytes: OneOrMore[QueueBytes] = [2_000_000, 4_000_000]
    memories: OneOrMore[Memory] = ["per_port", "shared"]
    """``per_port``: each member port has the whole buffer, as where a switch keeps one copy of a
    replicated frame. ``shared``: all member ports in use share it and each keeps its own copy."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 1472
    member_link_rate_mbps: LinkRateMbps = 400
    """Wire rate of the member links: 400 Mb/s are the 50 MB/s of the published equations."""


_CELL = "occupancy.size_*.rate_*.{control,frer}.{per_port,shared}"

EXPERIMENT = Experiment(
    OccupancySettings,
    title="Buffer occupancy",
    kinds=(MODEL,),
    order=10,
    tables=("times",),
    figures={
        "depth-*": "Depth of a member port's queue over time, with the equation's line",
        "time-to-fill": "Time to fill the buffer against offered load",
    },
    keys=(
        f"{_CELL}.{{filled,first_loss,equation,published}}.ms",
        f"{_CELL}.{{equation,published}}.error.percent",
        f"{_CELL}.{{carried.mbps,lost.percent,peak.percent}}",
        "occupancy.size_*.{bytes,mb}",
        "occupancy.rate_*.mbps",
        "occupancy.equation.worst_error.percent",
        "occupancy.{link.mbps,payload_bytes,duration_s,trials.count}",
    ),
)
