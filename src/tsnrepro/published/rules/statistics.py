"""What statistics of one sample, and of several, cannot look like."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator

from pydantic import Field

from tsnrepro.published.findings import AuditFinding, Severity, Side, capital, format_number, plural
from tsnrepro.published.intervals import Interval, format_range
from tsnrepro.published.rules.base import (
    LEAST_ROWS,
    Check,
    CheckError,
    Formula,
    RowScope,
    TableRows,
    known_rows,
    relative_spread,
    rows_of,
)
from tsnrepro.published.tables import Catalog, Cell

_MOST_COMBINATIONS = 100_000
# What binary arithmetic may be off by, relatively.
_ROUNDED = 1e-9
# Standard deviation of a ratio over its mean, at most, for it to count as constant.
_LARGEST_SPREAD = 1e-3


class OrderOfStatistics(Check, TableRows):
    """Minimum, quantiles and maximum of one sample never descend; the mean lies between."""

    weighs = Severity.IMPOSSIBLE
    columns: list[str] = Field(min_length=2)
    between: list[str] = Field(default_factory=list)

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        for row in rows_of(data, self):
            cells = [row.cell(column) for column in self.columns]
            inner = [row.cell(column) for column in self.between]
            pairs = list(itertools.combinations(cells, 2))
            pairs += [(cells[0], cell) for cell in inner] + [(cell, cells[-1]) for cell in inner]
            for lower, upper in pairs:
                if lower.value is None or upper.value is None:
                    continue
                data.looked += 1
                least, most = lower.interval.low, upper.interval.high
                # A mean of equal values is off in its last bit.
                if least > most and not math.isclose(least, most, rel_tol=_ROUNDED):
                    yield self.found(
                        upper,
                        Side.of_cell(lower),
                        Side.of_cell(upper),
                        f"{lower.column} <= {upper.column}",
                        f"{capital(upper.title)} is below {lower.title} of the same sample.",
                    )


class ConstantRatio(Check, TableRows):
    """Independent measurements have no fixed ratio over samples whose size differs."""

    weighs = Severity.IMPOSSIBLE
    numerators: list[str] = Field(min_length=1)
    denominator: str
    least_variation: float = Field(default=0.05, gt=0)
    """Coefficient of variation of the denominator, at least, for a constant to mean anything."""

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        for numerator in self.numerators:
            known = known_rows(data, self, numerator, self.denominator)
            found = [(row, top.value, base.value) for row, top, base in known if base.value]
            ratios = [top / base for _, top, base in found]
            if len(ratios) < LEAST_ROWS:
                continue
            variation = relative_spread([base for *_, base in found])
            spread, centre = relative_spread(ratios), statistics.fmean(ratios)
            # A ratio of one is no spread at all: minimum, mean and maximum of a constant delay.
            constant = spread < _LARGEST_SPREAD and abs(centre - 1) > _LARGEST_SPREAD
            if not constant or variation < self.least_variation:
                continue
            row = found[0][0]
            cell, base = row.cell(numerator), row.cell(self.denominator)
            yield self.found(
                cell,
                Side(f"mean ratio to {base.title}", centre),
                Side("relative spread of the ratio", spread),
                f"sd({numerator} / {self.denominator}) / mean over {plural(len(ratios), 'row')} "
                f"< {_LARGEST_SPREAD:g}",
                f"{capital(cell.title)} is {format_number(centre, 3)} times {base.title} in every "
                "row: one factor made it, not measurements.",
                place=f"{row.table.title}, {plural(len(ratios), 'row')}, {cell.title}",
            )


class IntervalFromTrials(Check, TableRows):
    """An interval needs two trials, and on a grid Student's t leaves few intervals possible."""

    weighs = Severity.IMPOSSIBLE
    low: Formula
    high: Formula
    trials: Formula
    level_percent: Formula = "95"
    least_trials: int = Field(default=2, ge=1)
    """Trials that an interval needs; one does where it counts packets, not trials."""
    grid: list[float] | None = None
    """Values that a trial can return, where the trials run over a grid."""
    grid_column: Formula | None = None
    """A list of these values, by ``column(...)``."""

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        for row, low, high, count in known_rows(data, self, self.low, self.high, self.trials):
            cell = row.at(self.low)
            trials = round(count.value)
            printed = Side("printed half width", (high.value - low.value) / 2, cell.unit)
            if trials < self.least_trials:
                if high.value > low.value:
                    yield self.found(
                        cell,
                        printed,
                        Side("trials", trials),
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
            yield self.found(
                cell,
                printed,
                Side("nearest half width that trials give", (most - least) / 2, cell.unit),
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

    weighs = Severity.UNSUPPORTED
    columns: list[str] = Field(min_length=1)
    beside: str

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        for column in self.columns:
            pairs = list(known_rows(data, self, column, self.beside))
            values = {value.value for _, value, _ in pairs}
            others = {other.value for *_, other in pairs}
            if len(pairs) < LEAST_ROWS or len(values) > 1 or len(others) == 1 or values == {0}:
                continue
            row = pairs[0][0]
            cell = row.cell(column)
            yield self.found(
                cell,
                Side.of_cell(cell, f"{cell.title} of {plural(len(pairs), 'row')}"),
                Side(f"different values of {self.beside}", len(others)),
                f"{column} differs where {self.beside} does",
                f"{capital(cell.title)} is the same in every row: one number was copied.",
                place=f"{row.table.title}, {plural(len(pairs), 'row')}, {cell.title}",
            )


class RepeatedRows(Check, TableRows):
    """Two measurements do not repeat each other in every digit: one is a copy."""

    weighs = Severity.UNSUPPORTED
    columns: list[str] = Field(min_length=2)
    more_tables: list[str] = Field(default_factory=list)
    spread: str | None = None
    """Column that has to exceed zero: samples without any spread repeat each other rightly."""

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
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
                data.looked += 1
                original = seen.setdefault(values, cells[0])
                if original is not cells[0]:
                    yield self.found(
                        cells[0],
                        Side.of_cell(original, original.origin),
                        Side.of_cell(cells[0], cells[0].origin),
                        " and ".join(f"equal {column}" for column in self.columns),
                        f"All {len(self.columns)} statistics repeat those of {original.origin}: "
                        "one measurement stands in two places.",
                    )


_Ends = tuple[float, float]


def _gives(intervals: Iterable[_Ends], low: Interval, high: Interval) -> bool:
    exact = Interval.exact
    return any(low.overlaps(exact(a)) and high.overlaps(exact(b)) for a, b in intervals)


def _intervals(
    grid: list[float], trials: int, level: float, *, normal: bool = False
) -> Iterator[_Ends]:
    """Yield every Student's t interval, or normal one, that results on a grid can give."""
    if math.comb(len(grid) + trials - 1, trials) > _MOST_COMBINATIONS:
        raise CheckError(
            f"{trials} trials on {len(grid)} rates have too many outcomes to list",
            "interval_from_trials",
            "Give fewer grid values",
        )
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415 - only this rule needs scipy

    upper = 0.5 + level / 2
    quantile = float(ndtri(upper) if normal else stdtrit(trials - 1, upper))
    factor = quantile / math.sqrt(trials)
    for values in itertools.combinations_with_replacement(grid, trials):
        centre = statistics.fmean(values)
        half = factor * statistics.stdev(values)
        yield centre - half, centre + half
