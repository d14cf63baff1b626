"""Means with the run as the unit of replication.

Packets of one run share its host, its caches and its hour, so a million of them still count
as one observation of anything that changes from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tsnrepro.stats.checks import check_probability, finite_values, is_constant
from tsnrepro.stats.estimate import DEFAULT_LEVEL, FEWEST_RUNS, Estimate, Limits, without_interval


def mean_over_runs(
    values: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
    ceiling: float = math.inf,
) -> Estimate:
    """Average one positive value a run, with Student's t interval on the logarithms.

    Latencies and rates are positive and scatter by factors, so the mean is the geometric one and
    its interval never reaches zero (Limpert, Stahel and Abbt 2001, BioScience 51(5)). It is that
    of the median run, and exact where runs scatter as lognormal, however widely.

    Parameters
    ----------
    values
        One number a run, shape (runs,).
    level
        Confidence level.
    unit
        Unit of the values.
    ceiling
        What arithmetic allows at most, such as the rate of a line; no limit goes beyond it.

    Returns
    -------
    Estimate
        The geometric mean. Fewer than three runs, or a value that is not positive, give a range
        (see :func:`range_over_runs`); one run, or equal values, give no limits.

    Raises
    ------
    ValueError
        `values` is empty or holds nan or infinities.
    """
    check_probability(level, "level")
    runs = finite_values(values, "values")
    if runs.min() <= 0:
        return range_over_runs(runs, "a value is not positive", level, unit)
    mean = math.exp(float(np.log(runs).mean()))
    # Rounding must not carry a mean of equal values beyond them.
    mean = min(max(mean, float(runs.min())), float(runs.max()))
    if runs.size < FEWEST_RUNS or is_constant(runs):
        return ranged(mean, runs, f"fewer than {FEWEST_RUNS} runs", level, unit)
    found = stats.ttest_1samp(np.log(runs), 0.0).confidence_interval(level)
    low, high = math.exp(found.low), math.exp(found.high)
    method = "geometric mean over runs, Student t on logarithms"
    return Estimate(mean, low, high, level, method, runs.size, unit).at_most(ceiling)


def range_over_runs(
    values: ArrayLike, why: str, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Average one value a run and tell the smallest and the largest: a range, no interval.

    For what no interval covers with few runs: losses, which come in bursts, so that three runs
    without any say little about the fourth, and other counts.

    Parameters
    ----------
    values
        One number a run, shape (runs,).
    why
        Why there is no interval, for the method.
    level, unit
        As for :func:`mean_over_runs`.
    """
    runs = finite_values(values, "values")
    return ranged(float(runs.mean()), runs, why, level, unit)


def variation_over_runs(
    loads: Iterable[ArrayLike], level: float = DEFAULT_LEVEL, unit: str = "%"
) -> Estimate:
    """Estimate the coefficient of variation between runs, in percent, pooled over loads.

    The variance of the logarithms is pooled over loads, and carried back as for a lognormal law,
    sqrt(exp(variance) - 1); its limits are those of the chi-square law, exact where runs scatter
    as lognormal (Koopmans, Owen and Rosenblatt 1964, Biometrika 51(1/2)). Loads that were tried in
    one repetition may have shifted together, so the degrees of freedom are those of one load: of
    several loads the limits hold at least as often as `level`.

    Parameters
    ----------
    loads
        Of each load one positive value a run, shape (runs,); each load has its own level.
    level
        Confidence level.
    unit
        Unit of the coefficient.

    Returns
    -------
    Estimate
        `n` counts runs of the load with the fewest. Without interval where these are fewer than
        three, where no load has any spread, or where a value is not positive: see
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
    value = _lognormal_variation(variance)
    if runs < FEWEST_RUNS:
        return without_interval(value, f"fewer than {FEWEST_RUNS} runs", runs, unit, level)
    freedom, tail = runs - 1, (1 - level) / 2
    low, high = (
        _lognormal_variation(variance * freedom / float(stats.chi2.ppf(share, freedom)))
        for share in (1 - tail, tail)
    )
    method = "pooled variance of logarithms, chi-square limits"
    kind = Limits.INTERVAL
    if len(groups) > 1:
        kind = Limits.BOUND
        method = f"{kind}: {method} with the degrees of freedom of one of {len(groups)} loads"
    return Estimate(value, low, high, level, method, runs, unit, kind)


def spread_over_runs(
    loads: Iterable[ArrayLike], why: str, level: float = DEFAULT_LEVEL, unit: str = "%"
) -> Estimate:
    """Return the standard deviation over the mean in percent, pooled over loads: no interval.

    For losses, whose bursts no interval of a few runs covers, and for values that are not positive.

    Parameters
    ----------
    loads, level, unit
        As for :func:`variation_over_runs`; the value is nan where a load's mean is zero.
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
    freedoms = [group.size - 1 for group in groups]
    shares = [(float(group.std(ddof=1)) / abs(float(group.mean()))) ** 2 for group in groups]
    pooled = float(np.average(shares, weights=freedoms))
    return without_interval(100 * math.sqrt(pooled), why, runs, unit, level)


def _repeated(loads: Iterable[ArrayLike]) -> list[np.ndarray]:
    groups = [finite_values(values, f"load {number}") for number, values in enumerate(loads)]
    if not groups or min(group.size for group in groups) < 2:
        raise ValueError("a variation needs at least one load, each with two runs or more")
    return groups


def _lognormal_variation(variance: float) -> float:
    """Return the coefficient of variation of a lognormal law in percent, inf beyond floats."""
    return 100 * math.sqrt(math.expm1(variance)) if variance < 700 else math.inf


def ranged(value: float, runs: np.ndarray, why: str, level: float, unit: str) -> Estimate:
    """Return a value with the smallest and the largest run: a range, no interval, and why.

    One run, or equal ones, have no range.
    """
    if runs.size == 1:
        return without_interval(value, "one run", 1, unit, level)
    if is_constant(runs):
        return without_interval(value, f"all {runs.size} runs are equal", runs.size, unit, level)
    method = f"{Limits.RANGE} over {runs.size} runs, no interval: {why}"
    low, high = float(runs.min()), float(runs.max())
    return Estimate(value, low, high, level, method, runs.size, unit, Limits.RANGE)
