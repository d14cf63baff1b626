"""Numbers with the range that their printed digits or a confidence interval give them.

A number printed with three decimals stands for all values that round to it. Arithmetic propagates
the ranges (Moore, Kearfott and Cloud 2009, Introduction to Interval Analysis, chapter 2), so two
numbers disagree only where no values in their ranges agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

# Relative tolerance for the binary representation of decimal numbers.
_RELATIVE_TOLERANCE = 1e-9
_NUMBER = re.compile(r"[-+]?(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its range.

    ``low <= value <= high`` holds except for a bound ("below 338"), whose value is the bound and
    whose range is unbounded on one side. An exact number has ``low == value == high``; a measured
    value without an interval has infinite limits, since its error is unknown.
    """

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        """Return a number without any error."""
        return cls(float(value), float(value), float(value))

    def narrowed(self, times: float) -> Interval:
        """Return the number with its range so many times narrower; without end it stays endless.

        Infinitely narrow the number is exact.
        """
        if math.isinf(times):
            return Interval.exact(self.value)
        low, high = (self.value + (end - self.value) / times for end in (self.low, self.high))
        return Interval(self.value, low, high)

    @classmethod
    def printed(cls, text: str, qualifier: str | None = None) -> Interval:
        """Return the range of a printed number.

        It extends half a unit of the last digit to either side; for an approximate number half a
        unit of the last digit other than zero: "about 250" is 245 to 255. The range of a bound is
        unbounded on its side.

        Raises
        ------
        ValueError
            ``text`` is not a number.
        """
        value = float(text)
        match = _NUMBER.fullmatch(text.strip())
        if match is None:
            half = 0.0  # scientific notation: written by a program, without rounding
        elif qualifier == "approximately":
            half = 0.5 * _significant_unit(match[1], match[2] or "")
        else:
            half = 0.5 * 10.0 ** -len(match[2] or "")
        if qualifier in {"below", "at-most"}:
            return cls(value, -math.inf, value)
        if qualifier in {"above", "at-least"}:
            return cls(value, value, math.inf)
        return cls(value, value - half, value + half)

    @property
    def is_exact(self) -> bool:
        """Return whether the range is a single point."""
        return self.low == self.high

    def overlaps(self, other: Interval, tolerance: float = 0.0) -> bool:
        """Return whether two ranges overlap, or are no further apart than ``tolerance``.

        ``tolerance`` is relative to the larger magnitude of the two values.
        """
        size = max(abs(self.value), abs(other.value))
        slack = max(tolerance, _RELATIVE_TOLERANCE) * size
        return self.low <= other.high + slack and other.low <= self.high + slack

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.value - other.value, self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        corners = [_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(self.value * other.value, min(corners), max(corners))

    def __truediv__(self, other: Interval) -> Interval:
        """Divide; the quotient is unbounded where the range of the divisor includes zero.

        Raises
        ------
        ZeroDivisionError
            The divisor is exactly zero.
        """
        if other.value == 0 and other.is_exact:
            raise ZeroDivisionError("division by zero")
        value = self.value / other.value if other.value else math.inf
        if other.low <= 0 <= other.high:
            return Interval(value, -math.inf, math.inf)
        corners = [_quotient(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(value, min(corners), max(corners))

    def __pow__(self, other: Interval) -> Interval:
        """Raise to an exact, non-negative integer power.

        Raises
        ------
        ValueError
            The exponent is anything else.
        """
        exponent = other.value
        if not other.is_exact or exponent < 0 or exponent != int(exponent):
            raise ValueError("an exponent must be a non-negative integer")
        power = Interval.exact(1.0)
        for _ in range(int(exponent)):
            power = power * self
        if exponent and int(exponent) % 2 == 0:
            return Interval(power.value, max(0.0, power.low), power.high)
        return power

    def __neg__(self) -> Interval:
        return Interval(-self.value, -self.high, -self.low)

    def __abs__(self) -> Interval:
        if self.low >= 0:
            return self
        if self.high <= 0:
            return -self
        return Interval(abs(self.value), 0.0, max(-self.low, self.high))


def total(numbers: Iterable[Interval]) -> Interval:
    """Return the sum of numbers."""
    result = Interval.exact(0.0)
    for number in numbers:
        result = result + number
    return result


def mean(numbers: Iterable[Interval]) -> Interval:
    """Return the mean of at least one number; raise ValueError for none."""
    values = list(numbers)
    if not values:
        raise ValueError("the mean of no numbers")
    return total(values) / Interval.exact(len(values))


def extreme(pick: Callable[[Iterable[float]], float], numbers: Iterable[Interval]) -> Interval:
    """Return the minimum or maximum (``pick``) of numbers; raise ValueError for none."""
    values = list(numbers)
    return Interval(
        pick(n.value for n in values), pick(n.low for n in values), pick(n.high for n in values)
    )


def _product(a: float, b: float) -> float:
    return 0.0 if 0.0 in (a, b) else a * b  # zero times infinity is zero here


def _quotient(a: float, b: float) -> float:
    return a / b if math.isfinite(b) else 0.0


def _significant_unit(whole: str, decimals: str) -> float:
    """Return the unit of the last digit other than zero: 10 for "250", 0.01 for "0.05"."""
    if decimals.strip("0"):
        return 10.0 ** -len(decimals.rstrip("0"))
    zeros = len(whole) - len(whole.rstrip("0"))
    return 10.0 ** (zeros if whole.strip("0") else 0)


def format_number(value: float, digits: int = 6) -> str:
    """Return a number to ``digits`` significant digits, without an exponent below 1e15."""
    if not math.isfinite(value):
        return "none" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits}g}"
    return format(Decimal(f"{value:.{digits}g}"), "f")


def format_range(low: float, high: float, digits: int = 6) -> str:
    """Return the limits of a range in brackets."""
    return f"[{format_number(low, digits)}, {format_number(high, digits)}]"
