"""The base of all rules: validated parameters, selected rows, findings."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from tsnrepro.common.errors import TsnreproError
from tsnrepro.published import expressions
from tsnrepro.published.audit_findings import ComparedValue, Finding, Severity, format_number
from tsnrepro.published.expressions import EmptyCellError, Operand, readable
from tsnrepro.published.intervals import Interval
from tsnrepro.published.tables import AuditTable, Catalog, Cell, TableColumn

Scalar = bool | int | float | str


class CheckError(TsnreproError):
    """A check with parameters that do not fit its rule or its data."""


Formula = Annotated[str, BeforeValidator(str), AfterValidator(expressions.valid)]
"""An expression in which names are columns of the current row."""


class _Parameters(BaseModel):
    """Parameters; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Parameters):
    """A rule with its parameters; each rule is a subclass.

    The docstring of the subclass states in one sentence what is true of every sound record. The
    name of the rule in files of checks is the name of the class in snake case.
    """

    rule: ClassVar[str]
    default_severity: ClassVar[Severity]
    """Severity of the findings, unless the check sets another."""
    id: str
    severity: Severity | None = None
    remark: str = ""
    """The meaning of a finding for its document, appended to the explanation."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "default_severity" in cls.__dict__:
            cls.rule = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
            RULES[cls.rule] = cls

    @classmethod
    def principle(cls) -> str:
        """Return what is true of every sound record."""
        return (cls.__doc__ or "").partition("\n")[0]

    def find(self, data: Catalog) -> list[Finding]:
        """Return the violations of the rule."""
        return list(self._find(data))

    def _find(self, data: Catalog) -> Iterator[Finding]:
        raise NotImplementedError

    def finding_at(
        self,
        cell: Cell,
        first: ComparedValue,
        second: ComparedValue,
        formula: str,
        sentence: str,
        *,
        place: str | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Return a finding at a cell.

        ``first`` and ``second`` are the compared values, ``formula`` is the comparison and
        ``sentence`` the explanation. ``place`` and ``severity`` override the place of the cell and
        the severity of the check.
        """
        return Finding(
            check=self.id,
            rule=self.rule,
            severity=severity or self.severity or self.default_severity,
            source=cell.source,
            place=place or cell.place,
            table=cell.table,
            row=cell.row,
            column=cell.column,
            first=first,
            second=second,
            formula=readable(formula),
            explanation=" ".join(filter(None, (sentence, self.remark))),
        )


MIN_ROWS = 3
"""Fewest rows that have to be alike for a pattern."""

RULES: dict[str, type[Check]] = {}
"""All rules by name; importing ``tsnrepro.published.rules`` fills it."""


class _Selection(_Parameters):
    """A selection of rows of a table, by default all."""

    rows: list[str] | None = None
    rows_like: list[str] | None = None
    """Patterns of selected keys, such as ``loss.threshold.*``."""
    except_like: list[str] = []
    """Patterns of excluded keys."""
    where: dict[str, Scalar | list[Scalar]] | None = None
    where_if_there: dict[str, Scalar | list[Scalar]] | None = None
    """As ``where``, ignored where a record does not have the column."""


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
    """The scope of a formula: the columns of a row by name, and the tables by function."""

    data: Catalog
    table: AuditTable | None = None
    index: int = 0
    place: str | None = None
    """The place of a check that has no row."""

    def name(self, name: str) -> Operand:
        """Return the value of a column in this row."""
        return cell_value(self.cell(name))

    @property
    def columns(self) -> Mapping[str, TableColumn]:
        """Return the columns by name; none without a row."""
        return self.table.columns if self.table else {}

    @property
    def key(self) -> str:
        """Return the key of the row; empty without a row."""
        return self.table.keys[self.index] if self.table else ""

    def cell(self, column: str) -> Cell:
        """Return a cell of this row."""
        if self.table is None:
            raise LookupError(f"no name {column!r}: there is no row; use published(...)")
        return self.table.cell(self.index, column)

    def at(self, formula: str) -> Cell:
        """Return the cell at which a finding about a formula is reported.

        It is the cell of the first column in the formula, or else of the first column of the table;
        without a row it is the place of the check.
        """
        if self.table is None:
            return self.data.cell(self.place or "")
        names = [n for n in expressions.parse(formula).names if n in self.columns]
        return self.cell(names[0] if names else next(iter(self.columns)))

    def functions(self) -> Mapping[str, Callable[..., Operand]]:
        """Return the functions that read tables."""
        return {
            "published": self._cell,
            "cell": self._cell,
            "column": self._column,
            "lookup": self._lookup,
        }

    def evaluate(self, formula: str) -> Operand:
        """Return the value of a formula; raise EmptyCellError where a cell in it is empty."""
        return expressions.parse(formula).evaluate(self)

    def number(self, formula: str) -> Interval:
        """Return the value of a formula; raise CheckError where it is not a number."""
        value = self.evaluate(formula)
        if not isinstance(value, Interval):
            where = self.table.path if self.table else ""
            raise CheckError(f"formula {formula!r} gives {value!r}, not a number", where)
        return value

    def side(self, formula: str, label: str | None = None, unit: str = "") -> ComparedValue:
        """Return the value of a formula for a finding, with printed digits if it is a cell."""
        parsed = expressions.parse(formula)
        if parsed.is_name and parsed.text in self.columns:
            return ComparedValue.from_cell(self.cell(parsed.text), label)
        return ComparedValue.from_number(label or formula, self.number(formula), unit)

    def _cell(self, *path: str) -> Operand:
        return cell_value(self.data.cell("/".join(map(str, path))))

    def _column(self, path: str, name: str, rows: list[str] | None = None) -> list[Operand]:
        table = self.data.table(str(path))
        cells = [table.cell(index, str(name)) for index in table.select(rows)]
        return [cell_value(cell) for cell in cells if cell.value is not None]

    def _lookup(self, path: str, key: str, value: Operand, name: str) -> Operand:
        """Return column ``name`` of the first row whose column ``key`` equals ``value``."""
        table = self.data.table(str(path))
        wanted = value.value if isinstance(value, Interval) else value
        for index in range(len(table)):
            if table.column(str(key)).values[index] == wanted:
                return cell_value(table.cell(index, str(name)))
        raise EmptyCellError(f"{path} has no row with {key} = {wanted}")


def cell_value(cell: Cell) -> Operand:
    """Return the value of a cell: a number with its range, a text or a boolean."""
    if cell.value is None:
        raise EmptyCellError(f"{cell.path} is empty")
    return cell.value if isinstance(cell.value, str | bool) else cell.interval


def selected_rows(data: Catalog, selection: TableRows | RowsOrPlace) -> Iterator[RowScope]:
    """Yield the selected rows of a table, or one scope without a row for a place."""
    if selection.table is None:
        yield RowScope(data, place=getattr(selection, "place", None))
        return
    table = data.table(selection.table)
    optional = {
        column: value
        for column, value in (selection.where_if_there or {}).items()
        if column in table.columns
    }
    patterns, excluded = selection.rows_like, selection.except_like
    for index in table.select(selection.rows, {**(selection.where or {}), **optional}):
        row = RowScope(data, table, index)
        selected = patterns is None or any(fnmatchcase(row.key, one) for one in patterns)
        if selected and not any(fnmatchcase(row.key, one) for one in excluded):
            yield row


def complete_rows(
    data: Catalog, selection: TableRows | RowsOrPlace, *formulas: str, numbers: bool = True
) -> Iterator[tuple[Any, ...]]:
    """Yield (row, value of each formula) for the rows without an empty cell in the formulas.

    Raises
    ------
    CheckError
        The value of a formula is not a number, where ``numbers`` is true.
    """
    for row in selected_rows(data, selection):
        try:
            values = [(row.number if numbers else row.evaluate)(formula) for formula in formulas]
        except EmptyCellError:
            continue
        data.compared_rows += 1
        yield (row, *values)


def bare_value(value: Operand) -> object:
    """Return a number without its range, any other value unchanged."""
    return value.value if isinstance(value, Interval) else value


def formatted(value: object) -> str:
    """Return a value as text."""
    bare = bare_value(value)
    return format_number(bare) if isinstance(bare, int | float) else str(bare)


def relative_spread(values: Sequence[float]) -> float:
    """Return the sample standard deviation divided by the magnitude of the mean."""
    centre = statistics.fmean(values)
    return statistics.stdev(values) / abs(centre) if centre else math.inf
