"""Means and ratios with the run as the unit of replication.

Packets of one run share its host, its caches and its hour, so a million of them still count
as one observation of anything that changes from run to run.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from tsnrepro.stats.checks import check_level, finite_values
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate


def mean_over_runs(values: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = "") -> Estimate:
    """Average one value a run and give Student's t interval of the mean.

    Args:
        values: one number a run, shape (runs,).
        level: confidence level.
        unit: unit of the values.

    Returns:
        The mean; with a single run the limits are nan and the method says so.

    Raises:
        ValueError: if `values` is empty or holds nan or infinities.

    """
    check_level(level)
    runs = finite_values(values, "values")
    mean = float(runs.mean())
    if runs.size == 1:
        return _one_run(mean, level, unit)
    low, high = DescrStatsW(runs).tconfint_mean(alpha=1 - level)
    return Estimate(mean, float(low), float(high), level, "Student t over runs", runs.size, unit)


def ratio_over_runs(
    numerators: ArrayLike,
    denominators: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
) -> Estimate:
    """Estimate sum(numerators) / sum(denominators) with the run-to-run spread.

    The ratio estimator with its linearised variance (Cochran 1977, Sampling Techniques, 3rd
    edition, section 6.4) and Student's t with runs - 1 degrees of freedom. It fits
    lost / sent over trials whose losses come in bursts, and frer / control over runs that
    measured both. Where no numerator is negative the lower limit is not either. Runs that all
    lost nothing show no spread, hence an interval of width zero that bounds nothing: ask
    `proportions.loss_ratio` over all datagrams instead.

    Args:
        numerators: one number a run, shape (runs,).
        denominators: one positive number a run, shape (runs,).
        level: confidence level.
        unit: unit of the ratio.

    Returns:
        The ratio; with a single run the limits are nan and the method says so.

    Raises:
        ValueError: if the shapes differ, a denominator is not positive, or a value is not
            finite.

    """
    check_level(level)
    top = finite_values(numerators, "numerators")
    bottom = finite_values(denominators, "denominators")
    if top.shape != bottom.shape:
        raise ValueError(
            f"numerators and denominators must pair up: {top.size} against {bottom.size} runs"
        )
    if bottom.min() <= 0:
        index = int(np.argmin(bottom))
        raise ValueError(f"denominators must be positive, got {bottom[index]} at index {index}")
    ratio = float(top.sum() / bottom.sum())
    if top.size == 1:
        return _one_run(ratio, level, unit)
    residual = (top - ratio * bottom) / bottom.mean()
    standard_error = math.sqrt(float(residual @ residual) / (top.size - 1) / top.size)
    half_width = float(stats.t.isf((1 - level) / 2, top.size - 1)) * standard_error
    low = ratio - half_width
    if top.min() >= 0:
        low = max(low, 0.0)
    return Estimate(
        ratio, low, ratio + half_width, level, "ratio estimator over runs, t", top.size, unit
    )


def _one_run(value: float, level: float, unit: str) -> Estimate:
    return Estimate(value, math.nan, math.nan, level, "one run, no interval", 1, unit)
