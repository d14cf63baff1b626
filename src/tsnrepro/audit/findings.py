"""What a check found: the place, the two numbers, the formula and a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from tsnrepro.audit.intervals import Interval
from tsnrepro.audit.tables import Cell


class Severity(StrEnum):
    """How much a finding weighs."""

    IMPOSSIBLE = "impossible"
    """Against arithmetic, a definition or the physics of the line."""
    CONTRADICTION = "contradiction"
    """Two statements that do not hold together."""
    UNSUPPORTED = "unsupported"
    """A statement that the data behind it cannot carry."""


@dataclass(frozen=True)
class Side:
    """One of the two numbers (or words) that a finding sets against each other."""

    label: str
    value: float | str
    unit: str = ""
    printed: str | None = None
    """Digits as printed, where they stand in a document."""

    @property
    def text(self) -> str:
        """Return the number with its unit."""
        digits = self.printed or (
            self.value if isinstance(self.value, str) else format_number(self.value)
        )
        return with_unit(digits, self.unit)

    @classmethod
    def of_cell(cls, cell: Cell, label: str | None = None) -> Side:
        """Return a cell's number as one side."""
        value = cell.value if isinstance(cell.value, str) else cell.interval.value
        # Sixteen digits of a program tell a reader less than six.
        printed = cell.printed if cell.rounded and len(cell.printed) <= _LONGEST else None
        return cls(label or cell.title, value, cell.unit, printed)

    @classmethod
    def of_number(cls, label: str, number: Interval | float, unit: str = "") -> Side:
        """Return a computed number as one side."""
        return cls(label, number.value if isinstance(number, Interval) else number, unit)


@dataclass(frozen=True)
class Observation:
    """What a rule saw, before it is known under which check."""

    cell: Cell
    first: Side
    second: Side
    formula: str
    sentence: str
    place: str | None = None
    """In words, where the cell alone does not say it."""


@dataclass(frozen=True)
class Finding:
    """One defect: what a rule found under one check."""

    check: str
    rule: str
    severity: Severity
    source: str
    place: str
    table: str
    row: str
    column: str
    first: Side
    second: Side
    formula: str
    explanation: str


_LONGEST = 10
_UNITS_IN_WORDS = {"1": "", "us": "µs"}


def with_unit(digits: str, unit: str) -> str:
    """Return digits with their unit as a reader expects it."""
    shown = _UNITS_IN_WORDS.get(unit, unit)
    return f"{digits}\u00a0{shown}" if shown else digits


def format_number(value: float, digits: int = 6) -> str:
    """Return a number to ``digits`` significant digits, never in powers of ten below 1e15."""
    if not math.isfinite(value):
        return "none" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits}g}"
    return format(Decimal(f"{value:.{digits}g}"), "f")


def capital(text: str) -> str:
    """Return a text that begins a sentence; names of columns stay as they are."""
    return text if "_" in text else text[:1].upper() + text[1:]


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
