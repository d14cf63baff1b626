"""Experiment ``sweep``: UDP frame loss against offered load (RFC 2544, 26.3, by iperf3)."""

from typing import Any

from tsnrepro.experiments.measurers import measurer
from tsnrepro.experiments.plan import planned_in_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign, SweepSettings

# Configuring, counters, server and connection; only the first estimate of time uses it.
SET_UP_SECONDS = 1.5


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, payload, load and repetition."""
    settings = campaign.sweep
    if settings is None:
        return []
    return planned_in_blocks(_trials(settings), campaign.seed, SET_UP_SECONDS)


def _trials(settings: SweepSettings) -> list[Trial]:
    return [
        Trial(
            "sweep",
            f"{configuration}-{part.payload_bytes}B-{rate:g}M",
            {
                "configuration": configuration,
                "payload_bytes": part.payload_bytes,
                "rate_mbps": rate,
                "duration_s": part.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for part in settings.parts
        for rate in part.rates_mbps
        for configuration in settings.configurations
    ]


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: send, count what arrived, and say where the rest went."""
    measurer(testbed).udp_bursts(testbed, trial, measured)
