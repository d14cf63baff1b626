"""Power of comparisons of two configurations: what their repetitions find in 80 % of campaigns.

The scatter is a campaign's own, and known from its few repetitions only: power is averaged over
what it may be, so that the effect named is found in 80 % of further campaigns, not of those whose
scatter came out as large as it is.

From six pairs on nothing is assumed of the scatter but that it is alike to both sides: a further
repetition falls between any two of those seen, or beyond the largest, with equal chance (Hill 1968,
Journal of the American Statistical Association 63(322)). Of fewer pairs, which show no tail, only
what scatter of a normal distribution would allow is known: no effect is promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from tsnrepro.stats.checks import is_constant
from tsnrepro.stats.comparisons import WELCH, rejected_ranks
from tsnrepro.stats.estimate import MIN_RUNS, MIN_RUNS_TO_STOP, Estimate, Limits

POWER = 0.8
MIN_PAIRS = MIN_RUNS_TO_STOP
"""Fewest pairs of runs whose scatter promises an effect; ``benchmarks/papers.py`` shows it."""
MOST_REPETITIONS = 100_000
"""Above so many, repetitions are no way to decide."""
# Quantiles of a scatter's distribution over which power is averaged.
_PARTS = 50
_HUGE = 300.0  # a logarithm whose exponential is still a float
# Further campaigns simulated, and how much of the pairs shows the tail.
_CAMPAIGNS, _TAIL = 500, 0.25


@dataclass(frozen=True)
class Scatter:
    """How far an estimate's logarithm scatters between repetitions.

    Attributes
    ----------
    deviation
        Standard deviation of the logarithm of the ratio of one repetition.
    repetitions
        From so many of each configuration.
    freedom
        Degrees of freedom of the deviation.
    distances
        Of the pairs' logarithms from their median, ascending; empty where they are fewer than
        :data:`MIN_PAIRS`, or none.
    ranked
        Whether the test is that of signed ranks, not Student's.
    promises
        Whether the effect is found in 80 % of campaigns, and not only where scatter is normal.
    """

    deviation: float
    repetitions: int
    freedom: int
    distances: tuple[float, ...] = ()
    ranked: bool = False
    promises: bool = False

    def error(self, repetitions: int) -> float:
        """Return the standard error of the mean logarithm over so many repetitions."""
        return self.deviation / math.sqrt(repetitions)


def scatter_of_change(change: Estimate, repetitions: int) -> Scatter | None:
    """Return the scatter that the limits of a change in percent show, None where they show none.

    Limits by ranks are taken for Student's of the same width. Those that the loads tried set, and
    those that are open, do not tell the scatter.

    Parameters
    ----------
    change
        With its limits.
    repetitions
        From so many of each configuration.
    """
    finite = math.isfinite(change.low) and math.isfinite(change.high)
    if not (change.decides and finite) or change.limits is Limits.BRACKET or change.low <= -100:
        return None
    freedom = (2 if WELCH in change.method else 1) * (repetitions - 1)
    width = math.log1p(change.high / 100) - math.log1p(change.low / 100)
    if repetitions < MIN_RUNS or width <= 0:
        return None
    error = width / 2 / _critical(freedom, 1 - change.level)
    return Scatter(error * math.sqrt(repetitions), repetitions, freedom)


def scatter_of_pairs(
    change: Estimate, a: ArrayLike, b: ArrayLike, *, paired: bool, ranked: bool = False
) -> Scatter | None:
    """Return the scatter of a change in percent, with the tail that its pairs show.

    Parameters
    ----------
    change
        As for :func:`scatter_of_change`.
    a, b
        The values compared, all above 0, shape (n,) each if they are pairs.
    paired
        Whether the k-th values of both are of one repetition.
    ranked
        Whether the test is that of signed ranks, not Student's.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    n = min(first.size, second.size)
    found = scatter_of_change(change, n)
    if found is None or not paired or n < MIN_PAIRS:
        return found
    logs = np.log(first) - np.log(second)
    if is_constant(logs):
        return found
    distances = np.sort(np.abs(logs - np.median(logs)))
    if not ranked:
        # Limits of readings with a step are wider than their pairs.
        distances *= max(1.0, found.deviation / float(logs.std(ddof=1)))
    distances *= math.sqrt(n / (n - 1))
    return replace(found, distances=tuple(distances.tolist()), ranked=ranked, promises=True)


def scatter_of_ratio(ratio: Estimate, repetitions: int) -> Scatter | None:
    """Return the scatter that the limits of a ratio of thresholds show.

    As :func:`scatter_of_change`. Thresholds lie between loads, so that their tails are short.
    """
    found = scatter_of_change(in_percent(ratio), repetitions)
    return found and replace(found, promises=repetitions >= MIN_PAIRS)


def in_percent(ratio: Estimate) -> Estimate:
    """Return a ratio as a change in percent."""
    percent = {name: 100 * (getattr(ratio, name) - 1) for name in ("value", "low", "high")}
    return replace(ratio, **percent, unit="%")


def smallest_change_found(
    scatter: Scatter, significance: float, *, beyond_percent: float = 0.0
) -> float:
    """Return the smallest rise in percent that as many repetitions find in 80 % of campaigns.

    Parameters
    ----------
    scatter
        Of the comparison.
    significance
        Two-sided, of the test of this comparison alone: of m tests by Holm's method, an m-th.
    beyond_percent
        Margin that the whole interval has to lie beyond.
    """
    known = as_student(scatter, significance)
    reach = _reach(known.freedom, known.repetitions, significance)
    found = reach * known.error(known.repetitions)
    return 100 * math.expm1(min(math.log1p(beyond_percent / 100) + found, 700.0))


@lru_cache(maxsize=64)
def as_student(scatter: Scatter, significance: float) -> Scatter:
    """Return the scatter of which Student's test of as many pairs finds as much.

    Of pairs whose distances are known it is that of simulated campaigns, larger than their
    deviation where the tail is long or ranks are few; of others it is the scatter itself.

    Parameters
    ----------
    scatter, significance
        As for :func:`smallest_change_found`.
    """
    if not scatter.distances:
        return scatter
    n = len(scatter.distances)
    further = _further_pairs(np.array(scatter.distances))
    if scatter.ranked:
        rejected = rejected_ranks(n, significance)
        first, second = np.triu_indices(n)
        # Ranks are of differences, not of logarithms: a stall on one side exceeds what a rise makes
        # of the other. The mean of two differences is above 0 from this rise of the logarithm on.
        above, below = (np.exp(np.minimum(np.maximum(x, 0), _HUGE)) for x in (further, -further))
        means = np.log((above[:, first] + above[:, second]) / (below[:, first] + below[:, second]))
        shifts = -np.partition(means, rejected - 1)[:, rejected - 1] if rejected else math.inf
    else:
        error = further.std(axis=1, ddof=1) / math.sqrt(n)
        shifts = _critical(n - 1, significance) * error - further.mean(axis=1)
    shift = float(np.quantile(shifts, POWER, method="higher"))
    deviation = shift * math.sqrt(n) / _reach(n - 1, n, significance)
    return Scatter(deviation, n, n - 1)


def _further_pairs(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logarithms of further campaigns' pairs without an effect, shape (campaigns, n).

    Beyond the largest distance their excess is exponential, that of a ratio Pareto's, of the scale
    that the largest ones show.
    """
    n = distances.size
    gap, within, sign, scale = _places(n)
    largest = _in_tail(n)
    start = distances[-largest - 1]
    excess = (distances[-largest:].mean() - start) * scale
    edges = np.concatenate([[0.0], distances, distances[-1:]])
    inside = edges[gap] + (edges[gap + 1] - edges[gap]) * within
    return sign * np.where(gap == n, distances[-1] - excess * np.log(within), inside)


def _in_tail(n: int) -> int:
    return max(2, round(_TAIL * n))


@lru_cache(maxsize=64)
def _places(n: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return where the pairs of further campaigns lie among n distances, the same in each call.

    The gaps between distances, and the one beyond, are equally likely on average.
    """
    rng = np.random.default_rng(n)
    chances = np.cumsum(rng.dirichlet(np.ones(n + 1), _CAMPAIGNS), axis=1)
    drawn = rng.random((_CAMPAIGNS, n))
    gap = np.minimum((drawn[:, :, None] >= chances[:, None, :]).sum(axis=2), n)
    within, sign = rng.random(drawn.shape), rng.choice([-1.0, 1.0], drawn.shape)
    # The scale of the excess is an estimate from a few distances.
    scale = 1 / rng.gamma(_in_tail(n), 1 / _in_tail(n), (_CAMPAIGNS, 1))
    return gap, within, sign, scale


@dataclass(frozen=True)
class RiseOfShare:
    """What a comparison of shares of trials within blocks finds.

    Attributes
    ----------
    smallest
        The smallest rise that is found in 80 % of campaigns, None where not even the one to all
        trials is.
    end_found
        Share of campaigns that find it if with the change no trial has the outcome.
    """

    smallest: float | None
    end_found: float


def rise_of_share_found(
    blocks: ArrayLike, repetitions: ArrayLike, significance: float
) -> RiseOfShare:
    """Return what :func:`tsnrepro.stats.proportions.compare_within_strata` finds.

    Each repetition of a further campaign is like one of those seen, whose share is known from its
    trials only. The test is Mantel and Haenszel's with continuity correction (1959, Journal of the
    National Cancer Institute 22(4)), which follows the exact one.

    Parameters
    ----------
    blocks
        The repetition of each block, and its trials with and without the change, shape (blocks, 3).
    repetitions
        Trials of each repetition with the outcome, and all, shape (repetitions, 2).
    significance
        As for :func:`smallest_change_found`.
    """
    table = np.asarray(blocks, int)
    number, with_it, without = table[(table[:, 1:] > 0).all(axis=1)].T
    having, tried = np.asarray(repetitions, float).T
    rng, drawn = np.random.default_rng(len(number)), (_CAMPAIGNS, len(having))
    like = rng.integers(len(having), size=drawn)
    share = rng.beta(having[like] + 0.5, tried[like] - having[like] + 0.5)[:, number]
    chances = [rng.random((_CAMPAIGNS, int(count.sum()))) for count in (with_it, without)]
    total, critical = with_it + without, float(special.ndtri(1 - significance / 2))

    def outcomes(chance: NDArray, count: NDArray, of: NDArray) -> NDArray:
        there = chance < np.repeat(of, count, axis=1)
        ends = np.cumsum(count)
        summed = np.concatenate([np.zeros((_CAMPAIGNS, 1)), there.cumsum(axis=1)], axis=1)
        return summed[:, ends] - summed[:, ends - count]

    before = outcomes(chances[1], without, share)

    def found(after: NDArray) -> float:
        ours = outcomes(chances[0], with_it, after)
        had = ours + before
        expected = had * with_it / total
        variance = had * (total - had) * with_it * without / (total**2 * (total - 1.0))
        off = np.abs((ours - expected).sum(axis=1)) - 0.5
        return float((off >= critical * np.sqrt(variance.sum(axis=1))).mean())

    end = found(np.zeros_like(share))
    if found(np.ones_like(share)) < POWER:
        return RiseOfShare(None, end)
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if found(share + middle) >= POWER else (middle, high)
    return RiseOfShare(high, end)


def repetitions_to_find(
    scatter: Scatter, change_percent: float, significance: float, power: float = POWER
) -> int | None:
    """Return how many repetitions find a rise in 80 % of campaigns, None above 100,000.

    At least :data:`MIN_PAIRS`.
    """
    scatter = as_student(scatter, significance)
    effect = math.log1p(change_percent / 100)

    def finds(repetitions: int) -> bool:
        reach = effect / scatter.error(repetitions)
        return _share_found(reach, scatter.freedom, repetitions, significance) >= power

    # By the normal distribution: of many repetitions this is nearly it.
    known = special.ndtri(power) + special.ndtri(1 - significance / 2)
    about = (known * scatter.deviation / effect) ** 2
    if about > MOST_REPETITIONS:
        return None
    low, high = MIN_PAIRS - 1, max(MIN_PAIRS, math.ceil(1.2 * about))
    while not finds(high):
        low, high = high, math.ceil(1.5 * high)
    if low < about < high and not finds(math.floor(about)):
        low = math.floor(about)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def repetitions_for_equivalence(
    scatter: Scatter, margin_percent: float, significance: float
) -> int | None:
    """Return how many repetitions show equal configurations equivalent in 80 % of campaigns.

    By two one-sided tests of a significance each: one fails in a tenth of campaigns.
    """
    both = 1 - (1 - POWER) / 2
    return repetitions_to_find(scatter, margin_percent, 2 * significance, both)


@lru_cache(maxsize=1024)
def _reach(freedom: int, repetitions: int, significance: float) -> float:
    """Return how many standard errors are found in 80 % of campaigns, see :func:`_share_found`."""

    def too_much(reach: float) -> float:
        return _share_found(reach, freedom, repetitions, significance) - POWER

    return optimize.root_scalar(too_much, bracket=(0.0, 1e6), rtol=1e-6).root


def _share_found(reach: float, freedom: int, repetitions: int, significance: float) -> float:
    """Return in which share of campaigns a t test of pairs finds an effect.

    The effect is ``reach`` standard errors, which ``freedom`` degrees show; that of the test is its
    own, from its ``repetitions``.
    """
    later = repetitions - 1
    # What was estimated, and what the test will estimate, of a deviation of one.
    before, after = _deviations(freedom), _deviations(later)
    critical = _critical(later, significance) * after[:, None]
    return float(special.ndtr(reach * before - critical).mean())


@lru_cache(maxsize=1024)
def _deviations(freedom: int) -> NDArray[np.float64]:
    """Return equally likely estimates of a standard deviation of one."""
    shares = (np.arange(_PARTS) + 0.5) / _PARTS
    return np.sqrt(special.chdtri(freedom, 1 - shares) / freedom)


def _critical(freedom: int, significance: float) -> float:
    """Return Student's two-sided critical value."""
    return -float(special.stdtrit(freedom, significance / 2))
