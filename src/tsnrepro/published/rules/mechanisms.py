"""Rules on mechanisms: sequence numbers and gate schedules."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tsnrepro.published.audit_findings import ComparedValue, Finding, Severity, format_number
from tsnrepro.published.rules.base import Check, Formula, TableRows, complete_rows
from tsnrepro.published.tables import Catalog

_R_TAG_NUMBERS = 65_536
"""Number of R-TAG sequence numbers: 16 bits (IEEE Std 802.1CB-2017, 7.8)."""


class StuckAfterWrap(Check, TableRows):
    """A receiver that gets as many packets as there are numbers stopped at the wrap."""

    default_severity = Severity.IMPOSSIBLE
    sent: Formula
    received: Formula
    numbers: int = Field(default=_R_TAG_NUMBERS, gt=1)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, sent, received in complete_rows(data, self, self.sent, self.received):
            # Numbers lost before the wrap pass after it, so the count is exact.
            near = abs(received.value - self.numbers) <= 1e-4 * self.numbers
            if not near or sent.value < 1.05 * self.numbers:
                continue
            yield self.finding_at(
                row.at(self.received),
                row.side(self.received),
                ComparedValue.from_number("sequence numbers there are", self.numbers, "packets"),
                f"{self.received} = {self.numbers} while {self.sent} > {self.numbers}",
                f"Of {format_number(sent.value)} packets as many arrived as there are numbers: "
                "elimination never forgot.",
            )


class RangeByDefinition(Check, TableRows):
    """A range that holds by definition is not evidence for anything."""

    default_severity = Severity.UNSUPPORTED
    low: Formula
    high: Formula
    defined_low: Formula
    defined_high: Formula
    quantity: str

    def _find(self, data: Catalog) -> Iterator[Finding]:
        formulas = (self.low, self.high, self.defined_low, self.defined_high)
        for row, low, high, least, most in complete_rows(data, self, *formulas):
            if low.overlaps(least) and high.overlaps(most):
                cell, ends = row.at(self.high), map(format_number, (least.value, most.value))
                yield self.finding_at(
                    cell,
                    row.side(self.high, cell.title),
                    ComparedValue.from_number("upper end by definition", most, cell.unit),
                    f" <= {self.quantity} < ".join(ends),
                    f"{self.quantity.capitalize()} lies in this range whatever the gates do.",
                )
