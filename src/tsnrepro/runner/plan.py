"""The trials of an experiment, and the order in which they are measured."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tsnrepro.records.store import Trial, canonical

# A second of the model's time takes about this much of ours; only the first estimate uses it.
_MODEL_SHARE = 0.1


@dataclass(frozen=True)
class StallLimits:
    """For how long, and how often, a machine may have stalled: None leaves it to the campaign."""

    max_stall_ms: float | None = None
    max_stalled_percent: float | None = None


@dataclass(frozen=True)
class Planned:
    """A trial, its place in the order, and the seconds it should take.

    ``testbed`` are settings of the testbed that this trial needs otherwise than configured, such
    as its number of paths. ``data_planes`` are the switches that have to run our data plane for
    it, on a rack where others may stand. ``until`` names what a trial is measured for only as long
    as it is not well enough known; without such a name it is measured in any case. ``cabled`` says
    what has to be between network cards where it is measured between such, a ``cable`` or a
    ``switch``. ``stall_limits`` is what it asks of machines beyond what the campaign does.
    ``from_earlier`` tells that it starts from what trials before it found: it waits for them where
    several are measured at once.
    """

    trial: Trial
    order: int
    nominal_s: float
    testbed: dict[str, Any] = field(default_factory=dict)
    data_planes: tuple[str, ...] = ()
    stopping_rule: str = ""
    cabled: str = ""
    stall_limits: StallLimits = StallLimits()
    from_earlier: bool = False


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


def in_blocks(
    trials: list[Trial],
    seed: int,
    nominal_s: Callable[[Trial], float],
    testbed: Callable[[Trial], dict[str, Any]] = lambda _: {},
) -> list[Planned]:
    """Return the trials in random blocks, with what each takes of time and of the testbed."""
    return [
        Planned(trial, order, nominal_s(trial), testbed(trial))
        for order, trial in enumerate(randomised_blocks(trials, seed))
    ]


def in_order_of(planned: list[Planned], key: Callable[[Planned], Any]) -> list[Planned]:
    """Return planned trials in order of a key and, where it is equal, in the order they had."""
    return [replace(item, order=order) for order, item in enumerate(sorted(planned, key=key))]


def grouped_by_testbed(planned: list[Planned]) -> list[Planned]:
    """Return planned trials with those together that need the same of the testbed.

    Each testbed's blocks keep their order, and so do the trials of a block. To bring another
    testbed up takes seconds, longer than a short trial. Those on the testbed as it is configured
    come first.
    """
    return in_order_of(planned, lambda item: (bool(item.testbed), canonical(item.testbed)))


def planned_in_blocks(trials: list[Trial], seed: int, kind: str, set_up_s: float) -> list[Planned]:
    """Return the trials in random blocks, each nominally its ``duration_s`` and a set-up long."""
    return in_blocks(
        trials, seed, lambda trial: nominal_seconds(kind, trial.factors["duration_s"], set_up_s)
    )


def full_factorial(
    experiment: str,
    label: str,
    settings: Any,
    constant: Collection[str] = (),
    repetitions: range | None = None,
    **varied: Sequence[Any],
) -> list[Trial]:
    """Return a trial for every repetition and combination of the varied factors.

    ``label`` is a format string over a trial's factors; ``settings`` are the experiment's, of which
    those named ``constant`` are factors of every trial, and whose repetitions are taken unless
    others are named.
    """
    same = settings.model_dump(include={*constant})
    combined = [
        dict(zip(varied, values, strict=True)) | same for values in product(*varied.values())
    ]
    return [
        Trial(experiment, label.format(**factors), factors, repetition)
        for repetition in repetitions or range(1, settings.repetitions + 1)
        for factors in combined
    ]


def nominal_seconds(kind: str, sending_s: float, set_up_s: float) -> float:
    """Return how long a trial should take: the model neither waits nor sets anything up."""
    return _MODEL_SHARE * sending_s if kind == "model" else sending_s + set_up_s
