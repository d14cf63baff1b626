"""Averages with the run as the unit of replication.

Packets of one run share host, caches and time, so a million of them are one observation of
everything that varies between runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tsnrepro.stats.checks import check_probability, finite_values, is_constant
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate, Limits, without_interval

# Correlation of neighbouring runs that the method states; of six independent ones 1 % have it.
_STRONG = 0.5
# Variance of logarithms whose exponential is too large for a float.
_HUGE = 700


def median_over_runs(
    values: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
    ceiling: float = math.inf,
) -> Estimate:
    """Return the median of one value per run, with limits that are measured values.

    Runs come in regimes, and single ones take ten times as long, so nothing is assumed of their
    distribution: order statistics bound its median for any (Thompson 1936, Annals of Mathematical
    Statistics 7(3)) if runs are independent. At 95 % the smallest and the largest run do so from
    six runs on. The method says where the ranks of neighbouring runs correlate by more than a half
    (the ratio of von Neumann by ranks: Bartels 1982, Journal of the American Statistical
    Association 77(377)): then the limits hold more rarely. Few runs rarely show it.

    Parameters
    ----------
    values
        One number per run, in the order of measurement, shape (runs,).
    level
        Confidence level.
    unit
        Unit of the values.
    ceiling
        Largest possible value, such as the rate of a link; limits are cut there.

    Returns
    -------
    Estimate
        With a range for too few runs for the level, without limits for one run or equal values.

    Raises
    ------
    ValueError
        `values` is empty or holds nan or infinities.
    """
    check_probability(level, "level")
    in_order = finite_values(values, "values")
    runs = np.sort(in_order)
    median, n = float(np.median(runs)), runs.size
    # Fewer than `rank` of n runs lie below their median with at most a tail's probability.
    rank = int(stats.binom.ppf((1 - level) / 2, n, 0.5))
    if rank < 1 or is_constant(runs):
        return with_range(median, runs, "too few for the median's", level, unit)
    method = f"{Limits.BOUND}: median over runs, order statistics{_dependence(in_order)}"
    low, high = float(runs[rank - 1]), float(runs[n - rank])
    return Estimate(median, low, high, level, method, n, unit, Limits.BOUND).at_most(ceiling)


def _dependence(runs: np.ndarray) -> str:
    """Return what to say of the correlation of neighbouring runs; nothing unless it is strong."""
    ranks = stats.rankdata(runs) - (runs.size + 1) / 2
    found = float(ranks[1:] @ ranks[:-1] / (ranks @ ranks))
    return f"; neighbouring runs correlate by {found:.1f}" if found > _STRONG else ""


def range_over_runs(
    values: ArrayLike, why: str, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Average one value per run, with the smallest and the largest: a range, no interval.

    For values whose intervals do not cover with few runs: losses, which come in bursts, so that
    three runs without any hardly predict the fourth, and other counts.

    Parameters
    ----------
    values
        One number per run, shape (runs,).
    why
        Why there is no interval, for the method.
    level, unit
        As for :func:`median_over_runs`.
    """
    runs = finite_values(values, "values")
    return with_range(float(runs.mean()), runs, why, level, unit)


def variation_over_runs(
    loads: Iterable[ArrayLike], level: float = DEFAULT_LEVEL, unit: str = "%"
) -> Estimate:
    """Estimate the coefficient of variation between runs, in percent, pooled over loads.

    The variance of the logarithms is pooled over loads and transformed back as for a lognormal
    distribution, sqrt(exp(variance) - 1). It has no limits: chi-square's hold for lognormal runs
    only, and in 38 to 81 % of simulated data sets where single runs take much longer.

    Parameters
    ----------
    loads
        For each load, one positive value per run, shape (runs,); means of loads may differ.
    level
        Confidence level.
    unit
        Unit of the coefficient.

    Returns
    -------
    Estimate
        `n` counts runs of the load with the fewest. If a value is not positive, as
        :func:`spread_over_runs`.

    Raises
    ------
    ValueError
        There is no load, a load has a single run, or a value is not finite.
    """
    check_probability(level, "level")
    groups = _repeated(loads)
    runs = min(group.size for group in groups)
    if min(float(group.min()) for group in groups) <= 0:
        return spread_over_runs(groups, "a value is not positive", level, unit)
    if all(is_constant(group) for group in groups):
        return without_interval(0.0, f"all {runs} runs are equal", runs, unit, level)
    squares = sum(float(np.log(group).var() * group.size) for group in groups)
    variance = squares / sum(group.size - 1 for group in groups)
    value = 100 * math.sqrt(math.expm1(variance)) if variance < _HUGE else math.inf
    return without_interval(value, "single runs may take much longer", runs, unit, level)


def spread_over_runs(
    loads: Iterable[ArrayLike], why: str, level: float = DEFAULT_LEVEL, unit: str = "%"
) -> Estimate:
    """Return the standard deviation over the mean in percent, pooled over loads: no interval.

    For losses, whose bursts intervals of a few runs do not cover, and for values that are not
    positive.

    Parameters
    ----------
    loads, level, unit
        As for :func:`variation_over_runs`; the value is nan if a load's mean is zero, or if each
        load has but one run that is not: then it is the square root of their number, whatever that
        run is.
    why
        Why there is no interval, for the method.

    Raises
    ------
    ValueError
        As :func:`variation_over_runs`.
    """
    groups = _repeated(loads)
    runs = min(group.size for group in groups)
    if any(group.mean() == 0 for group in groups):
        return without_interval(math.nan, "the mean of a load is zero", runs, unit, level)
    if all(np.count_nonzero(group) == 1 for group in groups):
        why = f"a single run of {runs} is not zero"
        return without_interval(math.nan, why, runs, unit, level)
    freedoms = [group.size - 1 for group in groups]
    shares = [(float(group.std(ddof=1)) / abs(float(group.mean()))) ** 2 for group in groups]
    pooled = float(np.average(shares, weights=freedoms))
    return without_interval(100 * math.sqrt(pooled), why, runs, unit, level)


def _repeated(loads: Iterable[ArrayLike]) -> list[np.ndarray]:
    groups = [finite_values(values, f"load {number}") for number, values in enumerate(loads)]
    if not groups or min(group.size for group in groups) < 2:
        raise ValueError("a variation needs at least one load, each with two runs or more")
    return groups


def with_range(value: float, runs: np.ndarray, why: str, level: float, unit: str) -> Estimate:
    """Return a value with the smallest and the largest run as its range, and why no interval.

    One run, or equal ones, have no range.
    """
    if runs.size == 1:
        return without_interval(value, "one run", 1, unit, level)
    if is_constant(runs):
        return without_interval(value, f"all {runs.size} runs are equal", runs.size, unit, level)
    method = f"{Limits.RANGE} over {runs.size} runs, no interval: {why}"
    low, high = float(runs.min()), float(runs.max())
    return Estimate(value, low, high, level, method, runs.size, unit, Limits.RANGE)
