"""Experiment ``latency``: half round trips of one request at a time (sockperf ping-pong)."""

from typing import Any

from tsnrepro.experiments.measurers import measurer
from tsnrepro.experiments.plan import planned_in_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign

SET_UP_SECONDS = 3.0


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, payload and repetition."""
    settings = campaign.latency
    if settings is None:
        return []
    trials = [
        Trial(
            "latency",
            f"{configuration}-{payload}B",
            {
                "configuration": configuration,
                "payload_bytes": payload,
                "duration_s": settings.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for payload in settings.payloads_bytes
        for configuration in settings.configurations
    ]
    return planned_in_blocks(trials, campaign.seed, SET_UP_SECONDS)


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every observation."""
    measurer(testbed).ping_pong(testbed, trial, measured)
