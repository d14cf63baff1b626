"""Losses over runs, which come in bursts, and their trend; the run is the unit of replication.

The number of bursts in a run is random, and so is the length of each. If some run had none, the
longest bursts were probably not measured: Student's limits then miss the truth in up to a fifth of
simulated data sets. If every run lost something they hold, with a third of the usual tails.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tsnrepro.stats.checks import check_probability, finite_values, is_constant
from tsnrepro.stats.comparisons import (
    TOO_FEW,
    check_groups,
    difference_of_means,
    lacks_spread,
    t_test,
)
from tsnrepro.stats.estimate import DEFAULT_LEVEL, MIN_RUNS, Estimate, Limits, without_interval
from tsnrepro.stats.proportions import upper_bound_when_none_lost
from tsnrepro.stats.replication import with_range

# Share of the nominal tails in Student's limits; benchmarks/intervals.py shows that they cover.
_TAILS = 1 / 3
_STUDENT = f"{Limits.BOUND}: Student t with a third of the tails"


def loss_over_runs(
    percents: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = "%", runs_are: str = "trials"
) -> Estimate:
    """Average one loss in percent per run, with limits that allow for bursts.

    Student's t over runs with a third of the tails, cut at 0 and 100, if every run lost something;
    a range if some did. If none did, the method states the bound, which is one on runs, not on
    datagrams.

    Parameters
    ----------
    percents
        Lost share of each run in percent, shape (runs,).
    level, unit
        As for :func:`tsnrepro.stats.replication.median_over_runs`.
    runs_are
        Name of the runs in the method: trials, or repetitions of several trials.
    """
    check_probability(level, "level")
    runs = finite_values(percents, "percents")
    if not runs.any():
        chance = 100 * upper_bound_when_none_lost(runs.size, level)
        why = (
            f"0 of {runs.size} {runs_are} lost; the chance that one loses is at most "
            f"{chance:.0f} % ({100 * level:g} %, one-sided)"
        )
        return without_interval(0.0, why, runs.size, unit, level)
    mean = float(runs.mean())
    if runs.size < MIN_RUNS or is_constant(runs):
        return with_range(mean, runs, f"fewer than {MIN_RUNS} runs", level, unit)
    if not runs.all():
        lossless = int((runs == 0).sum())
        why = f"{lossless} of {runs.size} {runs_are} lost nothing, and bursts differ"
        return with_range(mean, runs, why, level, unit)
    found = stats.ttest_1samp(runs, 0.0).confidence_interval(_widened(level))
    low, high = max(float(found.low), 0.0), min(float(found.high), 100.0)
    method = f"{_STUDENT} over {runs_are}, cut at 0 and 100"
    return Estimate(mean, low, high, level, method, runs.size, unit, Limits.BOUND)


def difference_of_losses(
    a: ArrayLike,
    b: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "percentage points",
    *,
    paired: bool = False,
) -> Estimate:
    """Estimate mean(a) - mean(b) of losses, with limits that allow for bursts.

    Student's (paired) or Welch's t with a third of the tails, cut at -100 and 100, if every run of
    one group lost something; else no limits.

    Parameters
    ----------
    a, b
        Losses in percent of the configuration in question and of the control, one per run.
    level, unit, paired
        As for :func:`tsnrepro.stats.comparisons.median_difference`.

    Raises
    ------
    ValueError
        A group is empty or not finite, or the groups cannot be paired.
    """
    check_probability(level, "level")
    first, second = check_groups(a, b, paired=paired)
    difference, n = float(first.mean() - second.mean()), first.size + second.size
    if not (first.any() or second.any()):
        return without_interval(0.0, "no run of either lost", n, unit, level)
    if min(first.size, second.size) < MIN_RUNS:
        return without_interval(difference, TOO_FEW, n, unit, level)
    if not (first.all() or second.all()):
        why = "runs of both lost nothing, and bursts differ"
        return without_interval(difference, why, n, unit, level)
    if lacks_spread(first, second, paired=paired):
        return without_interval(difference, "no spread", n, unit, level)
    found = t_test(first, second, paired=paired).confidence_interval(_widened(level))
    low, high = max(float(found.low), -100.0), min(float(found.high), 100.0)
    method = f"{_STUDENT}, " + ("of differences by repetition" if paired else "Welch's")
    return Estimate(difference, low, high, level, method, n, unit, Limits.BOUND)


def difference_of_shares(
    a: ArrayLike,
    b: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "percentage points",
    *,
    paired: bool = False,
) -> Estimate:
    """Estimate mean(a) - mean(b) of the shares of lossy trials, one per repetition, in percent.

    A long burst makes one trial lossy, so the limits need no wider tails: Student's (paired) or
    Welch's t, cut at -100 and 100. With few trials per repetition they hold more often than
    `level`.

    Parameters
    ----------
    a, b, level, unit, paired
        As for :func:`difference_of_losses`.
    """
    found = difference_of_means(a, b, level, unit, paired=paired).estimate
    if not found.decides:
        return found
    low, high = max(found.low, -100.0), min(found.high, 100.0)
    method = f"{Limits.BOUND}: {found.method}, cut at 100"
    return replace(found, low=low, high=high, method=method, limits=Limits.BOUND)


MIN_RUNS_FOR_TREND = 2 * MIN_RUNS
"""Fewest runs from which a trend has an interval: three pairs."""


def trend_over_runs(
    values: ArrayLike, times: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate the slope over time of one value per run, with limits that allow for bursts.

    The k-th run of the first half is paired with the k-th of the second, as in the sign test of Cox
    and Stuart (1955, Biometrika 42(1/2)); an odd run in the middle has no pair. Each pair has one
    slope and each run at most one pair. The limits are Student's t over slopes with a third of the
    tails, a bound. Runs are assumed to be independent except for the trend.

    Parameters
    ----------
    values
        One number per run, in order of time, shape (runs,).
    times
        Time of each run, increasing, shape (runs,).
    level
        Confidence level.
    unit
        Unit of the values per unit of the times.

    Returns
    -------
    Estimate
        The mean slope, without limits for fewer than six runs or equal slopes.

    Raises
    ------
    ValueError
        There are fewer than two runs, the shapes differ, a number is not finite, or the times do
        not increase.
    """
    check_probability(level, "level")
    runs, at = finite_values(values, "values"), finite_values(times, "times")
    if runs.size != at.size or runs.size < 2:
        raise ValueError(f"{runs.size} values at {at.size} times: give two or more of each")
    if (np.diff(at) <= 0).any():
        raise ValueError("times must increase")
    half = runs.size // 2
    later = runs.size - half
    slopes = (runs[later:] - runs[:half]) / (at[later:] - at[:half])
    mean = float(slopes.mean())
    if runs.size < MIN_RUNS_FOR_TREND:
        why = f"fewer than {MIN_RUNS_FOR_TREND} runs"
        return without_interval(mean, why, runs.size, unit, level)
    if is_constant(slopes):
        return without_interval(mean, "no spread", runs.size, unit, level)
    zeros = np.zeros(half)
    found = difference_of_means(slopes, zeros, _widened(level), unit, paired=True).estimate
    how = "with a third of the tails, over slopes of pairs, a run of each half"
    method = f"{Limits.BOUND}: Student t {how}"
    return replace(found, level=level, n=runs.size, method=method, limits=Limits.BOUND)


def _widened(level: float) -> float:
    """Return the nominal level of Student's limits that hold with a level in spite of bursts."""
    return 1 - _TAILS * (1 - level)
