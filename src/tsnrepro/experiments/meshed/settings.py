"""Settings of the experiment ``meshed``."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import ConfigModel, LinkRateMbps, OneOrMore, Percent, Repetitions, Seconds
from tsnrepro.config.registry import MODEL, Experiment

Pattern = Literal["full", "one_to_many", "many_to_one", "two_devices"]


class MeshedSettings(ConfigModel):
    """Forwarding between many ports of a switch (RFC 2889, 5.1 to 5.3)."""

    repetitions: Repetitions
    """Trials of each combination."""
    duration_s: Seconds
    """Duration of a trial, in seconds of simulated time."""
    patterns: OneOrMore[Pattern] = ["full", "one_to_many", "many_to_one", "two_devices"]
    """``full``: every port sends to every other (5.1). ``one_to_many``, ``many_to_one``: one port
    sends to all others, or all others to it (5.2). ``two_devices``: every port of a switch sends to
    every port of another over one link between them, both ways (5.3)."""
    ports: OneOrMore[Annotated[int, Field(ge=4, le=16, multiple_of=2)]] = [4, 8]
    """Ports in all; two devices have half of them each."""
    frames_bytes: OneOrMore[Annotated[int, Field(ge=64, le=1518)]] = [64, 512, 1518]
    """Frame sizes with FCS, in bytes."""
    loads_percent: OneOrMore[Percent] = [50.0, 100.0]
    """Offered load of each sending port, in percent of line rate."""
    uplinks_mbps: OneOrMore[LinkRateMbps] = [1000, 10_000]
    """Wire rates of the link between two devices, in Mb/s."""


_CELL = "meshed.*.ports_*.frame_*.load_*"

EXPERIMENT = Experiment(
    MeshedSettings,
    title="Meshed forwarding",
    kinds=(MODEL,),
    order=12,
    tables=("forwarding",),
    figures={"forwarding": "Forwarding rate by pattern and frame size, with the line's arithmetic"},
    # The first word is a pattern; of two devices with the rate between them: two_devices_1000.
    keys=(
        f"{_CELL}.{{lost.percent,expected_lost.percent}}",
        f"{_CELL}.{{offered,forwarding,expected_forwarding}}.fps",
        "meshed.*.ports_*.frame_*.frmol.fps",
        "meshed.uncongested.{lost.count,sent.count,trials.count}",
        "meshed.forwarding.worst_error.percent",
        "meshed.{duration_s,link.mbps,trials.count}",
    ),
)
