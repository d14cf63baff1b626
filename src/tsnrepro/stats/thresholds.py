"""The rate up to which nothing is lost, from a sweep of trials.

Two answers to one question. The plain rule reports the highest clean rate of one sweep and
inherits its luck: a single stall far below the limit decides it. The dose-response model
asks at which rate half of the trials lose something, uses every trial, and has an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from tsnrepro.stats.checks import check_level, finite_values
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate

# Beyond this natural logarithm a rate is no longer a float, and no bound worth the name.
_LARGEST_LOG_RATE = 700.0
# A rise of the logit by less than this over the sweep's standard deviation is rounding.
_FLAT = 1e-6
# Relative distance that stands for "just beside" a tested rate.
_BESIDE = 1e-9


class SweepShape(Enum):
    """How a sweep's outcomes lie along the rate."""

    OVERLAPPING = "overlapping outcomes"
    SEPARATED = "separated outcomes"
    NO_RISE = "loss does not rise with the rate"
    NONE_LOST = "no trial lost anything"
    ALL_LOST = "every trial lost something"


@dataclass(frozen=True)
class DoseResponse:
    """Hold the maximum-likelihood fit of P(a trial loses something) against the rate.

    P(rate) = 1 / (1 + (rate / threshold)^-steepness), the logistic curve in the logarithm of
    the rate.

    Attributes:
        threshold: rate at which half of the trials lose something, in the unit of the
            rates; nan where the likelihood has no maximum in it.
        steepness: the curve's exponent, infinite for separated outcomes and nan where
            `threshold` is.
        log_likelihood: the likelihood's logarithm at the fit, or its supremum.
        shape: how the outcomes lie along the rate.

    """

    threshold: float
    steepness: float
    log_likelihood: float
    shape: SweepShape

    def probability(self, rates: ArrayLike) -> NDArray[np.float64]:
        """Return P(a trial loses something) at positive `rates`, shape (m,).

        All nan where the fit has no threshold; a step at the threshold where it is
        infinitely steep.

        Raises:
            ValueError: if a rate is not positive and finite.

        """
        distance = _log_rates(rates) - math.log(self.threshold)
        if math.isinf(self.steepness):
            return np.heaviside(distance, 0.5)
        return np.asarray(special.expit(self.steepness * distance))


def highest_rate_without_loss(rates: ArrayLike, lost: ArrayLike) -> float | None:
    """Return the highest rate such that no trial at this rate or below lost anything.

    The rule RFC 2544 section 26.1 implies for throughput, over a whole sweep instead of a
    search: a rate with one clean and one lossy trial is a lossy rate, and clean trials
    above a lossy rate do not count.

    Args:
        rates: rate of each trial, any order, shape (trials,), positive.
        lost: whether the trial lost anything, shape (trials,), booleans or 0 and 1.

    Returns:
        A tested rate in the unit of `rates`, or None if the lowest rate already lost.

    Raises:
        ValueError: if the arrays are empty, differ in length, or hold other values.

    """
    rate_of, lossy = _check_sweep(rates, lost)
    below = rate_of[rate_of < rate_of[lossy].min()] if lossy.any() else rate_of
    return float(below.max()) if below.size else None


def fit_dose_response(rates: ArrayLike, lost: ArrayLike) -> DoseResponse:
    """Fit P(a trial loses something) by maximum likelihood.

    Overlapping outcomes go to statsmodels' binomial GLM with logit link in log(rate). Where
    the likelihood has no inner maximum the fit is its limit: for separated outcomes
    (no clean trial above a lossy one) a step at the geometric middle of the bracket.

    Raises:
        ValueError: as `highest_rate_without_loss`.

    """
    rate_of, lossy = _check_sweep(rates, lost)
    return _fit(np.log(rate_of), lossy)


def binomial_threshold(
    rates: ArrayLike, lost: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = "Mb/s"
) -> Estimate:
    """Estimate the rate at which half of the trials lose something.

    The interval holds every threshold whose profile likelihood (maximised over a steepness
    that is zero or positive, since more load cannot mean less loss) falls short of the
    maximum by no more than half the chi-square quantile with one degree of freedom
    (Venzon and Moolgavkar 1988, Applied Statistics 37(1)). It needs no inner
    maximum, so it also stands for separated outcomes: from four trials on it is then finite
    at 95 %. A limit is infinite (or the lower one 0) where the trials cannot exclude, at
    `level`, that the rate has no influence at all; three trials never can.

    A sweep in which no trial lost anything (right-censored) or every trial did
    (left-censored) bounds the threshold on one side only. The likelihood then peaks at
    infinity and the chi-square law fails, so the limit is exact instead: at every rate above the
    threshold a trial stays clean with probability 1/2 at most, so k clean trials at or above
    a rate refute any lower threshold once 2^-k <= alpha/2, which takes six trials at 95 %.
    With fewer trials there is no limit.

    The threshold belongs to the trials' duration: a longer trial has more chances to lose.
    Chi-square is the law of large sweeps. In simulated ones of 30 to 100 trials with
    a steep rise, the 95 % interval covered in 87 to 95 % of cases; `penalised_threshold`
    keeps to its level there and gives wider intervals.

    Args:
        rates: rate of each trial, any order, shape (trials,), positive.
        lost: whether the trial lost anything, shape (trials,), booleans or 0 and 1.
        level: confidence level.
        unit: unit of the rates.

    Returns:
        The threshold; `value` is nan, with the limits standing, for censored sweeps and
        for sweeps whose loss does not rise with the rate. `n` counts trials.

    Raises:
        ValueError: if the arrays are empty, differ in length, or hold other values.

    """
    check_level(level)
    rate_of, lossy = _check_sweep(rates, lost)
    fit = _fit(np.log(rate_of), lossy)
    if fit.shape in (SweepShape.NONE_LOST, SweepShape.ALL_LOST):
        low, high = _censored_limits(rate_of, fit.shape, level)
        method = "exact one-sided limit at alpha/2"
    else:
        low, high = _profile_limits(np.log(rate_of), lossy, fit, level)
        method = "logistic dose-response, profile likelihood"
    if fit.shape is not SweepShape.OVERLAPPING:
        method = f"{method}, {_SHORT_SHAPE[fit.shape]}"
    return Estimate(fit.threshold, low, high, level, method, rate_of.size, unit)


def penalised_threshold(
    rates: ArrayLike, lost: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = "Mb/s"
) -> Estimate:
    """Estimate the rate at which half of the trials lose something, for small sweeps.

    The model of `binomial_threshold`, its likelihood multiplied by the square root of the
    information's determinant (Firth 1993, Biometrika 80(1)), estimate and profile interval
    from the product (Heinze and Schemper 2002, Statistics in Medicine 21(16)).
    The factor takes away the excess steepness that makes plain intervals of short or
    separated sweeps too narrow. The price is width: a separated sweep needs six to eight
    trials before its limits are finite at 95 %.

    Args:
        rates: rate of each trial, any order, shape (trials,), positive.
        lost: whether the trial lost anything, shape (trials,), booleans or 0 and 1.
        level: confidence level.
        unit: unit of the rates.

    Returns:
        The threshold, as `binomial_threshold` returns it; censored sweeps get the same limits.

    Raises:
        ValueError: if the arrays are empty, differ in length, or hold other values.

    """
    check_level(level)
    rate_of, lossy = _check_sweep(rates, lost)
    if lossy.all() or not lossy.any():
        return binomial_threshold(rate_of, lossy, level, unit)
    method = "logistic dose-response, penalised profile likelihood"
    log_rates = np.log(rate_of)
    if np.ptp(log_rates) == 0:
        return Estimate(
            math.nan, 0.0, math.inf, level, f"{method}, a single rate", rate_of.size, unit
        )
    sweep = _PenalisedSweep(log_rates, lossy)
    log_threshold, maximum = sweep.fit()
    cutoff = maximum - float(stats.chi2.ppf(level, 1)) / 2
    low, high = _search_limits(
        lambda theta: sweep.profile(theta) - cutoff,
        log_threshold,
        log_rates,
        open_below=sweep.flat(floor=0.5) >= cutoff,
        open_above=sweep.flat(ceiling=0.5) >= cutoff,
    )
    if math.isnan(log_threshold):
        method = f"{method}, {_SHORT_SHAPE[SweepShape.NO_RISE]}"
        return Estimate(math.nan, low, high, level, method, rate_of.size, unit)
    return Estimate(_rate(log_threshold), low, high, level, method, rate_of.size, unit)


_SHORT_SHAPE = {
    SweepShape.SEPARATED: "separated",
    SweepShape.NO_RISE: "loss does not rise with rate",
    SweepShape.NONE_LOST: "right-censored: no trial lost",
    SweepShape.ALL_LOST: "left-censored: every trial lost",
}


def _fit(log_rates: NDArray[np.float64], lossy: NDArray[np.bool_]) -> DoseResponse:
    if not lossy.any():
        return DoseResponse(math.nan, math.nan, 0.0, SweepShape.NONE_LOST)
    if lossy.all():
        return DoseResponse(math.nan, math.nan, 0.0, SweepShape.ALL_LOST)
    clean_rates, lossy_rates = log_rates[~lossy], log_rates[lossy]
    if clean_rates.min() >= lossy_rates.max():
        return _no_rise(lossy)
    if clean_rates.max() <= lossy_rates.min():
        middle = math.exp((clean_rates.max() + lossy_rates.min()) / 2)
        # Outcomes may meet at one rate: the step there takes any height, and the best fits.
        meeting = lossy[log_rates == lossy_rates.min()]
        return DoseResponse(middle, math.inf, _constant_fit(meeting), SweepShape.SEPARATED)
    return _fit_overlapping(log_rates, lossy)


def _fit_overlapping(log_rates: NDArray[np.float64], lossy: NDArray[np.bool_]) -> DoseResponse:
    # Imported here because statsmodels' models load its formula language, 0.3 s of start-up.
    from statsmodels.genmod.families import Binomial  # noqa: PLC0415
    from statsmodels.genmod.generalized_linear_model import GLM  # noqa: PLC0415

    centre, spread = log_rates.mean(), log_rates.std()
    design = np.column_stack([np.ones_like(log_rates), (log_rates - centre) / spread])
    result = GLM(lossy.astype(float), design, family=Binomial()).fit(tol=1e-12)
    intercept, slope = (float(parameter) for parameter in result.params)
    if slope <= _FLAT:
        return _no_rise(lossy)
    log_threshold = centre - spread * intercept / slope
    return DoseResponse(
        threshold=_rate(log_threshold),
        steepness=slope / float(spread),
        log_likelihood=float(result.llf),
        shape=SweepShape.OVERLAPPING,
    )


def _no_rise(lossy: NDArray[np.bool_]) -> DoseResponse:
    return DoseResponse(math.nan, math.nan, _constant_fit(lossy), SweepShape.NO_RISE)


def _constant_fit(lossy: NDArray[np.bool_], ceiling: float = 1.0, floor: float = 0.0) -> float:
    """Return the log-likelihood of the best loss probability in [floor, ceiling]."""
    share = min(max(float(lossy.mean()), floor), ceiling)
    losses = int(lossy.sum())
    return float(special.xlogy(losses, share) + special.xlog1py(lossy.size - losses, -share))


def _censored_limits(
    rate_of: NDArray[np.float64], shape: SweepShape, level: float
) -> tuple[float, float]:
    needed = math.ceil(-math.log2((1 - level) / 2))
    ordered = np.sort(rate_of)
    if shape is SweepShape.NONE_LOST:
        low = float(ordered[-needed]) if needed <= ordered.size else 0.0
        return low, math.inf
    high = float(ordered[needed - 1]) if needed <= ordered.size else math.inf
    return 0.0, high


def _profile_limits(
    log_rates: NDArray[np.float64], lossy: NDArray[np.bool_], fit: DoseResponse, level: float
) -> tuple[float, float]:
    cutoff = fit.log_likelihood - float(stats.chi2.ppf(level, 1)) / 2
    outcome = np.where(lossy, 1.0, -1.0)

    def excess(log_threshold: float) -> float:
        return _profile(log_threshold, log_rates, outcome) - cutoff

    finite = math.isfinite(fit.threshold) and fit.threshold > 0
    # A threshold at infinity leaves a flat curve of at most one half, one at zero of at least.
    return _search_limits(
        excess,
        math.log(fit.threshold) if finite else math.nan,
        log_rates,
        open_below=_constant_fit(lossy, floor=0.5) >= cutoff,
        open_above=_constant_fit(lossy, ceiling=0.5) >= cutoff,
    )


def _search_limits(
    excess: Callable[[float], float],
    log_threshold: float,
    log_rates: NDArray[np.float64],
    *,
    open_below: bool,
    open_above: bool,
) -> tuple[float, float]:
    """Return both limits, searching outwards from the threshold or else from the sweep's ends."""
    if math.isnan(log_threshold):
        from_above, from_below = float(log_rates.max()), float(log_rates.min())
    else:
        from_above = from_below = log_threshold
    low = 0.0 if open_below else _limit(excess, from_above, -1)
    high = math.inf if open_above else _limit(excess, from_below, +1)
    return low, high


def _limit(excess: Callable[[float], float], start: float, direction: int) -> float:
    """Return the rate where the profile likelihood crosses the cutoff on one side.

    Thresholds above the cutoff form one stretch, with a single crossing a side: they are the
    ratios of intercept and slope over a set of pairs, which is convex for the plain
    likelihood. For the penalised one that is an observation on simulated sweeps, not a proof.
    """
    inside = start + direction * _BESIDE
    if excess(inside) < 0:
        return _first_inside(excess, start, -direction)
    step = 0.01
    outside = inside + direction * step
    while excess(outside) >= 0:
        if abs(outside) > _LARGEST_LOG_RATE:
            return _rate(direction * math.inf)
        step *= 2
        inside, outside = outside, outside + direction * step
    return _rate(_root(excess, inside, outside))


def _first_inside(excess: Callable[[float], float], start: float, direction: int) -> float:
    """Return the limit when `start` itself lies outside, looking in the other direction."""
    if excess(start + direction * _BESIDE) >= 0:
        return _rate(start)
    step = 0.01
    outside, inside = start, start + direction * step
    while excess(inside) < 0:
        if abs(inside) > _LARGEST_LOG_RATE:
            return _rate(direction * math.inf)
        step *= 2
        outside, inside = inside, inside + direction * step
    return _rate(_root(excess, outside, inside))


def _profile(
    log_threshold: float, log_rates: NDArray[np.float64], outcome: NDArray[np.float64]
) -> float:
    """Return the log-likelihood at one threshold, maximised over steepness >= 0.

    `outcome` is +1 for a trial that lost something and -1 for a clean one, so that
    `margin` is positive where the outcome lies on the side the threshold predicts.
    """
    margin = outcome * (log_rates - log_threshold)

    def slope(steepness: float) -> float:
        return float(margin @ special.expit(-steepness * margin))

    if slope(0.0) <= 0:
        return -margin.size * math.log(2)
    if margin.min() >= 0:
        return -int(np.count_nonzero(margin == 0)) * math.log(2)
    upper = 1 / float(np.abs(margin).max())
    while slope(upper) > 0:
        upper *= 2
    steepness = _root(slope, 0.0, upper)
    return float(special.log_expit(steepness * margin).sum())


class _PenalisedSweep:
    """Evaluate the penalised likelihood of one sweep with both outcomes and several rates."""

    def __init__(self, log_rates: NDArray[np.float64], lossy: NDArray[np.bool_]) -> None:
        self._centre = float(log_rates.mean())
        self._spread = float(log_rates.std())
        self._position = (log_rates - self._centre) / self._spread
        self._outcome = np.where(lossy, 1.0, -1.0)
        self._losses = int(lossy.sum())

    def fit(self) -> tuple[float, float]:
        """Return the logarithm of the threshold, nan if loss does not rise, and the maximum."""
        level = special.logit((self._losses + 1) / (self._position.size + 2))
        # Gaps between rates can give the product several peaks: climb from the best of a grid.
        ends = float(self._position.min()), float(self._position.max())
        middle, steepness = (
            axis.ravel()
            for axis in np.meshgrid(np.linspace(*ends, 64), np.geomspace(0.05, 400, 32))
        )
        peak = int(np.argmax(self._value(-steepness * middle, steepness)))
        starts = [(level, 1.0), (-steepness[peak] * middle[peak], steepness[peak])]
        found = min((self._climb(start) for start in starts), key=lambda climb: climb.fun)
        intercept, slope = (float(parameter) for parameter in found.x)
        if slope <= _FLAT:
            return math.nan, self.flat()
        return self._centre - self._spread * intercept / slope, -float(found.fun)

    def _climb(self, start: tuple[float, float]) -> optimize.OptimizeResult:
        return optimize.minimize(
            lambda line: -float(self._value(np.array([line[0]]), np.array([line[1]]))[0]),
            np.array(start),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 2000},
        )

    def profile(self, log_threshold: float) -> float:
        """Return the maximum over steepness >= 0 at one threshold."""
        middle = (log_threshold - self._centre) / self._spread

        def at(log_steepness: NDArray[np.float64]) -> NDArray[np.float64]:
            steepness = np.exp(log_steepness)
            return self._value(-steepness * middle, steepness)

        # A threshold far out makes any but the flattest curves absurd: the grid follows it.
        reach = math.log(max(1.0, abs(middle)))
        grid = np.linspace(-7.0 - reach, 12.0 - reach, 96)
        best = int(np.argmax(at(grid)))
        polished = optimize.minimize_scalar(
            lambda log_steepness: -float(at(np.array([log_steepness]))[0]),
            bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]),
            method="bounded",
            options={"xatol": 1e-8},
        )
        return max(-float(polished.fun), float(self._value(np.zeros(1), np.zeros(1))[0]))

    def flat(self, ceiling: float = 1.0, floor: float = 0.0) -> float:
        """Return the maximum over curves without slope, their loss in [floor, ceiling]."""
        # With no slope the penalty is p (1 - p) times a constant: one more loss, one more not.
        share = (self._losses + 1) / (self._position.size + 2)
        level = np.array([special.logit(min(max(share, floor), ceiling))])
        return float(self._value(level, np.zeros(1))[0])

    def _value(
        self, intercept: NDArray[np.float64], slope: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the penalised log-likelihood of curves, both arguments of shape (m,)."""
        predictor = intercept[:, None] + slope[:, None] * self._position
        likelihood = special.log_expit(self._outcome * predictor).sum(axis=1)
        # Scaled by their largest, the weights survive curves so steep that all would vanish.
        log_weight = special.log_expit(predictor) + special.log_expit(-predictor)
        largest = log_weight.max(axis=1)
        weight = np.exp(log_weight - largest[:, None])
        total = weight.sum(axis=1)
        mean = (weight @ self._position) / total
        scatter = (weight * (self._position - mean[:, None]) ** 2).sum(axis=1)
        with np.errstate(divide="ignore"):
            return likelihood + largest + np.log(total * scatter) / 2


def _root(function: Callable[[float], float], first: float, second: float) -> float:
    return float(optimize.root_scalar(function, bracket=(first, second), xtol=1e-12).root)


def _rate(log_rate: float) -> float:
    if log_rate > _LARGEST_LOG_RATE:
        return math.inf
    return math.exp(log_rate)


def _check_sweep(
    rates: ArrayLike, lost: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
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


def _log_rates(rates: ArrayLike) -> NDArray[np.float64]:
    rate_of = finite_values(np.atleast_1d(np.asarray(rates, dtype=np.float64)), "rates")
    if rate_of.min() <= 0:
        raise ValueError(f"rates must be positive, got {rate_of.min()}")
    return np.log(rate_of)
