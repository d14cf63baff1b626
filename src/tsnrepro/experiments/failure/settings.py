"""Settings of the failure experiment."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    Distinct,
    OneOrMore,
    PacketsPerSecond,
    Percent,
    PositiveFloat,
    Repetitions,
    Seconds,
    SocketBufferBytes,
)
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment

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
    "failover",
]


class FailoverSettings(ConfigModel):
    """The load of the scenario ``failover``: one member path is cut and repaired under it.

    Our talker sends it. The document's iperf3 reports sums over intervals, from which neither the
    recovery time nor what was lost while the path was cut could be told.
    """

    rate_mbps: PositiveFloat = 530.0
    """Payload rate; the default is what the documents call the capacity of the path."""
    payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 1472
    receive_buffer_bytes: SocketBufferBytes | None = 8_000_000
    """Of the listener's socket. The kernel's default overflows while the program is kept waiting,
    and that loss would hide what the path did."""
    repetitions: Repetitions | None = None
    """By default the experiment's."""


class FailureSettings(ConfigModel):
    """What happens to a constant-rate stream when member paths and switches fail."""

    scenarios: OneOrMore[Scenario]
    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    duration_s: Seconds
    durations_s: dict[Scenario, Seconds] = {}
    """Of scenarios that need more, or less, than ``duration_s``."""
    rate_pps: PacketsPerSecond = 5000.0
    payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 256
    loss_percent: Percent = 10.0
    """Of the lossy path."""
    duplicate_percent: Percent = 10.0
    """Of the path that duplicates."""
    delays_ms: Distinct[Annotated[float, Field(ge=0, le=100)]] = [0.0, 1.0, 10.0]
    """By which the second member path is longer, one trial each."""
    latent: LatentSettings = LatentSettings()
    failover: FailoverSettings = FailoverSettings()


EXPERIMENT = Experiment(
    FailureSettings,
    title="Failures",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=5,
    figures={
        "losses": "Datagrams lost by scenario",
        "delivered-over-time": "Delivered datagrams while member paths are cut and repaired",
        "failover": "Delivered rate while a member path is cut under load",
    },
    keys=(
        "failure.*.{control,frer}.{lost,duplicated,reordered,longest_silence_ms,alarms}",
        "failure.*.delay.ms",
        "failure.failover.{control,frer}.{offered,before,during,after}.mbps",
        "failure.failover.{control,frer}.{during_share.percent,lost_while_cut}",
        "failure.failover.{control,frer}.{recovery.ms,within,highest.ms,elsewhere.ms}",
        "failure.failover.{target.mbps,payload_bytes,duration_s,receive_buffer.mb,limit.ms}",
        "failure.failover.{control,frer}.trials.count",
        "failure.trials.count",
    ),
)
