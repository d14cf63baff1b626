"""The order in which the trials of an experiment are measured."""

import random

from tsnrepro.experiments.run import Planned
from tsnrepro.records.store import Trial

# A second of the model's time takes about this much of ours; only the first estimate uses it.
MODEL_SHARE = 0.1


def randomised_blocks(trials: list[Trial], seed: int) -> list[Trial]:
    """Return the trials with each repetition as a block in random order.

    A drift of the machine then falls on all configurations alike, and every block is a complete
    experiment if the campaign is cut short. The same seed gives the same order.
    """
    blocks: dict[int, list[Trial]] = {}
    for trial in trials:
        blocks.setdefault(trial.repetition, []).append(trial)
    ordered = []
    for repetition in sorted(blocks):
        block = sorted(blocks[repetition], key=lambda trial: trial.digest)
        random.Random(f"{seed}/{repetition}").shuffle(block)
        ordered += block
    return ordered


def planned_in_blocks(trials: list[Trial], seed: int, kind: str, set_up_s: float) -> list[Planned]:
    """Return the trials in random blocks, each nominally its ``duration_s`` and a set-up long."""
    return [
        Planned(trial, order, nominal_seconds(kind, trial.factors["duration_s"], set_up_s))
        for order, trial in enumerate(randomised_blocks(trials, seed))
    ]


def nominal_seconds(kind: str, sending_s: float, set_up_s: float) -> float:
    """Return how long a trial should take: the model neither waits nor sets anything up."""
    return MODEL_SHARE * sending_s if kind == "model" else sending_s + set_up_s
