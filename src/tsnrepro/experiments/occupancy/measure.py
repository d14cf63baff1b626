"""Experiment ``occupancy``: the depth of a switch's queues while a bottleneck is overloaded."""

from typing import TYPE_CHECKING, cast

from tsnrepro.experiments.occupancy.settings import OccupancySettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, full_factorial, planned_in_blocks
from tsnrepro.testbeds.protocol import Testbed

if TYPE_CHECKING:
    from tsnrepro.testbeds.model import ModelTestbed


def plan(settings: OccupancySettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, buffer, memory, load and repetition."""
    trials = full_factorial(
        *("occupancy", "{configuration}-{memory}-{buffer_bytes}B-{rate_mbps:g}M", settings),
        ["duration_s", "payload_bytes", "member_link_rate_mbps"],
        configuration=settings.configurations,
        memory=settings.memories,
        buffer_bytes=settings.buffers_bytes,
        rate_mbps=settings.rates_mbps,
    )
    return planned_in_blocks(trials, seed, kind, 0.0)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial."""
    from tsnrepro.experiments.occupancy import simulated as occupancy  # noqa: PLC0415 - compiled code

    occupancy.measure(cast("ModelTestbed", testbed), trial, measured)
