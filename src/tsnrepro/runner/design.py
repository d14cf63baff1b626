"""The design of an experiment: the typed factors of its trials, and their randomised blocks."""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.records.files import canonical_json
from tsnrepro.records.store import VARIED, Trial

# A simulated second takes about this long, several trials at a time; only estimates use it.
_MODEL_SHARE = 0.05
OMITTED = {"omitted": True}
"""Metadata of a field of factors that a record has only where it differs from its default."""


@dataclass(frozen=True, kw_only=True)
class TrialFactors:
    """All that decides what one trial of an experiment measures.

    A subclass names its fields, and orders them, as records store them; a digest of the stored
    form is part of a trial's name. Fields that came later have the metadata :data:`OMITTED` and
    the value that trials had before as their default, so that the names of older trials stay.
    """

    experiment: ClassVar[str]

    @property
    def label(self) -> str:
        """A short name of the trial for folders and progress, such as ``frer-1472B-500M``."""
        raise NotImplementedError

    def trial(self, repetition: int) -> Trial:
        """Return one repetition of the trial."""
        return Trial(self.experiment, self.label, self.stored(), repetition)

    def planned(self, repetition: int, nominal_s: float, **options: Any) -> "Planned":
        """Return one repetition with its nominal duration and other fields of :class:`Planned`."""
        return Planned(self.trial(repetition), 0, nominal_s, **options)

    def stored(self) -> dict[str, Any]:
        """Return the factors as a record stores them."""
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default or not each.metadata
        }

    @classmethod
    def of(cls, trial: Trial) -> Self:
        """Return the factors of a trial; RecordError if they are not those of this experiment."""
        return cls.read(trial.factors)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the factors that a record stores.

        Raises RecordError if they are not those of this experiment.
        """
        try:
            return cls(**{name: value for name, value in stored.items() if name != VARIED})
        except TypeError as error:
            raise RecordError(f"these are no factors of {cls.experiment}: {error}", "") from error


@dataclass(frozen=True)
class StallLimits:
    """How long, and how often, a machine may stall during a trial; None is the campaign's limit."""

    max_stall_ms: float | None = None
    max_stalled_percent: float | None = None


@dataclass(frozen=True)
class Planned:
    """A trial, its place in the order, and its nominal duration in seconds.

    Attributes
    ----------
    testbed
        Settings of the testbed that take the place of the configured ones, such as its number of
        paths.
    data_planes
        Switches that have to run this project's data plane, on a rack that may have others.
    stopping_rule
        What the trial is to make precise; it is measured only until that is reached. Empty for
        trials that are measured in any case.
    cabled
        What a trial between network cards needs between them: ``cable`` or ``switch``.
    stall_limits
        Limits of stalls beyond the campaign's.
    from_earlier
        Whether the trial starts from results of trials before it, and waits for them where
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


def in_blocks(planned: Iterable[Planned], seed: int) -> list[Planned]:
    """Return planned trials with each repetition as a block in random order.

    A drift of the machine then affects all configurations alike, and every block is a complete
    experiment if the campaign is cut short. The same seed gives the same order.
    """
    blocks: dict[int, list[Planned]] = {}
    for item in planned:
        blocks.setdefault(item.trial.repetition, []).append(item)
    ordered = []
    for repetition in sorted(blocks):
        block = sorted(blocks[repetition], key=lambda item: item.trial.digest)
        random.Random(f"{seed}/{repetition}").shuffle(block)
        ordered += block
    return numbered(ordered)


def numbered(planned: Iterable[Planned]) -> list[Planned]:
    """Return planned trials with their places in the order."""
    return [replace(item, order=order) for order, item in enumerate(planned)]


def crossed(planned: Iterable[Planned], grid: Sequence[dict[str, Any]], seed: int) -> list[Planned]:
    """Return the trials of a plan under every point of a grid of settings of the testbed.

    Each repetition is a block with all points in random order, since one testbed is up at a time,
    and the trials of a point in the order of the plan. Trials under a stopping rule are left out.

    Raises ConfigurationError if trials start from earlier results, or set what varies themselves.
    """
    blocks: dict[int, list[Planned]] = {}
    for item in planned:
        if not item.stopping_rule:
            blocks.setdefault(item.trial.repetition, []).append(item)
        if item.from_earlier:
            raise ConfigurationError(
                f"trials of {item.trial.experiment} start from earlier results",
                "vary",
                "Write a campaign for each setting of the testbed",
            )
    ordered = []
    for repetition, block in sorted(blocks.items()):
        points = list(grid)
        random.Random(f"{seed}/vary/{repetition}").shuffle(points)
        ordered += [_at_point(item, point) for point in points for item in block]
    return numbered(ordered)


def part_of(planned: Iterable[Planned], number: int, count: int) -> list[Planned]:
    """Return one of ``count`` parts of a grid, which has all trials of every so-many-th point."""
    items = list(planned)
    points = sorted({canonical_json(item.testbed) for item in items})[number::count]
    return [item for item in items if canonical_json(item.testbed) in points]


def _at_point(item: Planned, point: dict[str, Any]) -> Planned:
    if both := sorted(point.keys() & item.testbed.keys()):
        raise ConfigurationError(
            f"{item.trial.experiment} sets {', '.join(both)} itself",
            "vary",
            "Remove the setting here or in the section of the experiment",
        )
    texts = [re.sub(r"[^\w.]+", "_", f"{name}{value}").strip("_") for name, value in point.items()]
    label = "-".join([item.trial.label, *texts])
    factors = item.trial.factors | {VARIED: point}
    trial = replace(item.trial, label=label, factors=factors)
    return replace(item, trial=trial, testbed=item.testbed | point)


def with_extra_blocks(planned: Iterable[Planned], blocks: int, seed: int) -> list[Planned]:
    """Return planned trials with further repetitions of each, as blocks after the planned ones.

    A block has its trials in random order, those together that need the same testbed; or in the
    order of the plan, where some start from earlier results. Repetitions under a stopping rule are
    measured in any case as far as they are in these blocks.
    """
    alike: dict[bytes, list[Planned]] = {}
    for item in planned:
        alike.setdefault(canonical_json(item.trial.factors), []).append(item)
    kept, further = [], []
    extra: list[list[Planned]] = [[] for _ in range(blocks)]
    for items in alike.values():
        ruled = [item for item in items if item.stopping_rule]
        in_any_case = [item for item in items if not item.stopping_rule]
        last = max(in_any_case or ruled[:1], key=lambda item: item.trial.repetition)
        end = last.trial.repetition + blocks
        for number, block in enumerate(extra, start=last.trial.repetition + 1):
            trial = replace(last.trial, repetition=number)
            block.append(replace(last, trial=trial, stopping_rule=""))
        kept += in_any_case
        further += [item for item in ruled if item.trial.repetition > end]
    kept.sort(key=lambda item: item.order)
    further.sort(key=lambda item: item.order)
    ordered = [
        item for number, block in enumerate(extra) for item in _shuffled(block, seed, number)
    ]
    return numbered([*kept, *ordered, *further])


def _shuffled(block: list[Planned], seed: int, number: int) -> list[Planned]:
    if any(item.from_earlier for item in block):
        return sorted(block, key=lambda item: item.order)
    ordered = sorted(block, key=lambda item: item.trial.digest)
    random.Random(f"{seed}/extra/{number}").shuffle(ordered)
    return sorted(ordered, key=lambda item: canonical_json(item.testbed))


def in_order_of(planned: Iterable[Planned], key: Callable[[Planned], Any]) -> list[Planned]:
    """Return planned trials in order of a key and, where it is equal, in the order they had."""
    return numbered(sorted(planned, key=key))


def grouped_by_testbed(planned: Iterable[Planned], compared: str = "") -> list[Planned]:
    """Return planned trials with those together that need the same settings of the testbed.

    Bringing up another testbed takes seconds, longer than a short trial. Trials on the testbed as
    it is configured come first; within a testbed blocks, and trials of a block, keep their order.
    Of a setting whose values are ``compared`` with each other each block brings up all of them:
    what one bring-up does to its trials is then scatter, and no difference of the setting.
    """

    def place(item: Planned) -> tuple[bool, bytes, int, bytes]:
        others = {name: value for name, value in item.testbed.items() if name != compared}
        block = item.trial.repetition if compared in item.testbed else 0
        return bool(item.testbed), canonical_json(others), block, canonical_json(item.testbed)

    return in_order_of(planned, place)


def nominal_seconds(kind: str, sending_s: float, set_up_s: float) -> float:
    """Return how long a trial should take on a kind of testbed: the model has no set-up."""
    return _MODEL_SHARE * sending_s if kind == "model" else sending_s + set_up_s
