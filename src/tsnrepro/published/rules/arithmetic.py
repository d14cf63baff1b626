"""Rules on derived numbers: percentages, ratios, sums, means, units, denominators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tsnrepro.published.audit_findings import (
    ComparedValue,
    Finding,
    Severity,
    capitalize,
    format_number,
)
from tsnrepro.published.intervals import Interval, total
from tsnrepro.published.rules.base import (
    Check,
    Formula,
    RowScope,
    RowsOrPlace,
    TableRows,
    complete_rows,
)
from tsnrepro.published.tables import UNIT_SUFFIXES, AuditTable, Catalog, Cell, unit_of

# Factors between two numbers by a mistaken unit or base.
_KNOWN_FACTORS = {
    2: "one counted for two",
    8: "bits for bytes",
    100: "a share for a percentage",
    1000: "a unit a thousand times larger",
    1e6: "a unit a million times larger",
}
# "_s" ends plurals too: "samples" is no time.
_PLURAL = {UNIT_SUFFIXES["_s"]: "1"}


class DerivedValue(Check, RowsOrPlace):
    """A derived value follows from its parts, to the last printed digit of all of them."""

    default_severity = Severity.CONTRADICTION
    column: str | None = None
    """The derived column, where a table is given."""
    formula: Formula
    alternatives: dict[str, Formula] = Field(default_factory=dict)
    """Other formulas, by name, that may explain a value that does not follow."""
    tolerance_percent: float = Field(default=0.0, ge=0)
    tolerance: float = Field(default=0.0, ge=0)
    """Absolute, in the unit of the value."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        # The column first: where it is empty, its parts may not even be numbers.
        column = [self.column] if self.column and self.place is None else []
        for row, *_, computed in complete_rows(data, self, *column, self.formula, numbers=False):
            cell = row.at(self.column or "")
            if cell.value is None or self._follows(cell.interval, computed):
                continue
            slip = cell.rounded and _one_digit_off(cell.interval, computed)
            hint = "; it is one unit of the last digit off" if slip else ""
            yield self.finding_at(
                cell,
                ComparedValue.from_cell(cell, f"printed {cell.title}" if cell.rounded else None),
                ComparedValue.from_number("recomputed", computed, cell.unit),
                self.formula,
                f"{capitalize(cell.title)} does not follow from its parts"
                f"{hint or self._explained(row, cell, computed)}.",
                severity=Severity.ROUNDING if slip else None,
            )

    def _follows(self, value: Interval, computed: Interval) -> bool:
        close = abs(value.value - computed.value) <= self.tolerance
        return close or value.overlaps(computed, self.tolerance_percent / 100)

    def _explained(self, row: RowScope, cell: Cell, computed: Interval) -> str:
        """Return the alternative formula or the factor that accounts for a value."""
        for name, formula in self.alternatives.items():
            if self._follows(cell.interval, row.number(formula)):
                return f"; it is {name}"
        if computed.value and cell.interval.value:
            ratio = computed.value / cell.interval.value
            for factor, reason in _KNOWN_FACTORS.items():
                if any(abs(ratio / f - 1) < 0.005 for f in (factor, 1 / factor)):
                    return f"; they differ by a factor of {format_number(factor)} ({reason})"
        return ""


class SumOfRanges(Check):
    """Ranges add up to a range, and their middles to its middle."""

    default_severity = Severity.CONTRADICTION
    parts: TableRows
    low: Formula
    high: Formula
    place: str
    """The total, ``source/table/row/column``."""
    tolerance: float = Field(default=0.5, ge=0)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        pairs = [
            (low, high) for _, low, high in complete_rows(data, self.parts, self.low, self.high)
        ]
        if not pairs:
            return
        low, high = total(a for a, _ in pairs).value, total(b for _, b in pairs).value
        cell = data.cell(self.place)
        middle = (low + high) / 2
        if abs(cell.interval.value - middle) <= self.tolerance:
            return
        inside = low <= cell.interval.value <= high
        relation = "which does not single out" if inside else "not to"
        yield self.finding_at(
            cell,
            ComparedValue.from_cell(cell, "printed total"),
            ComparedValue.from_number("middle of the summed ranges", middle, cell.unit),
            f"sum({self.low}) = {format_number(low)}, sum({self.high}) = {format_number(high)}",
            f"The parts add up to {format_number(low)} to {format_number(high)} {cell.unit}, "
            f"middle {format_number(middle)}, {relation} {cell.printed}.",
            severity=Severity.UNSUPPORTED if inside else None,
        )


class PartsOfWhole(Check, TableRows):
    """Parts that are counted apart add up to the whole."""

    default_severity = Severity.IMPOSSIBLE
    whole: Formula
    parts: list[str] = Field(default_factory=list)
    parts_prefix: str | None = None
    """Columns with this prefix are parts too."""
    tolerance: float = Field(default=0.0, ge=0)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, whole in complete_rows(data, self, self.whole):
            prefix = self.parts_prefix
            names = [*self.parts, *(c for c in row.columns if prefix and c.startswith(prefix))]
            cells = [row.cell(name) for name in names]
            if any(cell.value is None for cell in cells):
                continue  # a part was not counted
            total_of_parts = sum(cell.interval.value for cell in cells)
            if abs(total_of_parts - whole.value) <= self.tolerance + 1e-9 * abs(whole.value):
                continue
            cell = row.at(self.whole)
            yield self.finding_at(
                cell,
                row.side(self.whole),
                ComparedValue.from_number("sum of the parts", total_of_parts, cell.unit),
                " + ".join(names) + f" = {self.whole}",
                "The parts do not add up to the whole.",
            )


class CommonDenominator(Check, TableRows):
    """The percentages of one column have one denominator."""

    default_severity = Severity.CONTRADICTION
    value: Formula
    percent: Formula
    denominators: dict[str, Formula] = Field(min_length=1)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        fits: list[tuple[RowScope, Interval, dict[str, Interval]]] = []
        for row, value, percent in complete_rows(data, self, self.value, self.percent):
            shares = {
                name: Interval.exact(100) * value / row.number(formula)
                for name, formula in self.denominators.items()
            }
            fits.append((row, percent, shares))
        counts = {
            name: sum(shares[name].overlaps(percent) for _, percent, shares in fits)
            for name in self.denominators
        }
        best = max(counts, key=lambda name: counts[name])
        if not fits or counts[best] == len(fits):
            return
        for row, percent, shares in fits:
            if shares[best].overlaps(percent):
                continue
            fitting = [name for name, share in shares.items() if share.overlaps(percent)]
            outcome = f"is a share of {' or '.join(fitting)}" if fitting else "fits none of them"
            yield self.finding_at(
                row.at(self.percent),
                row.side(self.percent, "printed share", "%"),
                ComparedValue.from_number(f"share of {best}", shares[best], "%"),
                f"100 * {self.value} / ({self.denominators[best]})",
                f"Other rows are shares of {best}; this one {outcome}.",
            )


class Bound(Check, RowsOrPlace):
    """A bound that a document or a definition sets holds for every row."""

    default_severity = Severity.CONTRADICTION
    left: Formula
    relation: Literal["<", "<=", ">", ">="]
    right: Formula
    left_label: str
    right_label: str
    unit: str = ""
    because: str

    def _find(self, data: Catalog) -> Iterator[Finding]:
        relation = f"({self.left}) {self.relation} ({self.right})"
        for row, holds in complete_rows(data, self, relation, numbers=False):
            if holds is None:
                data.undecided.add(self.id)
            if holds is False:
                yield self.finding_at(
                    row.at(self.left),
                    row.side(self.left, self.left_label, self.unit),
                    row.side(self.right, self.right_label, self.unit),
                    f"{self.left} {self.relation} {self.right}",
                    self.because,
                )


class UnitOfColumn(Check):
    """The unit recorded for a column is the one its name carries; shares lie in 0 to 100 %."""

    default_severity = Severity.CONTRADICTION
    tables: list[str] = Field(min_length=1)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for path in self.tables:
            table = data.table(path)
            data.compared_rows += len(table.columns)
            for column in table.columns.values():
                expected = unit_of(column.name)
                recorded = column.units if isinstance(column.units, str) else ""
                numeric = any(isinstance(v, int | float) for v in column.values if v is not True)
                known = expected and recorded and numeric
                if not known or recorded in (expected, _PLURAL.get(expected)):
                    continue
                yield self.finding_at(
                    table.cell(0, column.name),
                    ComparedValue("unit in the name", expected),
                    ComparedValue("unit recorded", recorded),
                    f"unit of {column.name}",
                    f"Column {column.title} is recorded in {recorded}, its name has {expected}.",
                )
            yield from self._shares_outside(table)

    def _shares_outside(self, table: AuditTable) -> Iterator[Finding]:
        """Yield losses below 0 % or above 100 %."""
        for name in table.columns:
            if "loss" not in name or not name.endswith("_percent"):
                continue
            for index, value in enumerate(table.column(name).values):
                if not isinstance(value, int | float) or 0 <= value <= 100:
                    continue
                cell = table.cell(index, name)
                yield self.finding_at(
                    cell,
                    ComparedValue.from_cell(cell),
                    ComparedValue.from_number(
                        "nearest share", min(max(float(value), 0.0), 100.0), "%"
                    ),
                    f"0 <= {name} <= 100",
                    "A share of what was sent lies between 0 and 100 %.",
                )


def _one_digit_off(printed: Interval, computed: Interval) -> bool:
    """Return whether a number is within one unit of the last printed digit."""
    unit = printed.high - printed.low
    return math.isfinite(unit) and abs(printed.value - computed.value) <= unit * (1 + 1e-9)
