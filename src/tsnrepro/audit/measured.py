"""Read what a testbed measured: the derived tables and the named results of one campaign."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsnrepro.audit.tables import Table, UnknownNameError, Value, machine_table
from tsnrepro.errors import RecordError

_RESULT_KEYS = ("key", "value", "unit", "low", "high", "method", "trials", "run")


@dataclass(frozen=True)
class MeasuredResult:
    """One named result: estimate, interval, method and what it rests on.

    ``value`` is None where the trials gave none, a word for a verdict; ``low`` and ``high`` are
    None where there is no interval.
    """

    key: str
    value: float | str | None
    unit: str
    low: float | None
    high: float | None
    method: str
    trials: tuple[str, ...]
    run: str


def folder(results_root: Path, testbed: str, campaign: str) -> Path:
    """Return where the tables and results of a campaign on a testbed lie."""
    return results_root / testbed / campaign


def results(campaign_folder: Path) -> dict[str, MeasuredResult]:
    """Return the named results of a campaign by key; none where nothing is measured yet.

    Raises:
        RecordError: a file is not a list of results, or two files give one key.

    """
    found: dict[str, MeasuredResult] = {}
    for path in sorted((campaign_folder / "values").glob("*.json")):
        for entry in _entries(path):
            result = _result(entry, path)
            if result.key in found:
                raise RecordError(f"result {result.key!r} stands twice", str(path))
            found[result.key] = result
    return found


def measured_source(campaign_folder: Path, name: str) -> Callable[[str], Table]:
    """Return a campaign's tables, by the stem of their file, as a source of a catalog.

    The table ``values`` holds the named results.
    """

    def read(table: str) -> Table:
        if table == "values":
            return _values_table(name, results(campaign_folder))
        path = campaign_folder / "tables" / f"{table}.parquet"
        if not path.is_file():
            raise UnknownNameError("nothing is measured there", str(path))
        return parquet_table(name, path)

    return read


def parquet_table(source: str, path: Path) -> Table:
    """Return a Parquet file as a table; its column ``trial``, if any, names the rows.

    Raises:
        RecordError: the file is no Parquet.

    """
    from pyarrow import ArrowException  # noqa: PLC0415 - only measured records need it
    from pyarrow.parquet import read_table  # noqa: PLC0415

    try:
        columns = read_table(path).to_pydict()
    except (ArrowException, OSError) as error:
        raise RecordError(f"not a Parquet file: {error}", str(path)) from error
    return table_of_columns(source, path.stem, columns)


def table_of_columns(source: str, name: str, columns: dict[str, list[Any]]) -> Table:
    """Return columns of plain values as a table; nan counts as empty."""
    plain = {column: [_plain(value) for value in values] for column, values in columns.items()}
    length = len(next(iter(plain.values()), []))
    keys = [str(key) for key in plain.get("trial", range(length))]
    origin = "{table}, trial {key}" if "trial" in plain else "{table}, row {key}"
    return machine_table(source, name, keys, plain, origin)


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return None if math.isnan(value) else value
    return str(value)


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"not JSON: {error}", str(path)) from error
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise RecordError("not a list of results", str(path))
    return entries


def _result(entry: dict[str, Any], path: Path) -> MeasuredResult:
    absent = [key for key in ("key", "value", "unit") if key not in entry]
    if absent:
        raise RecordError(
            f"a result lacks {', '.join(absent)}", str(path), f"It needs {', '.join(_RESULT_KEYS)}"
        )
    return MeasuredResult(
        key=str(entry["key"]),
        value=entry["value"] if isinstance(entry["value"], str) else _number(entry["value"]),
        unit=str(entry["unit"] or ""),
        low=_number(entry.get("low")),
        high=_number(entry.get("high")),
        method=str(entry.get("method") or ""),
        trials=tuple(map(str, entry.get("trials") or ())),
        run=str(entry.get("run") or ""),
    )


def _number(value: Any) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return float(value)


def _values_table(source: str, found: dict[str, MeasuredResult]) -> Table:
    """Return numbers among the results as a table; words and absent values are left out."""
    numbers = {key: r for key, r in found.items() if isinstance(r.value, float)}
    if not numbers:
        raise UnknownNameError("there are no results", source)
    columns: dict[str, list[Value]] = {
        "value": [result.value for result in numbers.values()],
        "low": [result.low for result in numbers.values()],
        "high": [result.high for result in numbers.values()],
        "trials": [len(result.trials) for result in numbers.values()],
        "unit": [result.unit for result in numbers.values()],
        "method": [result.method for result in numbers.values()],
    }
    return machine_table(source, "values", list(numbers), columns, "{table}, {key}")
