"""Frame loss ratio of a trial, and what a trial without loss can and cannot show."""

from __future__ import annotations

import math
import operator

import numpy as np

from tsnrepro.stats.checks import check_level
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate


def loss_ratio(lost: int, sent: int, level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the frame loss ratio with the exact binomial interval.

    Clopper and Pearson (1934), Biometrika 26(4): two-sided with equal tails, so `lost` = 0
    gives the upper limit 1 - (alpha/2)^(1/sent) with alpha = 1 - level. That is wider than
    the one-sided limit of `upper_bound_when_none_lost`, which is the one to quote
    when the only question is how much loss a clean trial leaves possible.

    The interval takes losses as independent. Losses in bursts make it too narrow: with
    several trials at hand, `replication.ratio_over_runs` measures the spread.

    Args:
        lost: datagrams or frames lost.
        sent: datagrams or frames sent.
        level: confidence level.

    Returns:
        A ratio in [0, 1], without unit; `n` is `sent`.

    Raises:
        ValueError: if the counts are not 0 <= lost <= sent with sent >= 1.
        TypeError: if a count is not an integer.

    """
    # Half a second to import, and whoever asks only for an upper bound does not need it.
    from statsmodels.stats.proportion import proportion_confint  # noqa: PLC0415

    check_level(level)
    lost_count, sent_count = _check_counts(lost, sent)
    limits = proportion_confint(lost_count, sent_count, alpha=1 - level, method="beta")
    low, high = np.asarray(limits, dtype=np.float64).tolist()
    return Estimate(
        value=lost_count / sent_count,
        low=low,
        high=high,
        level=level,
        method="Clopper-Pearson",
        n=sent_count,
    )


def loss_percent(lost: int, sent: int, level: float = DEFAULT_LEVEL) -> Estimate:
    """Estimate the frame loss ratio in percent; see `loss_ratio`."""
    return loss_ratio(lost, sent, level).scaled(100.0, "%")


def upper_bound_when_none_lost(n: int, level: float = DEFAULT_LEVEL) -> float:
    """Return the loss ratio that `n` datagrams, none lost, exclude with confidence `level`.

    One-sided and exact: the ratio p at which n arrivals in a row have the probability
    (1 - p)^n = 1 - level, hence p = 1 - (1 - level)^(1/n). At 95 % this is close to 3/n, the
    rule of three (Hanley and Lippman-Hand 1983, JAMA 249(13)).

    Raises:
        ValueError: if `n` is below 1 or `level` is outside (0, 1).

    """
    check_level(level)
    if n < 1:
        raise ValueError(f"a bound on loss needs at least one datagram, got n={n}")
    return -math.expm1(math.log1p(-level) / n)


def datagrams_to_show_less_than(ratio: float, level: float = DEFAULT_LEVEL) -> int:
    """Return how many datagrams, none lost, show a loss ratio below `ratio`.

    The inverse of `upper_bound_when_none_lost`, rounded up: a zero-loss trial that sends
    fewer cannot support a claim of less loss than `ratio`.

    Raises:
        ValueError: if `ratio` or `level` is outside (0, 1).

    """
    check_level(level)
    if not 0 < ratio < 1:
        raise ValueError(f"ratio must lie between 0 and 1, got {ratio}")
    return math.ceil(math.log1p(-level) / math.log1p(-ratio))


def _check_counts(lost: int, sent: int) -> tuple[int, int]:
    # operator.index takes numpy integers and refuses floats, whose fractions would be no counts.
    lost_count, sent_count = operator.index(lost), operator.index(sent)
    if sent_count < 1:
        raise ValueError(f"sent must be at least 1, got {sent_count}")
    if not 0 <= lost_count <= sent_count:
        raise ValueError(f"lost must lie between 0 and sent={sent_count}, got {lost_count}")
    return lost_count, sent_count
