"""How much two configurations differ: means, ratios, effect sizes and thresholds.

`a` is the configuration in question (frer), `b` the one it is held against (control);
every difference is a - b. The values are one a run, or one a trial where trials are
independent repetitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from tsnrepro.stats.checks import ROUNDING, check_level, finite_values, is_constant
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate

WELCH = "Welch t"
TOO_FEW = "fewer than two values in a group, no interval"
NO_SPREAD = "no spread in either group"


@dataclass(frozen=True)
class Comparison:
    """Hold a difference of two groups and the p value of "there is none".

    Attributes:
        estimate: the difference with its interval.
        p_value: two-sided p value of the null hypothesis of equal means; nan where a group
            has fewer than two values, and 0 or 1 where neither group has any spread.

    """

    estimate: Estimate
    p_value: float


def difference_of_means(
    a: ArrayLike, b: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Comparison:
    """Estimate mean(a) - mean(b) with Welch's interval and p value.

    Welch (1947), Biometrika 34(1/2): unequal variances, Satterthwaite's degrees of freedom.
    Without spread in either group (TCP at the line limit, read to whole Mb/s) the interval
    shrinks to the difference: it then holds up to the resolution of the readings, no further.

    Args:
        a: values of the configuration in question, shape (n_a,).
        b: values of the control, shape (n_b,).
        level: confidence level.
        unit: unit of the values.

    Returns:
        The difference; limits and p value are nan if a group has fewer than two values.

    Raises:
        ValueError: if a group is empty or not finite.

    """
    check_level(level)
    first, second = finite_values(a, "a"), finite_values(b, "b")
    n = first.size + second.size
    difference = float(first.mean() - second.mean())
    if min(first.size, second.size) < 2:
        estimate = Estimate(difference, math.nan, math.nan, level, TOO_FEW, n, unit)
        return Comparison(estimate, math.nan)
    if is_constant(first) and is_constant(second):
        difference = _without_rounding(difference, first, second)
        estimate = Estimate(difference, difference, difference, level, NO_SPREAD, n, unit)
        return Comparison(estimate, float(difference == 0))
    means = _compare_means(first, second)
    low, high = means.tconfint_diff(alpha=1 - level, usevar="unequal")
    p_value = means.ttest_ind(usevar="unequal")[1]
    estimate = Estimate(difference, float(low), float(high), level, WELCH, n, unit)
    return Comparison(estimate, float(p_value))


def relative_difference(a: ArrayLike, b: ArrayLike, level: float = DEFAULT_LEVEL) -> Comparison:
    """Estimate (mean(a) / mean(b) - 1) in percent, with an interval.

    Delta method on the logarithm of the ratio of means (the log response ratio of
    Hedges, Gurevitch and Curtis 1999, Ecology 80(4)): its variance is the sum of the squared
    relative standard errors, so the interval is Welch's for a / mean(a) and b / mean(b),
    carried back by the exponential. It never falls below -100 %.

    Args:
        a: values of the configuration in question, shape (n_a,), positive mean.
        b: values of the control, shape (n_b,), positive mean.
        level: confidence level.

    Returns:
        Percent of the control's mean; limits and p value (of a ratio of 1) are nan if a group
        has fewer than two values.

    Raises:
        ValueError: if a group is empty or not finite, or a mean is not positive.

    """
    check_level(level)
    first, second = finite_values(a, "a"), finite_values(b, "b")
    for values, name in ((first, "a"), (second, "b")):
        if values.mean() <= 0:
            raise ValueError(f"a relative difference needs a positive mean of {name}")
    log_ratio = math.log(first.mean() / second.mean())
    # Scaled to a mean of 1 each and moved apart by the log ratio, the two groups have that
    # ratio for their difference and the relative standard errors for their own.
    moved = difference_of_means(first / first.mean() + log_ratio, second / second.mean(), level)
    scaled = moved.estimate
    estimate = Estimate(
        value=_percent_change(scaled.value),
        low=_percent_change(scaled.low),
        high=_percent_change(scaled.high),
        level=level,
        method=f"{scaled.method} of the log ratio" if scaled.method == WELCH else scaled.method,
        n=scaled.n,
        unit="%",
    )
    return Comparison(estimate, moved.p_value)


def effect_size(a: ArrayLike, b: ArrayLike, level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the difference of means in standard deviations, Hedges' g.

    Pooled standard deviation, and the exact correction for small samples with the gamma function
    (Hedges 1981, Journal of Educational Statistics 6(2)). The interval is that of the
    population's standardised difference, by inverting the noncentral t distribution
    (Cumming and Finch 2001, Educational and Psychological Measurement 61(4)): exact
    for normal values of equal variance.

    Args:
        a: values of the configuration in question, shape (n_a,).
        b: values of the control, shape (n_b,).
        level: confidence level.

    Returns:
        Standard deviations, without unit. Value and limits are nan if a group has fewer than two
        values. Without spread in either group the value is 0 or infinite, the limits nan.

    Raises:
        ValueError: if a group is empty or not finite.

    """
    check_level(level)
    first, second = finite_values(a, "a"), finite_values(b, "b")
    n = first.size + second.size
    if min(first.size, second.size) < 2:
        return Estimate(math.nan, math.nan, math.nan, level, TOO_FEW, n)
    difference = float(first.mean() - second.mean())
    if is_constant(first) and is_constant(second):
        difference = _without_rounding(difference, first, second)
        value = math.copysign(math.inf, difference) if difference else 0.0
        return Estimate(value, math.nan, math.nan, level, NO_SPREAD, n)
    dof = n - 2
    t = float(_compare_means(first, second).ttest_ind(usevar="pooled")[0])
    to_deviations = math.sqrt(1 / first.size + 1 / second.size)
    correction = math.exp(
        special.gammaln(dof / 2) - special.gammaln((dof - 1) / 2) - math.log(dof / 2) / 2
    )
    low, high = _noncentrality_limits(t, dof, (1 - level) / 2)
    return Estimate(
        value=correction * t * to_deviations,
        low=low * to_deviations,
        high=high * to_deviations,
        level=level,
        method="Hedges g, noncentral t",
        n=n,
    )


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust a family's p values by Holm's step-down method, in the order given.

    Holm (1979), Scandinavian Journal of Statistics 6(2). Rejecting where the adjusted value is
    at most alpha keeps the chance of any false rejection in the family at alpha.

    Args:
        p_values: the p values of one family, shape (m,).

    Returns:
        Adjusted p values, shape (m,).

    Raises:
        ValueError: if the family is empty, or a value is nan or outside [0, 1].

    """
    family = finite_values(p_values, "p_values")
    if family.min() < 0 or family.max() > 1:
        raise ValueError(f"p values lie in [0, 1], got {family.min()} to {family.max()}")
    return np.asarray(multipletests(family, method="holm")[1], dtype=np.float64)


def difference_of_thresholds(est_a: Estimate, est_b: Estimate) -> Estimate:
    """Estimate the difference of two independent thresholds from their intervals.

    The method of variance estimates recovery (Zou and Donner 2008, Statistics in Medicine
    27(10)): each limit of the difference takes the two distances between value and limit
    that point its way, so lopsided profile-likelihood intervals stay lopsided. Where a value is
    nan (a censored sweep), there are no such distances and the limits are combined as
    they stand, low - high and high - low, which is conservative.

    Args:
        est_a: threshold of the configuration in question.
        est_b: threshold of the control, of the same unit and level.

    Returns:
        `est_a` - `est_b` in their unit; `n` counts the trials of both.

    Raises:
        ValueError: if units or levels differ, or an estimate lacks an interval around it.

    """
    _check_pair(est_a, est_b)
    value, low, high, method = _recovered(
        (est_a.value, est_a.low, est_a.high), (est_b.value, est_b.low, est_b.high)
    )
    return Estimate(value, low, high, est_a.level, method, est_a.n + est_b.n, est_a.unit)


def ratio_of_thresholds(est_a: Estimate, est_b: Estimate) -> Estimate:
    """Estimate the ratio of two independent positive thresholds from their intervals.

    `difference_of_thresholds` on the logarithms, carried back by the exponential.

    Returns:
        `est_a` / `est_b`, without unit; `n` counts the trials of both.

    Raises:
        ValueError: as `difference_of_thresholds`, or if a threshold is not positive or
            a limit negative.

    """
    _check_pair(est_a, est_b)
    for estimate in (est_a, est_b):
        if estimate.value <= 0 or estimate.low < 0:
            raise ValueError(f"a ratio needs positive thresholds, got {estimate}")
    value, low, high, method = _recovered(_logarithms(est_a), _logarithms(est_b))
    return Estimate(
        math.exp(value),
        math.exp(low),
        math.exp(high),
        est_a.level,
        f"{method} of the logarithms",
        est_a.n + est_b.n,
    )


def _compare_means(first: NDArray[np.float64], second: NDArray[np.float64]) -> CompareMeans:
    return CompareMeans(DescrStatsW(first), DescrStatsW(second))


def _without_rounding(
    difference: float, first: NDArray[np.float64], second: NDArray[np.float64]
) -> float:
    scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
    return 0.0 if abs(difference) <= ROUNDING * scale else difference


def _percent_change(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def _noncentrality_limits(t: float, dof: int, tail: float) -> tuple[float, float]:
    """Return the noncentralities under which T >= t and T <= t have the probability `tail`."""
    if t < 0:
        # scipy's distribution function loses its accuracy on this side; the law is symmetric.
        low, high = _noncentrality_limits(-t, dof, tail)
        return -high, -low
    return _noncentrality(t, dof, 1 - tail), _noncentrality(t, dof, tail)


def _noncentrality(t: float, dof: int, probability: float) -> float:
    """Return the noncentrality under which T <= t has `probability`, for t >= 0."""

    def excess(noncentrality: float) -> float:
        return float(stats.nct.cdf(t, dof, noncentrality)) - probability

    # T <= 0 <= t whenever its normal numerator is negative, which bounds the root from below.
    low = float(stats.norm.ppf(1 - probability)) - 1
    step = 5 * math.sqrt(1 + t * t / (2 * dof))
    high = t + step
    while excess(high) > 0:
        high += step
    return float(optimize.root_scalar(excess, bracket=(low, high)).root)


def _check_pair(est_a: Estimate, est_b: Estimate) -> None:
    if est_a.unit != est_b.unit:
        raise ValueError(f"thresholds have different units: {est_a.unit!r} and {est_b.unit!r}")
    if est_a.level != est_b.level:
        raise ValueError(f"thresholds have different levels: {est_a.level} and {est_b.level}")
    for estimate in (est_a, est_b):
        around = math.isnan(estimate.value) or estimate.contains(estimate.value)
        if not (estimate.has_interval and around):
            raise ValueError(f"an interval that holds its value is needed, got {estimate}")


def _logarithms(estimate: Estimate) -> tuple[float, float, float]:
    low = math.log(estimate.low) if estimate.low > 0 else -math.inf
    return math.log(estimate.value), low, math.log(estimate.high)


def _recovered(
    a: tuple[float, float, float], b: tuple[float, float, float]
) -> tuple[float, float, float, str]:
    """Return value, low, high and method of a - b, each given as (value, low, high)."""
    if math.isnan(a[0]) or math.isnan(b[0]):
        return math.nan, a[1] - b[2], a[2] - b[1], "limits of censored thresholds"
    value = a[0] - b[0]
    down = math.hypot(a[0] - a[1], b[2] - b[0])
    up = math.hypot(a[2] - a[0], b[0] - b[1])
    return value, value - down, value + up, "MOVER"
