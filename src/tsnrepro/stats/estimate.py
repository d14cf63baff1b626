"""The one type in which a number leaves this package: value, limits, method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

DEFAULT_LEVEL = 0.95
FEWEST_RUNS = 3
"""Fewest runs from which an interval is given; ``benchmarks/intervals.py`` proves it from there."""
FEWEST_TO_STOP = 6
"""Fewest runs that may be enough where more are measured as needed; it proves this too."""


class Limits(StrEnum):
    """What the two limits of an estimate are, and so what may be concluded from them."""

    INTERVAL = "interval"
    """A confidence interval; simulated, it covers in 93 to 99 % of data sets at 95 %."""
    BOUND = "bound"
    """Limits that hold with at least the level, or by arithmetic: often wider than need be."""
    BRACKET = "bracket"
    """Loads tried that enclose it with at least the level: wider than need be where these are far
    apart, or repetitions few."""
    RANGE = "range"
    """The smallest and the largest value seen, which say nothing about a further run."""
    NONE = "no interval"
    """No limits: ``low`` and ``high`` are nan."""


@dataclass(frozen=True)
class Estimate:
    """A point estimate and its limits.

    Parameters
    ----------
    value
        Point estimate in `unit`; nan where the data bound a quantity without locating it.
    low, high
        Limits in `unit`; nan where there are none, infinite where the data set no bound there.
    level
        Confidence level, two-sided; it means nothing for a range.
    method
        Short text that names the method, or why there is no interval. It begins with the word of
        `limits` unless that is an interval.
    n
        Number of units the estimate rests on: trials, runs, or samples of one run.
    unit
        Unit of the three numbers; empty for a plain ratio.
    limits
        What the limits are.

    Raises
    ------
    ValueError
        `low` exceeds `high`, `level` is outside (0, 1), or `n` is below 1.
    """

    value: float
    low: float
    high: float
    level: float
    method: str
    n: int
    unit: str = ""
    limits: Limits = Limits.INTERVAL

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {self.level}")
        if self.n < 1:
            raise ValueError(f"an estimate needs at least one observation, got n={self.n}")
        if self.low > self.high:
            raise ValueError(f"interval is upside down: low {self.low} above high {self.high}")

    @property
    def decides(self) -> bool:
        """Tell whether a conclusion may rest on the limits: they hold with at least the level."""
        return self.limits in (Limits.INTERVAL, Limits.BOUND, Limits.BRACKET)

    def contains(self, number: float) -> bool:
        """Tell whether `number` lies within the limits; never without limits."""
        return self.low <= number <= self.high

    def is_precise_to(self, percent: float) -> bool:
        """Tell whether no more runs are needed: limits lie within so many percent of their middle.

        The middle is above 0. Of few runs the lucky ones are close together, and limits that were
        kept for that would hold too seldom.
        """
        limited = self.decides and math.isfinite(self.low) and math.isfinite(self.high)
        if not limited or self.n < FEWEST_TO_STOP:
            return False
        return self.high - self.low <= percent / 100 * (self.high + self.low)

    def scaled(self, factor: float, unit: str) -> Estimate:
        """Return the same estimate in another unit, `factor` > 0 times as large.

        Raises
        ------
        ValueError
            `factor` is not a positive finite number.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"factor must be positive and finite, got {factor}")
        scaled = {name: getattr(self, name) * factor for name in ("value", "low", "high")}
        return replace(self, **scaled, unit=unit)

    def at_most(self, ceiling: float) -> Estimate:
        """Return the estimate with no limit above a ceiling that arithmetic sets, a line's rate.

        Readings above the ceiling stay as they are: they are wrong, and an audit should see them.
        """
        if self.limits is Limits.NONE or self.low > ceiling or self.value > ceiling:
            return self
        return replace(self, high=min(self.high, ceiling))


def without_interval(
    value: float, why: str, n: int, unit: str = "", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Return an estimate without limits, its method saying why there are none."""
    method = f"{Limits.NONE}: {why}"
    return Estimate(value, math.nan, math.nan, level, method, n, unit, Limits.NONE)
