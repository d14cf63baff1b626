"""Shares of trials, and what trials without loss can and cannot show."""

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
    """Estimate the chance of an outcome from `n` independent trials, `count` of which had it.

    Clopper and Pearson (1934), Biometrika 26(4): two-sided with equal tails. The limits are a
    bound: they hold with at least `level`, and with few trials more often than that, because no
    set of limits of a small count can hold with just that chance.

    The unit is the trial (or the search, or the run), never the datagram: losses come in bursts,
    and datagrams of one trial are no independent draws.

    Parameters
    ----------
    count
        Trials with the outcome.
    n
        Trials in all.
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
    # Half a second to import, and whoever asks only for an upper bound does not need it.
    from statsmodels.stats.proportion import proportion_confint  # noqa: PLC0415

    check_probability(level, "level")
    # operator.index takes numpy integers and refuses floats, whose fractions would be no counts.
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
    """Return the chance of an outcome that `n` independent draws without it exclude.

    One-sided and exact: the chance p at which n draws in a row have the probability
    (1 - p)^n = 1 - level, hence p = 1 - (1 - level)^(1/n). At 95 % this is close to 3/n, the
    rule of three (Hanley and Lippman-Hand 1983, JAMA 249(13)). Trials are such draws. Datagrams
    are only under the assumption, to be named wherever it is made, that each is lost on its own.

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
class DifferingPairs:
    """Pairs of trials of which just one had the outcome, by which, and whether that was chance.

    Attributes
    ----------
    first_only, second_only
        Pairs in which only the first, or only the second, trial had it.
    p_value
        Two-sided p value of the null hypothesis that either was as likely; one where no pair
        differs.
    """

    first_only: int
    second_only: int
    p_value: float


def pairs_that_differ(first: ArrayLike, second: ArrayLike) -> DifferingPairs:
    """Compare an outcome of paired trials by the exact test of McNemar (1947).

    Psychometrika 12(2). Pairs of which both trials, or neither, had the outcome say nothing of what
    parts them. The test is exact whatever pairs share, if chance decided which trial of each pair
    was measured under which condition.

    Parameters
    ----------
    first, second
        Whether the trials of each pair had the outcome, both of shape (pairs,).

    Raises
    ------
    ValueError
        The groups are not of one size.
    """
    had, held_against = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if had.shape != held_against.shape:
        raise ValueError(f"trials must pair up: {had.size} against {held_against.size}")
    one, other = int((had & ~held_against).sum()), int((held_against & ~had).sum())
    if not one + other:
        return DifferingPairs(0, 0, 1.0)
    return DifferingPairs(one, other, float(stats.binomtest(one, one + other, 0.5).pvalue))
