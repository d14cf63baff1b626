"""Differences and ratios of two configurations, with intervals and p values.

`a` is the configuration in question (frer), `b` the reference (control); every difference is
a - b. There is one value per run. If the k-th runs of both are of one repetition, they were
measured at the same time, and ``paired`` compares within repetitions: valid with and without drift
between repetitions, where Welch's interval covers too often with it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tsnrepro.stats.checks import (
    ROUNDING,
    check_probability,
    finite_values,
    half_step,
    is_constant,
)
from tsnrepro.stats.estimate import DEFAULT_LEVEL, MIN_RUNS, Estimate, Limits, without_interval
from tsnrepro.stats.replication import median_over_runs, with_range

TOO_FEW = f"fewer than {MIN_RUNS} values in a group"
MIN_RUNS_UNEQUAL = 6
"""Fewest runs in the smaller of two groups of different sizes: of six against three runs in two
regimes Welch's limits of 95 % hold in 91 %."""
FEW_UNEQUAL = f"groups of different sizes, one with fewer than {MIN_RUNS_UNEQUAL} values"
NO_SPREAD = "no spread in either group"
NOT_POSITIVE = "a value is not positive"
_DIFFERENCES = "order statistics of the differences by repetition"
WELCH = "Welch t"
"""Method of limits of two groups that are not paired."""


@dataclass(frozen=True)
class Comparison:
    """A difference of two groups and the p value of equal means.

    Attributes
    ----------
    estimate
        The difference with its interval.
    p_value
        Two-sided p value of the null hypothesis of equal means; nan if a group has fewer than three
        values, or if neither has any spread and they differ: equal readings show the resolution,
        not the scatter.
    """

    estimate: Estimate
    p_value: float


def difference_of_means(
    a: ArrayLike,
    b: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
    *,
    paired: bool = False,
) -> Comparison:
    """Estimate mean(a) - mean(b) with Student's (paired) or Welch's interval and p value.

    Welch (1947), Biometrika 34(1/2): unequal variances, Satterthwaite's degrees of freedom.

    Parameters
    ----------
    a, b
        Values of the configuration in question and of the control, shapes (n_a,) and (n_b,).
    level
        Confidence level.
    unit
        Unit of the values.
    paired
        Whether the k-th values of both are of one repetition.

    Returns
    -------
    Comparison
        Without interval if a group has fewer than three values, or than six where the sizes differ,
        or if neither has any spread.

    Raises
    ------
    ValueError
        A group is empty or not finite, or the groups cannot be paired.
    """
    check_probability(level, "level")
    first, second = check_groups(a, b, paired=paired)
    difference = float(first.mean() - second.mean())
    n = first.size + second.size
    fewest = min(first.size, second.size)
    if fewest < MIN_RUNS or (first.size != second.size and fewest < MIN_RUNS_UNEQUAL):
        why = TOO_FEW if fewest < MIN_RUNS else FEW_UNEQUAL
        return Comparison(without_interval(difference, why, n, unit, level), math.nan)
    if lacks_spread(first, second, paired=paired):
        scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
        difference = 0.0 if abs(difference) <= ROUNDING * scale else difference
        estimate = without_interval(difference, NO_SPREAD, n, unit, level)
        return Comparison(estimate, 1.0 if difference == 0 else math.nan)
    test = t_test(first, second, paired=paired)
    low, high = (float(limit) for limit in test.confidence_interval(level))
    method = "Student t of differences by repetition" if paired else WELCH
    return Comparison(Estimate(difference, low, high, level, method, n, unit), float(test.pvalue))


def median_difference(
    a: ArrayLike,
    b: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
    *,
    paired: bool = False,
) -> Estimate:
    """Estimate the median of a - b over repetitions, with limits that are measured differences.

    As :func:`tsnrepro.stats.replication.median_over_runs` of the differences.

    Parameters
    ----------
    a, b
        Values of the configuration in question and of the control, one per run.
    level
        Confidence level.
    unit
        Unit of the values.
    paired
        Whether the k-th values of both are of one repetition.

    Returns
    -------
    Estimate
        For unpaired groups, the difference of their medians without limits. A range if there are
        too few repetitions for the level.

    Raises
    ------
    ValueError
        A group is empty or not finite, or the groups cannot be paired.
    """
    check_probability(level, "level")
    first, second = check_groups(a, b, paired=paired)
    if not paired:
        difference = float(np.median(first) - np.median(second))
        why, n = "not measured in the same repetitions", first.size + second.size
        return without_interval(difference, why, n, unit, level)
    found = median_over_runs(first - second, level, unit)
    if found.limits is not Limits.BOUND:
        return found
    method = found.method.replace("median over runs, order statistics", _DIFFERENCES)
    return replace(found, method=method)


def relative_difference(
    a: ArrayLike, b: ArrayLike, level: float = DEFAULT_LEVEL, *, paired: bool = False
) -> Comparison:
    """Estimate a / b - 1 in percent from the difference of mean logarithms.

    The ratio is that of geometric means (of medians, if runs are lognormal), and its interval is
    transformed back by the exponential: it is never below -100 %. Readings that repeat show the
    step of what read them, and limits and p value are those of readings half a step off.

    Parameters
    ----------
    a, b, level, paired
        As for :func:`difference_of_means`; the means must be positive. If a single value is not,
        the result is the ratio of arithmetic means without an interval.

    Returns
    -------
    Comparison
        Percent of the control.

    Raises
    ------
    ValueError
        As :func:`difference_of_means`, or a mean is not positive.
    """
    first, second = check_groups(a, b, paired=paired)
    for values, name in ((first, "a"), (second, "b")):
        if values.mean() <= 0:
            raise ValueError(f"a relative difference needs a positive mean of {name}")
    n = first.size + second.size
    half = half_step(first, second)
    if min(first.min(), second.min()) <= half:
        percent = 100 * (first.mean() / second.mean() - 1)
        why = "a value is not above half a step of the readings" if half else NOT_POSITIVE
        return Comparison(without_interval(float(percent), why, n, "%", level), math.nan)
    logs = _difference_of_logs(first, second, 0.0, level, paired=paired)
    found, p_value = logs.estimate, logs.p_value
    if found.decides:
        found = replace(found, method=f"{found.method} of logarithms")
    if found.decides and half:
        lower, upper = (
            _difference_of_logs(first, second, off, level, paired=paired) for off in (-half, half)
        )
        method = f"{Limits.BOUND}: {found.method}, half a step of the readings off"
        ends = {"low": lower.estimate.low, "high": upper.estimate.high}
        found = replace(found, **ends, method=method, limits=Limits.BOUND)
        nearest = lower if found.value > 0 else upper
        p_value = nearest.p_value if nearest.estimate.value * found.value > 0 else 1.0
    percent = {name: 100 * math.expm1(getattr(found, name)) for name in ("value", "low", "high")}
    return Comparison(replace(found, **percent, unit="%"), p_value)


def _difference_of_logs(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    off: float,
    level: float,
    *,
    paired: bool,
) -> Comparison:
    """Return the difference of logarithms of readings that are all so far off, apart."""
    return difference_of_means(np.log(first + off), np.log(second - off), level, paired=paired)


def signed_rank(
    a: ArrayLike, b: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Comparison:
    """Estimate the shift from b to a in pairs, with the limits that Wilcoxon's test leaves.

    The estimate is the median of the means of any two differences (Hodges and Lehmann 1963, Annals
    of Mathematical Statistics 34(2)); the limits are those of these means that the exact signed
    rank test does not reject (Tukey 1949). Differences need to scatter alike to both sides, and may
    have tails as long as they like: of twelve repetitions a stall decides one rank, not the mean.

    Parameters
    ----------
    a, b
        Values of the configuration in question and of the control, the k-th of both of one
        repetition, shape (n,).
    level
        Confidence level.
    unit
        Unit of the values.

    Returns
    -------
    Comparison
        With a range where there are too few repetitions for the level: below six at 95 %. The p
        value is the exact test's of no shift.

    Raises
    ------
    ValueError
        A group is empty or not finite, or the groups cannot be paired.
    """
    check_probability(level, "level")
    first, second = check_groups(a, b, paired=True)
    differences, n = first - second, first.size
    means = np.sort(((differences[:, None] + differences) / 2)[np.triu_indices(n)])
    middle = float(np.median(means))
    at_most = _rank_sums(n)
    # The k-th smallest mean is a limit if a sum of ranks below k is rare enough.
    rejected = rejected_ranks(n, 1 - level)
    # The sum of the ranks of one sign is the number of means of that sign (Tukey).
    more = max(np.count_nonzero(means < 0), np.count_nonzero(means > 0))
    p_value = min(1.0, 2 * float(at_most[means.size - more]))
    if not rejected or is_constant(differences):
        estimate = with_range(middle, differences, "too few for the signed ranks'", level, unit)
        return Comparison(estimate, p_value)
    low, high = float(means[rejected - 1]), float(means[-rejected])
    method = "Hodges-Lehmann, exact signed ranks of differences by repetition"
    return Comparison(Estimate(middle, low, high, level, method, n, unit), p_value)


def rejected_ranks(n: int, significance: float) -> int:
    """Return how many sums of signed ranks, from 0 on, the two-sided test of n pairs rejects."""
    return int(np.searchsorted(_rank_sums(n), significance / 2, side="right"))


@lru_cache(maxsize=64)
def _rank_sums(n: int) -> NDArray[np.float64]:
    """Return how likely each sum of n signed ranks is not exceeded without a shift, from 0 on."""
    # All 2^n choices of signs are alike: in how many ways do ranks make each sum?
    ways = np.ones(1)
    for rank in range(1, n + 1):
        ways = np.convolve(ways, np.bincount([0, rank]))
    return np.cumsum(ways) / 2**n


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust a family's p values by Holm's step-down method, in the order given.

    Holm (1979), Scandinavian Journal of Statistics 6(2). Rejecting if the adjusted value is at most
    alpha limits the probability of any false rejection in the family to alpha.

    Parameters
    ----------
    p_values
        The p values of one family, shape (m,).

    Returns
    -------
    ndarray
        Adjusted p values, shape (m,).

    Raises
    ------
    ValueError
        The family is empty, or a value is nan or outside [0, 1].
    """
    family = finite_values(p_values, "p_values")
    if family.min() < 0 or family.max() > 1:
        raise ValueError(f"p values lie in [0, 1], got {family.min()} to {family.max()}")
    # statsmodels has it too, and collects garbage in each call: half a second in a large process.
    order = np.argsort(family)
    stepped = np.maximum.accumulate(family[order] * np.arange(family.size, 0, -1))
    adjusted = np.empty_like(family)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def t_test(
    first: NDArray[np.float64], second: NDArray[np.float64], *, paired: bool, **options: Any
) -> Any:
    """Return scipy's paired test, or Welch's."""
    with warnings.catch_warnings():
        # A group without spread has a variance of exactly zero, not an imprecise one.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        if paired:
            return stats.ttest_rel(first, second, **options)
        return stats.ttest_ind(first, second, equal_var=False, **options)


def lacks_spread(first: NDArray[np.float64], second: NDArray[np.float64], *, paired: bool) -> bool:
    """Return whether a t test would divide by zero."""
    if not paired:
        return is_constant(first) and is_constant(second)
    scale = ROUNDING * max(float(np.abs(first).max()), float(np.abs(second).max()))
    return float(np.ptp(first - second)) <= scale


def check_groups(
    a: ArrayLike, b: ArrayLike, *, paired: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both groups as arrays, after checking that paired ones have the same size."""
    first, second = finite_values(a, "a"), finite_values(b, "b")
    if paired and first.size != second.size:
        raise ValueError(f"runs must pair up: {first.size} of a against {second.size} of b")
    return first, second
