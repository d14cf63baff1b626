"""Latency quantiles with intervals, of one run's correlated samples and of several runs.

A quantile is the sample's own order statistic throughout: the smallest sample that at
least a share q of all samples does not exceed (definition 1 of Hyndman and Fan 1996, The
American Statistician 50(4)), so it is always a latency that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tsnrepro.stats.checks import check_probability, finite_values
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate, without_interval
from tsnrepro.stats.replication import mean_over_runs

# Shares of a count that differ by less are rounding: 0.9 * 1000 counts as 900.
_COUNT_ROUNDING = 1e-9
_BATCHES = 10
# Correlation over a quarter of a batch that is still taken for none.
_QUIET = 0.1
# Of equal parts of the run, fewest with a sample on the rarer side of the quantile: what lies there
# comes in clusters, and a few clusters do not tell how many there are.
_FEWEST_OF = {100: 18, _BATCHES: _BATCHES}


def correlated_quantile(
    samples: ArrayLike, q: float, *, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate a quantile of one run's correlated samples from batches of neighbours.

    The share of samples at most the quantile varies from batch to batch; its standard error with
    Student's t over ten batches gives limits of the share, which are carried back to samples
    (Woodruff 1952, Journal of the American Statistical Association 47(260); batches: Schmeiser
    1982, Operations Research 30(3)). In place: one copy of the samples is all that it needs.

    Parameters
    ----------
    samples
        Measured values in the order of measurement, shape (n,).
    q
        The quantile's probability in (0, 1).
    level
        Confidence level.
    unit
        Unit of the samples.

    Returns
    -------
    Estimate
        Of this run alone. Without interval where batches are still correlated, or where too few
        clusters of samples lie beyond the quantile.

    Raises
    ------
    ValueError
        `samples` is empty or not finite, or `q` or `level` is outside (0, 1).
    """
    check_probability(level, "level")
    check_probability(q, "q")
    values = finite_values(samples, "samples")
    n, length = values.size, values.size // _BATCHES
    ordered = values.copy()
    value = _order_statistic(ordered, q)
    if n < max(_FEWEST_OF):
        why = f"fewer than {max(_FEWEST_OF)} samples"
        return without_interval(value, why, n, unit, level)
    at_most = values <= value
    lag = length // 4
    if _correlation(at_most, lag) > _QUIET:
        why = f"samples are correlated over {lag} and more of {n}"
        return without_interval(value, why, n, unit, level)
    rarer = at_most if q < 0.5 else ~at_most
    if any(_occupied(rarer, parts) < fewest for parts, fewest in _FEWEST_OF.items()):
        why = "too few clusters of samples beyond the quantile"
        return without_interval(value, why, n, unit, level)
    shares = at_most[: length * _BATCHES].reshape(_BATCHES, length).mean(axis=1)
    error = float(shares.std(ddof=1)) / math.sqrt(_BATCHES)
    tail = (1 - level) / 2
    # No narrower than for independent samples: ten batches can agree by chance.
    least = float(stats.norm.isf(tail)) * math.sqrt(q * (1 - q) / n)
    reach = max(float(stats.t.isf(tail, _BATCHES - 1)) * error, least)
    low, high = (
        _order_statistic(ordered, share) if 0 < share < 1 else math.copysign(math.inf, share - q)
        for share in (q - reach, q + reach)
    )
    method = f"order statistics, Student t over {_BATCHES} batches"
    return Estimate(value, low, high, level, method, n, unit)


def replicated_quantile(
    runs: Iterable[ArrayLike], q: float, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate a quantile with the run as the unit: one value a run, averaged over runs.

    From two runs on this is :func:`tsnrepro.stats.replication.mean_over_runs` of the runs'
    quantiles and `n` counts runs. A single run falls back to :func:`correlated_quantile`, whose
    interval knows nothing of what changes between runs; the method says so and `n` counts samples.

    Parameters
    ----------
    runs
        The samples of each run in the order of measurement.
    q, level, unit
        As for :func:`correlated_quantile`.

    Raises
    ------
    ValueError
        There is no run, or a run is empty or not finite.
    """
    check_probability(level, "level")
    samples_of = [finite_values(run, f"run {index}") for index, run in enumerate(runs)]
    if not samples_of:
        raise ValueError("runs is empty: at least one run is needed")
    if len(samples_of) == 1:
        within = correlated_quantile(samples_of[0], q, level=level, unit=unit)
        return replace(within, method=f"{within.method}; of one run, whatever others would give")
    return mean_over_runs([sample_quantile(run, q) for run in samples_of], level, unit)


def sample_quantile(samples: ArrayLike, q: float) -> float:
    """Return the smallest sample that at least a share `q` of the samples does not exceed.

    Raises
    ------
    ValueError
        `samples` is empty or not finite, or `q` is outside (0, 1).
    """
    check_probability(q, "q")
    return _order_statistic(finite_values(samples, "samples").copy(), q)


def _order_statistic(values: NDArray[np.float64], q: float) -> float:
    """Return the quantile of values that may be put in another order."""
    rank = max(1, math.ceil(q * values.size - _COUNT_ROUNDING * values.size))
    values.partition(rank - 1)
    return float(values[rank - 1])


def _occupied(answers: NDArray[np.bool_], parts: int) -> int:
    """Return how many of some equal parts of a series have a yes."""
    length = answers.size // parts
    return int(answers[: length * parts].reshape(parts, length).any(axis=1).sum())


def _correlation(at_most: NDArray[np.bool_], lag: int) -> float:
    """Return the autocorrelation at one lag of a series of yes and no."""
    share = float(at_most.mean())
    variance = share * (1 - share)
    if variance == 0:
        return 0.0
    both = np.count_nonzero(at_most[lag:] & at_most[:-lag]) / (at_most.size - lag)
    return (both - share**2) / variance
