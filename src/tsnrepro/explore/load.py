"""What was measured, as tables to look into: ``tsnrepro.load``, ``compare`` and ``simulate``.

Columns carry their units. Everything is read when it is asked for, and checked against the record's
checksums then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.common.errors import RecordError
from tsnrepro.common.repository import root
from tsnrepro.records.runs import listed_trial, open_run
from tsnrepro.records.store import RawStore
from tsnrepro.records.tables import load_trials
from tsnrepro.records.values import VALUES_FILE, load_file
from tsnrepro.stats.long_series import Series

# Of several testbeds that measured the same experiment, one that is no model comes first.
_LAST = "model"
_ARCHIVE = ".tar.gz"
_NUMBERS = ["value", "low", "high"]
# A table of so many rows and their factors takes a gigabyte or two.
_LONGEST_TABLE = 20_000_000
LATENCY_COLUMNS = {"latency": "half_round_trip_us", "shaping": "latency_us"}
"""What the single latencies of an experiment are called in tables."""


@dataclass(frozen=True)
class RawTrial:
    """One trial of the raw store, checked against its checksums.

    Attributes
    ----------
    store
        The store that holds it.
    record
        Its ``trial.json``: factors, values, commands, accounting.
    """

    store: RawStore
    record: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.store.folder / self.record["trial"]

    @property
    def outputs(self) -> list[str]:
        """The names of what tools printed or wrote."""
        return sorted(path.name for path in self.folder.iterdir())

    def output(self, name: str) -> bytes:
        """Return one output as it was, unpacked where its name ends in ``.gz``.

        Raises
        ------
        RecordError
            The trial has no such output.
        """
        if name not in self.outputs:
            raise RecordError(
                f"no output '{name}'", str(self.folder), f"There are: {', '.join(self.outputs)}"
            )
        return self.store.output_bytes(self.record["trial"], name)


class Measured:
    """The analysed runs of a campaign, by experiment.

    Parameters
    ----------
    runs
        Folder of results by experiment.
    unpacked
        The temporary folder that holds them, if any: it lives as long as this object.
    """

    def __init__(self, runs: dict[str, Path], unpacked: TemporaryDirectory | None = None) -> None:
        self._runs, self._unpacked = runs, unpacked

    def __repr__(self) -> str:
        said = ", ".join(f"{name} on {testbed}" for name, testbed in self.testbeds.items())
        return f"<measured: {said}>"

    @property
    def experiments(self) -> list[str]:
        """The names of what was measured."""
        return list(self._runs)

    @property
    def testbeds(self) -> dict[str, str]:
        """The testbed of each experiment."""
        return {name: folder.parents[1].name for name, folder in self._runs.items()}

    def trials(self, experiment: str) -> pd.DataFrame:
        """Return the trials of an experiment, one a row, units in the column names.

        Raises
        ------
        RecordError
            It was not measured, or its record was altered.
        """
        return load_trials(self._manifest(experiment))

    @cached_property
    def values(self) -> pd.DataFrame:
        """All results, one a row, by key: value, limits, unit, method, trials."""
        found = [
            result.model_dump(exclude={"digits", "sha256", "run"}) | {"experiment": name}
            for name, folder in self._runs.items()
            for result in load_file(folder / VALUES_FILE).values()
        ]
        return pd.DataFrame(found).set_index("key")

    def samples(self, experiment: str = "latency") -> pd.DataFrame:
        """Return every single latency of an experiment, in order.

        Of ``latency`` the column ``half_round_trip_us``, of ``shaping`` the column ``latency_us``,
        beside the trial's name and factors.

        Raises
        ------
        RecordError
            It was not measured, has no single latencies, or has more than a table should hold.
        """
        found = self.series(experiment)
        # Each trial's length, until they are too many: a series in pieces is one.
        count = sum(len(values) for values in found.values())
        if count > _LONGEST_TABLE:
            raise RecordError(
                f"{count:,} latencies are too many for one table",
                f"experiment {experiment}",
                f"Take a trial at a time: .series('{experiment}')",
            )
        return _stacked(found, self.trials(experiment), LATENCY_COLUMNS[experiment])

    def series(self, experiment: str = "latency") -> dict[str, Series]:
        """Return the latencies of an experiment in microseconds, in order, by trial.

        Arrays; of ``latency``, trials beyond the first 16 million samples are each a
        :class:`~tsnrepro.stats.long_series.LongSeries`, whose ``pieces()`` are arrays, and which
        answers for count, mean, ends, order statistics and intervals without being held.

        Raises
        ------
        RecordError
            It was not measured, or has no single latencies.
        """
        manifest = self._manifest(experiment)
        if experiment == "latency":
            from tsnrepro.experiments.latency.analysis import samples  # noqa: PLC0415

            return samples(manifest)
        if experiment == "shaping":
            from tsnrepro.experiments.shaping.analysis import read  # noqa: PLC0415
            from tsnrepro.experiments.shaping.log import latency_us  # noqa: PLC0415

            return {name: latency_us(log) for name, log in read(manifest).logs.items()}
        raise RecordError(
            f"experiment '{experiment}' keeps no single latencies",
            str(manifest),
            "latency and shaping do",
        )

    def raw(self, trial: str) -> RawTrial:
        """Return one trial of the raw store by its name.

        Raises
        ------
        RecordError
            No run has it, or it was altered.
        """
        for folder in self._runs.values():
            store, manifest = open_run(folder / "run.json")
            for entry in manifest["trials"]:
                if entry["trial"] == trial:
                    return RawTrial(store, listed_trial(store, entry))
        raise RecordError(f"no trial '{trial}'", repr(self), "Names stand in the column `trial`")

    def _manifest(self, experiment: str) -> Path:
        if experiment not in self._runs:
            raise RecordError(
                f"experiment '{experiment}' was not measured",
                repr(self),
                f"There are: {', '.join(self.experiments)}",
            )
        return self._runs[experiment] / "run.json"


def _stacked(samples: dict[str, Series], trials: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return samples as one table, beside what tells their trials apart."""
    told = ("configuration", "payload_bytes", "part", "mode", "load", "repetition")
    factors = trials.set_index("trial")[[column for column in told if column in trials]]
    parts = [
        pd.DataFrame({"trial": trial, **factors.loc[trial].to_dict(), name: _whole(values)})
        for trial, values in samples.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _whole(series: Series) -> np.ndarray:
    return series if isinstance(series, np.ndarray) else np.concatenate(list(series.pieces()))


def load(name: str, results: Path | None = None) -> Measured:
    """Return what was measured and analysed under a campaign.

    Parameters
    ----------
    name
        ``quick``: a campaign, each experiment on the testbed that measured it (the model's only
        where nothing else did). ``model/quick``: a campaign on one testbed. ``quick.tar.gz``: the
        file of a deposit, every byte of which is checked first.
    results
        The folder of results; by default the repository's.

    Raises
    ------
    RecordError
        There is nothing of this name, or the archive is damaged or altered.
    """
    if name.endswith(_ARCHIVE):
        return _of_archive(Path(name))
    folder = results or root() / "results"
    testbed, _, campaign = name.rpartition("/")
    found = _analysed(folder.glob(f"{testbed or '*'}/{campaign}"))
    if not found:
        there = sorted({"/".join(p.parts[-4:-2]) for p in folder.glob(f"*/*/*/{VALUES_FILE}")})
        raise RecordError(
            f"nothing analysed is called '{name}'",
            str(folder),
            f"There are: {', '.join(there)}" if there else "Measure first: snakemake --cores 4",
        )
    return Measured(found)


def _of_archive(archive: Path) -> Measured:
    from tsnrepro.report.archive import unpacked  # noqa: PLC0415

    if not archive.is_file():
        raise RecordError("there is no archive", str(archive), "Make it: snakemake deposit")
    scratch = TemporaryDirectory(prefix="tsnrepro-")
    folder = unpacked(archive, Path(scratch.name))
    found = _analysed((folder / "results").glob("*/*"))
    if not found:
        raise RecordError("the archive holds no analysed run", str(archive))
    return Measured(found, scratch)


def _analysed(places: Iterable[Path]) -> dict[str, Path]:
    """Return the analysed runs below folders of campaigns, by experiment."""
    found: dict[str, Path] = {}
    for place in sorted(places, key=_testbeds_order):
        for run in sorted(place.glob(f"*/{VALUES_FILE}")):
            found.setdefault(run.parent.name, run.parent)
    return found


def _testbeds_order(place: Path) -> tuple[bool, str]:
    return place.parent.name == _LAST, place.parent.name


def compare(one: Measured | str, other: Measured | str) -> pd.DataFrame:
    """Return the results that both have, side by side, with the change from the first.

    Columns: value, low and high of each, unit, ``difference`` and ``ratio`` of the values, and
    ``apart``: whether both have limits and these do not overlap. That is no test: intervals that
    overlap may still differ.
    """
    left, right = (load(side) if isinstance(side, str) else side for side in (one, other))
    sides = [left.values[_NUMBERS].add_suffix("_one"), left.values[["unit"]]]
    sides.append(right.values[_NUMBERS].add_suffix("_other"))
    table = pd.concat(sides, axis=1, join="inner")
    numbers = table.drop(columns="unit").apply(pd.to_numeric, errors="coerce")
    table[numbers.columns] = numbers
    table = table[numbers[["value_one", "value_other"]].notna().all(axis=1)].copy()
    table["difference"] = table["value_other"] - table["value_one"]
    table["ratio"] = table["value_other"] / table["value_one"].replace(0, np.nan)
    table["apart"] = (table["low_other"] > table["high_one"]) | (
        table["high_other"] < table["low_one"]
    )
    return table


def simulate(*, duration_s: float = 0.5, seed: int = 0, **parameters: Any) -> pd.DataFrame:
    """Return what the model says of one stream over two switches: loss, its places, latency.

    Every combination of the parameters' values is one row, all under the same random numbers.

    Parameters
    ----------
    duration_s
        Simulated time of sending.
    seed
        Of the random numbers.
    **parameters
        Those of :class:`tsnrepro.studies.study.PointParameters`, a value or a sequence of values
        each; ``rate_mbps`` is needed.

    Raises
    ------
    ConfigurationError
        A parameter is unknown or out of range.
    """
    from tsnrepro.config import parse  # noqa: PLC0415
    from tsnrepro.studies.measures import loss_at  # noqa: PLC0415
    from tsnrepro.studies.study import PointParameters  # noqa: PLC0415

    names = list(parameters)
    rows = []
    for chosen in product(*(_values(parameters[name]) for name in names)):
        given = dict(zip(names, chosen, strict=True))
        point = parse(PointParameters, given, "tsnrepro.simulate")
        rows.append(given | loss_at(point, duration_s, seed))
    return pd.DataFrame(rows)


def _values(given: Any) -> Sequence[Any]:
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
