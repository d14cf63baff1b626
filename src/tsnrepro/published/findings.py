"""What a check found: the place, the two numbers, the formula and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tsnrepro.published.intervals import Interval, format_number
from tsnrepro.published.tables import Cell


class Severity(StrEnum):
    """How much a finding weighs."""

    IMPOSSIBLE = "impossible"
    """Against arithmetic, a definition or the physics of the line."""
    CONTRADICTION = "contradiction"
    """Two statements that do not hold together."""
    UNSUPPORTED = "unsupported"
    """A statement that the data behind it cannot carry."""
    ROUNDING = "rounding"
    """A printed number that is off by no more than one unit of its last digit."""


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
class AuditFinding:
    """One defect: what a rule found under one check, where, and the two numbers."""

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


def capital(text: str) -> str:
    """Return a text that begins a sentence; names of columns stay as they are."""
    return text if "_" in text else text[:1].upper() + text[1:]


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
