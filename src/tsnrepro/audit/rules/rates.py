"""Rates against the line, against counts and against each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import Field

from tsnrepro.audit.findings import Observation, Severity, Side, plural
from tsnrepro.audit.intervals import Interval, format_number
from tsnrepro.audit.rules.base import (
    Formula,
    RowScope,
    RowsOrPlace,
    TableRows,
    first_cell,
    known_rows,
    place_of,
    row_rule,
    rule,
)
from tsnrepro.audit.tables import Catalog
from tsnrepro.ethernet import ip_packets


class PayloadFromCounts(TableRows):
    """A payload rate, the time and datagrams it was counted over, and the payload stated."""

    rate_mbps: Formula
    duration_s: Formula
    datagrams: Formula
    payload_bytes: Formula
    tolerance_percent: float = Field(default=1.0, gt=0)


@row_rule(
    Severity.CONTRADICTION,
    "Rate times time over datagrams is the payload; it has to be the payload stated.",
    *("rate_mbps", "duration_s", "datagrams", "payload_bytes"),
)
def payload_from_counts(
    row: RowScope, p: PayloadFromCounts, *numbers: Interval
) -> Observation | None:
    """Find payloads that rate, time and count contradict."""
    rate, duration, count, stated = numbers
    if count.value <= 0 or rate.value <= 0:
        return None
    implied = rate.value * 1e6 * duration.value / 8 / count.value
    if abs(implied - stated.value) <= stated.value * p.tolerance_percent / 100:
        return None
    packets = len(ip_packets(round(implied))) if implied < 65_000 else 0
    pieces = f", {plural(packets, 'IP packet')} each" if packets > 1 else ""
    return Observation(
        first_cell(row, p.datagrams),
        Side.of_number("payload that the counts give", implied, "B"),
        row.side(p.payload_bytes, "payload stated", "B"),
        f"{p.rate_mbps} * 1e6 * {p.duration_s} / 8 / {p.datagrams}",
        f"The counts give datagrams of {format_number(implied)} bytes{pieces}, "
        f"not of {format_number(stated.value)}.",
    )


class LineLimit(RowsOrPlace):
    """A payload rate and what the line carries of it, as ``payload_limit(...)`` gives it."""

    rate_mbps: Formula
    limit_mbps: Formula
    tolerance_percent: float = Field(default=0.05, ge=0)


@row_rule(
    Severity.IMPOSSIBLE,
    "No payload rate exceeds what headers, preamble, gap, fragments and tag leave of the line.",
    *("rate_mbps", "limit_mbps"),
)
def line_limit(row: RowScope, p: LineLimit, rate: Interval, limit: Interval) -> Observation | None:
    """Find payload rates above what the line carries."""
    if rate.low <= limit.value * (1 + p.tolerance_percent / 100):
        return None
    cell = place_of(row, p, p.rate_mbps)
    return Observation(
        cell,
        row.side(p.rate_mbps, cell.title, "Mb/s"),
        Side.of_number("limit of the line", limit, "Mb/s"),
        f"{p.rate_mbps} <= {p.limit_mbps}",
        "The rate exceeds what the line carries.",
    )


class BottleneckAtLineLimit(TableRows):
    """Rates that saturate, the line's limit, and what their saturation is ascribed to."""

    rate_mbps: Formula
    limit_mbps: Formula
    ascribed_to: str
    within_percent: float = Field(default=0.1, gt=0)


@rule(
    Severity.CONTRADICTION,
    "A rate that saturates at the line's limit shows the line, not another bottleneck.",
)
def bottleneck_at_line_limit(data: Catalog, p: BottleneckAtLineLimit) -> Iterator[Observation]:
    """Find saturation rates that are the line's and ascribed to something else."""
    known = list(known_rows(data, p, p.rate_mbps, p.limit_mbps))
    if not known:
        return
    row, rate, limit = max(known, key=lambda item: item[1].value)
    if abs(rate.value / limit.value - 1) * 100 > p.within_percent:
        return
    yield Observation(
        first_cell(row, p.rate_mbps),
        row.side(p.rate_mbps, "highest rate", "Mb/s"),
        Side.of_number("limit of the line", limit, "Mb/s"),
        f"max({p.rate_mbps}) = {p.limit_mbps}",
        f"The rate is that of the line within {p.within_percent:g} %, so it shows no "
        f"{p.ascribed_to}.",
    )


class OverheadOfHeaders(RowsOrPlace):
    """An overhead ascribed to something, and what plain headers take."""

    overhead_mbps: Formula
    headers_mbps: Formula = "1000 - tcp_limit()"
    ascribed_to: str
    least_share_percent: float = Field(default=90.0, gt=0, le=100)


@row_rule(
    Severity.CONTRADICTION,
    "An overhead that the plain headers make up is no overhead of anything else.",
    *("overhead_mbps", "headers_mbps"),
)
def overhead_of_headers(
    row: RowScope, p: OverheadOfHeaders, overhead: Interval, headers: Interval
) -> Observation | None:
    """Find overheads that the plain headers make up."""
    if overhead.value <= 0 or headers.value < overhead.value * p.least_share_percent / 100:
        return None
    share = 100 * headers.value / overhead.value
    return Observation(
        place_of(row, p, p.overhead_mbps),
        Side.of_number(f"overhead ascribed to {p.ascribed_to}", overhead, "Mb/s"),
        Side.of_number("headers, preamble and gap", headers, "Mb/s"),
        p.headers_mbps,
        f"Headers that every frame has make up {share:.1f} % of what is ascribed to "
        f"{p.ascribed_to}.",
    )


class RateBalance(TableRows):
    """Offered rate, delivered rate and the loss between them."""

    offered_mbps: Formula
    delivered_mbps: Formula
    loss_percent: Formula
    tolerance_percent: float = Field(default=1.0, gt=0)


@row_rule(
    Severity.CONTRADICTION,
    "What is delivered is what is offered less the loss.",
    *("offered_mbps", "delivered_mbps", "loss_percent"),
)
def rate_balance(
    row: RowScope, p: RateBalance, offered: Interval, delivered: Interval, loss: Interval
) -> Observation | None:
    """Find delivered rates that are not the offered rate less the loss."""
    expected = offered.value * (1 - loss.value / 100)
    slack = p.tolerance_percent / 100 * max(abs(expected), abs(delivered.value))
    if delivered.low <= expected + slack and delivered.high >= expected - slack:
        return None
    sentence = "Less arrived than the loss explains: the sender did not send what it was asked."
    if delivered.value > expected:
        is_offered = delivered.overlaps(offered, p.tolerance_percent / 100)
        sentence = "More is called delivered than the loss leaves" + (
            ": it is what was offered." if is_offered else "."
        )
    cell = first_cell(row, p.delivered_mbps)
    return Observation(
        cell,
        row.side(p.delivered_mbps, cell.title, "Mb/s"),
        Side.of_number("offered less lost", expected, "Mb/s"),
        f"{p.offered_mbps} * (1 - {p.loss_percent} / 100)",
        sentence,
    )


class PossibleResults(TableRows):
    """Named results with unit and interval, and the rate of the line that they were taken on."""

    columns: list[str] = Field(default=["value", "low", "high"], min_length=1)
    line_mbps: str
    """Column of the line's rate."""
    except_like: list[str] = Field(default_factory=list)
    """Patterns of keys whose values may have any sign: differences."""


_NEVER_NEGATIVE = frozenset({"Mb/s", "1/s", "%", "us", "µs", "ms", "s"})


@rule(
    Severity.IMPOSSIBLE,
    "Rates, times and shares are not negative, in their intervals neither; no rate of a line "
    "exceeds the line's.",
)
def possible_results(data: Catalog, p: PossibleResults) -> Iterator[Observation]:
    """Find results, or ends of their intervals, that no measurement can have."""
    for row, unit in known_rows(data, p, "unit"):
        assert row.table is not None
        key = row.table.keys[row.index]
        if unit not in _NEVER_NEGATIVE or any(fnmatchcase(key, one) for one in p.except_like):
            continue
        for column in p.columns:
            cell = row.table.cell(row.index, column)
            line = row.table.cell(row.index, p.line_mbps) if unit == "Mb/s" else None
            most = float(line.value) if line and isinstance(line.value, int | float) else math.inf
            if not isinstance(cell.value, int | float) or 0 <= cell.value <= most * 1.005:
                continue
            nearest = 0.0 if cell.value < 0 else most
            yield Observation(
                cell,
                Side.of_number(f"{column} of {key}", float(cell.value), unit),
                Side.of_number("limit of what is possible", nearest, unit),
                f"0 <= {column} <= {format_number(most)}",
                f"No {'line carries' if cell.value > 0 else 'measurement gives'} this.",
            )


class ConstantPacketRate(TableRows):
    """Rates by payload, taken as one limit."""

    rate_mbps: Formula
    payload_bytes: Formula
    largest_variation: float = Field(default=0.05, gt=0)
    least_rows: int = Field(default=3, ge=3)
    least_payload_ratio: float = Field(default=4.0, gt=1)


@rule(
    Severity.UNSUPPORTED,
    "A rate proportional to the payload is one limit on packets, not a limit for each size.",
)
def constant_packet_rate(data: Catalog, p: ConstantPacketRate) -> Iterator[Observation]:
    """Find rates by payload that are one packet rate."""
    known = sorted(
        known_rows(data, p, p.rate_mbps, p.payload_bytes), key=lambda item: item[2].value
    )
    for count in range(len(known), p.least_rows - 1, -1):
        taken = known[:count]
        rates = [rate.value for _, rate, _ in taken]
        packets = [rate.value * 1e6 / 8 / payload.value for _, rate, payload in taken]
        ratio = taken[-1][2].value / taken[0][2].value
        variation = _variation(packets)
        if ratio < p.least_payload_ratio or variation > p.largest_variation:
            continue
        row = taken[0][0]
        cell = first_cell(row, p.rate_mbps)
        low, high = format_number(min(packets), 5), format_number(max(packets), 5)
        yield Observation(
            cell,
            Side.of_number("variation of the packet rate", 100 * variation, "%"),
            Side.of_number("variation of the rate", 100 * _variation(rates), "%"),
            f"sd / mean of {p.rate_mbps} * 1e6 / 8 / {p.payload_bytes} over {plural(count, 'row')}",
            f"{low} to {high} packets a second at every size: a limit on packets.",
            place=f"{cell.origin} and {plural(count - 1, 'further row')}, {cell.title}",
        )
        return


def _variation(values: list[float]) -> float:
    """Return the coefficient of variation, with the sample's standard deviation."""
    return statistics.stdev(values) / statistics.fmean(values)
