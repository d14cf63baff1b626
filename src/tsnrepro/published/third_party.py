"""Tables of third-party data sets.

A file of checks defines the pattern of files of each table, and the path of its records in them.
Numbers keep the digits that they were written with.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tsnrepro.common.errors import RecordError
from tsnrepro.published.tables import AuditTable, TableColumn, UnknownNameError, Value, unit_of


def _relative(pattern: str) -> str:
    parts = PurePosixPath(pattern).parts
    if not parts or ".." in parts or pattern.startswith("/") or "\0" in pattern:
        raise ValueError("not a pattern of files in the folder of the data set")
    return pattern


class ThirdPartyTable(BaseModel):
    """The location of one table in a third-party data set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Annotated[str, AfterValidator(_relative)]
    """Pattern in the folder of the data set, which has to match one JSON or CSV file."""
    records: str = ""
    """Path of keys to the records in a JSON file, separated by dots; ``*`` is every item."""
    key: list[str] = Field(min_length=1)
    """Columns that identify a row."""
    explode: str | None = None
    """Column of lists, each entry of which becomes a row."""


def third_party_tables(
    source: str, folder: Path, tables: dict[str, ThirdPartyTable]
) -> Callable[[str], AuditTable]:
    """Return the tables of a data set, by name, as a source of a catalog.

    Raises
    ------
    RecordError
        The folder does not exist.
    """
    if not folder.is_dir():
        raise RecordError(
            "there is no such folder", str(folder), f"Give the folder of the data set {source!r}"
        )

    def read(name: str) -> AuditTable:
        if name not in tables:
            raise UnknownNameError(
                f"there is no table {name!r}", source, f"There are: {', '.join(tables)}"
            )
        return read_table(source, name, folder, tables[name])

    return read


def read_table(source: str, name: str, folder: Path, layout: ThirdPartyTable) -> AuditTable:
    """Return one table of a third-party data set.

    Raises
    ------
    UnknownNameError
        No file matches the pattern, or the records or key columns are missing.
    RecordError
        Several files match, or the file does not have the format of its suffix.
    """
    path = _only_file(folder, layout.file)
    is_json = path.suffix == ".json"
    found = _json_records(path, layout.records) if is_json else _csv_records(path)
    try:
        records = [one for record in found for one in _exploded(record, layout.explode)]
    except (csv.Error, RecursionError, TypeError) as error:
        raise RecordError(f"invalid records: {error}", str(path)) from error
    if not records:
        raise UnknownNameError("there are no records", f"{path}: {layout.records}")
    names = list(dict.fromkeys(column for record in records for column in record))
    keys = _keys(records, layout.key, path)
    columns = {}
    for column in names:
        values, printed = zip(*(_cell(record.get(column)) for record in records), strict=True)
        columns[column] = TableColumn(column, column, values, printed, unit_of(column.lower()))
    part = layout.records.replace(".*", "").strip("*") or "row"
    origins = [f"{path.name}, {part} {key}" for key in keys]
    return AuditTable(source, name, keys, origins, columns)


def _only_file(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise UnknownNameError("no file matches the pattern", f"{folder}/{pattern}")
    if len(found) > 1:
        names = ", ".join(p.relative_to(folder).as_posix() for p in found)
        raise RecordError(f"{len(found)} files match the pattern: {names}", f"{folder}/{pattern}")
    return found[0]


def _csv_records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except ValueError as error:
        raise RecordError(f"not UTF-8: {error}", str(path)) from error
    for record in csv.DictReader(lines):
        # Cells beyond the last heading have no name.
        yield {name: value for name, value in record.items() if isinstance(name, str)}


def _json_records(path: Path, records: str) -> Iterator[dict[str, Any]]:
    try:
        # As texts, to keep their digits.
        content = json.loads(path.read_text(encoding="utf-8"), parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}", str(path)) from error
    return _walk(content, records.split(".") if records else [], {}, str(path))


def _walk(
    node: Any, parts: list[str], inherited: dict[str, Any], where: str
) -> Iterator[dict[str, Any]]:
    """Yield the records below a node, each with the scalar values of its parents."""
    if isinstance(node, dict) and parts and parts[0] in node:
        above = {key: value for key, value in node.items() if not isinstance(value, dict | list)}
        yield from _walk(node[parts[0]], parts[1:], {**inherited, **above}, f"{where}, {parts[0]}")
    elif isinstance(node, list) and (not parts or parts[0] == "*"):
        for item in node:
            yield from _walk(item, parts[1:], inherited, where)
    elif isinstance(node, dict) and not parts:
        yield {**inherited, **node}
    else:
        raise UnknownNameError(f"there is no {'.'.join(parts) or 'record'}", where)


def _exploded(record: dict[str, Any], column: str | None) -> list[dict[str, Any]]:
    if column is None:
        return [record]
    values = record.get(column) or []
    if not isinstance(values, list):
        raise TypeError(f"{column} is not a list")
    return [{**record, column: value} for value in values]


def _keys(records: list[dict[str, Any]], key: list[str], path: Path) -> list[str]:
    for record in records:
        if absent := [column for column in key if column not in record]:
            known = ", ".join(record)[:500]
            raise UnknownNameError(
                f"there is no column {absent[0]!r}", str(path), f"There are: {known}"
            )
    keys = ["-".join(_cell(record[column])[1] for column in key) for record in records]
    counts = Counter[str]()
    for position, one in enumerate(keys):
        counts[one] += 1
        if counts[one] > 1:
            keys[position] = f"{one}-{counts[one]}"
    return keys


def _cell(value: Any) -> tuple[Value, str]:
    """Return a value, and its text as written."""
    if value is None or value in ("", "NA"):
        return None, ""
    if isinstance(value, bool):
        return value, str(value).lower()
    text = str(value)
    try:
        return float(text), text
    except ValueError:
        return text, text
