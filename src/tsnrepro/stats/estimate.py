"""The result type of all estimators: value, limits, method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

DEFAULT_LEVEL = 0.95
SIGNIFICANCE = 0.05
"""Largest p value of a verdict, adjusted where comparisons are judged together."""
MIN_RUNS = 3
"""Fewest runs for an interval; ``benchmarks/intervals.py`` shows that it covers from there."""
MIN_RUNS_TO_STOP = 6
"""Fewest runs after which sequential stopping is allowed, shown by the same benchmark."""

LEVEL_OF_EACH_LOOK = 0.965
"""Level of limits that are looked at after each repetition, so that those after which measuring
ends hold at 95 %; the same benchmark shows it."""


class Limits(StrEnum):
    """Kinds of limits of an estimate, which determine what may be concluded from them."""

    INTERVAL = "interval"
    """A confidence interval; in simulations it covers in 93 to 99 % of data sets at 95 %."""
    BOUND = "bound"
    """Limits that hold with at least the level, or by arithmetic; often wider than necessary."""
    BRACKET = "bracket"
    """Loads tried that enclose the value with at least the level; wider than necessary if the loads
    are far apart or repetitions few."""
    RANGE = "range"
    """The smallest and the largest value measured, which do not predict a further run."""
    NONE = "no interval"
    """No limits: ``low`` and ``high`` are nan."""


@dataclass(frozen=True)
class Estimate:
    """A point estimate and its limits.

    Parameters
    ----------
    value
        Point estimate in `unit`; nan if the data only bound the quantity.
    low, high
        Limits in `unit`; nan if there are none, infinite if the data set no bound on that side.
    level
        Confidence level, two-sided; without meaning for a range.
    method
        Name of the method, or the reason why there is no interval. It begins with the value of
        `limits` unless that is an interval.
    n
        Number of units the estimate rests on: trials, runs, or samples of one run.
    unit
        Unit of the three numbers; empty for a plain ratio.
    limits
        Kind of the limits.

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
        """Return whether a conclusion may rest on the limits: they hold with at least the level."""
        return self.limits in (Limits.INTERVAL, Limits.BOUND, Limits.BRACKET)

    def contains(self, number: float) -> bool:
        """Return whether `number` lies within the limits; False without limits."""
        return self.low <= number <= self.high

    def is_precise_to(self, percent: float) -> bool:
        """Return whether the limits are within ``percent`` of their middle, which is above 0.

        False for fewer than :data:`MIN_RUNS_TO_STOP` runs: few runs may agree by chance, and limits
        after stopping on that would cover too rarely.
        """
        limited = self.decides and math.isfinite(self.low) and math.isfinite(self.high)
        if not limited or self.n < MIN_RUNS_TO_STOP:
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
        """Return the estimate with its limits cut at a ceiling, such as the rate of a link.

        Values above the ceiling stay as they are: they are wrong, and should be visible.
        """
        if self.limits is Limits.NONE or self.low > ceiling or self.value > ceiling:
            return self
        return replace(self, high=min(self.high, ceiling))


def without_interval(
    value: float, why: str, n: int, unit: str = "", level: float = DEFAULT_LEVEL
) -> Estimate:
    """Return an estimate without limits, with the reason in its method."""
    method = f"{Limits.NONE}: {why}"
    return Estimate(value, math.nan, math.nan, level, method, n, unit, Limits.NONE)
