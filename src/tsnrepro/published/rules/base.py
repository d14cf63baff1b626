"""What all rules share: parameters with checked keys, rows with names, findings."""

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
from tsnrepro.published.expressions import EmptyCellError, Operand, readable
from tsnrepro.published.findings import AuditFinding, Severity, Side, format_number
from tsnrepro.published.intervals import Interval
from tsnrepro.published.tables import AuditTable, Catalog, Cell, TableColumn

Scalar = bool | int | float | str


class CheckError(TsnreproError):
    """A check whose parameters do not fit its rule or its data."""


Formula = Annotated[str, BeforeValidator(str), AfterValidator(expressions.valid)]
"""An expression; bare names are columns of the row at hand."""


class _Parameters(BaseModel):
    """Parameters with checked keys: unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Parameters):
    """A rule bound to what it looks at; each rule is a subclass.

    The subclass's docstring says in one sentence what holds for every sound record. Its name in
    files of checks is that of the class in small letters.
    """

    rule: ClassVar[str]
    weighs: ClassVar[Severity]
    """How a finding weighs, unless the check says otherwise."""
    id: str
    severity: Severity | None = None
    remark: str = ""
    """What a finding means for its document."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "weighs" in cls.__dict__:
            cls.rule = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
            RULES[cls.rule] = cls

    @classmethod
    def principle(cls) -> str:
        """Return what holds for every sound record."""
        return (cls.__doc__ or "").partition("\n")[0]

    def find(self, data: Catalog) -> list[AuditFinding]:
        """Return what contradicts the rule."""
        return list(self._find(data))

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        raise NotImplementedError

    def found(
        self,
        cell: Cell,
        first: Side,
        second: Side,
        formula: str,
        sentence: str,
        *,
        place: str | None = None,
        severity: Severity | None = None,
    ) -> AuditFinding:
        """Return a finding at a cell.

        ``first`` and ``second`` are the two numbers (or words) that it sets against each other,
        ``formula`` is what was compared and ``sentence`` what came out. ``place`` says in words
        where it stands, if the cell alone does not; ``severity`` is given where it weighs otherwise
        than its check says.
        """
        return AuditFinding(
            check=self.id,
            rule=self.rule,
            severity=severity or self.severity or self.weighs,
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


LEAST_ROWS = 3
"""Rows that have to be alike before that is no chance."""

RULES: dict[str, type[Check]] = {}
"""All rules by name; importing ``tsnrepro.published.rules`` fills it."""


class _Selection(_Parameters):
    """Which rows of a table, all of them unless narrowed."""

    rows: list[str] | None = None
    rows_like: list[str] | None = None
    """Patterns of keys, such as ``loss.threshold.*``."""
    except_like: list[str] = []
    """Patterns of keys whose rows the check is not about."""
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
    place: str | None = None
    """What a check is about that has no row."""

    def name(self, name: str) -> Operand:
        """Return the value of a column in this row."""
        return content(self.cell(name))

    @property
    def columns(self) -> Mapping[str, TableColumn]:
        """Return the columns by name; none without a row."""
        return self.table.columns if self.table else {}

    @property
    def key(self) -> str:
        """Return the row's key; empty without a row."""
        return self.table.keys[self.index] if self.table else ""

    def cell(self, column: str) -> Cell:
        """Return a cell of this row."""
        if self.table is None:
            raise LookupError(f"no name {column!r}: there is no row; use published(...)")
        return self.table.cell(self.index, column)

    def at(self, formula: str) -> Cell:
        """Return the cell that a finding about a formula stands at.

        It is that of the first column that the formula names, else the row's key; without a row it
        is the place that the check is about.
        """
        if self.table is None:
            return self.data.cell(self.place or "")
        names = [n for n in expressions.parse(formula).names if n in self.columns]
        return self.cell(names[0] if names else next(iter(self.columns)))

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
        if not isinstance(value, Interval):
            where = self.table.path if self.table else ""
            raise CheckError(f"formula {formula!r} gives {value!r}, not a number", where)
        return value

    def side(self, formula: str, label: str | None = None, unit: str = "") -> Side:
        """Return a formula's number as one side, with its printed digits if it is a cell."""
        parsed = expressions.parse(formula)
        if parsed.is_name and parsed.text in self.columns:
            return Side.of_cell(self.cell(parsed.text), label)
        return Side.of_number(label or formula, self.number(formula), unit)

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


def content(cell: Cell) -> Operand:
    """Return what a cell holds: a number with its range, words or a truth value."""
    if cell.value is None:
        raise EmptyCellError(f"{cell.path} is empty")
    return cell.value if isinstance(cell.value, str | bool) else cell.interval


def rows_of(data: Catalog, selection: TableRows | RowsOrPlace) -> Iterator[RowScope]:
    """Yield the rows that a check is about."""
    if selection.table is None:
        yield RowScope(data, place=getattr(selection, "place", None))
        return
    table = data.table(selection.table)
    there = {
        column: value
        for column, value in (selection.where_if_there or {}).items()
        if column in table.columns
    }
    patterns, others = selection.rows_like, selection.except_like
    for index in table.select(selection.rows, {**(selection.where or {}), **there}):
        row = RowScope(data, table, index)
        wanted = patterns is None or any(fnmatchcase(row.key, one) for one in patterns)
        if wanted and not any(fnmatchcase(row.key, one) for one in others):
            yield row


def known_rows(
    data: Catalog, selection: TableRows | RowsOrPlace, *formulas: str, numbers: bool = True
) -> Iterator[tuple[Any, ...]]:
    """Yield (row, value of each formula) for the rows in which no needed cell is empty.

    Raises
    ------
    CheckError
        A formula gives no number, where ``numbers`` are asked for.
    """
    for row in rows_of(data, selection):
        try:
            values = [(row.number if numbers else row.evaluate)(formula) for formula in formulas]
        except EmptyCellError:
            continue
        data.looked += 1
        yield (row, *values)


def plain(value: Operand) -> object:
    """Return a value to compare by: a number without its range, words as they are."""
    return value.value if isinstance(value, Interval) else value


def shown(value: object) -> str:
    """Return a value as text."""
    bare = plain(value)
    return format_number(bare) if isinstance(bare, int | float) else str(bare)


def relative_spread(values: Sequence[float]) -> float:
    """Return the sample standard deviation over the magnitude of the mean."""
    centre = statistics.fmean(values)
    return statistics.stdev(values) / abs(centre) if centre else math.inf
