"""The one type in which a number leaves this package: value, interval, method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """Hold a point estimate and its confidence interval.

    `value` is nan where the data bound a quantity without locating it (every trial was
    free of loss, say); `low` and `high` are nan where no interval can be computed (one run)
    and infinite where the data set no bound on that side.

    Attributes:
        value: point estimate in `unit`.
        low: lower confidence limit in `unit`.
        high: upper confidence limit in `unit`.
        level: confidence level of the interval, two-sided unless `method` says otherwise.
        method: short text that names the interval's method.
        n: number of units the interval rests on (datagrams, samples, trials or runs).
        unit: unit of the three numbers; empty for a plain ratio.

    Raises:
        ValueError: if `low` exceeds `high`, `level` is outside (0, 1) or `n` is below 1.

    """

    value: float
    low: float
    high: float
    level: float
    method: str
    n: int
    unit: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {self.level}")
        if self.n < 1:
            raise ValueError(f"an estimate needs at least one observation, got n={self.n}")
        if self.low > self.high:
            raise ValueError(f"interval is upside down: low {self.low} above high {self.high}")

    @property
    def has_interval(self) -> bool:
        """Tell whether both limits are numbers (infinite limits count)."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def contains(self, number: float) -> bool:
        """Tell whether the interval covers `number`; never true without an interval."""
        return self.low <= number <= self.high

    def scaled(self, factor: float, unit: str) -> Estimate:
        """Return the same estimate in another unit, `factor` > 0 times as large.

        Raises:
            ValueError: if `factor` is not a positive finite number.

        """
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"factor must be positive and finite, got {factor}")
        return replace(
            self,
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            unit=unit,
        )
