"""Results as tables for interactive use: ``tsnrepro.load``, ``compare`` and ``simulate``.

Column names have units. Data are read and verified by their checksums on access.
"""

import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.common.errors import RecordError
from tsnrepro.common.repository import root
from tsnrepro.config.bench import CABLE
from tsnrepro.config.registry import BENCH, experiments
from tsnrepro.explore.show import RawTrial
from tsnrepro.published.documents import load_table, table_names
from tsnrepro.published.families import judged_by_run, primary_of_papers
from tsnrepro.records.store import RUN_FILE, open_run, read_listed_trial, read_trial
from tsnrepro.records.tables import load_trials
from tsnrepro.records.values import VALUES_FILE, Result, decides, load_file
from tsnrepro.results.numbers import TEXT_UNITS
from tsnrepro.results.runs import shown
from tsnrepro.results.verdicts import CANNOT_TELL
from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.long_series import Series

# The testbed with the lowest priority among those that measured an experiment.
_LAST = "model"
_ARCHIVE = ".tar.gz"
_NUMBERS = ["value", "low", "high"]
# A table with this number of rows takes one or two gigabytes.
_MAX_ROWS = 20_000_000
_MAX_NAMES = 5


class TestbedsWarning(UserWarning):
    """The testbeds that a campaign's results are taken from, where its name leaves them open."""

    __test__ = False  # pytest collects classes by this name otherwise


class Measured:
    """The analysed runs of a campaign, by experiment.

    Parameters
    ----------
    runs
        Folder of results by experiment.
    unpacked
        The temporary folder of an archive, which is deleted with this object.
    """

    def __init__(self, runs: dict[str, Path], unpacked: TemporaryDirectory | None = None) -> None:
        self._runs, self._unpacked = runs, unpacked

    def __repr__(self) -> str:
        runs = ", ".join(f"{name} on {testbed}" for name, testbed in self.testbeds.items())
        return f"<measured: {runs}>"

    @property
    def experiments(self) -> list[str]:
        """The names of the experiments."""
        return list(self._runs)

    @property
    def testbeds(self) -> dict[str, str]:
        """The testbed of each experiment."""
        return {name: folder.parents[1].name for name, folder in self._runs.items()}

    def trials(self, experiment: str) -> pd.DataFrame:
        """Return the trials of an experiment, one per row, with units in the column names.

        Raises
        ------
        RecordError
            It was not measured, or its record was altered.

        Examples
        --------
        >>> trials = tsnrepro.load("model/quick").trials("tcp")
        >>> trials.groupby("configuration")["goodput_mbps"].count().to_dict()
        {'control': 9, 'frer': 9}
        """
        return load_trials(self._manifest(experiment))

    @cached_property
    def values(self) -> pd.DataFrame:
        """All results, one per row, by key: value, limits, unit, method, trials.

        Verdicts are those of papers and report, see :mod:`tsnrepro.published.families`.
        """
        found = [
            result.model_dump(exclude={"digits", "sha256", "run"})
            | {"unit": TEXT_UNITS.get(result.unit, result.unit), "experiment": name}
            for name, results in self._results.items()
            for result in results.values()
        ]
        return pd.DataFrame(found).set_index("key")

    def samples(self, experiment: str = "latency") -> pd.DataFrame:
        """Return all single values of an experiment, in order.

        The column is the experiment's ``singles``: ``half_round_trip_us`` for ``latency``, of
        imported one-way latencies ``one_way_us``, and ``latency_us`` for ``shaping``; other columns
        are the name and factors of the trial.

        Raises
        ------
        RecordError
            It was not measured, has no single values, or has too many for a table.

        Examples
        --------
        >>> samples = tsnrepro.load("model/quick").samples("latency")
        >>> sorted(samples.groupby("configuration")["half_round_trip_us"].median().index)
        ['control', 'frer']
        """
        found = self.series(experiment)
        count = sum(len(values) for values in found.values())
        if count > _MAX_ROWS:
            raise RecordError(
                f"{count:,} values are too many for one table",
                f"experiment {experiment}",
                f"Use one trial at a time: .series('{experiment}')",
            )
        trials = self.trials(experiment)
        return _stacked(found, trials, latency_column(experiment, trials))

    def series(self, experiment: str = "latency") -> dict[str, Series]:
        """Return the single values of an experiment, such as latencies in us, by trial, in order.

        Which they are is the ``singles`` of its declaration, a name with its unit. They are arrays.
        Trials of ``latency`` beyond the first 16 million samples are each a
        :class:`~tsnrepro.stats.long_series.LongSeries`, whose ``pieces()`` are arrays and whose
        count, mean, extremes, order statistics and intervals need no array.

        Raises
        ------
        RecordError
            It was not measured, or declares no single values.

        Examples
        --------
        >>> series = tsnrepro.load("model/quick").series("latency")
        >>> len(series), all(latencies_us.min() > 0 for latencies_us in series.values())
        (6, True)
        """
        manifest = self._manifest(experiment)
        if not experiments()[experiment].singles:
            having = [name for name, declared in experiments().items() if declared.singles]
            raise RecordError(
                f"experiment '{experiment}' declares no single values",
                str(manifest),
                f"These do, as `singles` in their settings.py: {', '.join(having)}",
            )
        return import_module(f"tsnrepro.experiments.{experiment}.analysis").series(manifest)

    def raw(self, trial: str) -> RawTrial:
        """Return one trial of the raw store by its name.

        Raises
        ------
        RecordError
            No run has the trial, or it was altered.

        Examples
        --------
        >>> quick = tsnrepro.load("model/quick")
        >>> trial = quick.raw(quick.trials("latency")["trial"].iloc[0])
        >>> trial.record["status"]
        'measured'
        """
        for folder in self._runs.values():
            store, manifest = open_run(folder / "run.json")
            for entry in manifest["trials"]:
                if entry["trial"] == trial:
                    return RawTrial(store, read_listed_trial(store, entry))
        raise RecordError(f"no trial '{trial}'", repr(self), "Names are in the column `trial`")

    @property
    def repeated(self) -> pd.DataFrame:
        """The attempts that do not count, one per row, in the order of measuring.

        Columns: ``experiment``; ``trial``, the name of the attempt, which :meth:`raw` takes;
        ``counts``, that of the attempt that counts; and ``reason``, why it was measured again: a
        failure, or stalls beyond the campaign's limits.

        Raises
        ------
        RecordError
            The list of a run's trials is missing or was altered.

        Examples
        --------
        >>> tsnrepro.load("model/quick").repeated.empty  # nothing fails on the model
        True
        """
        rows = []
        for name in self._runs:
            _, manifest = open_run(self._manifest(name))
            counting = {
                _without_attempt(each["trial"]): each["trial"] for each in manifest["trials"]
            }
            rows += [
                {
                    "experiment": name,
                    "trial": each["trial"],
                    "counts": counting.get(_without_attempt(each["trial"])),
                    "reason": each.get("reason", ""),
                }
                for each in manifest.get("failed_attempts", [])
            ]
        return pd.DataFrame(rows, columns=["experiment", "trial", "counts", "reason"])

    def limits(self, keys: str = "*") -> pd.DataFrame:
        """Return results with their limits as the pages print them.

        Parameters
        ----------
        keys
            Key of a result, or a pattern such as ``tcp.goodput.*``.

        Returns
        -------
        pandas.DataFrame
            By key: ``printed``, value and limits with their unit; ``kind``, what the limits are,
            one of those of :class:`tsnrepro.stats.estimate.Limits`; and ``method``. A range in
            parentheses is of the smallest and the largest value measured, from which nothing is
            concluded.

        Raises
        ------
        RecordError
            No result has such a key.

        Examples
        --------
        >>> quick = tsnrepro.load("model/quick")
        >>> quick.limits("tcp.goodput.*.long.mbps")["kind"].to_dict()
        {'tcp.goodput.control.long.mbps': 'range', 'tcp.goodput.frer.long.mbps': 'range'}
        """
        rows = [
            {"key": each.key, "printed": shown(each), "kind": _kind(each), "method": each.method}
            for results in self._results.values()
            for each in results.values()
            if fnmatchcase(each.key, keys)
        ]
        if not rows:
            near = get_close_matches(keys, self.values.index, n=_MAX_NAMES, cutoff=0.4)
            raise RecordError(
                f"no result '{keys}'", repr(self), f"Near: {', '.join(near)}" if near else ""
            )
        return pd.DataFrame(rows).set_index("key")

    def figure(self, name: str) -> Path:
        """Return the file of a figure that the analysis drew.

        Parameters
        ----------
        name
            ``experiment/figure``, such as ``loss/loss-against-load``; with ``.pdf`` as in papers,
            otherwise the PNG.

        Raises
        ------
        RecordError
            There is no such figure; the message names those there are.

        Examples
        --------
        >>> path = tsnrepro.load("model/quick").figure("tcp/goodput")
        >>> path.name  # IPython.display.Image(path) shows it
        'goodput.png'
        """
        files = {
            f"{experiment}/{path.name}": path
            for experiment, folder in self._runs.items()
            for path in sorted((folder / "figures").glob("*.*"))
        }
        if name not in files and f"{name}.png" not in files:
            stems = dict.fromkeys(each.rpartition(".")[0] for each in files)
            there = f"There are: {', '.join(stems)}" if stems else "Analyse the campaign first"
            raise RecordError(f"no figure '{name}'", repr(self), there)
        return files.get(name) or files[f"{name}.png"]

    @staticmethod
    def published(document: str) -> dict[str, pd.DataFrame]:
        """Return the tables that a document prints, by name, to compare measured ones with.

        Columns have their unit in the name. ``attrs["units"]`` has the units by column, and
        ``attrs["headings"]`` the headings as printed; where the unit is one of each row, it is in
        the column ``unit``. Empty cells are missing.

        Parameters
        ----------
        document
            Its name in ``data/published/documents.yaml``, such as ``frer-udp``.

        Raises
        ------
        UnknownNameError
            There is no such document.

        Examples
        --------
        >>> tables = tsnrepro.load("model/quick").published("frer-udp")
        >>> goodput = tables["table-4-1"].set_index("configuration")["throughput_mbps"]
        >>> goodput.to_dict()
        {'Single-Path': 941.0, 'FRER Dual-Path': 941.42}
        >>> tables["table-4-1"].attrs["units"]["throughput_mbps"]
        'Mb/s'
        """
        return {table: load_table(document, table) for table in table_names(document)}

    def beside_baseline(self, baseline: "Measured | str") -> pd.DataFrame:
        """Return the losses of a bench's device beside those of a cable between the same ports.

        A load that the cable does not carry is not the device's limit, but generator's or host's.

        Parameters
        ----------
        baseline
            The same campaign with ``device: none``, or its name as for :func:`load`.

        Returns
        -------
        pandas.DataFrame
            One row a payload, configuration and load, see
            :func:`tsnrepro.experiments.loss.baseline.beside_baseline`; ``limited_by`` is ``none``,
            ``device``, ``bench`` or missing.

        Raises
        ------
        RecordError
            One of them has no ``loss`` of a bench, the baseline has a device, or the links' rates
            differ.
        """
        from tsnrepro.experiments.loss.baseline import beside_baseline  # noqa: PLC0415

        other = load(baseline) if isinstance(baseline, str) else baseline
        device, cable = self._bench(), other._bench()
        if cable.get("device") != CABLE:
            remedy = "Measure the same campaign on a bench with `device: none`"
            raise RecordError("there is no bench with `device: none`", repr(other), remedy)
        if not device:
            raise RecordError("the run is not of a bench", repr(self), "A baseline is a bench's")
        rates = [f"{each['link_rate_mbps']} Mb/s" for each in (device, cable)]
        if rates[0] != rates[1]:
            raise RecordError(f"the links have {rates[0]}, and those of the baseline {rates[1]}")
        return beside_baseline(self.trials("loss"), other.trials("loss"))

    def verdicts_beside(self, other: "Measured | str") -> pd.DataFrame:
        """Return the verdicts that papers rest on beside those of another run of the campaign.

        What a paper concludes should be what the next run concludes.

        Parameters
        ----------
        other
            Another run, or its name as for :func:`load`.

        Returns
        -------
        pandas.DataFrame
            By key: ``verdict``, ``verdict_other``, and ``agreement``: ``alike``; ``one decides``
            where the other cannot tell; or ``reversed`` where both decide and differ. One that
            either run did not measure is left out.

        Examples
        --------
        >>> quick = tsnrepro.load("model/quick")
        >>> set(quick.verdicts_beside("model/quick")["agreement"])
        {'alike'}
        """
        beside = load(other) if isinstance(other, str) else other
        keys = dict.fromkeys(f"{key}.verdict" for keys in primary_of_papers() for key in keys)
        table = pd.concat(
            [each.values["value"].reindex(list(keys)) for each in (self, beside)],
            axis=1,
            keys=["verdict", "verdict_other"],
        ).dropna()
        open_in = (table == CANNOT_TELL).any(axis=1)
        alike = table["verdict"] == table["verdict_other"]
        agreement = np.select([alike, open_in], ["alike", "one decides"], "reversed")
        return table.assign(agreement=agreement)

    def _bench(self) -> dict[str, Any]:
        """Return the settings of the bench that loss was measured on, empty if it is none."""
        from tsnrepro.results import testbed  # noqa: PLC0415

        facts = testbed.facts_of(self._manifest("loss"))[1]
        return facts["settings"] if facts["testbed"] == BENCH else {}

    @cached_property
    def _results(self) -> dict[str, dict[str, Result]]:
        """The results of each experiment, with the verdicts that papers and report print."""
        return judged_by_run(
            {name: load_file(folder / VALUES_FILE) for name, folder in self._runs.items()}
        )

    def _manifest(self, experiment: str) -> Path:
        if experiment not in self._runs:
            raise RecordError(
                f"experiment '{experiment}' was not measured",
                repr(self),
                f"There are: {', '.join(self.experiments)}",
            )
        return self._runs[experiment] / "run.json"


def _without_attempt(trial: str) -> str:
    return trial.rpartition("-a")[0]


def _kind(result: Result) -> Limits:
    """Return the kind of limits of a result, with which its method begins."""
    if result.low is result.high is None:
        return Limits.NONE
    return next((kind for kind in Limits if result.method.startswith(kind)), Limits.INTERVAL)


def latency_column(experiment: str, trials: pd.DataFrame) -> str:
    """Return the name of a column with the single values of an experiment, by their quantity."""
    if "quantity" in trials:  # imported
        from tsnrepro.experiments.latency.analysis import quantity  # noqa: PLC0415

        return f"{quantity(trials).replace(' ', '_')}_us"
    return experiments()[experiment].singles


def _stacked(samples: dict[str, Series], trials: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return samples as one table, with the factors of their trials."""
    columns = ("configuration", "payload_bytes", "part", "mode", "load", "repetition")
    factors = trials.set_index("trial")[[column for column in columns if column in trials]]
    parts = [
        pd.DataFrame({"trial": trial, **factors.loc[trial].to_dict(), name: _whole(values)})
        for trial, values in samples.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _whole(series: Series) -> np.ndarray:
    return series if isinstance(series, np.ndarray) else np.concatenate(list(series.pieces()))


def load(name: str, results: Path | None = None) -> Measured:
    """Return the analysed runs of a campaign.

    Parameters
    ----------
    name
        ``quick``: a campaign, with each experiment on the testbed that measured it (the model only
        if no other did). ``model/quick``: a campaign on one testbed. ``quick.tar.gz``: a deposit,
        every byte of which is verified.
    results
        The folder of results; by default that of the repository.

    Warns
    -----
    TestbedsWarning
        The name has no testbed, and experiments are of the model or of several testbeds: which
        experiment is of which, and what another testbed has of them.

    Raises
    ------
    RecordError
        There are no such runs, or the archive is damaged or altered.

    Examples
    --------
    >>> quick = tsnrepro.load("model/quick")
    >>> quick
    <measured: latency on model, loss on model, tcp on model>
    >>> quick.values.loc["tcp.goodput.frer.mbps", "unit"]
    'Mb/s'
    """
    if name.endswith(_ARCHIVE):
        return _of_archive(Path(name))
    folder = results or root() / "results"
    testbed, _, campaign = name.rpartition("/")
    found = _analysed(folder.glob(f"{testbed or '*'}/{campaign}"))
    if not found:
        known = ", ".join(campaign_names(folder))
        raise RecordError(
            f"no analysed campaign '{name}'",
            str(folder),
            f"There are: {known}" if known else "Measure first: snakemake --cores 4",
        )
    measured = Measured(found)
    if not testbed and (notice := _testbeds_taken(folder, campaign, measured.testbeds)):
        warnings.warn(notice, TestbedsWarning, stacklevel=2)
    return measured


def _testbeds_taken(results: Path, campaign: str, taken: dict[str, str]) -> str:
    """Return which experiment is of which testbed; empty if all are of the only one measured."""
    there = [
        name.split("/")[0] for name in campaign_names(results) if name.endswith(f"/{campaign}")
    ]
    if len(there) == 1 and there != [_LAST]:
        return ""
    parts = []
    for testbed in there:
        chosen = [name for name, of in taken.items() if of == testbed]
        how = ", simulated," if testbed == _LAST else ""
        parts.append(f"{', '.join(chosen) or 'nothing'}{how} from {testbed}/{campaign}")
    return f"'{campaign}': {'; '.join(parts)}. A name with its testbed takes one testbed only"


def campaigns(results: Path | None = None) -> pd.DataFrame:
    """Return the analysed campaigns, one per row, those of the model last.

    Parameters
    ----------
    results
        The folder of results; by default that of the repository.

    Returns
    -------
    pandas.DataFrame
        By ``testbed/campaign``, which :func:`load` takes: ``testbed``, ``campaign``,
        ``experiments`` (their names), ``trials`` (number of those that count), ``first`` and
        ``last`` (when their first and their last trial began, UTC; missing of imports without).

    Raises
    ------
    RecordError
        The list of a run's trials, or a trial, is missing or was altered.

    Examples
    --------
    >>> tsnrepro.campaigns().loc["model/quick", ["experiments", "trials"]].to_dict()
    {'experiments': 'latency, loss, tcp', 'trials': 28}
    """
    folder = results or root() / "results"
    rows = [_campaign(folder / name) for name in campaign_names(folder)]
    columns = ["name", "testbed", "campaign", "experiments", "trials", "first", "last"]
    return pd.DataFrame(rows, columns=columns).set_index("name")


def _campaign(folder: Path) -> dict[str, Any]:
    """Return the row of one campaign; its trials are not verified, which takes long."""
    runs = [path.parent for path in sorted(folder.glob(f"*/{VALUES_FILE}"))]
    opened = [open_run(run / RUN_FILE) for run in runs]
    trials = [store.folder / each["trial"] for store, run in opened for each in run["trials"]]
    began = [started for trial in trials if (started := read_trial(trial).get("started"))]
    times = pd.to_datetime(pd.Series(began, dtype="object"), utc=True, format="ISO8601")
    return {
        "name": f"{folder.parent.name}/{folder.name}",
        "testbed": folder.parent.name,
        "campaign": folder.name,
        "experiments": ", ".join(run.name for run in runs),
        "trials": len(trials),
        "first": times.min(),
        "last": times.max(),
    }


def campaign_names(results: Path | None = None) -> list[str]:
    """Return the analysed campaigns as ``testbed/campaign``, those of the model last."""
    folder = results or root() / "results"
    found = {path.parents[1] for path in folder.glob(f"*/*/*/{VALUES_FILE}")}
    ordered = sorted(found, key=lambda path: (*_testbeds_order(path), path.name))
    return [f"{path.parent.name}/{path.name}" for path in ordered]


def _of_archive(archive: Path) -> Measured:
    from tsnrepro.report.archive import unpacked  # noqa: PLC0415

    if not archive.is_file():
        raise RecordError("there is no archive", str(archive), "Make it: snakemake deposit")
    scratch = TemporaryDirectory(prefix="tsnrepro-")
    folder = unpacked(archive, Path(scratch.name))
    found = _analysed((folder / "results").glob("*/*"))
    if not found:
        raise RecordError("the archive has no analysed run", str(archive))
    return Measured(found, scratch)


def _analysed(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the analysed runs in folders of campaigns, by experiment."""
    found: dict[str, Path] = {}
    for folder in sorted(folders, key=_testbeds_order):
        for run in sorted(folder.glob(f"*/{VALUES_FILE}")):
            found.setdefault(run.parent.name, run.parent)
    return found


def _testbeds_order(campaign: Path) -> tuple[bool, str]:
    return campaign.parent.name == _LAST, campaign.parent.name


def compare(one: Measured | str, other: Measured | str) -> pd.DataFrame:
    """Return the results of two campaigns by key, with the change from the first.

    Columns: value, low and high of each, unit, ``difference`` and ``ratio`` of the values, and
    ``apart``: whether their intervals do not overlap. It is missing where one of them has no
    interval, as the range of two to five runs is none. That is not a test: values with
    overlapping intervals may differ.

    Raises
    ------
    RecordError
        As :func:`load`.

    Examples
    --------
    >>> table = tsnrepro.compare("model/quick", "model/quick")
    >>> table.loc["tcp.goodput.frer.mbps", ["ratio", "apart"]]  # each has three runs
    ratio     1.0
    apart    <NA>
    Name: tcp.goodput.frer.mbps, dtype: object
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
    below, above = table["high_other"] < table["low_one"], table["low_other"] > table["high_one"]
    known = _has_interval(left.values, table.index) & _has_interval(right.values, table.index)
    table["apart"] = (below | above).astype("boolean").where(known)
    return table


def _has_interval(values: pd.DataFrame, keys: pd.Index) -> pd.Series:
    """Return which results have limits that a conclusion may rest on."""
    chosen = values.loc[keys]
    return chosen["method"].map(decides) & chosen[["low", "high"]].notna().any(axis=1)


def simulate(*, duration_s: float = 0.5, seed: int = 0, **parameters: Any) -> pd.DataFrame:
    """Simulate one stream over two switches on the model: loss by place, latency.

    Each combination of the values of the parameters is one row, with the same random numbers.

    Parameters
    ----------
    duration_s
        Simulated time of sending.
    seed
        Seed of the random numbers.
    **parameters
        Those of :class:`tsnrepro.experiments.studies.study.PointParameters`, each a value or a
        sequence of values; ``rate_mbps`` is required.

    Raises
    ------
    ConfigurationError
        A parameter is unknown or out of range.

    Examples
    --------
    >>> found = tsnrepro.simulate(rate_mbps=[100, 900], configuration="frer")
    >>> found[["rate_mbps", "lost"]].iloc[0].to_dict()
    {'rate_mbps': 100, 'lost': 0}
    """
    from tsnrepro.config import parse  # noqa: PLC0415
    from tsnrepro.experiments.studies.measures import loss_at  # noqa: PLC0415
    from tsnrepro.experiments.studies.study import PointParameters  # noqa: PLC0415

    names = list(parameters)
    rows = []
    for chosen in product(*(_values(parameters[name]) for name in names)):
        given = dict(zip(names, chosen, strict=True))
        point = parse(PointParameters, given, "tsnrepro.simulate")
        rows.append(given | loss_at(point, duration_s, seed))
    return pd.DataFrame(rows)


def _values(given: Any) -> Sequence[Any]:
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
