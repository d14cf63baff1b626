"""Tables of the audit: numbers with their printed digits, units and places in a document.

Published, third-party and measured tables have the same form, so rules apply to all of them. A
catalog returns them by ``source/table``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from tsnrepro.common.errors import TsnreproError
from tsnrepro.published.intervals import Interval

Value = float | str | bool | None
_RUNNING_TEXT = "text-values"

# The longest matching suffix counts; columns without any hold texts or counts.
UNIT_SUFFIXES = {
    "_mbps": "Mb/s",
    "_gbps": "Gb/s",
    "_percent": "%",
    "_per_second": "1/s",
    "_bytes": "B",
    "_seconds": "s",
    "_s": "s",
    "_ms": "ms",
    "_us": "us",
    "_ns": "ns",
    "_factor": "1",
}


class UnknownNameError(TsnreproError):
    """A source, table, row or column that does not exist."""


class NotMeasuredError(UnknownNameError):
    """A table or column that the measured runs do not have."""


@dataclass(frozen=True)
class TableColumn:
    """One column: values by row, their printed digits, unit and heading."""

    name: str
    title: str
    values: Sequence[Value]
    printed: Sequence[str] | None = None
    units: Sequence[str] | str = ""
    qualifiers: Sequence[str] | None = None

    def unit(self, index: int) -> str:
        """Return the unit of one cell."""
        return self.units if isinstance(self.units, str) else self.units[index]


@dataclass(frozen=True)
class Cell:
    """One value and its place in a table."""

    source: str
    table: str
    row: str
    column: str
    origin: str
    title: str
    unit: str
    value: Value
    printed: str
    qualifier: str | None
    rounded: bool
    """Whether the number was rounded for print; a number that a program wrote is exact."""

    @property
    def place(self) -> str:
        """Return the printed names of table, row and column."""
        if self.table == _RUNNING_TEXT:
            return f"{self.origin}: {self.title}"
        return f"{self.origin}, {self.title}"

    @property
    def interval(self) -> Interval:
        """Return the number with the range of its digits.

        Raises
        ------
        UnknownNameError
            The cell is empty or holds a text.
        """
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise UnknownNameError("a number is needed", f"{self.path}: {self.value!r}")
        if self.rounded:
            return Interval.printed(self.printed, self.qualifier)
        return Interval.exact(self.value)

    @property
    def path(self) -> str:
        """Return source, table, row and column, separated by slashes."""
        return "/".join((self.source, self.table, self.row, self.column))


@dataclass(frozen=True)
class AuditTable:
    """A table: row keys, origins and columns of equal length."""

    source: str
    name: str
    keys: Sequence[str]
    origins: Sequence[str]
    columns: Mapping[str, TableColumn]
    rounded: bool = True
    label: str = ""
    """Name in the document, such as "Table 8"; empty where there is none."""
    _index: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._index.update({key: number for number, key in enumerate(self.keys)})

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def path(self) -> str:
        """Return source and table, separated by a slash."""
        return f"{self.source}/{self.name}"

    @property
    def title(self) -> str:
        """Return the name in the document, or else that of the table."""
        return self.label or self.name

    def column(self, name: str) -> TableColumn:
        """Return a column by name.

        Raises
        ------
        UnknownNameError
            There is no such column; the message names similar ones.
        """
        if name not in self.columns:
            unknown = unknown_name("column", name, self.columns, self.path)
            raise unknown if self.rounded else NotMeasuredError(unknown.what, self.path)
        return self.columns[name]

    def index(self, key: str) -> int:
        """Return the position of a row by its key.

        Raises
        ------
        UnknownNameError
            There is no such row; the message names similar ones.
        """
        if key not in self._index:
            raise unknown_name("row", key, self.keys, self.path)
        return self._index[key]

    def cell(self, index: int, column: str) -> Cell:
        """Return one cell."""
        found = self.column(column)
        title = heading(found)
        if self.name == _RUNNING_TEXT and column in {"value", "text"}:
            title = str(self.columns["quantity"].values[index])
        value = found.values[index]
        return Cell(
            source=self.source,
            table=self.name,
            row=self.keys[index],
            column=column,
            origin=self.origins[index],
            title=title,
            unit=found.unit(index),
            value=value,
            printed=found.printed[index] if found.printed else str(value),
            qualifier=(found.qualifiers[index] or None) if found.qualifiers else None,
            rounded=self.rounded and found.printed is not None,
        )

    def select(
        self, rows: Sequence[str] | None = None, where: Mapping[str, object] | None = None
    ) -> list[int]:
        """Return the positions of the rows with these keys and values, in order.

        A value of ``where`` may be a list of alternatives. Numbers compare by value.

        Raises
        ------
        UnknownNameError
            A key or column does not exist.
        """
        chosen = [self.index(key) for key in rows] if rows is not None else list(range(len(self)))
        for name, wanted in (where or {}).items():
            values = self.column(name).values
            options = wanted if isinstance(wanted, list | tuple) else [wanted]
            chosen = [index for index in chosen if values[index] in options]
        return chosen


@dataclass
class Catalog:
    """The tables of several sources, by source and name.

    ``sources`` maps the name of a source to a function that returns a table by name and raises
    UnknownNameError or LookupError where there is none. Each table is read once.
    """

    sources: dict[str, Callable[[str], AuditTable]]
    compared_rows: int = 0
    """The number of non-empty rows and places that rules compared so far."""
    undecided: set[str] = field(default_factory=set)
    """The checks that the printed digits leave undecided in some row."""
    _tables: dict[str, AuditTable] = field(default_factory=dict, repr=False)

    def table(self, path: str) -> AuditTable:
        """Return a table by ``source/table``.

        Raises
        ------
        UnknownNameError
            There is no such source or table.
        """
        if path not in self._tables:
            source, _, name = path.partition("/")
            if source not in self.sources or not name:
                raise unknown_name("source", source, self.sources, f"table {path!r}")
            try:
                self._tables[path] = self.sources[source](name)
            except LookupError as error:
                raise UnknownNameError(str(error.args[0]), path) from error
        return self._tables[path]

    def cell(self, path: str) -> Cell:
        """Return a cell by ``source/table/row/column``.

        ``source/row`` is short for a value of the running text.

        Raises
        ------
        UnknownNameError
            A part of the path does not exist.
        """
        self.compared_rows += 1
        parts = path.split("/")
        if len(parts) == 2:
            table = self.table(f"{parts[0]}/{_RUNNING_TEXT}")
            index = table.index(parts[1])
            text = table.column("text").values[index]
            return table.cell(index, "value" if text is None else "text")
        if len(parts) != 4:
            raise UnknownNameError(
                "a path is source/table/row/column, or source/row for the running text", path
            )
        table = self.table("/".join(parts[:2]))
        return table.cell(table.index(parts[2]), parts[3])


def exact_table(
    source: str,
    name: str,
    keys: Sequence[str],
    columns: Mapping[str, Sequence[Value]],
    origin: str = "{table}, row {key}",
) -> AuditTable:
    """Return a table of numbers that a program wrote unrounded, with units by column names."""
    return AuditTable(
        source,
        name,
        keys,
        [origin.format(table=name, key=key) for key in keys],
        {
            column: TableColumn(column, column, values, units=unit_of(column))
            for column, values in columns.items()
        },
        rounded=False,
    )


def heading(column: TableColumn) -> str:
    """Return the printed heading of a column, or its name as text where none is printed.

    Headings that only the transcription has are in parentheses.
    """
    if not column.title.startswith("("):
        return column.title
    suffixes = [suffix for suffix in UNIT_SUFFIXES if column.name.endswith(suffix)]
    return column.name.removesuffix(max(suffixes, key=len, default="")).replace("_", " ")


def unit_of(column: str) -> str:
    """Return the unit in the name of a column, empty where there is none."""
    matching = [suffix for suffix in UNIT_SUFFIXES if column.endswith(suffix)]
    return UNIT_SUFFIXES[max(matching, key=len)] if matching else ""


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def unknown_name(kind: str, name: str, names: Iterable[str], where: str) -> UnknownNameError:
    """Return the error for a name that does not exist, with similar ones."""
    known = [str(one) for one in names]
    near = get_close_matches(name, known, n=5, cutoff=0.4)
    listed = ", ".join(near or known[:20]) or "none"
    return UnknownNameError(
        f"there is no {kind} {name!r}", where, f"{'Near' if near else 'There are'}: {listed}"
    )
