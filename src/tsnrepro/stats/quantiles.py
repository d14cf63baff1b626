"""Latency quantiles with intervals, of one run's correlated samples and of several runs.

A quantile is the sample's own order statistic throughout: the smallest sample that at
least a share q of all samples does not exceed (definition 1 of Hyndman and Fan 1996, The
American Statistician 50(4)), so it is always a latency that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tsnrepro.stats.checks import check_probability, finite_values
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate, without_interval
from tsnrepro.stats.long_series import LongSeries
from tsnrepro.stats.replication import median_over_runs

MIN_SAMPLES_BEYOND = 10
"""Fewest samples beyond a quantile that locate it."""

# Shares of a count that differ by less are rounding: 0.9 * 1000 counts as 900.
_COUNT_ROUNDING = 1e-9
_BATCHES = 10
# Correlation over a quarter of a batch up to which batches count as independent.
_MAX_CORRELATION = 0.1
# Of so many equal parts of the run, fewest with a sample on the rarer side of the quantile: samples
# there come in clusters, and a few clusters do not determine their rate.
_MIN_OCCUPIED = {100: 18, _BATCHES: _BATCHES}


def correlated_quantile(
    samples: ArrayLike | LongSeries, q: float, *, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate a quantile of one run's correlated samples from batches of neighbours.

    The share of samples at most the quantile varies between batches; its standard error with
    Student's t over ten batches gives limits of the share, which are transformed back to samples
    (Woodruff 1952, Journal of the American Statistical Association 47(260); batches: Schmeiser
    1982, Operations Research 30(3)). It takes the memory of one copy of the samples, or one bit per
    sample of a long series.

    Parameters
    ----------
    samples
        Measured values in the order of measurement, shape (n,), or a series that is read in pieces.
    q
        The quantile's probability in (0, 1).
    level
        Confidence level.
    unit
        Unit of the samples.

    Returns
    -------
    Estimate
        Of this run alone. Without interval if batches are correlated, or if too few clusters of
        samples lie beyond the quantile.

    Raises
    ------
    ValueError
        `samples` is empty or not finite, or `q` or `level` is outside (0, 1).
    """
    check_probability(level, "level")
    check_probability(q, "q")
    if isinstance(samples, LongSeries):
        return _of_long(samples, q, level, unit)
    ordered = finite_values(samples, "samples").copy()
    rank = _rank(q, ordered.size)
    value = _ranked(ordered, rank)
    reach, why = _reach(np.asarray(samples, np.float64) <= value, q, level)
    ranks = _limits_ranks(q, reach, ordered.size)
    values = {rank: value} | {each: _ranked(ordered, each) for each in ranks if each is not None}
    return _estimate(values, (rank, *ranks), why, (level, ordered.size, unit))


def _of_long(series: LongSeries, q: float, level: float, unit: str) -> Estimate:
    """Estimate a quantile of a long series, together with the others that will be needed."""
    n, of = len(series), series.cache.setdefault(f"intervals at {level}", {})
    if q not in of:
        missing = {*series.quantiles, q} - {*of}
        found = series.at_most(_rank(each, n) for each in missing)
        located = {}
        for each in missing:
            value, bits = found[_rank(each, n)]
            reach, why = _reach(np.unpackbits(bits, count=n).view(bool), each, level)
            located[each] = (value, why, _limits_ranks(each, reach, n))
        ranks = {rank for *_, limits in located.values() for rank in limits if rank is not None}
        values = series.order_statistics(ranks)
        for each, (value, why, limits) in located.items():
            rank = _rank(each, n)
            of[each] = _estimate(values | {rank: value}, (rank, *limits), why, (level, n, ""))
    return replace(of[q], unit=unit)


def _estimate(
    values: Mapping[int, float],
    ranks: tuple[int, int | None, int | None],
    why: str,
    about: tuple[float, int, str],
) -> Estimate:
    """Return a quantile and its limits by their ranks; ``about`` is level, count and unit."""
    level, n, unit = about
    value, low, high = (None if rank is None else values[rank] for rank in ranks)
    assert value is not None
    if why:
        return without_interval(value, why, n, unit, level)
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    method = f"order statistics, Student t over {_BATCHES} batches"
    return Estimate(value, low, high, level, method, n, unit)


def _reach(at_most: NDArray[np.bool_], q: float, level: float) -> tuple[float, str]:
    """Return the half width of the limits of the share, or nan and why there are none.

    ``at_most`` is whether each sample, in order, is at most the quantile.
    """
    n, length = at_most.size, at_most.size // _BATCHES
    if n < max(_MIN_OCCUPIED):
        return math.nan, f"fewer than {max(_MIN_OCCUPIED)} samples"
    lag = length // 4
    if _correlation(at_most, lag) > _MAX_CORRELATION:
        return math.nan, f"samples are correlated over {lag} and more of {n}"
    rarer = at_most if q < 0.5 else ~at_most
    if any(_occupied(rarer, parts) < fewest for parts, fewest in _MIN_OCCUPIED.items()):
        return math.nan, "too few clusters of samples beyond the quantile"
    shares = at_most[: length * _BATCHES].reshape(_BATCHES, length).mean(axis=1)
    error = float(shares.std(ddof=1)) / math.sqrt(_BATCHES)
    tail = (1 - level) / 2
    # No narrower than for independent samples: ten batches can agree by chance.
    least = float(stats.norm.isf(tail)) * math.sqrt(q * (1 - q) / n)
    return max(float(stats.t.isf(tail, _BATCHES - 1)) * error, least), ""


def _limits_ranks(q: float, reach: float, n: int) -> tuple[int | None, int | None]:
    """Return the ranks of the limits, None for a limit beyond all samples."""
    low, high = (_rank(share, n) if 0 < share < 1 else None for share in (q - reach, q + reach))
    return low, high


def replicated_quantile(
    runs: Iterable[ArrayLike | LongSeries], q: float, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate a quantile with the run as the unit: one value per run, averaged over runs.

    From two runs on this is :func:`tsnrepro.stats.replication.median_over_runs` of the runs'
    quantiles, and `n` counts runs. A single run falls back to :func:`correlated_quantile`, whose
    interval does not include variation between runs; the method states that and `n` counts samples.

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
    samples_of = [
        run if isinstance(run, LongSeries) else finite_values(run, f"run {index}")
        for index, run in enumerate(runs)
    ]
    if not samples_of:
        raise ValueError("runs is empty: at least one run is needed")
    if len(samples_of) == 1:
        within = correlated_quantile(samples_of[0], q, level=level, unit=unit)
        return replace(within, method=f"{within.method}; of one run, whatever others would give")
    return median_over_runs([sample_quantile(run, q) for run in samples_of], level, unit)


def sample_quantile(samples: ArrayLike | LongSeries, q: float) -> float:
    """Return the smallest sample that at least a share `q` of the samples does not exceed.

    Raises
    ------
    ValueError
        `samples` is empty or not finite, or `q` is outside (0, 1).
    """
    check_probability(q, "q")
    if isinstance(samples, LongSeries):
        n, known = len(samples), samples.cache.setdefault("order statistics", {})
        if _rank(q, n) not in known:
            missing = {_rank(each, n) for each in (*samples.quantiles, q)} - {*known}
            known |= samples.order_statistics(missing)
        return known[_rank(q, n)]
    ordered = finite_values(samples, "samples").copy()
    return _ranked(ordered, _rank(q, ordered.size))


def samples_beyond(count: int, q: float) -> int:
    """Return how many of ``count`` samples lie beyond a quantile of :func:`sample_quantile`."""
    return max(0, count - _rank(q, count))


def too_few_beyond(counts: Iterable[int], q: float) -> str:
    """Return why runs of so many samples do not locate a quantile together; empty if they do.

    Without a sample beyond it, a run's quantile is the run's largest sample, also over many runs.
    Otherwise the runs need :data:`MIN_SAMPLES_BEYOND` samples beyond it together.
    """
    each = [samples_beyond(count, q) for count in counts]
    if 0 in each:
        return "no sample of a run lies beyond it"
    if sum(each) < MIN_SAMPLES_BEYOND:
        return f"{sum(each)} samples of all runs lie beyond it, fewer than {MIN_SAMPLES_BEYOND}"
    return ""


def _rank(q: float, n: int) -> int:
    """Return the rank, from 1, of a quantile of ``n`` samples."""
    return max(1, math.ceil(q * n - _COUNT_ROUNDING * n))


def _ranked(values: NDArray[np.float64], rank: int) -> float:
    """Return the value of a rank; the values are partially sorted in place."""
    values.partition(rank - 1)
    return float(values[rank - 1])


def _occupied(indicator: NDArray[np.bool_], parts: int) -> int:
    """Return how many of so many equal parts of an indicator series have a true value."""
    length = indicator.size // parts
    return int(indicator[: length * parts].reshape(parts, length).any(axis=1).sum())


def _correlation(at_most: NDArray[np.bool_], lag: int) -> float:
    """Return the autocorrelation of an indicator series at one lag."""
    share = float(at_most.mean())
    variance = share * (1 - share)
    if variance == 0:
        return 0.0
    both = np.count_nonzero(at_most[lag:] & at_most[:-lag]) / (at_most.size - lag)
    return (both - share**2) / variance
