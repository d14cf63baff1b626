"""Rules on statistics of one sample and of several."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator

from pydantic import Field

from tsnrepro.common.counts import plural
from tsnrepro.published.audit_findings import (
    ComparedValue,
    Finding,
    Severity,
    capitalize,
    format_number,
)
from tsnrepro.published.intervals import Interval, format_range
from tsnrepro.published.rules.base import (
    MIN_ROWS,
    Check,
    CheckError,
    Formula,
    RowScope,
    TableRows,
    complete_rows,
    relative_spread,
    selected_rows,
)
from tsnrepro.published.tables import Catalog, Cell

_MAX_COMBINATIONS = 100_000
# Relative error of binary arithmetic.
_RELATIVE_TOLERANCE = 1e-9
# Largest relative standard deviation of a constant ratio.
_MAX_SPREAD = 1e-3


class OrderOfStatistics(Check, TableRows):
    """Minimum, quantiles and maximum of one sample never descend; the mean lies between."""

    default_severity = Severity.IMPOSSIBLE
    columns: list[str] = Field(min_length=2)
    between: list[str] = Field(default_factory=list)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row in selected_rows(data, self):
            cells = [row.cell(column) for column in self.columns]
            inner = [row.cell(column) for column in self.between]
            pairs = list(itertools.combinations(cells, 2))
            pairs += [(cells[0], cell) for cell in inner] + [(cell, cells[-1]) for cell in inner]
            for lower, upper in pairs:
                if lower.value is None or upper.value is None:
                    continue
                data.compared_rows += 1
                least, most = lower.interval.low, upper.interval.high
                # A mean of equal values may differ in its last bit.
                if least > most and not math.isclose(least, most, rel_tol=_RELATIVE_TOLERANCE):
                    yield self.finding_at(
                        upper,
                        ComparedValue.from_cell(lower),
                        ComparedValue.from_cell(upper),
                        f"{lower.column} <= {upper.column}",
                        f"{capitalize(upper.title)} is below {lower.title} of the same sample.",
                    )


class ConstantRatio(Check, TableRows):
    """Independent measurements have no fixed ratio over samples whose size differs."""

    default_severity = Severity.IMPOSSIBLE
    numerators: list[str] = Field(min_length=1)
    denominator: str
    least_variation: float = Field(default=0.05, gt=0)
    """Smallest coefficient of variation of the denominator for which a constant is a finding."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for numerator in self.numerators:
            known = complete_rows(data, self, numerator, self.denominator)
            found = [(row, top.value, base.value) for row, top, base in known if base.value]
            ratios = [top / base for _, top, base in found]
            if len(ratios) < MIN_ROWS:
                continue
            variation = relative_spread([base for *_, base in found])
            spread, centre = relative_spread(ratios), statistics.fmean(ratios)
            # A ratio of one is legitimate: minimum, mean and maximum of a constant delay.
            constant = spread < _MAX_SPREAD and abs(centre - 1) > _MAX_SPREAD
            if not constant or variation < self.least_variation:
                continue
            row = found[0][0]
            cell, base = row.cell(numerator), row.cell(self.denominator)
            yield self.finding_at(
                cell,
                ComparedValue(f"mean ratio to {base.title}", centre),
                ComparedValue("relative spread of the ratio", spread),
                f"sd({numerator} / {self.denominator}) / mean over {plural(len(ratios), 'row')} "
                f"< {_MAX_SPREAD:g}",
                f"{capitalize(cell.title)} is {format_number(centre, 3)} times {base.title} in "
                "every row: computed with a factor, not measured.",
                place=f"{row.table.title}, {plural(len(ratios), 'row')}, {cell.title}",
            )


class IntervalFromTrials(Check, TableRows):
    """An interval needs two trials, and on a grid Student's t leaves few intervals possible."""

    default_severity = Severity.IMPOSSIBLE
    low: Formula
    high: Formula
    trials: Formula
    level_percent: Formula = "95"
    least_trials: int = Field(default=2, ge=1)
    """Fewest trials for an interval; one where it is an interval over packets."""
    grid: list[float] | None = None
    """Possible results of a trial, where the trials run over a grid."""
    grid_column: Formula | None = None
    """A formula for the grid, with ``column(...)``."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, low, high, count in complete_rows(data, self, self.low, self.high, self.trials):
            cell = row.at(self.low)
            trials = round(count.value)
            printed = ComparedValue("printed half width", (high.value - low.value) / 2, cell.unit)
            if trials < self.least_trials:
                if high.value > low.value:
                    yield self.finding_at(
                        cell,
                        printed,
                        ComparedValue("trials", trials),
                        f"an interval needs at least {plural(self.least_trials, 'trial')}",
                        f"No interval follows from {plural(trials, 'trial')}.",
                    )
                continue
            grid = self._grid(row)
            if not grid or trials < 2:
                continue
            level = row.number(self.level_percent).value / 100
            reachable = list(_intervals(grid, trials, level))
            if _gives(reachable, low, high):
                continue
            least, most = min(
                reachable, key=lambda pair: max(abs(pair[0] - low.value), abs(pair[1] - high.value))
            )
            normal = _gives(_intervals(grid, trials, level, normal=True), low, high)
            sentence = f"No {trials} results on the tested rates give this interval"
            if normal:
                sentence = (
                    "Only the normal quantile gives this interval, which is too narrow for "
                    f"{trials} trials; Student's does not"
                )
            yield self.finding_at(
                cell,
                printed,
                ComparedValue("nearest half width that trials give", (most - least) / 2, cell.unit),
                f"mean ± t({level:g}, {trials - 1}) sd / sqrt({trials}) over all "
                f"{plural(trials, 'trial')} on {plural(len(grid), 'tested rate')}",
                f"{sentence}; the nearest is {format_range(least, most)}.",
                severity=Severity.UNSUPPORTED if normal else None,
            )

    def _grid(self, row: RowScope) -> list[float]:
        values = self.grid or []
        if self.grid_column is not None:
            values = [number.value for number in row.evaluate(self.grid_column)]
        return sorted(set(values))


class ConstantColumn(Check, TableRows):
    """A statistic of samples that differ does not come out the same in every digit."""

    default_severity = Severity.UNSUPPORTED
    columns: list[str] = Field(min_length=1)
    beside: str

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for column in self.columns:
            pairs = list(complete_rows(data, self, column, self.beside))
            values = {value.value for _, value, _ in pairs}
            others = {other.value for *_, other in pairs}
            if len(pairs) < MIN_ROWS or len(values) > 1 or len(others) == 1 or values == {0}:
                continue
            row = pairs[0][0]
            cell = row.cell(column)
            yield self.finding_at(
                cell,
                ComparedValue.from_cell(cell, f"{cell.title} of {plural(len(pairs), 'row')}"),
                ComparedValue(f"different values of {self.beside}", len(others)),
                f"{column} differs where {self.beside} does",
                f"{capitalize(cell.title)} is the same in every row: one number was copied.",
                place=f"{row.table.title}, {plural(len(pairs), 'row')}, {cell.title}",
            )


class RepeatedRows(Check, TableRows):
    """Two measurements do not repeat each other in every digit: one is a copy."""

    default_severity = Severity.UNSUPPORTED
    columns: list[str] = Field(min_length=2)
    more_tables: list[str] = Field(default_factory=list)
    spread: str | None = None
    """Column that has to be positive: samples without spread may be equal."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        seen: dict[tuple[object, ...], Cell] = {}
        for path in (self.table, *self.more_tables):
            table = data.table(path)
            rows = self.rows if path == self.table else None
            for index in table.select(rows, self.where if path == self.table else None):
                cells = [table.cell(index, column) for column in self.columns]
                values = tuple(cell.value for cell in cells)
                spread = table.cell(index, self.spread).value if self.spread else True
                varies = isinstance(spread, int | float) and spread > 0
                if None in values or not any(values) or not varies:
                    continue
                data.compared_rows += 1
                original = seen.setdefault(values, cells[0])
                if original is not cells[0]:
                    yield self.finding_at(
                        cells[0],
                        ComparedValue.from_cell(original, original.origin),
                        ComparedValue.from_cell(cells[0], cells[0].origin),
                        " and ".join(f"equal {column}" for column in self.columns),
                        f"All {len(self.columns)} statistics repeat those of {original.origin}: "
                        "one measurement is in two places.",
                    )


_Ends = tuple[float, float]


def _gives(intervals: Iterable[_Ends], low: Interval, high: Interval) -> bool:
    exact = Interval.exact
    return any(low.overlaps(exact(a)) and high.overlaps(exact(b)) for a, b in intervals)


def _intervals(
    grid: list[float], trials: int, level: float, *, normal: bool = False
) -> Iterator[_Ends]:
    """Yield all Student's t (or normal) intervals that results on a grid can have."""
    if math.comb(len(grid) + trials - 1, trials) > _MAX_COMBINATIONS:
        raise CheckError(
            f"{trials} trials on {len(grid)} rates have too many outcomes to list",
            "interval_from_trials",
            "Give fewer grid values",
        )
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415 - for this rule alone

    upper = 0.5 + level / 2
    quantile = float(ndtri(upper) if normal else stdtrit(trials - 1, upper))
    factor = quantile / math.sqrt(trials)
    for values in itertools.combinations_with_replacement(grid, trials):
        centre = statistics.fmean(values)
        half = factor * statistics.stdev(values)
        yield centre - half, centre + half
