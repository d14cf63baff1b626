"""How many repetitions find an effect, before measuring: from the scatter of the last record."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.config.registry import MODEL, experiments
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.records.values import VALUES_FILE, load_file
from tsnrepro.results.verdicts import SIGNIFICANCE
from tsnrepro.stats.power import MIN_PAIRS, Scatter, repetitions_to_find

_SCATTER = ".power.scatter.percent"
_OBSERVED = ".power.observed.count"


@dataclass(frozen=True)
class Needed:
    """What a comparison needs: its scatter in percent, of how many repetitions, and how many."""

    comparison: str
    scatter_percent: float
    observed: int
    repetitions: int | None

    @property
    def at_least(self) -> bool:
        """Return whether more may be needed: than any campaign has, or for a tail not seen."""
        return self.repetitions is None or self.observed < MIN_PAIRS


@dataclass(frozen=True)
class Expected:
    """What the comparisons of one experiment need, and whose record shows it."""

    experiment: str
    testbed: str
    campaign: str
    needed: list[Needed]


def parse_percent(text: str) -> float:
    """Return an effect such as ``5%`` as a number.

    Raises
    ------
    ConfigurationError
        It is no number above 0 and at most 1000.
    """
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 < percent <= 1000:
        raise ConfigurationError(f"'{text}' is no effect in percent", "--detect", "Write 5%")
    return percent


def expected(
    percent: float, testbed: str | None, experiment: str | None, results: Path | None = None
) -> Iterator[Expected]:
    """Yield by experiment how many repetitions find a change in 80 % of campaigns.

    Each comparison alone, at 5 %, with the scatter of the testbed's last record; of an experiment
    that has none there, of the last on another testbed, last of all on the model.

    Raises
    ------
    ConfigurationError
        There is no such experiment.
    RecordError
        No record shows the scatter.
    """
    if experiment is not None:
        experiment_of(experiment)
    folder = root() / "results" if results is None else results
    found = False
    for name in experiments() if experiment is None else (experiment,):
        paths = sorted(
            folder.glob(f"*/*/{name}/{VALUES_FILE}"), key=lambda p: _rank(p, testbed), reverse=True
        )
        for path in paths:
            if needed := list(_needed(path, percent)):
                yield Expected(name, path.parts[-4], path.parts[-3], needed)
                found = True
                break
    if not found:
        raise RecordError(
            "no record shows the scatter between repetitions",
            str(folder),
            "Simulate the campaign first: snakemake --cores 1 --config testbed=model",
        )


def _rank(path: Path, testbed: str | None) -> tuple[bool, bool, float]:
    where = path.parts[-4]
    return where == testbed, where != MODEL, path.stat().st_mtime


def _needed(path: Path, percent: float) -> Iterator[Needed]:
    values = load_file(path)
    for key, item in values.items():
        stem = key.removesuffix(_SCATTER)
        observed = values.get(stem + _OBSERVED)
        if stem == key or item.unit != "%" or not item.value or not observed:
            continue
        deviation, runs = float(item.value), int(float(observed.value or 0))
        scatter = Scatter(deviation / 100, runs, runs - 1)
        yield Needed(stem, deviation, runs, repetitions_to_find(scatter, percent, SIGNIFICANCE))
