"""Settings of the experiment ``topologies``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    Distinct,
    OneOrMore,
    RatesMbps,
    Repetitions,
    Seconds,
)
from tsnrepro.config.registry import MODEL, Experiment


class TopologiesSettings(ConfigModel):
    """Loss, latency and carried load beyond two switches: lines, rings, meshes."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    duration_s: Seconds
    rates_mbps: RatesMbps
    """Payload rates offered; one above the line's limit shows what the network carries."""
    lines: Distinct[Annotated[int, Field(ge=2, le=64)]] = [2, 4, 8]
    """Switches in a row, neighbours joined by two links: the member paths."""
    rings: Distinct[Annotated[int, Field(ge=3, le=64)]] = [5]
    """Switches in a ring, whose two directions are the member paths; control takes the shorter."""
    ring_cuts: OneOrMore[bool] = [False, True]
    """Whether the first link of the shorter direction fails when half of the time is over."""
    meshes: Distinct[Annotated[int, Field(ge=2, le=8)]] = [2, 3]
    """Member paths through a mesh in which every switch has a link to every other."""
    link_loss_percents: OneOrMore[Annotated[float, Field(ge=0, le=100)]] = [0.0, 1.0]
    """Chance of a frame to be lost on each link between switches."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 1472


_CELL = "topologies.*.{control,frer}.link_loss_*.rate_*"

EXPERIMENT = Experiment(
    TopologiesSettings,
    title="Lines, rings and meshes",
    kinds=(MODEL,),
    own_network=True,
    order=11,
    tables=("cells",),
    figures={
        "latency-by-topology": "Median one-way latency by topology, with the sum of its parts",
        "loss-by-topology": "Loss by topology over links that lose, with the paths' product",
        "carried-by-topology": "Payload rate carried by topology, with the line's limit",
    },
    # The first word is a shape and its size: line_4, ring_5, ring_5_cut, mesh_3.
    keys=(
        f"{_CELL}.{{lost.percent,expected_lost.percent}}",
        f"{_CELL}.{{p50.us,p99.us,carried.mbps}}",
        "topologies.*.{control,frer}.{expected.us,line_limit.mbps,paths.count,switches.count}",
        "topologies.*.{p50.difference.us,carried.ratio}",
        "topologies.{payload_bytes,duration_s,trials.count}",
    ),
)
