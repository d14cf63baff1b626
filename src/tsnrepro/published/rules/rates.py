"""Rules on rates: against the line rate, counts and each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pydantic import Field

from tsnrepro.common.counts import plural
from tsnrepro.common.ethernet import ip_packets
from tsnrepro.published.audit_findings import ComparedValue, Finding, Severity
from tsnrepro.published.intervals import format_number
from tsnrepro.published.rules.base import (
    MIN_ROWS,
    Check,
    Formula,
    RowsOrPlace,
    TableRows,
    complete_rows,
    relative_spread,
)
from tsnrepro.published.tables import Catalog


class PayloadFromCounts(Check, TableRows):
    """Rate times time over datagrams is the payload; it has to be the payload stated."""

    default_severity = Severity.CONTRADICTION
    rate_mbps: Formula
    duration_s: Formula
    datagrams: Formula
    payload_bytes: Formula
    tolerance_percent: float = Field(default=1.0, gt=0)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        formulas = (self.rate_mbps, self.duration_s, self.datagrams, self.payload_bytes)
        for row, rate, duration, count, stated in complete_rows(data, self, *formulas):
            if count.value <= 0 or rate.value <= 0:
                continue
            implied = rate.value * 1e6 * duration.value / 8 / count.value
            if abs(implied - stated.value) <= stated.value * self.tolerance_percent / 100:
                continue
            packets = len(ip_packets(round(implied))) if implied < 65_000 else 0
            pieces = f", {plural(packets, 'IP packet')} each" if packets > 1 else ""
            yield self.finding_at(
                row.at(self.datagrams),
                ComparedValue.from_number("payload that the counts give", implied, "B"),
                row.side(self.payload_bytes, "payload stated", "B"),
                f"{self.rate_mbps} * 1e6 * {self.duration_s} / 8 / {self.datagrams}",
                f"The counts give datagrams of {format_number(implied)} bytes{pieces}, "
                f"not of {format_number(stated.value)}.",
            )


class LineLimit(Check, RowsOrPlace):
    """No payload rate exceeds what headers, preamble, gap, fragments and tag leave of the line."""

    default_severity = Severity.IMPOSSIBLE
    rate_mbps: Formula
    limit_mbps: Formula
    tolerance_percent: float = Field(default=0.05, ge=0)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, rate, limit in complete_rows(data, self, self.rate_mbps, self.limit_mbps):
            if rate.low <= limit.value * (1 + self.tolerance_percent / 100):
                continue
            cell = row.at(self.rate_mbps)
            yield self.finding_at(
                cell,
                row.side(self.rate_mbps, cell.title, "Mb/s"),
                ComparedValue.from_number("limit of the line", limit, "Mb/s"),
                f"{self.rate_mbps} <= {self.limit_mbps}",
                "The rate exceeds what the line carries.",
            )


class BottleneckAtLineLimit(Check, TableRows):
    """A rate that saturates at the line's limit shows the line, not another bottleneck."""

    default_severity = Severity.CONTRADICTION
    rate_mbps: Formula
    limit_mbps: Formula
    ascribed_to: str

    def _find(self, data: Catalog) -> Iterator[Finding]:
        known = list(complete_rows(data, self, self.rate_mbps, self.limit_mbps))
        if not known:
            return
        row, rate, limit = max(known, key=lambda item: item[1].value)
        if abs(rate.value / limit.value - 1) > 0.001:
            return
        yield self.finding_at(
            row.at(self.rate_mbps),
            row.side(self.rate_mbps, "highest rate", "Mb/s"),
            ComparedValue.from_number("limit of the line", limit, "Mb/s"),
            f"max({self.rate_mbps}) = {self.limit_mbps}",
            f"The rate is that of the line within 0.1 %, so it shows no {self.ascribed_to}.",
        )


_HEADERS_MBPS = "1000 - tcp_limit()"


class OverheadOfHeaders(Check, RowsOrPlace):
    """An overhead that the plain headers make up is no overhead of anything else."""

    default_severity = Severity.CONTRADICTION
    overhead_mbps: Formula
    ascribed_to: str

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, overhead, headers in complete_rows(data, self, self.overhead_mbps, _HEADERS_MBPS):
            if overhead.value <= 0 or headers.value < 0.9 * overhead.value:
                continue
            share = 100 * headers.value / overhead.value
            yield self.finding_at(
                row.at(self.overhead_mbps),
                ComparedValue.from_number(
                    f"overhead ascribed to {self.ascribed_to}", overhead, "Mb/s"
                ),
                ComparedValue.from_number("headers, preamble and gap", headers, "Mb/s"),
                _HEADERS_MBPS,
                f"Headers that every frame has make up {share:.1f} % of what is ascribed to "
                f"{self.ascribed_to}.",
            )


class RateBalance(Check, TableRows):
    """What is delivered is what is offered less the loss."""

    default_severity = Severity.CONTRADICTION
    offered_mbps: Formula
    delivered_mbps: Formula
    loss_percent: Formula
    tolerance_percent: float = Field(default=1.0, gt=0)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        formulas = (self.offered_mbps, self.delivered_mbps, self.loss_percent)
        for row, offered, delivered, loss in complete_rows(data, self, *formulas):
            expected = offered.value * (1 - loss.value / 100)
            slack = self.tolerance_percent / 100 * max(abs(expected), abs(delivered.value))
            if delivered.low <= expected + slack and delivered.high >= expected - slack:
                continue
            sentence = "The offered load is below its target: the loss is not the whole difference."
            if delivered.value > expected:
                is_offered = delivered.overlaps(offered, self.tolerance_percent / 100)
                sentence = "The delivered rate exceeds the offered load less the loss" + (
                    ": it is the offered load." if is_offered else "."
                )
            cell = row.at(self.delivered_mbps)
            yield self.finding_at(
                cell,
                row.side(self.delivered_mbps, cell.title, "Mb/s"),
                ComparedValue.from_number("offered less lost", expected, "Mb/s"),
                f"{self.offered_mbps} * (1 - {self.loss_percent} / 100)",
                sentence,
            )


class PossibleResults(Check, TableRows):
    """No rate, time or share is negative, nor its interval's ends; no rate exceeds the line's."""

    default_severity = Severity.IMPOSSIBLE
    columns: list[str] = Field(default=["value", "low", "high"], min_length=1)
    line_mbps: str
    """Column of the line's rate."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, unit in complete_rows(data, self, "unit", numbers=False):
            if unit not in _NEVER_NEGATIVE:
                continue
            for column in self.columns:
                cell = row.cell(column)
                line = row.cell(self.line_mbps).value if unit == "Mb/s" else None
                most = line if isinstance(line, int | float) else math.inf
                if not isinstance(cell.value, int | float) or 0 <= cell.value <= most * 1.005:
                    continue
                nearest = 0.0 if cell.value < 0 else most
                yield self.finding_at(
                    cell,
                    ComparedValue.from_number(f"{column} of {row.key}", float(cell.value), unit),
                    ComparedValue.from_number("limit of what is possible", nearest, unit),
                    f"0 <= {column} <= {format_number(most)}",
                    f"No {'line carries' if cell.value > 0 else 'measurement has'} this value.",
                )


_NEVER_NEGATIVE = frozenset({"Mb/s", "1/s", "%", "us", "µs", "ms", "s"})


class ConstantPacketRate(Check, TableRows):
    """A rate proportional to the payload is one limit on packets, not a limit for each size."""

    default_severity = Severity.UNSUPPORTED
    rate_mbps: Formula
    payload_bytes: Formula

    def _find(self, data: Catalog) -> Iterator[Finding]:
        known = sorted(
            complete_rows(data, self, self.rate_mbps, self.payload_bytes),
            key=lambda item: item[2].value,
        )
        for count in range(len(known), MIN_ROWS - 1, -1):
            rows = known[:count]
            rates = [rate.value for _, rate, _ in rows]
            packets = [rate.value * 1e6 / 8 / payload.value for _, rate, payload in rows]
            ratio = rows[-1][2].value / rows[0][2].value
            variation = relative_spread(packets)
            if ratio < 4 or variation > 0.05:
                continue
            cell, spread = rows[0][0].at(self.rate_mbps), relative_spread(rates)
            low, high = format_number(min(packets), 5), format_number(max(packets), 5)
            yield self.finding_at(
                cell,
                ComparedValue.from_number("variation of the packet rate", 100 * variation, "%"),
                ComparedValue.from_number("variation of the rate", 100 * spread, "%"),
                f"sd / mean of {self.rate_mbps} * 1e6 / 8 / {self.payload_bytes} over "
                f"{plural(count, 'row')}",
                f"{low} to {high} packets a second at every size: a limit on packets.",
                place=f"{cell.origin} and {plural(count - 1, 'further row')}, {cell.title}",
            )
            return
