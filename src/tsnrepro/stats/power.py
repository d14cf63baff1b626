"""Power of comparisons of two configurations: what their repetitions find in 80 % of campaigns.

The scatter is a campaign's own, and known from its few repetitions only: power is averaged over
what it may be, so that the effect named is found in 80 % of further campaigns, not of those whose
scatter came out as large as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from tsnrepro.stats.comparisons import WELCH
from tsnrepro.stats.estimate import MIN_RUNS, Estimate, Limits

POWER = 0.8
MOST_REPETITIONS = 100_000
"""Above so many, repetitions are no way to decide."""
# Quantiles of a scatter's distribution over which power is averaged.
_PARTS = 200


@dataclass(frozen=True)
class Scatter:
    """How far an estimate's logarithm scatters between repetitions.

    Attributes
    ----------
    deviation
        Standard deviation of the logarithm of the ratio of one repetition.
    repetitions
        From so many of each configuration.
    freedom
        Degrees of freedom of the deviation.
    """

    deviation: float
    repetitions: int
    freedom: int

    def error(self, repetitions: int) -> float:
        """Return the standard error of the mean logarithm over so many repetitions."""
        return self.deviation / math.sqrt(repetitions)


def scatter_of_change(change: Estimate, repetitions: int) -> Scatter | None:
    """Return the scatter that the limits of a change in percent show, None where they show none.

    Limits by ranks are taken for Student's of the same width. Those that the loads tried set, and
    those that are open, do not tell the scatter.

    Parameters
    ----------
    change
        With its limits.
    repetitions
        From so many of each configuration.
    """
    finite = math.isfinite(change.low) and math.isfinite(change.high)
    if not (change.decides and finite) or change.limits is Limits.BRACKET or change.low <= -100:
        return None
    freedom = (2 if WELCH in change.method else 1) * (repetitions - 1)
    width = math.log1p(change.high / 100) - math.log1p(change.low / 100)
    if repetitions < MIN_RUNS or width <= 0:
        return None
    error = width / 2 / float(stats.t.isf((1 - change.level) / 2, freedom))
    return Scatter(error * math.sqrt(repetitions), repetitions, freedom)


def scatter_of_ratio(ratio: Estimate, repetitions: int) -> Scatter | None:
    """Return the scatter that the limits of a ratio show, as :func:`scatter_of_change`."""
    percent = {name: 100 * (getattr(ratio, name) - 1) for name in ("value", "low", "high")}
    return scatter_of_change(replace(ratio, **percent, unit="%"), repetitions)


def smallest_change_found(
    scatter: Scatter, significance: float, *, beyond_percent: float = 0.0
) -> float:
    """Return the smallest rise in percent that as many repetitions find in 80 % of campaigns.

    Parameters
    ----------
    scatter
        Of the comparison.
    significance
        Two-sided, of the test of this comparison alone: of m tests by Holm's method, an m-th.
    beyond_percent
        Margin that the whole interval has to lie beyond.
    """
    reach = _reach(scatter.freedom, scatter.repetitions, significance)
    found = reach * scatter.error(scatter.repetitions)
    return 100 * math.expm1(min(math.log1p(beyond_percent / 100) + found, 700.0))


def repetitions_to_find(
    scatter: Scatter, change_percent: float, significance: float, power: float = POWER
) -> int | None:
    """Return how many repetitions find a rise in 80 % of campaigns, None above 100,000."""
    effect = math.log1p(change_percent / 100)

    def finds(repetitions: int) -> bool:
        reach = effect / scatter.error(repetitions)
        return _share_found(reach, scatter.freedom, repetitions, significance) >= power

    low, high = MIN_RUNS - 1, MIN_RUNS
    while not finds(high):
        low, high = high, 2 * high
        if low > MOST_REPETITIONS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def repetitions_for_equivalence(
    scatter: Scatter, margin_percent: float, significance: float
) -> int | None:
    """Return how many repetitions show equal configurations equivalent in 80 % of campaigns.

    By two one-sided tests of a significance each: one fails in a tenth of campaigns.
    """
    both = 1 - (1 - POWER) / 2
    return repetitions_to_find(scatter, margin_percent, 2 * significance, both)


@lru_cache(maxsize=1024)
def _reach(freedom: int, repetitions: int, significance: float) -> float:
    """Return how many standard errors are found in 80 % of campaigns, see :func:`_share_found`."""

    def too_much(reach: float) -> float:
        return _share_found(reach, freedom, repetitions, significance) - POWER

    return optimize.root_scalar(too_much, bracket=(0.0, 1e6), rtol=1e-6).root


def _share_found(reach: float, freedom: int, repetitions: int, significance: float) -> float:
    """Return in which share of campaigns a t test of pairs finds an effect.

    The effect is ``reach`` standard errors, which ``freedom`` degrees show; that of the test is its
    own, from its ``repetitions``.
    """
    later = repetitions - 1
    # What was estimated, and what the test will estimate, of a deviation of one.
    before, after = _deviations(freedom), _deviations(later)
    critical = float(stats.t.isf(significance / 2, later)) * after[:, None]
    return float(special.ndtr(reach * before - critical).mean())


@lru_cache(maxsize=1024)
def _deviations(freedom: int) -> NDArray[np.float64]:
    """Return equally likely estimates of a standard deviation of one."""
    shares = (np.arange(_PARTS) + 0.5) / _PARTS
    return np.sqrt(stats.chi2.ppf(shares, freedom) / freedom)
