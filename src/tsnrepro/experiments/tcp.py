"""Experiment ``tcp``: the goodput of one TCP connection (iperf3)."""

from typing import Any

from tsnrepro.experiments.measurers import measurer
from tsnrepro.experiments.plan import planned_in_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign

SET_UP_SECONDS = 1.5


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, duration and repetition."""
    settings = campaign.tcp
    if settings is None:
        return []
    trials = [
        Trial(
            "tcp",
            f"{configuration}-{duration}s",
            {"configuration": configuration, "duration_s": duration},
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for duration in settings.durations_s
        for configuration in settings.configurations
    ]
    return planned_in_blocks(trials, campaign.seed, SET_UP_SECONDS)


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    measurer(testbed).tcp_bulk(testbed, trial, measured)
