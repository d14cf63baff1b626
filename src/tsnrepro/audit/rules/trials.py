"""How trials were run: their lengths, counts, stops and what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Literal

from pydantic import Field, model_validator

from tsnrepro.audit.findings import Observation, Severity, Side, format_number, plural
from tsnrepro.audit.rules.base import (
    CheckError,
    Formula,
    RowScope,
    RowsOrPlace,
    RuleParameters,
    Scalar,
    TableRows,
    first_cell,
    known_rows,
    place_of,
    plain,
    rule,
    shown,
)
from tsnrepro.audit.tables import Catalog


class RoundTripConvention(RowsOrPlace):
    """A ping-pong test's mean, its observations and its duration."""

    mean_us: Formula
    observations: Formula
    duration_s: Formula
    stated: Literal["half", "whole"]
    """Whether the mean is called half a round trip (one way) or a whole one."""
    least_fill: float = Field(default=0.6, gt=0, lt=1)
    """Share of the duration that the round trips fill at least."""
    most_fill: float = Field(default=1.02, ge=1)


@rule(
    Severity.CONTRADICTION,
    "One exchange follows the other, so round trips times their number fill the test.",
)
def round_trip_convention(data: Catalog, p: RoundTripConvention) -> Iterator[Observation]:
    """Find means that are not the half or whole round trips they are called."""
    halves = 2 if p.stated == "half" else 1
    formulas = (p.mean_us, p.observations, p.duration_s)
    for row, mean, count, duration in known_rows(data, p, *formulas):
        filled = halves * mean.value * 1e-6 * count.value
        if p.least_fill <= filled / duration.value <= p.most_fill:
            continue
        other = (3 - halves) * mean.value * 1e-6 * count.value
        fits_other = p.least_fill <= other / duration.value <= p.most_fill
        if fits_other and (halves == 2 or other / duration.value > 0.85):
            meant = "half" if halves == 1 else "whole"
            first = Side.of_number(f"{3 - halves} n mean", other, "s")
            second = row.side(p.duration_s, "duration", "s")
            sentence = (
                f"The values are {meant} round trips: only then do {format_number(count.value)} "
                "exchanges fill the test."
            )
        else:
            fitting = duration.value / (halves * mean.value * 1e-6)
            first = row.side(p.observations, "observations")
            second = Side.of_number("observations that fill the test", fitting)
            sentence = (
                f"{format_number(count.value)} exchanges of this mean take "
                f"{format_number(filled, 4)} s, not {format_number(duration.value)} s: "
                "count and mean belong to different tests."
            )
        yield Observation(
            place_of(row, p, p.mean_us),
            first,
            second,
            f"{halves} * {p.mean_us} * {p.observations} = {p.duration_s}",
            sentence,
        )


class TimeoutAsResult(TableRows):
    """How long trials ran and how long they were to run."""

    run_time_s: Formula
    planned_s: Formula
    tolerance_percent: float = Field(default=20.0, gt=0)
    least_share: float = Field(default=0.8, gt=0, le=1)
    """Share of the table's trials that end at one time, at least, for a timeout."""


@rule(
    Severity.IMPOSSIBLE,
    "A trial that was stopped by a clock measures the clock; others run as long as planned.",
)
def timeout_as_result(data: Catalog, p: TimeoutAsResult) -> Iterator[Observation]:
    """Find trials that a clock stopped, or that ended early or late."""
    known = list(known_rows(data, p, p.run_time_s, p.planned_s))
    off = [
        item for item in known if abs(item[1].value / item[2].value - 1) * 100 > p.tolerance_percent
    ]
    if not off:
        return
    common = median(item[1].value for item in off)
    together = [item for item in off if abs(item[1].value / common - 1) < 0.01]
    if len(together) > 1 and len(together) >= p.least_share * len(known):
        row, _, planned = together[0]
        cell = first_cell(row, p.run_time_s)
        yield Observation(
            cell,
            Side.of_number("common run time", common, "s"),
            Side.of_number("planned", planned, "s"),
            f"{p.run_time_s} = {p.planned_s}",
            f"{len(together)} of {len(known)} trials ended at {format_number(common, 4)} s: a "
            f"rate over it is {format_number(planned.value / common, 3)} of the target by "
            "the stop of a script.",
            place=f"{cell.origin} and {plural(len(together) - 1, 'further row')}, {cell.title}",
        )
        return
    for row, run_time, planned in off:
        word = "early" if run_time.value < planned.value else "late"
        yield Observation(
            first_cell(row, p.run_time_s),
            row.side(p.run_time_s, None, "s"),
            row.side(p.planned_s, "planned", "s"),
            f"{p.run_time_s} = {p.planned_s} ± {p.tolerance_percent:g} %",
            f"The trial ended {word} and stands among the others as a result.",
        )


class LossPoints(TableRows):
    """Loss by rate in one table."""

    rate_mbps: Formula
    loss_percent: Formula
    label: str


class LossBelowThreshold(RowsOrPlace):
    """A rate said to be free of loss, and points of loss by rate that bear on it."""

    threshold_mbps: Formula
    points: list[LossPoints] = Field(min_length=1)
    lossless_percent: float = Field(default=0.0, ge=0)
    """Loss, at most, that still counts as none."""


@rule(
    Severity.CONTRADICTION,
    "A zero-loss threshold lies below the lowest rate at which something was lost.",
)
def loss_below_threshold(data: Catalog, p: LossBelowThreshold) -> Iterator[Observation]:
    """Find zero-loss thresholds above a rate with loss."""
    points = [
        (point, row, rate.value, loss.value)
        for point in p.points
        for row, rate, loss in known_rows(data, point, point.rate_mbps, point.loss_percent)
    ]
    lossy = [item for item in points if item[3] > p.lossless_percent]
    if not lossy:
        return
    point, lossy_row, rate, loss = min(lossy, key=lambda item: item[2])
    clean = [item[2] for item in points if item[2] < rate]
    below = f"; nothing was lost up to {format_number(max(clean))} Mb/s" if clean else ""
    for row, threshold in known_rows(data, p, p.threshold_mbps):
        if threshold.low <= rate:
            continue
        where = first_cell(lossy_row, point.rate_mbps).origin
        yield Observation(
            place_of(row, p, p.threshold_mbps),
            row.side(p.threshold_mbps, "rate called free of loss", "Mb/s"),
            Side(f"rate with {format_number(loss)} % loss ({point.label})", rate, "Mb/s"),
            f"{p.threshold_mbps} <= min(rate with loss > {p.lossless_percent:g} %)",
            f"{where} has {format_number(loss)} % loss at a lower rate{below}.",
        )


class Group(TableRows):
    """One of the groups that are compared."""

    label: str


class EqualTreatment(RuleParameters):
    """Groups that are compared, and what has to be the same in both.

    Either ``groups`` names them, or ``by`` splits one ``table`` by a column's values.
    """

    groups: list[Group] | None = None
    table: str | None = None
    by: str | None = None
    same: list[Formula] = Field(default_factory=list)
    """Values that have to be the same, such as durations."""
    match: list[Formula] = Field(default_factory=list)
    """Columns that identify a point; groups have to have the same points."""
    counts: bool = False
    """Whether each point needs the same number of rows in every group."""
    unit: str = ""

    @model_validator(mode="after")
    def _groups_or_column(self) -> EqualTreatment:
        if (self.groups is None) == (self.by is None or self.table is None):
            raise ValueError("give either groups, or a table and the column to split it by")
        return self


@rule(
    Severity.UNSUPPORTED,
    "Groups that are compared get the same durations, points and number of trials.",
)
def equal_treatment(data: Catalog, p: EqualTreatment) -> Iterator[Observation]:
    """Find durations, points and counts that differ between compared groups."""
    groups = p.groups if p.groups is not None else _split(data, p)
    points = {group.label: _points(data, p, group) for group in groups}
    first, *others = groups
    for other in others:
        yield from _compare_groups(p, first.label, other.label, points)


def _split(data: Catalog, p: EqualTreatment) -> list[Group]:
    """Return one group for each value of the column ``by``, in order of appearance."""
    if p.table is None or p.by is None:
        raise CheckError("there is nothing to split into groups", "equal_treatment")
    values: list[Scalar] = [
        value for value in data.table(p.table).column(p.by).values if value is not None
    ]
    return [
        Group(table=p.table, where={p.by: value}, label=str(value))
        for value in dict.fromkeys(values)
    ]


def _points(data: Catalog, p: EqualTreatment, group: Group) -> dict[tuple[object, ...], list]:
    """Return the rows of a group by the point they belong to."""
    found: dict[tuple[object, ...], list] = {}
    for row, *values in known_rows(data, group, *p.match, *p.same):
        point = tuple(plain(value) for value in values[: len(p.match)])
        found.setdefault(point, []).append((row, values[len(p.match) :]))
    return found


def _compare_groups(
    p: EqualTreatment, first: str, other: str, points: dict[str, dict]
) -> Iterator[Observation]:
    """Yield what differs between two groups, point by point."""
    one, two = points[first], points[other]
    for point in dict.fromkeys([*one, *two]):
        here, there = one.get(point, []), two.get(point, [])
        anchor = (here or there)[0][0]
        at = ", ".join(f"{name} {shown(value)}" for name, value in zip(p.match, point, strict=True))
        place = f"{first} against {other}" + (f" at {at}" if at else "")
        if not (here and there) or (p.counts and len(here) != len(there)):
            yield Observation(
                first_cell(anchor, p.match[0] if p.match else p.same[0]),
                Side(f"trials of {first}", len(here)),
                Side(f"trials of {other}", len(there)),
                "the same points, as often, in both groups",
                f"{place}: {len(here)} against {plural(len(there), 'trial')}.",
                place=place,
            )
            continue
        for number, formula in enumerate(p.same):
            mine = {plain(values[number]) for _, values in here}
            theirs = {plain(values[number]) for _, values in there}
            if mine == theirs:
                continue
            yield Observation(
                first_cell(anchor, formula),
                Side(f"{formula} of {first}", _listed(mine), p.unit),
                Side(f"{formula} of {other}", _listed(theirs), p.unit),
                f"the same {formula} in both groups",
                f"{place}: {formula} is {_listed(mine)} against {_listed(theirs)}.",
                place=place,
            )


class PlannedPoints(TableRows):
    """Values of a table and the values that were announced for it."""

    value: Formula
    planned: list[Formula] | None = None
    start: Formula | None = None
    stop: Formula | None = None
    step: Formula | None = None
    quantity: str
    extra: bool = True
    """Whether values that were not announced count as well."""

    @model_validator(mode="after")
    def _list_or_range(self) -> PlannedPoints:
        ends = (self.start, self.stop, self.step)
        if (self.planned is None) == (None in ends):
            raise ValueError("give either a planned list, or start, stop and step")
        return self


@rule(Severity.UNSUPPORTED, "A table has the points that its method announces, and no others.")
def planned_points(data: Catalog, p: PlannedPoints) -> Iterator[Observation]:
    """Find announced points that are missing and points that were not announced."""
    known = list(known_rows(data, p, p.value))
    if not known:
        return
    present = [value.value for _, value in known]
    planned = _planned(RowScope(data, known[0][0].table, known[0][0].index), p)
    missing = [value for value in planned if value not in present]
    extra = [value for value in present if value not in planned] if p.extra else []
    cell = first_cell(known[0][0], p.value)
    title = known[0][0].table.title
    for values, words in ((missing, "announced but missing"), (extra, "given but not announced")):
        if values:
            yield Observation(
                cell,
                Side("announced", len(planned)),
                Side(words, len(values)),
                f"the {p.quantity} of {title} are those announced",
                f"{p.quantity.capitalize()} {words}: {_listed(set(values))}.",
                place=f"{title}, {cell.title}",
            )


class DroppedRows(RuleParameters):
    """A printed table and the data it was made from."""

    printed: TableRows
    printed_value: Formula
    data: TableRows
    data_value: Formula
    notable: Formula
    """What makes a row of the data one that may not be left out."""
    notable_value: Formula
    """The number that is lost with it."""
    unit: str = ""


@rule(
    Severity.CONTRADICTION,
    "No row of the data is left out that speaks against what is printed, and none added.",
)
def dropped_rows(data: Catalog, p: DroppedRows) -> Iterator[Observation]:
    """Find rows of the data that a table leaves out, and rows that are in no data."""
    printed = [(row, v.value) for row, v in known_rows(data, p.printed, p.printed_value)]
    there = [(row, v.value) for row, v in known_rows(data, p.data, p.data_value)]
    if not printed or not there:
        return
    values = [value for _, value in printed]
    for row, value in there:
        inside = min(values) <= value <= max(values)
        if inside and value not in values and row.evaluate(p.notable) is True:
            yield Observation(
                first_cell(printed[0][0], p.printed_value),
                Side(f"left out: {p.data_value}", value, p.unit),
                row.side(p.notable_value),
                f"rows of the data with {p.notable} stand in the table",
                f"The table leaves out {format_number(value)} {p.unit} between its rows, where "
                f"{p.notable_value} is {format_number(row.number(p.notable_value).value)}.",
            )
    for row, value in printed:
        if value not in [one for _, one in there]:
            yield Observation(
                first_cell(row, p.printed_value),
                row.side(p.printed_value),
                Side(f"rows of the data at {format_number(value)}", 0),
                f"{p.printed_value} stands in {p.data.table}",
                f"The data have no row at {format_number(value)} {p.unit}.",
            )


def _planned(row: RowScope, p: PlannedPoints) -> list[float]:
    if p.planned is not None:
        return [row.number(formula).value for formula in p.planned]
    start, stop, step = (row.number(f or "").value for f in (p.start, p.stop, p.step))
    if step <= 0:
        raise CheckError("a step must be positive", f"{p.table}: {p.step}")
    return [start + number * step for number in range(int((stop - start) / step + 1e-9) + 1)]


def _listed(values: set) -> str:
    return ", ".join(map(shown, sorted(values, key=lambda v: (isinstance(v, str), v))))
