"""Settings of the failure experiment."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import (
    CONFIGURATIONS,
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
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment

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
    """The load of the scenario ``failover``, during which one member path is cut and repaired.

    Our talker sends it: from iperf3's sums over intervals, as in the document, neither the gap at
    the cut nor the loss during it could be determined.
    """

    rate_mbps: PositiveFloat = 530.0
    """Payload rate, in Mb/s. The default is what the documents call the capacity of the path."""
    payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 1472
    """UDP payload, in bytes."""
    receive_buffer_bytes: SocketBufferBytes | None = 8_000_000
    """Receive buffer of the listener's socket, in bytes. The kernel's default overflows whenever
    the listener stalls, and that loss would hide the path's."""
    repetitions: Repetitions | None = None
    """Repetitions of this scenario; by default the experiment's."""


class FailureSettings(ConfigModel):
    """A constant-rate stream while member paths and switches fail."""

    scenarios: OneOrMore[Scenario]
    """What fails."""
    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each scenario and configuration."""
    duration_s: Seconds
    """Duration of a trial, in seconds."""
    durations_s: dict[Scenario, Seconds] = {}
    """Duration by scenario, of those that need another than ``duration_s``."""
    rate_pps: PacketsPerSecond = 5000.0
    """Datagrams per second."""
    payload_bytes: Annotated[int, Field(ge=12, le=1472)] = 256
    """UDP payload, in bytes."""
    loss_percent: Percent = 10.0
    """Loss of one member path in the scenario ``lossy``."""
    duplicate_percent: Percent = 10.0
    """Duplicated frames of one member path in the scenario ``duplicating``."""
    delays_ms: Distinct[Annotated[float, Field(ge=0, le=100)]] = [0.0, 1.0, 10.0]
    """Added delays of the second member path in the scenario ``delay``, in ms, a trial each."""
    latent: LatentSettings = LatentSettings()
    """Latent error detection."""
    failover: FailoverSettings = FailoverSettings()
    """The load of the scenario ``failover``."""


EXPERIMENT = Experiment(
    FailureSettings,
    title="Failures",
    kinds=(EMULATED, MODEL, RACK, BENCH),
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
        "failure.failover.{control,frer}.{gap.ms,elsewhere.ms,no_longer}",
        "failure.failover.{control,frer}.{during_share,as_long,as_long_windows}.percent",
        "failure.failover.{control,frer}.{lost_while_cut,sent_while_cut.count,loss_bound.percent}",
        "failure.failover.{target.mbps,payload_bytes,duration_s,receive_buffer.mb}",
        "failure.failover.{control,frer}.trials.count",
        "failure.trials.count",
    ),
)
