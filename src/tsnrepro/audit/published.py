"""Read the numbers that the five documents print.

The numbers stand as CSV files under ``data/published``, one folder a document and one file a
table, described by one Frictionless Tabular Data Package (https://specs.frictionlessdata.io).
The package names for every column the printed heading and the unit.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import pandas as pd

PACKAGE_FILE = "datapackage.json"
DOCUMENTS_FILE = "documents.yaml"
_BOOLEANS = {"true": True, "false": False}


class UnknownPublishedName(LookupError):
    """A document, table, row or column that the published numbers do not have."""


class PublishedDataError(ValueError):
    """A file of published numbers that contradicts its own schema."""


@dataclass(frozen=True)
class Document:
    """What is known of one document; ``date`` is as printed, None where none is printed."""

    name: str
    short: str
    title: str
    title_en: str | None
    authors: tuple[str, ...]
    affiliation: str | None
    date: str | None
    language: str
    platform: str
    description: str


@dataclass(frozen=True)
class PublishedValue:
    """One printed value.

    ``value`` is the number as float, the word or truth value, or None where the cell is empty;
    ``printed`` keeps the printed digits; ``unit`` is empty for words; ``origin`` names the table
    and row of the document; ``qualifier`` is one of approximately, below, above, at-least,
    at-most, or None where the value is printed bare.
    """

    value: float | str | bool | None
    printed: str
    unit: str
    origin: str
    qualifier: str | None = None


@dataclass(frozen=True)
class PrintedTable:
    """One table as its file holds it.

    ``fields`` are the schema's descriptions in the order of the columns; ``lines`` are the cells
    as printed, one tuple a row in the order of ``fields``.
    """

    document: str
    name: str
    label: str
    fields: tuple[dict[str, Any], ...]
    lines: tuple[tuple[str, ...], ...]

    @property
    def path(self) -> str:
        """Return the document and the table, as ``document/table``."""
        return f"{self.document}/{self.name}"

    def position(self, column: str) -> int:
        """Return the position of a column; raise UnknownPublishedName where there is none."""
        names = [field["name"] for field in self.fields]
        return names.index(_known(column, names, "column", self.path))

    def keys(self) -> tuple[str, ...]:
        """Return the row keys in the order of the file."""
        position = self.position("row")
        return tuple(line[position] for line in self.lines)


def documents(root: Path | None = None) -> dict[str, Document]:
    """Return the documents by name, in the order of ``documents.yaml``.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    PublishedDataError
        An entry lacks a key or has one too many.
    """
    path = _root(root) / DOCUMENTS_FILE
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = {}
    for name, entry in entries.items():
        try:
            found[name] = Document(name=name, **{**entry, "authors": tuple(entry["authors"])})
        except (KeyError, TypeError) as error:
            raise PublishedDataError(f"{path}: entry {name!r}: {error}") from error
    return found


def tables(document: str, root: Path | None = None) -> tuple[str, ...]:
    """Return the names of a document's tables, in the order of the package.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    UnknownPublishedName
        There is no such document.
    """
    return tuple(_resources(document, _root(root)))


def load_table(document: str, table: str, root: Path | None = None) -> pd.DataFrame:
    """Return one table, typed by its schema.

    Numbers are float64 (empty cells NaN), integers Int64, truth values boolean and words string
    (empty cells NA). The column ``row`` is the key, ``origin`` the place in the document; units
    are part of the column names.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    UnknownPublishedName
        There is no such document or table.
    PublishedDataError
        The file contradicts its schema.
    """
    import pandas as pd  # noqa: PLC0415 - a second of start-up that the audit does not need

    printed = printed_table(document, table, root)
    where = f"{printed.path}, row "
    columns = {}
    for position, field in enumerate(printed.fields):
        values = [
            parse_cell(line[position], field, f"{where}{key!r}")
            for key, line in zip(printed.keys(), printed.lines, strict=True)
        ]
        columns[field["name"]] = pd.Series(values, dtype=_DTYPES[field["type"]])
    return pd.DataFrame(columns)


def printed_table(document: str, table: str, root: Path | None = None) -> PrintedTable:
    """Return one table as its file holds it, checked for columns and row keys.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    UnknownPublishedName
        There is no such document or table.
    PublishedDataError
        The file contradicts its schema.
    """
    base = _root(root)
    resource = _resource(document, table, base)
    path = base / resource["path"]
    if not path.is_file():
        raise PublishedDataError(f"{path} is missing, but {PACKAGE_FILE} lists it")
    header, lines = _cells(path, path.stat().st_mtime_ns)
    fields = tuple(resource["schema"]["fields"])
    expected = [field["name"] for field in fields]
    if list(header) != expected:
        raise PublishedDataError(
            f"{path}: columns {list(header)} do not match the schema {expected}; "
            f"bring the file and {PACKAGE_FILE} in line"
        )
    label = resource.get("tsnrepro:label", table)
    printed = PrintedTable(document, table, label, fields, lines)
    keys = printed.keys()
    repeated = sorted({key for key in keys if keys.count(key) > 1})
    if repeated:
        raise PublishedDataError(f"{path}: row keys {repeated} occur twice; make them unique")
    return printed


def cell(
    document: str, table: str, row: str, column: str, root: Path | None = None
) -> PublishedValue:
    """Return one printed value with its unit, origin and qualifier.

    Parameters
    ----------
    document
        Name of the document's folder, such as ``frer-udp``.
    table
        Name of the table's file without suffix, such as ``table-4-1``.
    row
        Key in the column ``row``.
    column
        Name of a column.
    root
        Folder of the published numbers; the repository's own by default.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    UnknownPublishedName
        There is no such document, table, row or column.
    PublishedDataError
        The file contradicts its schema.
    """
    printed = printed_table(document, table, root)
    field = printed.fields[printed.position(column)]
    keys = printed.keys()
    line = printed.lines[keys.index(_known(row, keys, "row", printed.path))]

    def beside(name: str) -> str:
        return line[printed.position(name)]

    text = beside(column)
    unit_column = field.get("tsnrepro:unit-column")
    qualifier_column = field.get("tsnrepro:qualifier")
    return PublishedValue(
        value=parse_cell(text, field, f"{printed.path}, row {row!r}"),
        printed=text,
        unit=beside(unit_column) if unit_column else field.get("tsnrepro:unit", ""),
        origin=beside("origin"),
        qualifier=(beside(qualifier_column) or None) if qualifier_column else None,
    )


def _root(root: Path | None) -> Path:
    """Return the folder of the published numbers; raise FileNotFoundError where it is none."""
    base = Path(root) if root else Path(__file__).resolve().parents[3] / "data" / "published"
    if not (base / PACKAGE_FILE).is_file():
        raise FileNotFoundError(
            f"no published numbers in {base}: {PACKAGE_FILE} is missing; "
            "run from a checkout of the repository or give its data/published folder as root"
        )
    return base


def _known(name: str, names: Iterable[str], kind: str, where: str) -> str:
    """Return ``name`` if it is among ``names``; else raise with the nearest ones."""
    names = list(names)
    if name in names:
        return name
    near = get_close_matches(name, names, n=5, cutoff=0.4)
    hint = f"near matches: {', '.join(near)}" if near else f"there are: {', '.join(names)}"
    raise UnknownPublishedName(f"{where} has no {kind} {name!r}; {hint}")


def _resources(document: str, base: Path) -> dict[str, dict[str, Any]]:
    """Return the resources of one document by table name."""
    path = base / PACKAGE_FILE
    by_document = _package(path, path.stat().st_mtime_ns)
    return by_document[_known(document, by_document, "document", "the published record")]


def _resource(document: str, table: str, base: Path) -> dict[str, Any]:
    resources = _resources(document, base)
    return resources[_known(table, resources, "table", document)]


@lru_cache(maxsize=8)
def _package(path: Path, _changed_ns: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the resources by document and table; the time of change keeps the cache true."""
    by_document: dict[str, dict[str, dict[str, Any]]] = {}
    for resource in json.loads(path.read_text(encoding="utf-8"))["resources"]:
        tables_of = by_document.setdefault(resource["tsnrepro:document"], {})
        tables_of[resource["tsnrepro:table"]] = resource
    return by_document


@lru_cache(maxsize=256)
def _cells(path: Path, _changed_ns: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the heading and the rows of a file; the time of change keeps the cache true."""
    with path.open(encoding="utf-8", newline="") as handle:
        header, *lines = (tuple(line) for line in csv.reader(handle))
    for number, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise PublishedDataError(
                f"{path}, line {number}: {len(line)} cells under {len(header)} headings; "
                "quote cells that hold a comma and leave none out"
            )
    return header, tuple(lines)


_DTYPES = {"number": "float64", "integer": "Int64", "boolean": "boolean", "string": "string"}


def _truth(text: str) -> bool:
    try:
        return _BOOLEANS[text]
    except KeyError:
        raise ValueError(f"neither true nor false: {text!r}") from None


_READERS: dict[str, Callable[[str], float | str | bool]] = {
    "number": float,
    "integer": lambda text: float(int(text)),
    "boolean": _truth,
    "string": str,
}


def parse_cell(text: str, field: dict[str, Any], where: str) -> float | str | bool | None:
    """Return a cell's value by the type of its field; None for an empty cell.

    Raises
    ------
    PublishedDataError
        The text does not fit the type; ``where`` names the place.
    """
    if text == "":
        return None
    try:
        return _READERS[field["type"]](text)
    except ValueError as error:
        raise PublishedDataError(
            f"{where}: column {field['name']!r} holds {text!r}, which is no {field['type']}"
        ) from error
