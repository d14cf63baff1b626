"""The rate up to which nothing is lost, from repetitions of a sweep.

There are two estimators. The plain rule reports the highest rate without loss, which a single stall
far below the limit determines. The threshold of a typical repetition uses every trial, allows for
stalls at any load, and has an interval over repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, takewhile

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tsnrepro.stats.checks import check_probability, finite_values
from tsnrepro.stats.estimate import DEFAULT_LEVEL, MIN_RUNS, Estimate, Limits, without_interval

Floats = NDArray[np.float64]
# The bytes of a sweep's rates, and of which of its trials lost.
_Seen = tuple[bytes, bytes]

# Values of the nuisance parameters, with equal weights. Lengths are shares of the sweep's
# logarithmic span, so that a sweep of one percent is resolved like one of a decade.
_STALLED = (0.002, 0.07, 0.2, 0.4)  # probability of loss below the threshold
# Probability of loss far above it. With the last one half of the trials lose at no load.
_LEVELS_OFF = (0.998, 0.85, 0.6, 0.35)
_WIDTH = (0.01, 0.05)  # of the rise in one repetition
_SHIFT = np.geomspace(0.005, 1.0, 9)  # standard deviation of thresholds between repetitions
_LEAST_RISE = 0.2
_HALF = 0.5  # probability of loss at the threshold
_MARGIN, _POINTS = 0.5, 160
# Share of the nominal tails: with the nominal ones limits of 95 % cover in 93 %.
_TAILS = 0.7
# Beyond these, limits hold more often than an interval should: they are set not by chance but by
# the number of repetitions and the distance of the loads.
_MIN_REPETITIONS = 5
_MIN_LOADS = 3
_MAX_STEP = 0.1
# Single precision is enough for sums of likelihoods, and twice as fast.
_TINY = np.float32(1e-37)
# Products of small probabilities would be denormal, with which processors are many times slower.
_SCALE, _UNSCALE = np.float32(2.0**120), np.float32(2.0**-120)
_NARROWEST = "as narrow as repetitions and loads tried allow"
_CURVE = "logistic curve with lower and upper asymptote, normal shifts between repetitions"


@dataclass(frozen=True)
class Sweep:
    """The trials of one repetition: rates, shape (trials,), and which of them lost something.

    ``repetition`` is its number, for pairing with sweeps of another configuration.

    Raises
    ------
    ValueError
        The arrays are empty or differ in length, a rate is not positive, or `lost` has values other
        than truth values.
    """

    rates: ArrayLike
    lost: ArrayLike
    repetition: int | None = None

    def __post_init__(self) -> None:
        rates, lost = _check_sweep(self.rates, self.lost)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "lost", lost)


def highest_rate_without_loss(rates: ArrayLike, lost: ArrayLike) -> float | None:
    """Return the highest rate such that no trial at this rate or below lost anything.

    The rule that RFC 2544, section 26.1, implies for throughput, applied to a whole sweep instead
    of a search: a rate with a lossy trial is lossy, and trials without loss above a lossy rate do
    not count.

    Parameters
    ----------
    rates
        Rate of each trial, any order, shape (trials,), positive.
    lost
        Whether the trial lost anything, shape (trials,).

    Returns
    -------
    float or None
        A rate that was tried, in the unit of `rates`; None if the lowest one is lossy.

    Raises
    ------
    ValueError
        As for :class:`Sweep`.
    """
    rate_of, lossy = _check_sweep(rates, lost)
    below = rate_of[rate_of < rate_of[lossy].min()] if lossy.any() else rate_of
    return float(below.max()) if below.size else None


def threshold(
    sweeps: Sequence[Sweep],
    level: float = DEFAULT_LEVEL,
    unit: str = "Mb/s",
    ceiling: float = math.inf,
) -> Estimate:
    """Estimate the rate at which half of the trials of a typical repetition lose.

    In each repetition the probability that a trial loses rises with the logarithm of the rate along
    a logistic curve, from a lower asymptote (stalls at any load) to an upper one; the rate at which
    it is one half is that repetition's threshold. An upper asymptote below one half is among the
    possible ones: the threshold is then above all loads. Thresholds of repetitions are lognormal.
    Their median is estimated by its posterior, with the flat weights at the top of this module,
    summed over a grid: value and limits are its quantiles. ``benchmarks/intervals.py`` simulates
    that they cover, which neither likelihood ratios nor bootstraps do with three repetitions.

    With fewer than five repetitions, fewer than three loads between the limits, or loads more than
    10 % apart, limits hold more often than `level`. They are then a bracket of loads that were
    tried. There is no extrapolation: a limit outside the rates that were tried is infinite (or the
    ceiling), the value beside it is nan, and the method states the side. If no trial lost anything,
    k repetitions without loss up to their highest rate refute a lower median at 1 - 2^-k; fewer
    than six give a range at 95 %.

    Parameters
    ----------
    sweeps
        One per repetition.
    level
        Confidence level.
    unit
        Unit of the rates.
    ceiling
        Highest rate that the link carries.

    Returns
    -------
    Estimate
        `n` counts repetitions; without interval for fewer than three.

    Raises
    ------
    ValueError
        There is no sweep.
    """
    found = _without_value_if_open(_typical(sweeps, level).threshold)
    return replace(found, unit=unit).at_most(ceiling)


@dataclass(frozen=True)
class ThresholdComparison:
    """Ratio a / b of two thresholds, and their difference a - b in the rates' unit."""

    ratio: Estimate
    difference: Estimate


def compare_thresholds(
    a: Sequence[Sweep],
    b: Sequence[Sweep],
    level: float = DEFAULT_LEVEL,
    unit: str = "Mb/s",
    ceilings: tuple[float, float] = (math.inf, math.inf),
) -> ThresholdComparison:
    """Compare the thresholds of two configurations that were swept in the same repetitions.

    The model is that of :func:`threshold` for the ratio of the two in each repetition, so that
    common shifts cancel and others are allowed for. If a configuration lost nothing, or in every
    trial, the limits of both thresholds are combined, which covers with at least `level`.

    Parameters
    ----------
    a, b
        Sweeps of the configuration in question and of the control; the k-th of both are of one
        repetition (block), up to the first with different numbers. Those after it are not used for
        the ratio.
    level, unit
        As for :func:`threshold`.
    ceilings
        Highest rates of `a` and of `b` that the link carries.

    Raises
    ------
    ValueError
        One of the two has no sweep.
    """
    first, second = _typical(a, level), _typical(b, level)
    of_a = replace(first.threshold, unit=unit).at_most(ceilings[0])
    of_b = replace(second.threshold, unit=unit).at_most(ceilings[1])
    if math.isnan(of_a.value) or math.isnan(of_b.value):
        return _combined(of_a, of_b)
    pairs = _partners(a, b)
    if not pairs:
        return _combined(of_a, of_b)
    grid, weights = _posterior(a[:pairs], b[:pairs])
    span_a, span_b = _span(a), _span(b)
    possible = span_a[0] / span_b[1], span_a[1] / span_b[0]
    ratio = _within(grid, weights, possible, pairs, level)
    # Common shifts are allowed for as if they were independent: in simulations these limits hold in
    # up to all data sets.
    ratio = _as_bound(ratio)
    if ratio.decides and Limits.BRACKET in (of_a.limits, of_b.limits):
        method = f"{Limits.BRACKET}: {_NARROWEST}; {ratio.method}"
        # The position of a threshold between its loads is unknown, and so is that of their ratio.
        below, above = _quotients(of_a, of_b)
        ratio = replace(
            ratio,
            low=min(ratio.low, below),
            high=max(ratio.high, above),
            method=method,
            limits=Limits.BRACKET,
        )
    gaps = np.exp(second.grid)[:, None] * np.expm1(grid)
    order = np.argsort(gaps, axis=None)
    probability = np.cumsum((second.weights[:, None] * weights).ravel()[order])
    tail = _TAILS * (1 - level) / 2
    value, low, high = np.interp([0.5, tail, 1 - tail], probability, gaps.ravel()[order])
    difference = replace(ratio, value=value, unit=unit)
    if ratio.decides:
        # If the ratio has no limit within the loads tried, the difference has none either.
        difference = replace(
            difference,
            low=low if math.isfinite(ratio.low) else -math.inf,
            high=high if math.isfinite(ratio.high) else math.inf,
        )
    if ratio.limits is Limits.BRACKET:
        low, high = of_a.low - of_b.high, of_a.high - of_b.low
        difference = replace(
            difference, low=min(difference.low, low), high=max(difference.high, high)
        )
    return ThresholdComparison(_without_value_if_open(ratio), _without_value_if_open(difference))


def _without_value_if_open(found: Estimate) -> Estimate:
    """Return an estimate whose limits do not enclose it as a bound, or as nothing."""
    if not found.decides or (math.isfinite(found.low) and math.isfinite(found.high)):
        return found
    if found.low in (-math.inf, 0.0) and math.isinf(found.high):
        why = "both limits beyond the loads tried"
        return without_interval(math.nan, why, found.n, found.unit, found.level)
    return replace(_as_bound(found), value=math.nan)


def _as_bound(found: Estimate) -> Estimate:
    """Return an interval as limits that hold at least as often; others unchanged."""
    if found.limits is not Limits.INTERVAL:
        return found
    return replace(found, method=f"{Limits.BOUND}: {found.method}", limits=Limits.BOUND)


def _partners(a: Sequence[Sweep], b: Sequence[Sweep]) -> int:
    """Return how many of the first sweeps of both are of the same repetitions."""
    same = (one.repetition == other.repetition for one, other in zip(a, b, strict=False))
    return sum(1 for _ in takewhile(bool, same))


def _combined(a: Estimate, b: Estimate) -> ThresholdComparison:
    """Return the comparison of two thresholds, one of which lies outside the loads tried."""
    n, sure = min(a.n, b.n), a.decides and b.decides
    low, high = max(a.low, 0.0), a.high
    if not all(math.isfinite(one.low) or math.isfinite(one.high) for one in (a, b)):
        nothing = without_interval(math.nan, "a threshold has no limits", n, level=a.level)
        return ThresholdComparison(nothing, replace(nothing, unit=a.unit))
    kind = Limits.BOUND if sure else Limits.RANGE
    method = f"{kind}: from the limits of both thresholds, one beyond the loads tried"
    below, above = _quotients(a, b)
    ratio = Estimate(math.nan, below, above, a.level, method, n, "", kind)
    gap = low - b.high, high - max(b.low, 0.0)
    return ThresholdComparison(ratio, replace(ratio, low=gap[0], high=gap[1], unit=a.unit))


@dataclass(frozen=True)
class _Typical:
    """The threshold of a typical repetition, with its posterior if there is one."""

    threshold: Estimate
    grid: Floats
    weights: Floats


def _typical(sweeps: Sequence[Sweep], level: float) -> _Typical:
    check_probability(level, "level")
    if not sweeps:
        raise ValueError("sweeps is empty: at least one repetition is needed")
    lossy = np.concatenate([np.asarray(sweep.lost) for sweep in sweeps])
    low, high = _span(sweeps)
    grid = weights = np.empty(0)
    if not lossy.any() or lossy.all():
        found = _censored(sweeps, level, none_lost=not lossy.any())
    elif low == high:
        why = "a single load was tried"
        found = without_interval(math.nan, why, len(sweeps), level=level)
    else:
        grid, weights = _posterior(sweeps)
        found = _within(grid, weights, (low, high), len(sweeps), level)
        found = _bracket(found, sweeps)
    return _Typical(found, grid, weights)


def _quotients(a: Estimate, b: Estimate) -> tuple[float, float]:
    """Return the smallest and the largest ratio within the limits of two thresholds."""
    below = max(a.low, 0.0) / b.high if math.isfinite(b.high) else 0.0
    return below, a.high / b.low if b.low > 0 else math.inf


def _bracket(found: Estimate, sweeps: Sequence[Sweep]) -> Estimate:
    """Return limits that are set by the loads as a bracket; an interval unchanged."""
    why = _why_bracket(found, sweeps) if found.decides else ""
    if not why:
        return found
    loads = np.unique(np.concatenate([np.asarray(sweep.rates) for sweep in sweeps]))
    low = loads[loads <= found.low].max(initial=-math.inf)
    high = loads[loads >= found.high].min(initial=math.inf)
    method = f"{Limits.BRACKET}, {_NARROWEST}: {why}; {found.method}"
    return replace(found, low=low, high=high, method=method, limits=Limits.BRACKET)


def _why_bracket(found: Estimate, sweeps: Sequence[Sweep]) -> str:
    """Return why the limits are set by the design and not by chance, or an empty text."""
    lowest, highest = _span(sweeps)
    low, high = max(found.low, lowest), min(found.high, highest)
    # Counted within repetitions, because offered loads are never exactly equal.
    inside = float(np.median([np.unique(_between(sweep, low, high)).size for sweep in sweeps]))
    if len(sweeps) < _MIN_REPETITIONS:
        return f"fewer than {_MIN_REPETITIONS} repetitions"
    if inside < _MIN_LOADS:
        return f"fewer than {_MIN_LOADS} loads between the limits"
    if math.log(high / low) > _MAX_STEP * (inside + 1):
        return f"loads more than {100 * _MAX_STEP:g} % apart"
    return ""


def _between(sweep: Sweep, low: float, high: float) -> Floats:
    rates = np.asarray(sweep.rates)
    return rates[(rates > low) & (rates < high)]


def _censored(sweeps: Sequence[Sweep], level: float, *, none_lost: bool) -> Estimate:
    """Return the limits of a threshold that lies above all loads, or below them."""
    enough = 0.5 ** len(sweeps) <= (1 - level) / 2
    kind = Limits.BOUND if enough else Limits.RANGE
    ends = [np.asarray(sweep.rates) for sweep in sweeps]
    if none_lost:
        low, high = float(min(rates.max() for rates in ends)), math.inf
        where = f"above the loads tried: nothing lost in {len(sweeps)} repetitions"
    else:
        low, high = -math.inf, float(max(rates.min() for rates in ends))
        where = f"below the loads tried: every trial of {len(sweeps)} repetitions lost"
    return Estimate(math.nan, low, high, level, f"{kind}: {where}", len(sweeps), limits=kind)


def _within(
    grid: Floats, weights: Floats, tried: tuple[float, float], n: int, level: float
) -> Estimate:
    """Return the quantiles of a posterior; limits outside the rates tried are infinite."""
    tail = _TAILS * (1 - level) / 2
    value, low, high = (_quantile(grid, weights, chance) for chance in (0.5, tail, 1 - tail))
    beyond = " above" if value > tried[1] else " below" if value < tried[0] else ""
    method = f"threshold{beyond} the loads tried" if beyond else _CURVE
    value = math.nan if beyond else value
    if n < MIN_RUNS:
        return without_interval(value, f"{n} repetition(s); {method}", n, level=level)
    open_low, open_high = low < tried[0], high > tried[1]
    if (open_low or open_high) and not beyond:
        method += ", a limit beyond the loads tried"
    return Estimate(
        value,
        -math.inf if open_low else min(low, tried[1]),
        math.inf if open_high else max(high, tried[0]),
        level,
        method,
        n,
    )


def _quantile(grid: Floats, weights: Floats, chance: float) -> float:
    step = grid[1] - grid[0]
    edges = np.append(grid - step / 2, grid[-1] + step / 2)
    below = np.concatenate(([0.0], np.cumsum(weights)))
    return math.exp(float(np.interp(chance, below, edges)))


def _span(sweeps: Sequence[Sweep]) -> tuple[float, float]:
    rates = np.concatenate([np.asarray(sweep.rates) for sweep in sweeps])
    return float(rates.min()), float(rates.max())


def _posterior(a: Sequence[Sweep], b: Sequence[Sweep] = ()) -> tuple[Floats, Floats]:
    """Return log thresholds (of two: log ratios), and their posterior probabilities.

    The thresholds of single repetitions are summed out for every curve and every shift. Curves on
    which half of the trials lose at no load count for a threshold at the end of the grid, those of
    two for a ratio at either end.
    """
    low, high = (math.log(rate) for rate in _span([*a, *b]))
    span = high - low
    grid = np.linspace(low - _MARGIN * span, high + _MARGIN * span, _POINTS)
    ends = float(grid[0]), float(grid[-1]), span
    pairs = zip(a, b, strict=True) if b else ((sweep, None) for sweep in a)
    each = [_of_repetition(_seen(one), other and _seen(other), ends) for one, other in pairs]
    if b:
        grid = np.arange(1 - _POINTS, _POINTS) * (grid[1] - grid[0])
    top = np.sum([log for _, log in each], axis=0)
    logs = np.sum([likelihood for likelihood, _ in each], axis=0) + top[:, None, None]
    by_curve = np.exp(logs - logs.max()).sum(axis=1)
    reached = np.array([level > _HALF for _, _, level in _curve_shapes()])
    weights = by_curve[reached].sum(axis=0)
    never = by_curve[~reached].sum()
    weights[-1] += never / 2 if b else never
    weights[0] += never / 2 if b else 0.0
    return grid, weights / weights.sum()


def _seen(sweep: Sweep) -> _Seen:
    return np.asarray(sweep.rates).tobytes(), np.asarray(sweep.lost).tobytes()


@lru_cache(maxsize=128)
def _of_repetition(
    one: _Seen, other: _Seen | None, ends: tuple[float, float, float]
) -> tuple[NDArray[np.float32], Floats]:
    """Return the log likelihood of one repetition, shape (curves, shifts, typical thresholds).

    It is that beyond a constant for each curve, which is given too. The same repetition is asked
    for again: alone, in comparisons, and after each further one.
    """
    likelihood = _likelihood(one, ends)
    if other is not None:
        likelihood = _correlated(likelihood, _likelihood(other, ends))
    curves, size = likelihood.shape
    kernel = _shifts(size, (ends[1] - ends[0]) / (_POINTS - 1), ends[2])
    top = likelihood.max(axis=1, keepdims=True)
    shifted = (likelihood / top).astype(np.float32) @ kernel
    return np.log(shifted * _UNSCALE + _TINY).reshape(curves, -1, size), np.log(top[:, 0])


def _likelihood(seen: _Seen, ends: tuple[float, float, float]) -> Floats:
    """Return the likelihood of one sweep, shape (curves, thresholds)."""
    rates, lost = seen
    log_lossy, log_clean = _curves(rates, *ends)
    lossy = np.frombuffer(lost, dtype=np.bool_).astype(np.float64)
    return np.exp(lossy @ log_lossy + (1 - lossy) @ log_clean)


@lru_cache(maxsize=8)
def _curves(rates: bytes, first: float, last: float, span: float) -> tuple[Floats, Floats]:
    """Return log probabilities of loss and of no loss, shape (curves, rates, thresholds)."""
    distance = np.log(np.frombuffer(rates))[:, None] - np.linspace(first, last, _POINTS)
    chances = []
    for width, stalled, level in _curve_shapes():
        # Where the rise is as high as the threshold asks for, seen from the middle of the rise.
        half = special.logit((_HALF - stalled) / (level - stalled)) if level > _HALF else 0.0
        rise = special.expit(distance / (width * span) + half)
        chances.append(stalled + (level - stalled) * rise)
    chance = np.stack(chances)
    return np.log(chance), np.log1p(-chance)


def _curve_shapes() -> list[tuple[float, float, float]]:
    """Return width, lower and upper asymptote of each curve."""
    return [
        (width, stalled, level)
        for width, stalled, level in product(_WIDTH, _STALLED, _LEVELS_OFF)
        if level - stalled > _LEAST_RISE
    ]


@lru_cache(maxsize=8)
def _shifts(size: int, step: float, span: float) -> NDArray[np.float32]:
    """Return the distributions of thresholds, scaled, shape (repetition's, shifts x typical)."""
    places = np.arange(size) * step
    edges = np.concatenate(([-np.inf], places[:-1] + step / 2, [np.inf]))
    scaled = (edges[:, None] - places) / (_SHIFT * span)[:, None, None]
    law = np.diff(special.ndtr(scaled), axis=1).astype(np.float32) * _SCALE
    return np.concatenate(law, axis=1)


def _correlated(a: Floats, b: Floats) -> Floats:
    """Return the likelihood of each difference a - b, summed over the positions of both."""
    size = 2 * a.shape[1] - 1
    spectrum = np.fft.rfft(a, size) * np.conj(np.fft.rfft(b, size))
    # Rounding of the transform must not cause a negative likelihood.
    return np.maximum(np.fft.fftshift(np.fft.irfft(spectrum, size), axes=1), 1e-300)


def _check_sweep(rates: ArrayLike, lost: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    rate_of = finite_values(rates, "rates")
    outcome = finite_values(lost, "lost")
    if rate_of.shape != outcome.shape:
        raise ValueError(f"rates and lost must pair up: {rate_of.size} against {outcome.size}")
    if rate_of.min() <= 0:
        raise ValueError(f"rates must be positive, got {rate_of.min()}")
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise ValueError(
            "lost says whether a trial lost anything (true or false), not how much: "
            "pass `count > 0`"
        )
    return rate_of, outcome.astype(bool)
