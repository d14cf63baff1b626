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
class DiscordantPairs:
    """Pairs of trials of which exactly one had the outcome, and the test of McNemar.

    Attributes
    ----------
    first_only, second_only
        Pairs in which only the first, or only the second, trial had it.
    p_value
        Two-sided p value of the null hypothesis that both are equally likely; one without
        discordant pairs.
    """

    first_only: int
    second_only: int
    p_value: float


def discordant_pairs(first: ArrayLike, second: ArrayLike) -> DiscordantPairs:
    """Compare an outcome of paired trials by the exact test of McNemar (1947).

    Psychometrika 12(2). Pairs of which both trials, or neither, had the outcome are not
    informative. The test is exact for any dependence within pairs if the condition of each trial of
    a pair was randomized.

    Parameters
    ----------
    first, second
        Whether the trials of each pair had the outcome, both of shape (pairs,).

    Raises
    ------
    ValueError
        The groups have different sizes.
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.shape != b.shape:
        raise ValueError(f"trials must pair up: {a.size} against {b.size}")
    one, other = int((a & ~b).sum()), int((b & ~a).sum())
    if not one + other:
        return DiscordantPairs(0, 0, 1.0)
    return DiscordantPairs(one, other, float(stats.binomtest(one, one + other, 0.5).pvalue))
