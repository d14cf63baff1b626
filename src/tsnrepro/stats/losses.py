"""Losses over runs, which come in bursts, and their trend; the run is the unit of replication.

The number of bursts in a run is random, and so is the length of each. Where every run loses a
little and one in ten a lot, no limits of the mean hold that a few runs give: Student's miss it in
up to three quarters of simulated data sets, and even of sixteen runs a fifth has no such run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from tsnrepro.stats.checks import check_probability, finite_values, is_constant
from tsnrepro.stats.comparisons import difference_of_means
from tsnrepro.stats.estimate import DEFAULT_LEVEL, MIN_RUNS, Estimate, Limits, without_interval
from tsnrepro.stats.proportions import upper_bound_when_none_lost
from tsnrepro.stats.replication import with_range

# Share of the nominal tails in a trend's limits; benchmarks/intervals.py shows that they cover in
# spite of bursts.
_TAILS = 1 / 3


def loss_over_runs(
    percents: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = "%", runs_are: str = "trials"
) -> Estimate:
    """Average one loss in percent per run, with the range of the runs.

    The next run may lose more than all that were measured, so nothing is concluded from it. If none
    lost anything, the method states the bound, which is one on runs, not on datagrams.

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
    why = f"bursts differ, and one of other {runs_are} may lose more"
    return with_range(float(runs.mean()), runs, why, level, unit)


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
    a, b
        Shares in percent of the configuration in question and of the control, one per repetition.
    level, unit, paired
        As for :func:`tsnrepro.stats.comparisons.median_difference`.
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
    zeros, widened = np.zeros(half), 1 - _TAILS * (1 - level)
    found = difference_of_means(slopes, zeros, widened, unit, paired=True).estimate
    how = "with a third of the tails, over slopes of pairs, a run of each half"
    method = f"{Limits.BOUND}: Student t {how}"
    return replace(found, level=level, n=runs.size, method=method, limits=Limits.BOUND)
