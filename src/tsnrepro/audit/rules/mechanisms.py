"""What sequence numbers and gate schedules can do, given their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tsnrepro.audit.findings import Observation, Severity, Side, format_number
from tsnrepro.audit.rules.base import (
    Formula,
    TableRows,
    first_cell,
    known_rows,
    rule,
)
from tsnrepro.audit.tables import Catalog

R_TAG_NUMBERS = 65_536
"""Sequence numbers of an R-TAG: 16 bits (IEEE Std 802.1CB-2017, 7.8)."""


class StuckAfterWrap(TableRows):
    """Counts of trials with elimination."""

    sent: Formula
    received: Formula
    numbers: int = Field(default=R_TAG_NUMBERS, gt=1)
    # Numbers lost before the wrap pass after it, so the count ends at the very number of them.
    tolerance_percent: float = Field(default=0.01, gt=0)
    least_excess_percent: float = Field(default=5.0, gt=0)
    """How many packets more than numbers were sent, at least."""


@rule(
    Severity.IMPOSSIBLE,
    "A receiver that gets as many packets as there are numbers stopped at the wrap.",
)
def stuck_after_wrap(data: Catalog, p: StuckAfterWrap) -> Iterator[Observation]:
    """Find receivers that stopped after as many packets as there are numbers."""
    for row, sent, received in known_rows(data, p, p.sent, p.received):
        near = abs(received.value - p.numbers) <= p.numbers * p.tolerance_percent / 100
        if not near or sent.value < p.numbers * (1 + p.least_excess_percent / 100):
            continue
        yield Observation(
            first_cell(row, p.received),
            row.side(p.received),
            Side.of_number("sequence numbers there are", p.numbers, "packets"),
            f"{p.received} = {p.numbers} while {p.sent} > {p.numbers}",
            f"Of {format_number(sent.value)} packets as many arrived as there are numbers: "
            "elimination never forgot.",
        )


class RangeByDefinition(TableRows):
    """A range that is shown as a result, and the range that the definition leaves."""

    low: Formula
    high: Formula
    defined_low: Formula
    defined_high: Formula
    quantity: str


@rule(Severity.UNSUPPORTED, "A range that holds by definition is no evidence for anything.")
def range_by_definition(data: Catalog, p: RangeByDefinition) -> Iterator[Observation]:
    """Find ranges shown as results that the definition fixes."""
    formulas = (p.low, p.high, p.defined_low, p.defined_high)
    for row, low, high, least, most in known_rows(data, p, *formulas):
        if not (low.overlaps(least) and high.overlaps(most)):
            continue
        cell = first_cell(row, p.high)
        yield Observation(
            cell,
            row.side(p.high, cell.title),
            Side.of_number("upper end by definition", most, cell.unit),
            f"{format_number(least.value)} <= {p.quantity} < {format_number(most.value)}",
            f"{p.quantity.capitalize()} lies in this range whatever the gates do.",
        )
