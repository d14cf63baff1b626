"""The findings of an audit: place, compared values, formula and explanation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tsnrepro.published.intervals import Interval, format_number
from tsnrepro.published.tables import Cell
from tsnrepro.records.values import UNIT_SYMBOLS


class Severity(StrEnum):
    """How severe a finding is."""

    IMPOSSIBLE = "impossible"
    """Against arithmetic, a definition or the physics of the line."""
    CONTRADICTION = "contradiction"
    """Two statements that do not hold together."""
    UNSUPPORTED = "unsupported"
    """A statement that the data behind it cannot carry."""
    ROUNDING = "rounding"
    """A printed number that is off by no more than one unit of its last digit."""


@dataclass(frozen=True)
class ComparedValue:
    """One of the two numbers or texts that a finding compares."""

    label: str
    value: float | str
    unit: str = ""
    printed: str | None = None
    """Digits as printed in a document; None for other numbers."""

    @property
    def text(self) -> str:
        """Return the number with its unit."""
        digits = self.printed or (
            self.value if isinstance(self.value, str) else format_number(self.value)
        )
        return with_unit(digits, self.unit)

    @classmethod
    def from_cell(cls, cell: Cell, label: str | None = None) -> ComparedValue:
        """Return the value of a cell."""
        value = cell.value if isinstance(cell.value, str) else cell.interval.value
        # Six digits of a number that a program wrote are enough.
        printed = cell.printed if cell.rounded and len(cell.printed) <= _MAX_PRINTED else None
        return cls(label or cell.title, value, cell.unit, printed)

    @classmethod
    def from_number(cls, label: str, number: Interval | float, unit: str = "") -> ComparedValue:
        """Return a computed number."""
        return cls(label, number.value if isinstance(number, Interval) else number, unit)


@dataclass(frozen=True)
class Finding:
    """One defect that a rule found under one check."""

    check: str
    rule: str
    severity: Severity
    source: str
    place: str
    table: str
    row: str
    column: str
    first: ComparedValue
    second: ComparedValue
    formula: str
    explanation: str


_MAX_PRINTED = 10
_SYMBOLS = UNIT_SYMBOLS | {"1": ""}


def with_unit(digits: str, unit: str) -> str:
    """Return digits with the symbol of their unit."""
    symbol = _SYMBOLS.get(unit, unit)
    return f"{digits}\u00a0{symbol}" if symbol else digits


def capitalize(text: str) -> str:
    """Return a text with a capitalize first letter; column names are not changed."""
    return text if "_" in text else text[:1].upper() + text[1:]
