"""Numbers that follow from others: percentages, ratios, sums, means, units, denominators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tsnrepro.audit.findings import Observation, Severity, Side, capital, format_number
from tsnrepro.audit.intervals import Interval, total
from tsnrepro.audit.rules.base import (
    Formula,
    RowScope,
    RowsOrPlace,
    RuleParameters,
    TableRows,
    first_cell,
    known_rows,
    place_of,
    rule,
)
from tsnrepro.audit.tables import UNIT_SUFFIXES, AuditTable, Catalog, Cell, unit_of

# Factors that a unit or a base taken for another leaves between two numbers.
_KNOWN_FACTORS = {
    2: "one counted for two",
    8: "bits for bytes",
    100: "a share for a percentage",
    1000: "a unit a thousand times larger",
    1e6: "a unit a million times larger",
}


class DerivedValue(RowsOrPlace):
    """A value and the formula it is said to follow from."""

    column: str | None = None
    """The derived column, where a table is given."""
    formula: Formula
    alternatives: dict[str, Formula] = Field(default_factory=dict)
    """Other formulas, by name, that explain the value where it does not follow."""
    tolerance_percent: float = Field(default=0.0, ge=0)
    tolerance: float = Field(default=0.0, ge=0)
    """Absolute, in the unit of the value."""


@rule(
    Severity.CONTRADICTION,
    "A derived value follows from its parts, to the last printed digit of all of them.",
)
def derived_value(data: Catalog, p: DerivedValue) -> Iterator[Observation]:
    """Find derived values that do not follow from their parts."""
    # The column first: where it is empty, its parts may not even be numbers.
    column = [p.column] if p.column and p.place is None else []
    for row, *_, computed in known_rows(data, p, *column, p.formula):
        cell = _derived_cell(data, row, p)
        if cell.value is None or _follows(cell.interval, computed, p):
            continue
        slip = cell.rounded and _one_digit_off(cell.interval, computed)
        hint = "; it is one unit of the last digit off" if slip else ""
        yield Observation(
            cell,
            Side.of_cell(cell, f"printed {cell.title}" if cell.rounded else None),
            Side.of_number("recomputed", computed, cell.unit),
            p.formula,
            f"{capital(cell.title)} does not follow from its parts"
            f"{hint or _explained(row, cell, computed, p)}.",
            severity=Severity.ROUNDING if slip else None,
        )


class SumOfRanges(RuleParameters):
    """Parts printed as ranges and the total printed for them."""

    parts: TableRows
    low: Formula
    high: Formula
    place: str
    """The total, ``source/table/row/column``."""
    tolerance: float = Field(default=0.5, ge=0)


@rule(Severity.CONTRADICTION, "Ranges add up to a range, and their middles to its middle.")
def sum_of_ranges(data: Catalog, p: SumOfRanges) -> Iterator[Observation]:
    """Find totals outside the summed ranges, and totals inside that the ranges do not pin down."""
    pairs = [(low, high) for _, low, high in known_rows(data, p.parts, p.low, p.high)]
    if not pairs:
        return
    low, high = total(a for a, _ in pairs).value, total(b for _, b in pairs).value
    cell = data.cell(p.place)
    middle = (low + high) / 2
    if abs(cell.interval.value - middle) <= p.tolerance:
        return
    inside = low <= cell.interval.value <= high
    words = "which does not single out" if inside else "not to"
    yield Observation(
        cell,
        Side.of_cell(cell, "printed total"),
        Side.of_number("middle of the summed ranges", middle, cell.unit),
        f"sum({p.low}) = {format_number(low)}, sum({p.high}) = {format_number(high)}",
        f"The parts add up to {format_number(low)} to {format_number(high)} {cell.unit}, middle "
        f"{format_number(middle)}, {words} {cell.printed}.",
        severity=Severity.UNSUPPORTED if inside else None,
    )


class PartsOfWhole(TableRows):
    """A whole and its parts, which are counted apart."""

    whole: Formula
    parts: list[str] = Field(default_factory=list)
    parts_prefix: str | None = None
    """Columns whose names begin so are parts as well."""
    tolerance: float = Field(default=0.0, ge=0)


@rule(Severity.IMPOSSIBLE, "Parts that are counted apart add up to the whole.")
def parts_of_whole(data: Catalog, p: PartsOfWhole) -> Iterator[Observation]:
    """Find wholes that their parts do not add up to."""
    for row, whole in known_rows(data, p, p.whole):
        assert row.table is not None
        prefixed = [c for c in row.table.columns if p.parts_prefix and c.startswith(p.parts_prefix)]
        names = [*p.parts, *prefixed]
        cells = [row.table.cell(row.index, name) for name in names]
        if any(cell.value is None for cell in cells):
            continue  # a part was not counted
        together = sum(cell.interval.value for cell in cells)
        if abs(together - whole.value) <= p.tolerance + 1e-9 * abs(whole.value):
            continue
        yield Observation(
            first_cell(row, p.whole),
            row.side(p.whole),
            Side.of_number("sum of the parts", together, first_cell(row, p.whole).unit),
            " + ".join(names) + f" = {p.whole}",
            "The parts do not add up to the whole.",
        )


class CommonDenominator(TableRows):
    """Percentages of one column and the denominators they can have."""

    value: Formula
    percent: Formula
    denominators: dict[str, Formula] = Field(min_length=1)


@rule(Severity.CONTRADICTION, "The percentages of one column have one denominator.")
def common_denominator(data: Catalog, p: CommonDenominator) -> Iterator[Observation]:
    """Find percentages whose denominator is not that of their column."""
    fits: list[tuple[RowScope, Interval, Interval, dict[str, Interval]]] = []
    for row, value, percent in known_rows(data, p, p.value, p.percent):
        shares = {
            name: Interval.exact(100) * value / row.number(formula)
            for name, formula in p.denominators.items()
        }
        fits.append((row, value, percent, shares))
    counts = {
        name: sum(shares[name].overlaps(percent) for _, _, percent, shares in fits)
        for name in p.denominators
    }
    best = max(counts, key=lambda name: counts[name])
    if not fits or counts[best] == len(fits):
        return
    for row, _, percent, shares in fits:
        if shares[best].overlaps(percent):
            continue
        fitting = [name for name, share in shares.items() if share.overlaps(percent)]
        words = f"is a share of {' or '.join(fitting)}" if fitting else "fits none of them"
        yield Observation(
            first_cell(row, p.percent),
            row.side(p.percent, "printed share", "%"),
            Side.of_number(f"share of {best}", shares[best], "%"),
            f"100 * {p.value} / ({p.denominators[best]})",
            f"Other rows are shares of {best}; this one {words}.",
        )


class Bound(RowsOrPlace):
    """Two formulas and the relation that holds between them."""

    left: Formula
    relation: Literal["<", "<=", ">", ">="]
    right: Formula
    left_label: str
    right_label: str
    unit: str = ""
    because: str


@rule(Severity.CONTRADICTION, "A bound that a document or a definition sets holds for every row.")
def bound(data: Catalog, p: Bound) -> Iterator[Observation]:
    """Find values that break a bound."""
    for row, holds in known_rows(data, p, f"({p.left}) {p.relation} ({p.right})"):
        if holds is not False:
            continue
        yield Observation(
            place_of(row, p, p.left),
            row.side(p.left, p.left_label, p.unit),
            row.side(p.right, p.right_label, p.unit),
            f"{p.left} {p.relation} {p.right}",
            p.because,
        )


class UnitOfColumn(RuleParameters):
    """Tables whose columns carry their unit in the name."""

    tables: list[str] = Field(min_length=1)


@rule(
    Severity.CONTRADICTION,
    "The unit recorded for a column is the one its name carries; shares lie in 0 to 100 %.",
)
def unit_of_column(data: Catalog, p: UnitOfColumn) -> Iterator[Observation]:
    """Find columns whose recorded unit is not that of their name, and impossible shares."""
    for path in p.tables:
        table = data.table(path)
        data.looked += len(table.columns)
        for column in table.columns.values():
            named = unit_of(column.name)
            recorded = column.units if isinstance(column.units, str) else ""
            numeric = any(isinstance(v, int | float) for v in column.values if v is not True)
            if not (named and recorded and numeric) or named == recorded:
                continue
            if (named, recorded) in _SAME_SUFFIX:
                continue
            yield Observation(
                table.cell(0, column.name),
                Side("unit in the name", named),
                Side("unit recorded", recorded),
                f"unit of {column.name}",
                f"Column {column.title} is recorded in {recorded}, its name says {named}.",
            )
        yield from _shares_outside(table)


def _shares_outside(table: AuditTable) -> Iterator[Observation]:
    """Yield losses that are no share of what was sent."""
    for name in table.columns:
        if "loss" not in name or not name.endswith("_percent"):
            continue
        for index, value in enumerate(table.column(name).values):
            if not isinstance(value, int | float) or 0 <= value <= 100:
                continue
            cell = table.cell(index, name)
            yield Observation(
                cell,
                Side.of_cell(cell),
                Side.of_number("nearest share", min(max(float(value), 0.0), 100.0), "%"),
                f"0 <= {name} <= 100",
                "A share of what was sent lies between 0 and 100 %.",
            )


# "_s" ends plurals too: "samples" is no time.
_SAME_SUFFIX = {(UNIT_SUFFIXES["_s"], "1")}


def _derived_cell(data: Catalog, row: RowScope, p: DerivedValue) -> Cell:
    if p.place is not None:
        return data.cell(p.place)
    assert row.table is not None
    return row.table.cell(row.index, p.column or next(iter(row.table.columns)))


def _follows(value: Interval, computed: Interval, p: DerivedValue) -> bool:
    if abs(value.value - computed.value) <= p.tolerance:
        return True
    return value.overlaps(computed, p.tolerance_percent / 100)


def _one_digit_off(printed: Interval, computed: Interval) -> bool:
    """Tell whether a number is within one unit of the last printed digit."""
    unit = printed.high - printed.low
    return math.isfinite(unit) and abs(printed.value - computed.value) <= unit * (1 + 1e-9)


def _explained(row: RowScope, cell: Cell, computed: Interval, p: DerivedValue) -> str:
    """Return which other formula, or which factor, accounts for a value."""
    for name, formula in p.alternatives.items():
        if _follows(cell.interval, row.number(formula), p):
            return f"; it is {name}"
    if computed.value and cell.interval.value:
        ratio = computed.value / cell.interval.value
        for factor, words in _KNOWN_FACTORS.items():
            if any(abs(ratio / f - 1) < 0.005 for f in (factor, 1 / factor)):
                return f"; they differ by a factor of {format_number(factor)} ({words})"
    return ""
