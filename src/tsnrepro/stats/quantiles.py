"""Latency quantiles with intervals for independent, correlated and replicated samples.

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

from tsnrepro.stats.checks import check_level, check_quantile, finite_values
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate
from tsnrepro.stats.replication import mean_over_runs

# Most samples that simulated resampling draws in all; fewer resamples are taken beyond it.
_DRAWS = 400_000_000
# Half the width, in standard deviations, of the stretch where a resample's count can fall.
_REACH = 20
# Shares of a count that differ by less are rounding: 0.9 * 1000 counts as 900.
_COUNT_ROUNDING = 1e-9


def order_statistic_interval(
    samples: ArrayLike, q: float, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate a quantile of independent samples, whatever their distribution.

    The limits are order statistics whose ranks are binomial quantiles (Conover 1999,
    Practical Nonparametric Statistics, 3rd edition, section 3.2; `scipy.stats.quantile_test`).
    A limit is infinite where the sample is too small for the quantile: the upper one of
    P99.9 at 95 % needs 3,688 samples.

    Samples of one run are seldom independent: use `correlated_quantile` for these.

    Args:
        samples: measured values, any order, shape (n,).
        q: the quantile's probability in (0, 1).
        level: confidence level.
        unit: unit of the samples.

    Raises:
        ValueError: if `samples` is empty or not finite, or `q` or `level` outside (0, 1).

    """
    check_level(level)
    check_quantile(q)
    values = finite_values(samples, "samples")
    interval = stats.quantile_test(values, p=q).confidence_interval(confidence_level=level)
    low, high = float(interval.low), float(interval.high)
    return Estimate(
        value=sample_quantile(values, q),
        low=-math.inf if math.isnan(low) else low,
        high=math.inf if math.isnan(high) else high,
        level=level,
        method="binomial order statistics",
        n=values.size,
        unit=unit,
    )


def correlated_quantile(
    samples: ArrayLike,
    q: float,
    block: int | None = None,
    *,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
) -> Estimate:
    """Estimate a quantile of one run's correlated samples by their effective number.

    The order-statistic interval of as many independent samples as would fix the share
    below the quantile equally well: effective sample size in the manner of Korn and
    Graubard (1998), Survey Methodology 24(2), carried over to quantiles by inversion
    (Woodruff 1952, Journal of the American Statistical Association 47(260)). The variance
    of that share comes from the counts of overlapping blocks. For uncorrelated samples it is
    `order_statistic_interval`; in the tail of correlated ones it keeps closer to its
    level than `block_bootstrap_quantile`.

    Args:
        samples: measured values in the order of measurement, shape (n,).
        q: the quantile's probability in (0, 1).
        block: block length in samples; chosen by `block_length` from the series
            "at most the quantile, yes or no" if None.
        level: confidence level.
        unit: unit of the samples.

    Returns:
        The quantile; a limit is infinite where the run is worth too few independent samples.
        `n` counts all samples, the method names the effective number.

    Raises:
        ValueError: if `samples` is not finite or has less than two values, `q` or `level` is
            outside (0, 1), or `block` leaves fewer than two blocks.

    """
    check_level(level)
    values, at_most, length = _prepare(samples, q, block)
    worth = max(1, math.floor(_independent_samples(at_most, length)))
    # One-based ranks among `worth` ordered samples, each of which stands for n / worth others.
    tail = (1 - level) / 2
    lower = int(stats.binom.ppf(tail, worth, q))
    upper = int(stats.binom.isf(tail, worth, q)) + 1
    low_index = (lower - 1) * values.size // worth
    high_index = math.ceil(upper * values.size / worth) - 1
    inside = sorted({index for index in (low_index, high_index) if 0 <= index < values.size})
    ordered = np.partition(values, inside) if inside else values
    return Estimate(
        value=sample_quantile(values, q),
        low=float(ordered[low_index]) if lower >= 1 else -math.inf,
        high=float(ordered[high_index]) if upper <= worth else math.inf,
        level=level,
        method=f"order statistics, effective sample size {worth}, blocks of {length}",
        n=values.size,
        unit=unit,
    )


def block_bootstrap_quantile(
    samples: ArrayLike,
    q: float,
    block: int | None = None,
    n_boot: int | None = None,
    rng: np.random.Generator | None = None,
    *,
    level: float = DEFAULT_LEVEL,
    unit: str = "",
) -> Estimate:
    """Estimate a quantile of one run's correlated samples by the moving-block bootstrap.

    Percentile interval of resamples made of round(n / block) blocks of neighbouring samples
    (Künsch 1989, The Annals of Statistics 17(3)). A resample's quantile is at most x where
    enough of its samples are, and that count is a sum of independent draws from the blocks'
    counts: its distribution is a convolution, computed here exactly, as if the number
    of resamples were infinite. No random numbers are involved unless `n_boot` asks for
    simulated resamples.

    Percentile intervals come out too narrow where few independent samples lie beyond
    the quantile (P99 of some thousand samples); prefer `correlated_quantile` there.

    A resample holds nothing beyond the run's extremes, so a limit is infinite where the
    run is too short for the quantile: where q^m (above) or (1 - q)^m (below) exceeds half of
    1 - level, m being the number of independent samples that the run is worth.

    Args:
        samples: measured values in the order of measurement, shape (n,).
        q: the quantile's probability in (0, 1).
        block: block length in samples; chosen by `block_length` from the series
            "at most the quantile, yes or no" if None.
        n_boot: number of simulated resamples, None for the exact limit. At most 4e8 / n
            are drawn; the method tells the number.
        rng: generator for `n_boot`, required with it.
        level: confidence level.
        unit: unit of the samples.

    Raises:
        ValueError: if `samples` is not finite or has less than two values, `q` or `level` is
            outside (0, 1), `block` leaves fewer than two blocks, or `n_boot` comes without
            `rng` or is below 1.

    """
    check_level(level)
    values, at_most, length = _prepare(samples, q, block)
    if n_boot is None:
        low, high = _exact_percentiles(values, q, length, level)
        method = f"moving-block bootstrap, blocks of {length}"
    else:
        if rng is None or n_boot < 1:
            raise ValueError(f"n_boot={n_boot} needs a positive number and a generator `rng`")
        resamples = min(n_boot, max(1, _DRAWS // values.size))
        low, high = _simulated_percentiles(
            values, q, length, resamples=resamples, rng=rng, level=level
        )
        method = f"moving-block bootstrap, blocks of {length}, {resamples} resamples"
    worth = _independent_samples(at_most, length)
    tail = (1 - level) / 2
    return Estimate(
        value=sample_quantile(values, q),
        low=-math.inf if (1 - q) ** worth > tail else low,
        high=math.inf if q**worth > tail else high,
        level=level,
        method=method,
        n=values.size,
        unit=unit,
    )


def replicated_quantile(
    runs: Iterable[ArrayLike], q: float, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Estimate:
    """Estimate a quantile with the run as the unit: one value a run, averaged over runs.

    From two runs on this is Student's t interval of the runs' quantiles and `n` counts runs.
    A single run falls back to `correlated_quantile`, whose interval knows nothing of
    what changes between runs; the method says so and `n` counts samples.

    Args:
        runs: the samples of each run in the order of measurement.
        q: the quantile's probability in (0, 1).
        level: confidence level.
        unit: unit of the samples.

    Raises:
        ValueError: if there is no run, or a run is empty or not finite.

    """
    check_level(level)
    check_quantile(q)
    samples_of = [finite_values(run, f"run {index}") for index, run in enumerate(runs)]
    if not samples_of:
        raise ValueError("runs is empty: at least one run is needed")
    if len(samples_of) == 1:
        within = correlated_quantile(samples_of[0], q, level=level, unit=unit)
        return replace(within, method=f"one run, spread within it only: {within.method}")
    return mean_over_runs([sample_quantile(run, q) for run in samples_of], level, unit)


def sample_quantile(samples: ArrayLike, q: float) -> float:
    """Return the smallest sample that at least a share `q` of the samples does not exceed.

    Raises:
        ValueError: if `samples` is empty or not finite, or `q` is outside (0, 1).

    """
    check_quantile(q)
    values = finite_values(samples, "samples")
    rank = _needed(q, values.size)
    return float(np.partition(values, rank - 1)[rank - 1])


def block_length(series: ArrayLike) -> int:
    """Choose a block length from a series' autocorrelation.

    The rule of Politis and White (2004), Econometric Reviews 23(1), with the correction of
    Patton, Politis and White (2009), Econometric Reviews 28(4), for blocks of fixed length:
    (2 G^2 / D)^(1/3) n^(1/3), where G = sum of w(k) |k| R(k), D = 4/3 (sum of w(k) R(k))^2,
    R the autocovariances and w a flat-top window that ends at twice the lag after which
    the autocorrelation stays negligible. Capped at min(3 sqrt(n), n / 3). For latency
    quantiles pass the series "at most the quantile, yes or no", not the latencies.

    Args:
        series: values in the order of measurement, shape (n,); booleans allowed.

    Returns:
        The length in samples; 1 for an uncorrelated or constant series.

    Raises:
        ValueError: if `series` is empty or not finite.

    """
    values = finite_values(series, "series")
    n = values.size
    longest = max(1, math.floor(min(3 * math.sqrt(n), n / 3)))
    if longest == 1 or np.ptp(values) == 0:
        return 1
    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))
    last = min(math.ceil(math.sqrt(n)) + quiet, n - 1)
    covariance = _autocovariance(values, last)
    window = min(2 * max(_last_correlated_lag(covariance, n, quiet), 1), last)
    lags = np.arange(1, window + 1)
    # Weight 1 up to half the window, falling to 0 at its end; a lag and its mirror count twice.
    weighted = np.clip(2 * (1 - lags / window), 0, 1) * covariance[1 : window + 1]
    spectrum_at_zero = covariance[0] + 2 * float(weighted.sum())
    curvature = 2 * float(lags @ weighted)
    if spectrum_at_zero <= 0:
        return longest
    length = (1.5 * (curvature / spectrum_at_zero) ** 2 * n) ** (1 / 3)
    return min(max(1, math.ceil(length)), longest)


def _autocovariance(values: NDArray[np.float64], last: int) -> NDArray[np.float64]:
    centred = values - values.mean()
    size = _power_of_two(values.size + last)
    spectrum = np.fft.rfft(centred, size)
    return np.fft.irfft((spectrum * spectrum.conj()).real, size)[: last + 1] / values.size


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _last_correlated_lag(covariance: NDArray[np.float64], n: int, quiet: int) -> int:
    """Return the lag after which `quiet` autocorrelations in a row are negligible."""
    negligible = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    if negligible.size < quiet:
        return negligible.size
    stretch = np.convolve(negligible, np.ones(quiet), mode="valid")
    starts = np.flatnonzero(stretch > quiet - 0.5)
    return int(starts[0]) if starts.size else negligible.size


def _prepare(
    samples: ArrayLike, q: float, block: int | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Return the samples, which of them are at most the quantile, and the block length."""
    check_quantile(q)
    values = finite_values(samples, "samples")
    if values.size < 2:
        raise ValueError("blocks of neighbouring samples need at least two samples, got 1")
    quantile = sample_quantile(values, q)
    at_most = values <= quantile
    if at_most.all():
        at_most = values < quantile
    length = block_length(at_most) if block is None else block
    if not 1 <= length <= values.size // 2:
        raise ValueError(
            f"block must lie between 1 and half of the {values.size} samples, got {length}"
        )
    return values, at_most, length


def _needed(q: float, n: int) -> int:
    """Return how many of `n` samples must be at most x for x to reach the quantile."""
    return max(1, math.ceil(q * n - _COUNT_ROUNDING * n))


def _block_counts(at_most: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    """Count the true values in every block of neighbours, shape (n - length + 1,)."""
    running = np.concatenate(([0], np.cumsum(at_most, dtype=np.int64)))
    return running[length:] - running[:-length]


def _independent_samples(at_most: NDArray[np.bool_], length: int) -> float:
    """Return how many independent samples would settle the share as well as these do."""
    share = float(at_most.mean())
    per_sample = float(_block_counts(at_most, length).var()) / length
    independent = share * (1 - share)
    return at_most.size * min(1.0, independent / per_sample) if per_sample > 0 else at_most.size


def _exact_percentiles(
    values: NDArray[np.float64], q: float, length: int, level: float
) -> tuple[float, float]:
    candidates = np.unique(values)
    tail = (1 - level) / 2

    def smallest(chance: float) -> float:
        below, index = -1, candidates.size - 1
        while index - below > 1:
            middle = (below + index) // 2
            if _chance_to_reach(values <= candidates[middle], q, length) >= chance:
                index = middle
            else:
                below = middle
        return float(candidates[index])

    return smallest(tail), smallest(1 - tail)


def _chance_to_reach(at_most: NDArray[np.bool_], q: float, length: int) -> float:
    """Return the probability that a share `q` of a block resample answers yes.

    The number of yes is a sum over blocks drawn with replacement. Its distribution is
    computed modulo a period that its spread cannot fill, which keeps the transform short
    where the run is long.
    """
    blocks = max(1, round(at_most.size / length))
    counts = _block_counts(at_most, length)
    law = np.bincount(counts, minlength=length + 1) / counts.size
    deviation = math.sqrt(blocks * float(counts.var()))
    period = min(2 * _REACH * deviation + 16 * length, blocks * length + 1)
    period = _power_of_two(max(math.ceil(period), length + 1))
    total = np.fft.irfft(np.fft.rfft(law, period) ** blocks, period)
    lowest = max(0, round(blocks * float(counts.mean())) - period // 2)
    ordered = np.roll(total, -(lowest % period))
    first = min(max(_needed(q, blocks * length) - lowest, 0), period)
    return float(ordered[first:].sum())


def _simulated_percentiles(
    values: NDArray[np.float64],
    q: float,
    length: int,
    *,
    resamples: int,
    rng: np.random.Generator,
    level: float,
) -> tuple[float, float]:
    blocks = max(1, round(values.size / length))
    within = np.arange(length)
    rank = _needed(q, blocks * length)
    found = np.empty(resamples)
    for index in range(resamples):
        starts = rng.integers(0, values.size - length + 1, blocks)
        resample = values[(starts[:, None] + within).ravel()]
        found[index] = np.partition(resample, rank - 1)[rank - 1]
    tail = (1 - level) / 2
    return sample_quantile(found, tail), sample_quantile(found, 1 - tail)
