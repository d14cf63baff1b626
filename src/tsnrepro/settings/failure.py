"""Settings of the failure experiment."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.registry import Experiment
from tsnrepro.settings.frer import LatentSettings
from tsnrepro.settings.strict import (
    Configurations,
    Distinct,
    OneOrMore,
    PacketsPerSecond,
    Percent,
    Repetitions,
    Seconds,
    Strict,
)

_Scenario = Literal[
    "none",
    "cuts",
    "silent-death",
    "lossy",
    "duplicating",
    "stuck-generator",
    "restart-sw1",
    "restart-sw2",
    "delay",
    "three-paths",
]


class FailureSettings(Strict):
    """What happens to a constant-rate stream when member paths and switches fail."""

    scenarios: OneOrMore[_Scenario]
    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    duration_s: Seconds
    rate_pps: PacketsPerSecond = 5000.0
    payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 256
    loss_percent: Percent = 10.0
    """Of the lossy path."""
    duplicate_percent: Percent = 10.0
    """Of the path that duplicates."""
    delays_ms: Distinct[Annotated[float, Field(ge=0, le=100)]] = [0.0, 1.0, 10.0]
    """By which the second member path is longer, one trial each."""
    latent: LatentSettings = LatentSettings()


EXPERIMENT = Experiment(
    FailureSettings,
    title="Failures",
    order=5,
    figures={
        "losses": "Datagrams lost by scenario",
        "delivered-over-time": "Delivered datagrams while member paths are cut and repaired",
    },
    keys=(
        "failure.*.{control,frer}.{lost,duplicated,reordered,longest_silence_ms,alarms}",
        "failure.trials.count",
    ),
)
