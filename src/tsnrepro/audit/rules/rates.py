"""Rates against the line, against counts and against each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pydantic import Field, model_validator

from tsnrepro.audit.findings import Observation, Severity, Side, format_number, plural
from tsnrepro.audit.rules.base import (
    Formula,
    RowsOrPlace,
    TableRows,
    first_cell,
    known_rows,
    place_of,
    rule,
)
from tsnrepro.audit.tables import Catalog
from tsnrepro.model.ethernet import ip_packets, payload_limit_mbps, tcp_limit_mbps


class PayloadFromCounts(TableRows):
    """A payload rate, the time and datagrams it was counted over, and the payload stated."""

    rate_mbps: Formula
    duration_s: Formula
    datagrams: Formula
    payload_bytes: Formula
    tolerance_percent: float = Field(default=1.0, gt=0)


@rule(
    Severity.CONTRADICTION,
    "Rate times time over datagrams is the payload; it has to be the payload stated.",
)
def payload_from_counts(data: Catalog, p: PayloadFromCounts) -> Iterator[Observation]:
    """Find payloads that rate, time and count contradict."""
    formulas = (p.rate_mbps, p.duration_s, p.datagrams, p.payload_bytes)
    for row, rate, duration, count, stated in known_rows(data, p, *formulas):
        if count.value <= 0 or rate.value <= 0:
            continue
        implied = rate.value * 1e6 * duration.value / 8 / count.value
        if abs(implied - stated.value) <= stated.value * p.tolerance_percent / 100:
            continue
        packets = len(ip_packets(round(implied))) if implied < 65_000 else 0
        pieces = f", {plural(packets, 'IP packet')} each" if packets > 1 else ""
        yield Observation(
            first_cell(row, p.datagrams),
            Side.of_number("payload that the counts give", implied, "B"),
            row.side(p.payload_bytes, "payload stated", "B"),
            f"{p.rate_mbps} * 1e6 * {p.duration_s} / 8 / {p.datagrams}",
            f"The counts give datagrams of {format_number(implied)} bytes{pieces}, "
            f"not of {format_number(stated.value)}.",
        )


class LineLimit(RowsOrPlace):
    """A payload rate and the line that carries it."""

    rate_mbps: Formula
    payload_bytes: Formula | None = None
    limit_mbps: Formula | None = None
    """Given in place of a payload where the line's own rate is the limit."""
    tagged: bool = False
    """Whether every frame carries an R-TAG."""
    line_mbps: float = Field(default=1000.0, gt=0)
    tolerance_percent: float = Field(default=0.05, ge=0)

    @model_validator(mode="after")
    def _payload_or_limit(self) -> LineLimit:
        if (self.payload_bytes is None) == (self.limit_mbps is None):
            raise ValueError("give either a payload, for the limit it has, or a limit")
        return self


@rule(
    Severity.IMPOSSIBLE,
    "No payload rate exceeds what headers, preamble, gap, fragments and tag leave of the line.",
)
def line_limit(data: Catalog, p: LineLimit) -> Iterator[Observation]:
    """Find payload rates above what the line carries."""
    for row, rate in known_rows(data, p, p.rate_mbps):
        if p.limit_mbps is not None:
            limit, formula = row.number(p.limit_mbps).value, p.limit_mbps
        else:
            payload = round(row.number(p.payload_bytes or "").value)
            limit = payload_limit_mbps(payload, tagged=p.tagged, rate_mbps=p.line_mbps)
            formula = _limit_formula(payload, p.tagged, p.line_mbps)
        if rate.low <= limit * (1 + p.tolerance_percent / 100):
            continue
        cell = place_of(row, p, p.rate_mbps)
        tag = " with R-TAGs" if p.tagged else ""
        yield Observation(
            cell,
            row.side(p.rate_mbps, f"{cell.title}", "Mb/s"),
            Side.of_number("limit of the line", limit, "Mb/s"),
            f"{p.rate_mbps} <= {formula}",
            f"The rate exceeds what the line{tag} carries.",
        )


class BottleneckAtLineLimit(TableRows):
    """Rates that saturate, and what their saturation is ascribed to."""

    rate_mbps: Formula
    payload_bytes: Formula
    ascribed_to: str
    tagged: bool = False
    line_mbps: float = Field(default=1000.0, gt=0)
    within_percent: float = Field(default=0.1, gt=0)


@rule(
    Severity.CONTRADICTION,
    "A rate that saturates at the line's limit shows the line, not another bottleneck.",
)
def bottleneck_at_line_limit(data: Catalog, p: BottleneckAtLineLimit) -> Iterator[Observation]:
    """Find saturation rates that are the line's and ascribed to something else."""
    known = list(known_rows(data, p, p.rate_mbps, p.payload_bytes))
    if not known:
        return
    row, rate, payload = max(known, key=lambda item: item[1].value)
    size = round(payload.value)
    limit = payload_limit_mbps(size, tagged=p.tagged, rate_mbps=p.line_mbps)
    if abs(rate.value / limit - 1) * 100 > p.within_percent:
        return
    yield Observation(
        first_cell(row, p.rate_mbps),
        row.side(p.rate_mbps, "highest rate", "Mb/s"),
        Side.of_number("limit of the line", limit, "Mb/s"),
        _limit_formula(size, p.tagged, p.line_mbps),
        f"The rate is that of the line within {p.within_percent:g} %, so it shows no "
        f"{p.ascribed_to}.",
    )


class TcpCeiling(TableRows):
    """TCP goodput of full segments with time stamps."""

    goodput_mbps: Formula
    tagged: bool = False
    line_mbps: float = Field(default=1000.0, gt=0)
    tolerance_percent: float = Field(default=0.05, ge=0)


@rule(
    Severity.IMPOSSIBLE,
    "TCP goodput stays below the line rate times payload over wire bytes of a segment.",
)
def tcp_ceiling(data: Catalog, p: TcpCeiling) -> Iterator[Observation]:
    """Find TCP goodput above what the line carries."""
    limit = tcp_limit_mbps(tagged=p.tagged, rate_mbps=p.line_mbps)
    for row, rate in known_rows(data, p, p.goodput_mbps):
        if rate.low <= limit * (1 + p.tolerance_percent / 100):
            continue
        yield Observation(
            first_cell(row, p.goodput_mbps),
            row.side(p.goodput_mbps, None, "Mb/s"),
            Side.of_number("limit of the line", limit, "Mb/s"),
            f"{p.goodput_mbps} <= {p.line_mbps:g} * 1448 / {1544 if p.tagged else 1538}",
            "TCP cannot carry more payload than its headers leave of the line.",
        )


class OverheadOfHeaders(RowsOrPlace):
    """An overhead ascribed to something, and what plain headers take."""

    overhead_mbps: Formula
    headers_mbps: Formula = "1000 - tcp_limit()"
    ascribed_to: str
    least_share_percent: float = Field(default=90.0, gt=0, le=100)


@rule(
    Severity.CONTRADICTION,
    "An overhead that the plain headers make up is no overhead of anything else.",
)
def overhead_of_headers(data: Catalog, p: OverheadOfHeaders) -> Iterator[Observation]:
    """Find overheads that the plain headers make up."""
    for row, overhead, headers in known_rows(data, p, p.overhead_mbps, p.headers_mbps):
        if overhead.value <= 0 or headers.value < overhead.value * p.least_share_percent / 100:
            continue
        share = 100 * headers.value / overhead.value
        cell = place_of(row, p, p.overhead_mbps)
        yield Observation(
            cell,
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


@rule(Severity.CONTRADICTION, "What is delivered is what is offered less the loss.")
def rate_balance(data: Catalog, p: RateBalance) -> Iterator[Observation]:
    """Find delivered rates that are not the offered rate less the loss."""
    formulas = (p.offered_mbps, p.delivered_mbps, p.loss_percent)
    for row, offered, delivered, loss in known_rows(data, p, *formulas):
        expected = offered.value * (1 - loss.value / 100)
        slack = p.tolerance_percent / 100 * max(abs(expected), abs(delivered.value))
        if delivered.low <= expected + slack and delivered.high >= expected - slack:
            continue
        if delivered.value > expected:
            is_offered = delivered.overlaps(offered, p.tolerance_percent / 100)
            sentence = "More is called delivered than the loss leaves" + (
                ": it is what was offered." if is_offered else "."
            )
        else:
            sentence = (
                "Less arrived than the loss explains: the sender did not send what it was asked."
            )
        cell = first_cell(row, p.delivered_mbps)
        yield Observation(
            cell,
            row.side(p.delivered_mbps, cell.title, "Mb/s"),
            Side.of_number("offered less lost", expected, "Mb/s"),
            f"{p.offered_mbps} * (1 - {p.loss_percent} / 100)",
            sentence,
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
    centre = sum(values) / len(values)
    variance = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance) / centre


def _limit_formula(payload: int, tagged: bool, line_mbps: float) -> str:
    wire = round(payload / payload_limit_mbps(payload, tagged=tagged, rate_mbps=1.0))
    pieces = len(ip_packets(payload))
    frames = f", {pieces} fragments" if pieces > 1 else ""
    return f"{line_mbps:g} * {payload} / {wire} (wire bytes{frames})"
