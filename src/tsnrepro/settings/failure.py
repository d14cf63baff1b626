"""Settings of the failure experiment."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.settings.strict import Configuration, PositiveFloat, PositiveInt, Strict

Scenario = Literal[
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
Share = Annotated[float, Field(gt=0, le=100)]


class LatentSettings(Strict):
    """Latent error detection; defaults are those of IEEE Std 802.1CB-2017, 10.4.1.12."""

    period_ms: PositiveInt = 2000
    reset_ms: PositiveInt = 30_000
    difference: Annotated[int, Field(ge=0)] = 100


class FailureSettings(Strict):
    """What happens to a constant-rate stream when member paths and switches fail."""

    scenarios: Annotated[list[Scenario], Field(min_length=1)]
    configurations: list[Configuration] = ["control", "frer"]
    repetitions: PositiveInt
    duration_s: PositiveFloat
    rate_pps: PositiveFloat = 5000.0
    payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 256
    loss_percent: Share = 10.0
    """Of the lossy path."""
    duplicate_percent: Share = 10.0
    """Of the path that duplicates."""
    delays_ms: list[Annotated[float, Field(ge=0, le=100)]] = [0.0, 1.0, 10.0]
    """By which the second member path is longer, one trial each."""
    latent: LatentSettings = LatentSettings()


class StreamsSettings(Strict):
    """Several streams at once, with best effort beside them."""

    counts: Annotated[list[Annotated[int, Field(ge=1, le=16)]], Field(min_length=1)]
    repetitions: PositiveInt
    duration_s: PositiveFloat
    rate_pps: PositiveFloat = 2000.0
    """Of each stream."""
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 256
    best_effort_mbps: list[Annotated[float, Field(ge=0)]] = [0.0]
    """Payload rate of the traffic of no stream."""
