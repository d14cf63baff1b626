"""What all rules share: parameters with checked keys, rows with names, registration."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from tsnrepro.audit import expressions
from tsnrepro.audit.expressions import EmptyCellError, Expression, Operand
from tsnrepro.audit.findings import Observation, Severity, Side, format_number
from tsnrepro.audit.intervals import Interval
from tsnrepro.audit.tables import AuditTable, Catalog, Cell
from tsnrepro.errors import TsnreproError

Scalar = bool | int | float | str


class CheckError(TsnreproError):
    """A check whose parameters do not fit its rule or its data."""


Formula = Annotated[str, BeforeValidator(str), AfterValidator(expressions.valid)]
"""An expression; bare names are columns of the row at hand."""


class RuleParameters(BaseModel):
    """Parameters of a rule; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Selection(RuleParameters):
    """Which rows of a table, all of them unless narrowed."""

    rows: list[str] | None = None
    rows_like: list[str] | None = None
    """Patterns of keys, such as ``loss.threshold.*``."""
    where: dict[str, Scalar | list[Scalar]] | None = None
    where_if_there: dict[str, Scalar | list[Scalar]] | None = None
    """As ``where``, for columns that not every record has."""


class TableRows(_Selection):
    """Rows of one table, ``source/table``."""

    table: str


class RowsOrPlace(_Selection):
    """Rows of one table, or one place (``source/table/row/column``) without a row."""

    table: str | None = None
    place: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> RowsOrPlace:
        if (self.table is None) == (self.place is None):
            raise ValueError("give either a table, for its rows, or a place, for one value")
        return self


@dataclass(frozen=True)
class RowScope:
    """The scope of a formula: a row's columns as names, and data by function."""

    data: Catalog
    table: AuditTable | None = None
    index: int = 0
    aliases: Mapping[str, Operand] | None = None

    def name(self, name: str) -> Operand:
        """Return the value of a column in this row."""
        if self.aliases and name in self.aliases:
            return self.aliases[name]
        if self.table is None:
            raise LookupError(f"no name {name!r}: there is no row; use published(...)")
        return content(self.table.cell(self.index, name))

    def functions(self) -> Mapping[str, Callable[..., Operand]]:
        """Return the functions that read tables."""
        return {
            "published": self._cell,
            "foreign": self._cell,
            "cell": self._cell,
            "column": self._column,
            "lookup": self._lookup,
        }

    def evaluate(self, formula: str) -> Operand:
        """Return the value of a formula; raise EmptyCellError where a cell it needs is empty."""
        return expressions.parse(formula).evaluate(self)

    def number(self, formula: str) -> Interval:
        """Return a formula's number; raise CheckError where it is none."""
        value = self.evaluate(formula)
        return _number(formula, value, self.table.path if self.table else "")

    def side(self, formula: str, label: str | None = None, unit: str = "") -> Side:
        """Return a formula's number as one side, with its printed digits if it is a cell."""
        cell = self.cell_of(expressions.parse(formula))
        if cell is not None:
            return Side.of_cell(cell, label)
        return Side.of_number(label or formula, self.number(formula), unit)

    def cell_of(self, formula: Expression) -> Cell | None:
        """Return the cell that a formula names alone, None where it computes."""
        if formula.is_name and self.table is not None and formula.text in self.table.columns:
            return self.table.cell(self.index, formula.text)
        return None

    def _cell(self, *path: str) -> Operand:
        return content(self.data.cell("/".join(map(str, path))))

    def _column(self, path: str, name: str, rows: list[str] | None = None) -> list[Operand]:
        table = self.data.table(str(path))
        cells = [table.cell(index, str(name)) for index in table.select(rows)]
        return [content(cell) for cell in cells if cell.value is not None]

    def _lookup(self, path: str, key: str, value: Operand, name: str) -> Operand:
        """Return column ``name`` of the first row whose column ``key`` equals ``value``."""
        table = self.data.table(str(path))
        wanted = value.value if isinstance(value, Interval) else value
        for index in range(len(table)):
            if table.column(str(key)).values[index] == wanted:
                return content(table.cell(index, str(name)))
        raise EmptyCellError(f"{path} has no row with {key} = {wanted}")


def _number(formula: str, value: Operand, where: str) -> Interval:
    if not isinstance(value, Interval):
        raise CheckError(f"formula {formula!r} gives {value!r}, not a number", where)
    return value


def content(cell: Cell) -> Operand:
    """Return what a cell holds: a number with its range, words or a truth value."""
    if cell.value is None:
        raise EmptyCellError(f"{cell.path} is empty")
    return cell.value if isinstance(cell.value, str | bool) else cell.interval


def rows_of(data: Catalog, selection: TableRows | RowsOrPlace) -> Iterator[RowScope]:
    """Yield the rows that a check is about."""
    if selection.table is None:
        yield RowScope(data)
        return
    table = data.table(selection.table)
    there = {
        column: value
        for column, value in (selection.where_if_there or {}).items()
        if column in table.columns
    }
    patterns = selection.rows_like
    for index in table.select(selection.rows, {**(selection.where or {}), **there}):
        if patterns is None or any(fnmatchcase(table.keys[index], one) for one in patterns):
            yield RowScope(data, table, index)


def known_rows(
    data: Catalog, selection: TableRows | RowsOrPlace, *formulas: str
) -> Iterator[tuple[Any, ...]]:
    """Yield (row, value of each formula) for the rows in which no needed cell is empty."""
    for row in rows_of(data, selection):
        try:
            values = [row.evaluate(formula) for formula in formulas]
        except EmptyCellError:
            continue
        data.looked += 1
        yield (row, *values)


def place_of(row: RowScope, selection: RowsOrPlace | TableRows, formula: str) -> Cell:
    """Return the cell that a finding stands at: the place given, else the formula's column."""
    place = getattr(selection, "place", None)
    if place is not None:
        return row.data.cell(place)
    return first_cell(row, formula)


def first_cell(row: RowScope, formula: str) -> Cell:
    """Return the cell of the first column that a formula names, else the row's key column."""
    if row.table is None:
        raise CheckError("a check without a table needs a place", formula)
    names = [n for n in expressions.parse(formula).names if n in row.table.columns]
    column = names[0] if names else next(iter(row.table.columns))
    return row.table.cell(row.index, column)


def plain(value: Operand) -> object:
    """Return a value to compare by: a number without its range, words as they are."""
    return value.value if isinstance(value, Interval) else value


def shown(value: object) -> str:
    """Return a value as text."""
    bare = plain(value)
    return format_number(bare) if isinstance(bare, int | float) else str(bare)


Finder = Callable[[Catalog, Any], Iterator[Observation]]


@dataclass(frozen=True)
class Rule:
    """A rule by name: how it looks, what parameters it takes and how its findings weigh."""

    name: str
    find: Finder
    parameters: type[RuleParameters]
    severity: Severity
    principle: str


RULES: dict[str, Rule] = {}
"""All rules by name; importing ``tsnrepro.audit.rules`` fills it."""


def rule(severity: Severity, principle: str) -> Callable[[Finder], Finder]:
    """Register a function as a rule; its second argument's type is its parameter model.

    ``principle`` says in one sentence what holds for every sound record.
    """

    def register(find: Finder) -> Finder:
        model = list(get_type_hints(find).values())[1]
        RULES[find.__name__] = Rule(find.__name__, find, model, severity, principle)
        return find

    return register


def row_rule(severity: Severity, principle: str, *fields: str) -> Callable[[Any], Any]:
    """Register a function of one row as a rule, as :func:`rule` does.

    It is called with the row, the parameters and the values of the formulas that ``fields`` of the
    parameters hold, for every row that has them all; it returns what it saw, or None.
    """

    def register(seen_in: Callable[..., Observation | None]) -> Any:
        @functools.wraps(seen_in)
        def find(data: Catalog, p: Any) -> Iterator[Observation]:
            formulas = [getattr(p, field) for field in fields]
            for row, *values in known_rows(data, p, *formulas):
                for formula, value in zip(formulas, values, strict=True):
                    _number(formula, value, p.table or "")
                if (seen := seen_in(row, p, *values)) is not None:
                    yield seen

        rule(severity, principle)(find)
        return seen_in

    return register
