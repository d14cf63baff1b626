"""The tables and named results of analysed experiments, for the audit.

Each experiment has a folder ``<testbed>/<campaign>/<experiment>`` with its results in
``values.json`` and its tables in ``tables``. The facts of its testbed are in ``testbed.json`` there
or in the parent folder. The experiments of one audit may be of different testbeds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.published.tables import AuditTable, NotMeasuredError, Value, exact_table
from tsnrepro.records.values import FACTS_FILE, TABLES_FOLDER, VALUES_FILE, Result, load_file

_LINK_RATE = "link_rate_mbps"
"""Column that is added to every table without it, from the facts of the testbed."""
_CAVEATS = {
    "model": "Simulated: what the model's queues do",
    "emulated": "Measured in network namespaces of one machine{processors}: what its processors do",
    "bench": "Measured by two ends on one machine{processors}: what they and the device do",
    "guest": "Measured in a virtual machine{processors}: what its kernel's queues do",
}


def own_link_rate(experiment: str) -> str:
    """Return the key of the rate of the links that all trials of an experiment ran over."""
    return f"{experiment}.link_rate.mbps"


@dataclass(frozen=True)
class MeasuredRun:
    """One analysed experiment and its folder."""

    experiment: str
    folder: Path

    @cached_property
    def values(self) -> Mapping[str, Result]:
        """Return the named results by key; none where there are only tables."""
        path = self.folder / VALUES_FILE
        return load_file(path) if path.is_file() else {}

    @cached_property
    def facts(self) -> Mapping[str, Result]:
        """Return the facts of the testbed by key; none where they were not written."""
        paths = (self.folder / FACTS_FILE, self.folder.parent / FACTS_FILE)
        return next((load_file(path) for path in paths if path.is_file()), {})

    def fact(self, name: str) -> Any:
        """Return the value of a fact, None where it is unknown."""
        fact = self.facts.get(f"testbed.{name}")
        return fact.value if fact else None

    @property
    def name(self) -> str:
        """Return testbed and campaign, such as ``emulated/quick``."""
        return "/".join(self.folder.absolute().parts[-3:-1])

    @property
    def kind(self) -> str:
        """Return the kind of the testbed; its name where no fact has the kind."""
        return str(self.fact("kind") or self.name.split("/")[0])

    @property
    def origin(self) -> str:
        """Return the origin of the numbers, such as ``simulated on model/quick``."""
        verb = "simulated" if self.kind == "model" else "measured"
        return f"{'imported as' if self.kind == 'imported' else f'{verb} on'} {self.name}"

    @property
    def is_one_way(self) -> bool:
        """Return whether its latencies are one way, as those of imported trials may be."""
        quantity = self.values.get("latency.quantity")
        return quantity is not None and quantity.value == "one way"

    @property
    def link_rate_mbps(self) -> float | None:
        """Return the rate of the links, the experiment's own if it has one; None if unknown."""
        own = self.values.get(own_link_rate(self.experiment))
        rate = own.value if own else None
        rate = self.fact(_LINK_RATE) if rate is None else rate
        return float(rate) if isinstance(rate, int | float) else None

    def caveat(self, platform: str) -> str:
        """Return why the numbers do not describe the hardware of a document; empty if they do.

        Parameters
        ----------
        platform
            The hardware that the document measured.
        """
        caveat = _CAVEATS.get(self.kind)
        if caveat is None:
            return ""
        count = self.fact("processors")
        processors = f" with {count} processors" if count else ""
        return f"{caveat.format(processors=processors)}, not what {platform} does."

    def table_path(self, name: str) -> Path | None:
        """Return the file of a table, None where the run has no such table."""
        paths = (self.folder / TABLES_FOLDER / f"{name}{suffix}" for suffix in (".parquet", ".csv"))
        return next((path for path in paths if path.is_file()), None)


def find_measured_runs(results_root: Path, testbed: str, campaign: str) -> dict[str, Path]:
    """Return the folders of the analysed experiments of a campaign, by name.

    Raises
    ------
    RecordError
        The campaign has no analysed experiments.
    """
    folder = results_root / testbed / campaign
    found = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{VALUES_FILE}"))}
    if not found:
        raise RecordError(
            "there are no analysed experiments",
            str(folder),
            f"Run the campaign first, with testbed={testbed} and campaign={campaign}",
        )
    return found


def load_measured_runs(folders: Mapping[str, Path]) -> tuple[MeasuredRun, ...]:
    """Return the runs in folders given by name of the experiment.

    Raises
    ------
    RecordError
        A folder holds neither results nor tables, or two runs have results with the same key.
    """
    runs = tuple(MeasuredRun(name, Path(folder)) for name, folder in folders.items())
    for run in runs:
        if not (run.folder / VALUES_FILE).is_file() and not (run.folder / TABLES_FOLDER).is_dir():
            raise RecordError(
                f"there are no results of {run.experiment}", str(run.folder), "Analyse it first"
            )
    by_key: dict[str, MeasuredRun] = {}
    for run in runs:
        for key in run.values:
            if by_key.setdefault(key, run) is not run:
                raise RecordError(
                    f"duplicate result {key!r}", f"{by_key[key].folder} and {run.folder}"
                )
    return runs


def measured_tables(runs: Iterable[MeasuredRun]) -> Callable[[str], AuditTable]:
    """Return the tables of runs, by the stem of their file, as a source of a catalog.

    The table ``values`` holds the named results of all runs.
    """
    runs = tuple(runs)

    def read(table: str) -> AuditTable:
        if table == "values":
            return _values_table(runs)
        for run in runs:
            path = run.table_path(table)
            if path is not None:
                return _read_table(run, path)
        raise NotMeasuredError("not measured here", f"table {table!r}")

    return read


def _read_table(run: MeasuredRun, path: Path) -> AuditTable:
    """Return a table from a file; the column ``trial``, if any, has the row keys."""
    from pyarrow import ArrowException  # noqa: PLC0415 - only measured records need it
    from pyarrow.csv import read_csv  # noqa: PLC0415
    from pyarrow.parquet import read_table  # noqa: PLC0415

    try:
        columns = (read_csv if path.suffix == ".csv" else read_table)(path).to_pydict()
    except (ArrowException, OSError) as error:
        kind = "CSV" if path.suffix == ".csv" else "Parquet"
        raise RecordError(f"not a {kind} file: {error}", str(path)) from error
    return table_from_columns(run.name, path.stem, columns, run.link_rate_mbps)


def table_from_columns(
    source: str, name: str, columns: Mapping[str, list[Any]], link_rate_mbps: float | None = None
) -> AuditTable:
    """Return a table of plain values; NaN is an empty cell."""
    plain = {column: [_plain(value) for value in values] for column, values in columns.items()}
    length = len(next(iter(plain.values()), []))
    rates = plain.get(_LINK_RATE, [None] * length)
    plain[_LINK_RATE] = [link_rate_mbps if rate is None else rate for rate in rates]
    keys = [str(key) for key in plain.get("trial", range(length))]
    origin = "{table}, trial {key}" if "trial" in plain else "{table}, row {key}"
    return exact_table(source, name, keys, plain, origin)


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return None if math.isnan(value) else value
    return str(value)


_SIZE = re.compile(r"\.(frame|payload)_(\d+)\.")


def _values_table(runs: Iterable[MeasuredRun]) -> AuditTable:
    """Return a table of the numeric results; texts and missing values are omitted.

    So are one-way latencies: the documents' are half round trips. ``frame_bytes`` and
    ``payload_bytes`` are the size in the key, if any.
    """
    found = {
        key: (result, run)
        for run in runs
        for key, result in run.values.items()
        if result.is_number and not (run.is_one_way and key.startswith("latency."))
    }
    if not found:
        raise NotMeasuredError("there are no results", "values")
    sizes = [_SIZE.search(key) for key in found]
    columns: dict[str, list[Value]] = {
        name: [getattr(result, name) for result, _ in found.values()]
        for name in ("value", "low", "high", "unit", "method")
    }
    columns |= {
        "trials": [len(result.trials) for result, _ in found.values()],
        _LINK_RATE: [run.link_rate_mbps for _, run in found.values()],
        **{
            f"{kind}_bytes": [float(m[2]) if m and m[1] == kind else None for m in sizes]
            for kind in ("frame", "payload")
        },
    }
    names = dict.fromkeys(run.name for _, run in found.values())
    return exact_table(" and ".join(names), "values", list(found), columns, "{table}, {key}")
