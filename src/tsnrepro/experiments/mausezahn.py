"""Experiment ``mausezahn``: what a generator that sleeps between frames reaches.

The documents ran it for six frame sizes at seven shares of the line rate and took the ratio of
planned and needed time for a throughput. Here the achieved packet rate is measured at the first
switch while frames flow, so the generator's own limit is told from the network's, and a run that
its deadline ends is a timeout, not a rate.
"""

from typing import Any

from tsnrepro.experiments.measurers import measurer
from tsnrepro.experiments.plan import planned_in_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign

SET_UP_SECONDS = 1.5


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, frame size, share of line rate and repetition."""
    settings = campaign.mausezahn
    if settings is None:
        return []
    trials = [
        Trial(
            "mausezahn",
            f"{configuration}-{frame}B-{load:g}%",
            {
                "configuration": configuration,
                "frame_bytes": frame,
                "load_percent": load,
                "duration_s": settings.duration_s,
                "deadline_s": settings.deadline_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for frame in settings.frames_bytes
        for load in settings.loads_percent
        for configuration in settings.configurations
    ]
    return planned_in_blocks(trials, campaign.seed, SET_UP_SECONDS)


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    measurer(testbed).sleeping_generator(testbed, trial, measured)
