"""Whether a quantity drifts over the hours of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from tsnrepro.stats.checks import check_probability, finite_values, is_constant
from tsnrepro.stats.comparisons import difference_of_means
from tsnrepro.stats.estimate import DEFAULT_LEVEL, FEWEST_RUNS, Estimate, Limits, without_interval
from tsnrepro.stats.losses import widened

FEWEST_IN_TIME = 2 * FEWEST_RUNS
"""Fewest runs from which a trend has an interval: three pairs."""


def trend_over_runs(
    values: ArrayLike, times: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate how fast one value a run grows over time, with limits that bursts do not narrow.

    The k-th run of the first half is paired with the k-th of the second, as Cox and Stuart (1955,
    Biometrika 42(1/2)) do for their sign test; an odd run in the middle has no pair. Each pair
    gives one slope, no run is in two of them, and Student's t is taken over slopes, with a third of
    the tails since losses come in bursts (see :mod:`tsnrepro.stats.losses`): the limits are a
    bound. It supposes runs that depend on each other through the trend only.

    Parameters
    ----------
    values
        One number a run, in order of time, shape (runs,).
    times
        When each run was, increasing, shape (runs,).
    level
        Confidence level.
    unit
        Unit of the values by that of the times.

    Returns
    -------
    Estimate
        The mean slope. Fewer than six runs, or slopes that are all equal, give no limits.

    Raises
    ------
    ValueError
        There are fewer than two runs, the two shapes differ, a number is not finite, or times do
        not increase.
    """
    check_probability(level, "level")
    runs, when = finite_values(values, "values"), finite_values(times, "times")
    if runs.size != when.size or runs.size < 2:
        raise ValueError(f"{runs.size} values at {when.size} times: give two or more of each")
    if (np.diff(when) <= 0).any():
        raise ValueError("times must increase")
    half = runs.size // 2
    later = runs.size - half
    slopes = (runs[later:] - runs[:half]) / (when[later:] - when[:half])
    mean = float(slopes.mean())
    if runs.size < FEWEST_IN_TIME:
        why = f"fewer than {FEWEST_IN_TIME} runs"
        return without_interval(mean, why, runs.size, unit, level)
    if is_constant(slopes):
        return without_interval(mean, "no spread", runs.size, unit, level)
    nothing = np.zeros(half)
    found = difference_of_means(slopes, nothing, widened(level), unit, paired=True).estimate
    how = "with a third of the tails, over slopes of pairs, a run of each half"
    method = f"{Limits.BOUND}: Student t {how}"
    return replace(found, level=level, n=runs.size, method=method, limits=Limits.BOUND)
