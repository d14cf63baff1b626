"""Rules on trials: durations, counts, stops and omissions."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Literal

from pydantic import Field, model_validator

from tsnrepro.common.counts import plural
from tsnrepro.published.audit_findings import (
    ComparedValue,
    Finding,
    Severity,
    format_number,
)
from tsnrepro.published.rules.base import (
    Check,
    CheckError,
    Formula,
    RowScope,
    RowsOrPlace,
    TableRows,
    bare_value,
    complete_rows,
    formatted,
)
from tsnrepro.published.tables import Catalog

# Share of the duration of a test that its round trips fill.
_MIN_FILL, _MAX_FILL = 0.6, 1.02
# Smallest share of the trials of a table that end at one time by a timeout.
_MIN_TIMEOUT_SHARE = 0.8


class RoundTripConvention(Check, RowsOrPlace):
    """One exchange follows the other, so round trips times their number fill the test."""

    default_severity = Severity.CONTRADICTION
    mean_us: Formula
    observations: Formula
    duration_s: Formula
    stated: Literal["half", "whole"]
    """Whether the mean is called half a round trip (one way) or a whole one."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        halves = 2 if self.stated == "half" else 1
        formulas = (self.mean_us, self.observations, self.duration_s)
        for row, mean, count, duration in complete_rows(data, self, *formulas):
            filled = halves * mean.value * 1e-6 * count.value
            if _MIN_FILL <= filled / duration.value <= _MAX_FILL:
                continue
            other = (3 - halves) * mean.value * 1e-6 * count.value
            fits_other = _MIN_FILL <= other / duration.value <= _MAX_FILL
            if fits_other and (halves == 2 or other / duration.value > 0.85):
                meant = "half" if halves == 1 else "whole"
                first = ComparedValue.from_number(f"{3 - halves} n mean", other, "s")
                second = row.side(self.duration_s, "duration", "s")
                sentence = (
                    f"The values are {meant} round trips: only then do "
                    f"{format_number(count.value)} exchanges fill the test."
                )
            else:
                fitting = duration.value / (halves * mean.value * 1e-6)
                first = row.side(self.observations, "observations")
                second = ComparedValue.from_number("observations that fill the test", fitting)
                sentence = (
                    f"{format_number(count.value)} exchanges of this mean take "
                    f"{format_number(filled, 4)} s, not {format_number(duration.value)} s: "
                    "count and mean belong to different tests."
                )
            yield self.finding_at(
                row.at(self.mean_us),
                first,
                second,
                f"{halves} * {self.mean_us} * {self.observations} = {self.duration_s}",
                sentence,
            )


class TimeoutAsResult(Check, TableRows):
    """A trial that was stopped by a clock measures the clock; others run as long as planned."""

    default_severity = Severity.IMPOSSIBLE
    run_time_s: Formula
    planned_s: Formula
    tolerance_percent: float = Field(default=20.0, gt=0)
    tolerance_s: float = Field(default=0.0, ge=0)
    """Tolerance for trials of any duration."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        known = list(complete_rows(data, self, self.run_time_s, self.planned_s))
        most, at_least_s = self.tolerance_percent / 100, self.tolerance_s
        off = [
            item
            for item in known
            if abs(item[1].value - item[2].value) > max(most * item[2].value, at_least_s)
        ]
        if not off:
            return
        common = median(item[1].value for item in off)
        together = [item for item in off if abs(item[1].value / common - 1) < 0.01]
        if len(together) > 1 and len(together) >= _MIN_TIMEOUT_SHARE * len(known):
            row, _, planned = together[0]
            cell = row.at(self.run_time_s)
            yield self.finding_at(
                cell,
                ComparedValue.from_number("common run time", common, "s"),
                ComparedValue.from_number("planned", planned, "s"),
                f"{self.run_time_s} = {self.planned_s}",
                f"{len(together)} of {len(known)} trials ended at {format_number(common, 4)} s: a "
                f"rate over it is {format_number(planned.value / common, 3)} of the target by "
                "the stop of a script.",
                place=f"{cell.origin} and {plural(len(together) - 1, 'further row')}, {cell.title}",
            )
            return
        for row, run_time, planned in off:
            word = "early" if run_time.value < planned.value else "late"
            yield self.finding_at(
                row.at(self.run_time_s),
                row.side(self.run_time_s, None, "s"),
                row.side(self.planned_s, "planned", "s"),
                f"{self.run_time_s} = {self.planned_s} ± {self.tolerance_percent:g} %",
                f"The trial ended {word} and is reported as a result like the others.",
            )


class LossPoints(TableRows):
    """Loss by rate in a table."""

    rate_mbps: Formula
    loss_percent: Formula
    label: str


class LossBelowThreshold(Check, RowsOrPlace):
    """A zero-loss threshold lies below the lowest rate at which something was lost."""

    default_severity = Severity.CONTRADICTION
    threshold_mbps: Formula
    points: list[LossPoints] = Field(min_length=1)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        points = [
            (point, row, rate.value, loss.value)
            for point in self.points
            for row, rate, loss in complete_rows(data, point, point.rate_mbps, point.loss_percent)
        ]
        lossy = [item for item in points if item[3] > 0]
        if not lossy:
            return
        point, lossy_row, rate, loss = min(lossy, key=lambda item: item[2])
        clean = [item[2] for item in points if item[2] < rate]
        below = f"; nothing was lost up to {format_number(max(clean))} Mb/s" if clean else ""
        for row, threshold in complete_rows(data, self, self.threshold_mbps):
            if threshold.low <= rate:
                continue
            where = lossy_row.at(point.rate_mbps).origin
            yield self.finding_at(
                row.at(self.threshold_mbps),
                row.side(self.threshold_mbps, "rate called free of loss", "Mb/s"),
                ComparedValue(
                    f"rate with {format_number(loss)} % loss ({point.label})", rate, "Mb/s"
                ),
                f"{self.threshold_mbps} <= min(rate with loss > 0 %)",
                f"{where} has {format_number(loss)} % loss at a lower rate{below}.",
            )


class Group(TableRows):
    """One of the compared groups."""

    label: str


class EqualTreatment(Check):
    """Groups that are compared get the same durations, points and number of trials.

    Either ``groups`` names them, or ``by`` splits one ``table`` by a column's values.
    """

    default_severity = Severity.UNSUPPORTED
    groups: list[Group] | None = None
    table: str | None = None
    by: str | None = None
    same: list[Formula] = Field(default_factory=list)
    """Values that have to be equal, such as durations."""
    match: list[Formula] = Field(default_factory=list)
    """Columns that identify a point; the groups have to have the same points."""
    match_if_there: list[str] = Field(default_factory=list)
    """Further such columns, which the table may lack and whose cells may be empty."""
    one_for_all_if_there: list[str] = Field(default_factory=list)
    """The same, but a group with one point may stand beside several of another."""
    counts: bool = False
    """Whether each point needs the same number of rows in every group."""
    unit: str = ""

    @model_validator(mode="after")
    def _groups_or_column(self) -> EqualTreatment:
        if (self.groups is None) == (self.by is None or self.table is None):
            raise ValueError("give either groups, or a table and the column to split it by")
        return self

    def _find(self, data: Catalog) -> Iterator[Finding]:
        points = {group.label: self._points(data, group) for group in self._groups(data)}
        first, *others = points
        for other in others:
            yield from self._compared(points, first, other)

    def _groups(self, data: Catalog) -> list[Group]:
        """Return the groups; where a column splits the table, in order of appearance."""
        if self.table is None or self.by is None:
            return self.groups or []
        values = dict.fromkeys(data.table(self.table).column(self.by).values)
        return [
            Group(table=self.table, where={self.by: value}, label=str(value))
            for value in values
            if value is not None
        ]

    def _points(self, data: Catalog, group: Group) -> dict[tuple[object, ...], list]:
        """Return the rows of a group by point, each with its values."""
        found: dict[tuple[object, ...], list] = {}
        for row, *values in complete_rows(data, group, *self.match, *self.same, numbers=False):
            bare = [bare_value(value) for value in values]
            split = len(self.match)
            optional = [_cell_if_there(row, column) for column in self._optional]
            found.setdefault((*bare[:split], *optional), []).append((row, bare[split:]))
        return found

    @property
    def _optional(self) -> list[str]:
        return [*self.match_if_there, *self.one_for_all_if_there]

    def _compared(self, points: dict[str, dict], first: str, other: str) -> Iterator[Finding]:
        """Yield the differences between two groups, by point."""
        alike = len(self.match) + len(self.match_if_there)
        shared = {p[:alike] for p in points[first]} & {p[:alike] for p in points[other]}
        for point in points[first] | points[other]:
            if point[:alike] in shared and not (point in points[first] and point in points[other]):
                continue
            here, there = (points[group].get(point, []) for group in (first, other))
            anchor: RowScope = (here or there)[0][0]
            at = ", ".join(
                f"{name} {formatted(v)}"
                for name, v in zip([*self.match, *self._optional], point, strict=True)
                if v is not None
            )
            place = f"{first} against {other}" + (f" at {at}" if at else "")
            if not (here and there) or (self.counts and len(here) != len(there)):
                yield self.finding_at(
                    anchor.at((self.match or self.same)[0]),
                    ComparedValue(f"trials of {first}", len(here)),
                    ComparedValue(f"trials of {other}", len(there)),
                    "the same points, as often, in both groups",
                    f"{place}: {len(here)} against {plural(len(there), 'trial')}.",
                    place=place,
                )
                continue
            for number, formula in enumerate(self.same):
                left, right = ({v[number] for _, v in rows} for rows in (here, there))
                if left != right:
                    yield self.finding_at(
                        anchor.at(formula),
                        ComparedValue(f"{formula} of {first}", _listed(left), self.unit),
                        ComparedValue(f"{formula} of {other}", _listed(right), self.unit),
                        f"the same {formula} in both groups",
                        f"{place}: {formula} is {_listed(left)} against {_listed(right)}.",
                        place=place,
                    )


def _cell_if_there(row: RowScope, column: str) -> object:
    return row.columns[column].values[row.index] if column in row.columns else None


class PlannedPoints(Check, TableRows):
    """A table has the points that its method announces, and no others."""

    default_severity = Severity.UNSUPPORTED
    value: Formula
    planned: list[Formula] | None = None
    start: Formula | None = None
    stop: Formula | None = None
    step: Formula | None = None
    quantity: str
    extra: bool = True
    """Whether values that were not announced are findings too."""

    @model_validator(mode="after")
    def _list_or_range(self) -> PlannedPoints:
        ends = (self.start, self.stop, self.step)
        if (self.planned is None) == (None in ends):
            raise ValueError("give either a planned list, or start, stop and step")
        return self

    def _find(self, data: Catalog) -> Iterator[Finding]:
        known = list(complete_rows(data, self, self.value))
        if not known:
            return
        row, present = known[0][0], [value.value for _, value in known]
        planned = self._planned(row)
        missing = [value for value in planned if value not in present]
        extra = [value for value in present if value not in planned] if self.extra else []
        cell, title = row.at(self.value), row.table.title
        wrong = {"announced but missing": missing, "given but not announced": extra}
        for problem, values in wrong.items():
            if values:
                yield self.finding_at(
                    cell,
                    ComparedValue("announced", len(planned)),
                    ComparedValue(problem, len(values)),
                    f"the {self.quantity} of {title} are those announced",
                    f"{self.quantity.capitalize()} {problem}: {_listed(set(values))}.",
                    place=f"{title}, {cell.title}",
                )

    def _planned(self, row: RowScope) -> list[float]:
        if self.planned is not None:
            return [row.number(formula).value for formula in self.planned]
        start, stop, step = (row.number(f or "").value for f in (self.start, self.stop, self.step))
        if step <= 0:
            raise CheckError("a step must be positive", f"{self.table}: {self.step}")
        return [start + number * step for number in range(int((stop - start) / step + 1e-9) + 1)]


class DroppedRows(Check):
    """No row of the data is left out that speaks against what is printed, and none added."""

    default_severity = Severity.CONTRADICTION
    printed: TableRows
    printed_value: Formula
    data: TableRows
    data_value: Formula
    notable: Formula
    """Condition for rows of the data that may not be omitted."""
    notable_value: Formula
    """The number in an omitted row."""
    unit: str = ""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        printed = [
            (row, v.value) for row, v in complete_rows(data, self.printed, self.printed_value)
        ]
        recorded = [(row, v.value) for row, v in complete_rows(data, self.data, self.data_value)]
        if not printed or not recorded:
            return
        values, known = ([value for _, value in rows] for rows in (printed, recorded))
        for row, value in recorded:
            inside = min(values) <= value <= max(values)
            if inside and value not in values and row.evaluate(self.notable) is True:
                yield self.finding_at(
                    printed[0][0].at(self.printed_value),
                    ComparedValue(f"left out: {self.data_value}", value, self.unit),
                    row.side(self.notable_value),
                    f"rows of the data with {self.notable} are in the table",
                    f"The table leaves out {format_number(value)} {self.unit} between its rows, "
                    f"where {self.notable_value} is "
                    f"{format_number(row.number(self.notable_value).value)}.",
                )
        for row, value in printed:
            if value not in known:
                yield self.finding_at(
                    row.at(self.printed_value),
                    row.side(self.printed_value),
                    ComparedValue(f"rows of the data at {format_number(value)}", 0),
                    f"{self.printed_value} is in {self.data.table}",
                    f"The data have no row at {format_number(value)} {self.unit}.",
                )


def _listed(values: set) -> str:
    return ", ".join(map(formatted, sorted(values, key=lambda v: (isinstance(v, str), v))))
