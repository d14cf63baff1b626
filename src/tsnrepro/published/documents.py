"""The numbers that the five documents print.

They are CSV files in ``data/published``, one folder per document and one file per table, described
by one Frictionless Tabular Data Package (https://specs.frictionlessdata.io), which has the printed
heading and the unit of every column.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root as repository
from tsnrepro.config.base import ConfigModel, parse
from tsnrepro.config.yaml_files import read_yaml
from tsnrepro.published.cached_files import cached_by_mtime
from tsnrepro.published.tables import (
    AuditTable,
    Catalog,
    TableColumn,
    Value,
    repeated_names,
    unknown_name,
)
from tsnrepro.records.values import UNIT_SYMBOLS

if TYPE_CHECKING:
    import pandas as pd

PACKAGE_FILE = "datapackage.json"
DOCUMENTS_FILE = "documents.yaml"


class PublishedDataError(RecordError):
    """A file of published numbers that does not match its schema."""


class _Constraints(BaseModel):
    """What every cell of a column has to be; row keys are compared for all tables."""

    required: bool = False
    enum: list[str] | None = None


class _Field(BaseModel):
    """The description of a column in the package; other keys are for other programs."""

    name: str
    title: str
    type: Literal["number", "integer", "boolean", "string"]
    unit_column: Annotated[str | None, Field(alias="tsnrepro:unit-column")] = None
    unit: Annotated[str, Field(alias="tsnrepro:unit")] = ""
    qualifier: Annotated[str | None, Field(alias="tsnrepro:qualifier")] = None
    constraints: _Constraints = _Constraints()


class _Schema(BaseModel):
    columns: Annotated[list[_Field], Field(alias="fields")]

    @model_validator(mode="after")
    def _check_columns(self) -> _Schema:
        names = [field.name for field in self.columns]
        if repeated := repeated_names(names):
            raise ValueError(f"duplicate columns {', '.join(repeated)[:100]}")
        needed = {"row", "origin"}
        needed |= {name for f in self.columns for name in (f.unit_column, f.qualifier) if name}
        if absent := sorted(needed.difference(names)):
            raise ValueError(f"no column {', '.join(absent)[:100]}")
        return self


class _TableResource(BaseModel):
    """A file of the package."""

    document: Annotated[str, Field(alias="tsnrepro:document")]
    table: Annotated[str, Field(alias="tsnrepro:table")]
    label: Annotated[str | None, Field(alias="tsnrepro:label")] = None
    path: str
    layout: Annotated[_Schema, Field(alias="schema")]


class _Package(BaseModel):
    resources: list[_TableResource]


class Document(ConfigModel):
    """The metadata of one document; ``date`` is as printed, None where none is printed."""

    name: str
    short: str
    title: str
    title_en: str | None
    authors: list[str]
    affiliation: str | None
    date: str | None
    language: str
    platform: str
    description: str
    numbered: list[Annotated[str, Field(pattern=r"^(table|figure|section) [0-9A-Z.]+$")]]
    """The numbered tables and figures, or sections with tables, that its paper has to print."""


def documents(root: Path | None = None) -> dict[str, Document]:
    """Return the documents by name, in the order of ``documents.yaml``.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    ConfigurationError
        The file is not a mapping of entries, or an entry has a missing or an unknown key.
    """
    path = _root(root) / DOCUMENTS_FILE
    entries = read_yaml(path)
    if not isinstance(entries, dict):
        raise ConfigurationError("not a mapping of documents by name", str(path))
    return {
        name: parse(
            Document,
            {"name": name, **entry} if isinstance(entry, dict) else entry,
            f"{path}: entry {str(name)[:40]!r}",
        )
        for name, entry in entries.items()
    }


def catalog(root: Path | None = None) -> Catalog:
    """Return the tables of all documents, by ``document/table``.

    Parameters
    ----------
    root
        Folder of the published numbers; by default that of the repository.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    """
    base = _root(root)
    return Catalog({name: partial(published_table, name, root=base) for name in documents(base)})


def load_table(document: str, table: str, root: Path | None = None) -> pd.DataFrame:
    """Return one table with the types of its schema.

    Numbers are float64 (empty cells NaN), integers Int64, booleans boolean and texts string (empty
    cells NA). The column ``row`` is the key, ``origin`` the place in the document; units are part
    of the column names. ``attrs["units"]`` and ``attrs["headings"]`` have the units and the printed
    headings by column.

    Raises
    ------
    FileNotFoundError, UnknownNameError, PublishedDataError
        As :func:`published_table`.
    """
    import pandas as pd  # noqa: PLC0415 - the audit does not need it, and it takes a second

    columns = published_table(document, table, root).columns
    found = pd.DataFrame(
        {
            field["name"]: pd.Series(
                list(columns[field["name"]].values), dtype=_DTYPES[field["type"]]
            )
            for field in _resource(document, table, _root(root))["schema"]["fields"]
        }
    )
    found.attrs = {
        "units": {
            name: UNIT_SYMBOLS.get(column.units, column.units)
            for name, column in columns.items()
            if isinstance(column.units, str)
        },
        "headings": {name: column.title for name, column in columns.items()},
    }
    return found


def table_names(document: str, root: Path | None = None) -> list[str]:
    """Return the names of the tables of a document.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    UnknownNameError
        There is no such document.
    """
    return list(_tables(document, _root(root)))


def published_table(document: str, table: str, root: Path | None = None) -> AuditTable:
    """Return one table with printed digits, units and origins.

    Raises
    ------
    FileNotFoundError
        ``root`` holds no published numbers.
    UnknownNameError
        There is no such document or table.
    PublishedDataError
        The file does not match its schema.
    """
    base = _root(root)
    resource = _resource(document, table, base)
    path = base / resource["path"]
    if not path.is_file():
        raise PublishedDataError(f"{path} is missing, but {PACKAGE_FILE} lists it")
    header, lines = _cells(path)
    fields = resource["schema"]["fields"]
    expected = [field["name"] for field in fields]
    if list(header) != expected:
        raise PublishedDataError(
            f"{path}: columns {str(list(header))[:500]} do not match the schema "
            f"{str(expected)[:500]}; bring the file and {PACKAGE_FILE} in line"
        )
    printed = {name: [line[place] for line in lines] for place, name in enumerate(expected)}
    keys = printed["row"]
    if repeated := repeated_names(keys):
        raise PublishedDataError(
            f"{path}: duplicate row keys: {str(repeated)[:500]}; make them unique"
        )
    columns = {}
    for field in fields:
        name, unit = field["name"], field.get("tsnrepro:unit-column")
        qualifier = field.get("tsnrepro:qualifier")
        columns[name] = TableColumn(
            name=name,
            title=field["title"],
            values=[
                _parsed(text, field, f"{path}, row {key!r:.100}")
                for key, text in zip(keys, printed[name], strict=True)
            ],
            printed=printed[name],
            units=printed[unit] if unit else field.get("tsnrepro:unit", ""),
            qualifiers=printed[qualifier] if qualifier else None,
        )
    label = resource.get("tsnrepro:label", table)
    return AuditTable(document, table, keys, printed["origin"], columns, label=label)


def _root(root: Path | None) -> Path:
    """Return the folder of the published numbers; raise FileNotFoundError for any other."""
    base = Path(root) if root else repository() / "data" / "published"
    if not (base / PACKAGE_FILE).is_file():
        raise FileNotFoundError(
            f"no published numbers in {base}: {PACKAGE_FILE} is missing; "
            "run from a checkout of the repository or give its data/published folder as root"
        )
    return base


def _resource(document: str, table: str, base: Path) -> dict[str, Any]:
    tables = _tables(document, base)
    if table not in tables:
        raise unknown_name("table", table, tables, document)
    return tables[table]


def _tables(document: str, base: Path) -> dict[str, dict[str, Any]]:
    resources = _package(base / PACKAGE_FILE)
    if document not in resources:
        raise unknown_name("document", document, resources, "the published record")
    return resources[document]


@cached_by_mtime
def _package(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the resources by document and table."""
    by_document: dict[str, dict[str, dict[str, Any]]] = {}
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise PublishedDataError(f"not JSON: {error}", str(path)) from error
    parse(_Package, content, str(path))
    for resource in content["resources"]:
        tables_of = by_document.setdefault(resource["tsnrepro:document"], {})
        tables_of[resource["tsnrepro:table"]] = resource
    return by_document


@cached_by_mtime
def _cells(path: Path) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the heading and the rows of a file."""
    lines: list[tuple[str, ...]] = []
    try:
        text = path.read_bytes().decode()
        for cells in (reader := csv.reader(io.StringIO(text, newline=""), strict=True)):
            if lines and len(cells) != len(lines[0]):
                raise PublishedDataError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells under {len(lines[0])} "
                    "headings; quote cells that hold a comma and leave none out"
                )
            lines.append(tuple(cells))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise PublishedDataError(f"{path}, line {line}: not UTF-8") from error
    except csv.Error as error:
        raise PublishedDataError(f"{path}, line {reader.line_num}: not CSV: {error}") from error
    if not lines:
        raise PublishedDataError(f"{path} is empty")
    return lines[0], tuple(lines[1:])


_DTYPES = {"number": "float64", "integer": "Int64", "boolean": "boolean", "string": "string"}
# Documents print digits only: float() reads "nan", "1_0" and blanks too.
_PRINTED = {
    "number": re.compile(r"[-+]?[0-9]{1,30}(?:\.[0-9]{1,30})?"),
    "integer": re.compile(r"[-+]?[0-9]{1,15}"),
    "boolean": re.compile("true|false"),
    "string": re.compile(".*", re.DOTALL),
}
_READERS: dict[str, Callable[[str], Value]] = {
    "number": float,
    "integer": float,
    "boolean": "true".__eq__,
    "string": str,
}


def _parsed(text: str, field: dict[str, Any], where: str) -> Value:
    """Return the value of a cell by the type of its field; None for an empty cell."""
    constraints = field.get("constraints", {})
    problem = f"{text!r:.100} is not of type {field['type']}"
    if not text:
        if not constraints.get("required"):
            return None
        problem = "the cell is empty"
    elif (known := constraints.get("enum")) and text not in known:
        problem = f"{text!r:.100} is not one of {', '.join(known):.300}"
    elif _PRINTED[field["type"]].fullmatch(text):
        return _READERS[field["type"]](text)
    raise PublishedDataError(f"{where}, column {field['name']!r}: {problem}")
