"""Shares of trials, bounds from trials without loss, and paired outcomes."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tsnrepro.stats.checks import check_probability
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate, Limits


def share(count: int, n: int, level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the probability of an outcome from `n` independent trials, `count` of which had it.

    Clopper and Pearson (1934), Biometrika 26(4): two-sided with equal tails. The limits are a
    bound: they hold with at least `level`, and with few trials more often, because limits of a
    small count cannot hold with exactly that probability.

    The unit is the trial (or the search, or the run), never the datagram: losses come in bursts,
    so datagrams of one trial are not independent.

    Parameters
    ----------
    count
        Trials with the outcome.
    n
        Number of trials.
    level
        Confidence level.

    Returns
    -------
    Estimate
        A ratio in [0, 1], without unit.

    Raises
    ------
    ValueError
        The counts are not 0 <= `count` <= `n` with `n` >= 1.
    TypeError
        A count is not an integer.
    """
    # Takes half a second to import, and an upper bound does not need it.
    from statsmodels.stats.proportion import proportion_confint  # noqa: PLC0415

    check_probability(level, "level")
    # operator.index accepts numpy integers and raises TypeError for floats.
    having, tried = operator.index(count), operator.index(n)
    if tried < 1:
        raise ValueError(f"n must be at least 1, got {tried}")
    if not 0 <= having <= tried:
        raise ValueError(f"count must lie between 0 and n={tried}, got {having}")
    limits = proportion_confint(having, tried, alpha=1 - level, method="beta")
    low, high = np.asarray(limits, dtype=np.float64).tolist()
    method = f"{Limits.BOUND}: Clopper-Pearson over {tried} trials"
    return Estimate(having / tried, low, high, level, method, tried, limits=Limits.BOUND)


def upper_bound_when_none_lost(n: int, level: float = DEFAULT_LEVEL) -> float:
    """Return the upper bound on the probability of an outcome that none of `n` draws had.

    One-sided and exact: the probability p at which n independent draws without the outcome have the
    probability (1 - p)^n = 1 - level, hence p = 1 - (1 - level)^(1/n). At 95 % this is close to
    3/n, the rule of three (Hanley and Lippman-Hand 1983, JAMA 249(13)). Trials are independent
    draws. Datagrams are only if they are lost independently, which has to be stated as an
    assumption.

    Raises
    ------
    ValueError
        `n` is below 1 or `level` is outside (0, 1).
    """
    check_probability(level, "level")
    if n < 1:
        raise ValueError(f"a bound needs at least one draw, got n={n}")
    return -math.expm1(math.log1p(-level) / n)


@dataclass(frozen=True)
class StratifiedComparison:
    """How often two groups of trials had an outcome, and the exact test within strata.

    Attributes
    ----------
    trials, outcomes
        Trials of the first and the second group, and those that had the outcome.
    p_value
        Two-sided p value of the null hypothesis that within each stratum every trial is equally
        likely to have it; one where no stratum is informative.
    """

    trials: tuple[int, int]
    outcomes: tuple[int, int]
    p_value: float


def compare_within_strata(
    outcome: ArrayLike, first: ArrayLike, strata: ArrayLike
) -> StratifiedComparison:
    """Compare an outcome of two groups by the exact conditional test within strata.

    Given how many trials of each stratum had the outcome, those of the first group are a sum of
    hypergeometric numbers (Birch 1964, J. R. Stat. Soc. B 26(2)). Of one stratum this is Fisher's
    exact test, of pairs McNemar's (1947). It is exact for any dependence within strata if the
    conditions of their trials were randomized. Strata without both groups are left out.

    Parameters
    ----------
    outcome, first
        Whether each trial had the outcome, and is of the first group, both of shape (trials,).
    strata
        The number of each trial's stratum, of the same shape.
    """
    had, one, number = np.asarray(outcome, bool), np.asarray(first, bool), np.asarray(strata)
    trials, outcomes = np.zeros(2, int), np.zeros(2, int)
    chances, least = np.ones(1), 0
    for stratum in np.unique(number):
        of = number == stratum
        size, total, ours = int(of.sum()), int(had[of].sum()), int(one[of].sum())
        if not 0 < ours < size:
            continue
        low, high = max(0, total - (size - ours)), min(total, ours)
        possible = np.arange(low, high + 1)
        chances = np.convolve(chances, stats.hypergeom.pmf(possible, size, total, ours))
        least += low
        lossy = int((had & one)[of].sum())
        trials += ours, size - ours
        outcomes += lossy, total - lossy
    seen = chances[outcomes[0] - least]
    # As likely as what was seen but for rounding.
    p_value = min(1.0, float(chances[chances <= seen * (1 + 1e-7)].sum()))
    return StratifiedComparison(
        (int(trials[0]), int(trials[1])), (int(outcomes[0]), int(outcomes[1])), p_value
    )
