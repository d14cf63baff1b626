"""What statistics of one sample, and of several, cannot look like."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from tsnrepro.audit.findings import Observation, Severity, Side, capital, format_number, plural
from tsnrepro.audit.intervals import Interval
from tsnrepro.audit.rules.base import (
    CheckError,
    Formula,
    TableRows,
    first_cell,
    known_rows,
    rows_of,
    rule,
)
from tsnrepro.audit.tables import AuditTable, Catalog, Cell

_MOST_COMBINATIONS = 100_000


class OrderOfStatistics(TableRows):
    """Columns in ascending order; those of ``between`` lie between the first and the last."""

    columns: list[str] = Field(min_length=2)
    between: list[str] = Field(default_factory=list)


@rule(
    Severity.IMPOSSIBLE,
    "Minimum, quantiles and maximum of one sample never descend; the mean lies between.",
)
def order_of_statistics(data: Catalog, p: OrderOfStatistics) -> Iterator[Observation]:
    """Find a quantile, minimum or maximum out of order."""
    for row in rows_of(data, p):
        assert row.table is not None
        cells = [row.table.cell(row.index, column) for column in p.columns]
        inner = [row.table.cell(row.index, column) for column in p.between]
        pairs = list(itertools.combinations(cells, 2))
        pairs += [(cells[0], cell) for cell in inner] + [(cell, cells[-1]) for cell in inner]
        for lower, upper in pairs:
            if lower.value is None or upper.value is None:
                continue
            data.looked += 1
            if lower.interval.low > upper.interval.high:
                yield Observation(
                    upper,
                    Side.of_cell(lower),
                    Side.of_cell(upper),
                    f"{lower.column} <= {upper.column}",
                    f"{capital(upper.title)} is below {lower.title} of the same sample.",
                )


class ConstantRatio(TableRows):
    """Statistics whose ratio to another statistic is looked at, row against row."""

    numerators: list[str] = Field(min_length=1)
    denominator: str
    largest_spread: float = Field(default=1e-3, gt=0)
    """Standard deviation of the ratio over its mean, at most, for it to count as constant."""
    least_variation: float = Field(default=0.05, gt=0)
    """Coefficient of variation of the denominator, at least, for that to mean anything."""
    least_rows: int = Field(default=3, ge=3)


@rule(
    Severity.IMPOSSIBLE,
    "Independent measurements have no fixed ratio over samples whose size differs.",
)
def constant_ratio(data: Catalog, p: ConstantRatio) -> Iterator[Observation]:
    """Find statistics that are one factor times another in every row."""
    for numerator in p.numerators:
        pairs = [
            (row, top, bottom)
            for row, top, bottom in known_rows(data, p, numerator, p.denominator)
            if bottom.value != 0
        ]
        ratios = [top.value / bottom.value for _, top, bottom in pairs]
        if len(ratios) < p.least_rows:
            continue
        variation = _relative_spread([bottom.value for *_, bottom in pairs])
        spread, centre = _relative_spread(ratios), sum(ratios) / len(ratios)
        # A ratio of one is no spread at all: minimum, mean and maximum of a constant delay.
        constant = spread < p.largest_spread and abs(centre - 1) > p.largest_spread
        if not constant or variation < p.least_variation:
            continue
        row = pairs[0][0]
        cell, base = (row.table.cell(row.index, name) for name in (numerator, p.denominator))
        yield Observation(
            cell,
            Side(f"mean ratio to {base.title}", centre),
            Side("relative spread of the ratio", spread),
            f"sd({numerator} / {p.denominator}) / mean over {plural(len(ratios), 'row')} "
            f"< {p.largest_spread:g}",
            f"{capital(cell.title)} is {format_number(centre, 3)} times {base.title} in every "
            "row: one factor made it, not measurements.",
            place=f"{row.table.title}, {plural(len(ratios), 'row')}, {cell.title}",
        )


class IntervalFromTrials(TableRows):
    """A confidence interval and the trials it is said to rest on."""

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


@rule(
    Severity.IMPOSSIBLE,
    "An interval needs two trials, and on a grid Student's t leaves few intervals possible.",
)
def interval_from_trials(data: Catalog, p: IntervalFromTrials) -> Iterator[Observation]:
    """Find intervals that no outcome of the stated trials gives."""
    for row, low, high, count in known_rows(data, p, p.low, p.high, p.trials):
        cell = first_cell(row, p.low)
        trials = round(count.value)
        printed = Side("printed half width", (high.value - low.value) / 2, cell.unit)
        if trials < p.least_trials:
            if high.value > low.value:
                yield Observation(
                    cell,
                    printed,
                    Side("trials", trials),
                    f"an interval needs at least {plural(p.least_trials, 'trial')}",
                    f"No interval follows from {plural(trials, 'trial')}.",
                )
            continue
        grid = _grid(data, p)
        if grid is None or trials < 2:
            continue
        level = row.number(p.level_percent).value / 100
        reachable = list(_intervals(grid, trials, level))
        if _gives(reachable, low, high):
            continue
        nearest = min(
            reachable,
            key=lambda pair: max(abs(pair[0].value - low.value), abs(pair[1].value - high.value)),
        )
        near = f"[{format_number(nearest[0].value)}, {format_number(nearest[1].value)}]"
        sentence = f"No {trials} results on the tested rates give this interval"
        normal = _gives(_intervals(grid, trials, level, normal=True), low, high)
        if normal:
            sentence = "Only the normal quantile gives this interval, which is too narrow for " + (
                f"{trials} trials; Student's does not"
            )
        yield Observation(
            cell,
            printed,
            Side(
                "nearest half width that trials give",
                (nearest[1].value - nearest[0].value) / 2,
                cell.unit,
            ),
            f"mean ± t({level:g}, {trials - 1}) sd / sqrt({trials}) over all "
            f"{plural(trials, 'trial')} on {plural(len(grid), 'tested rate')}",
            f"{sentence}; the nearest is {near}.",
            severity=Severity.UNSUPPORTED if normal else None,
        )


class ConstantColumn(TableRows):
    """Statistics that no two trials share, and one that shows that the trials differ."""

    columns: list[str] = Field(min_length=1)
    beside: str
    least_rows: int = Field(default=3, ge=3)


@rule(
    Severity.UNSUPPORTED,
    "A statistic of samples that differ does not come out the same in every digit.",
)
def constant_column(data: Catalog, p: ConstantColumn) -> Iterator[Observation]:
    """Find statistics that are one number in every row."""
    for column in p.columns:
        pairs = list(known_rows(data, p, column, p.beside))
        values = {value.value for _, value, _ in pairs}
        others = {other.value for *_, other in pairs}
        if len(pairs) < p.least_rows or len(values) > 1 or len(others) == 1 or values == {0}:
            continue
        row = pairs[0][0]
        cell = row.table.cell(row.index, column)
        yield Observation(
            cell,
            Side.of_cell(cell, f"{cell.title} of {plural(len(pairs), 'row')}"),
            Side(f"different values of {p.beside}", len(others)),
            f"{column} differs where {p.beside} does",
            f"{capital(cell.title)} is the same in every row: one number was copied.",
            place=f"{row.table.title}, {plural(len(pairs), 'row')}, {cell.title}",
        )


class RepeatedRows(TableRows):
    """Columns whose values identify a measurement, over one table or several."""

    columns: list[str] = Field(min_length=2)
    more_tables: list[str] = Field(default_factory=list)
    spread: str | None = None
    """Column that has to exceed zero: samples without any spread repeat each other rightly."""


@rule(
    Severity.UNSUPPORTED, "Two measurements do not repeat each other in every digit: one is a copy."
)
def repeated_rows(data: Catalog, p: RepeatedRows) -> Iterator[Observation]:
    """Find rows whose statistics all repeat those of another row."""
    seen: dict[tuple[object, ...], Cell] = {}
    for path in (p.table, *p.more_tables):
        table = data.table(path)
        rows = p.rows if path == p.table else None
        for index in table.select(rows, p.where if path == p.table else None):
            cells = [table.cell(index, column) for column in p.columns]
            values = tuple(cell.value for cell in cells)
            if None in values or not any(values) or not _has_spread(table, index, p.spread):
                continue
            data.looked += 1
            original = seen.setdefault(values, cells[0])
            if original is not cells[0]:
                yield Observation(
                    cells[0],
                    Side.of_cell(original, original.origin),
                    Side.of_cell(cells[0], cells[0].origin),
                    " and ".join(f"equal {column}" for column in p.columns),
                    f"All {len(p.columns)} statistics repeat those of {original.origin}: "
                    "one measurement stands in two places.",
                )


def _has_spread(table: AuditTable, index: int, column: str | None) -> bool:
    if column is None:
        return True
    value = table.column(column).values[index]
    return isinstance(value, int | float) and value > 0


def _relative_spread(values: Sequence[float]) -> float:
    """Return the sample standard deviation over the magnitude of the mean."""
    centre = statistics.fmean(values)
    return statistics.stdev(values) / abs(centre) if centre else math.inf


def _grid(data: Catalog, p: IntervalFromTrials) -> list[float] | None:
    values = p.grid
    if p.grid_column is not None:
        row = next(rows_of(data, p))
        values = [number.value for number in row.evaluate(p.grid_column)]
    return sorted(set(values)) if values else None


_Pair = tuple[Interval, Interval]


def _gives(pairs: Iterable[_Pair], low: Interval, high: Interval) -> bool:
    return any(low.overlaps(a) and high.overlaps(b) for a, b in pairs)


def _intervals(
    grid: list[float], trials: int, level: float, *, normal: bool = False
) -> Iterator[_Pair]:
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
        yield Interval.exact(centre - half), Interval.exact(centre + half)
