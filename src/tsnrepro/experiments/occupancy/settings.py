"""Settings of the experiment ``occupancy``."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import (
    CONFIGURATIONS,
    ConfigModel,
    Configurations,
    LinkRateMbps,
    OneOrMore,
    QueueBytes,
    RatesMbps,
    Repetitions,
    Seconds,
    formerly,
)
from tsnrepro.config.registry import MODEL, Experiment

BufferAllocation = Literal["per_port", "shared"]


class OccupancySettings(ConfigModel):
    """Occupancy of the first switch's buffer while the load exceeds the member links."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each combination."""
    rates_mbps: RatesMbps
    """Offered loads as payload rates, in Mb/s."""
    duration_s: Seconds
    """Duration of a trial, in seconds of simulated time. Nothing is lost before the buffer has
    filled."""
    buffers_bytes: OneOrMore[QueueBytes] = [2_000_000, 4_000_000]
    """Buffer sizes of the switch, in bytes."""
    buffer_allocation: Annotated[OneOrMore[BufferAllocation], formerly("memories")] = [
        "per_port",
        "shared",
    ]
    """How ports get the buffer. ``per_port``: each member port has all of it, as in a switch that
    keeps one copy of a replicated frame. ``shared``: the member ports in use share it, and each
    keeps its own copy."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 1472
    """UDP payload, in bytes."""
    member_link_rate_mbps: LinkRateMbps = 400
    """Wire rate of the member links, in Mb/s. The default is the 50 MB/s of the published
    equations."""


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
