"""Settings of the experiment ``topologies``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import (
    CONFIGURATIONS,
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

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each combination."""
    duration_s: Seconds
    """Duration of a trial, in seconds of simulated time."""
    rates_mbps: RatesMbps
    """Offered loads as payload rates, in Mb/s. One above line rate shows what the network carries.
    """
    lines: Distinct[Annotated[int, Field(ge=2, le=64)]] = [2, 4, 8]
    """Lengths of lines, in switches; two links join neighbours, one for each member path."""
    rings: Distinct[Annotated[int, Field(ge=3, le=64)]] = [5]
    """Lengths of rings, in switches; the two directions are the member paths, and control takes the
    shorter one."""
    ring_cuts: OneOrMore[bool] = [False, True]
    """Whether the first link of the shorter direction fails halfway through a trial, each to try.
    """
    meshes: Distinct[Annotated[int, Field(ge=2, le=8)]] = [2, 3]
    """Numbers of member paths through a full mesh, in which links join all switches."""
    link_loss_percents: OneOrMore[Annotated[float, Field(ge=0, le=100)]] = [0.0, 1.0]
    """Random losses of each link between switches to try, in percent."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 1472
    """UDP payload, in bytes."""


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
