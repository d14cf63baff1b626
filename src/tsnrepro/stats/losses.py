"""What a few runs say of losses, which come in bursts: the run is the unit of replication.

How many bursts a run meets is chance, and so is how long each is. Where some run met none, the
longest of those to come has hardly been seen: Student's limits then miss the truth in up to a fifth
of simulated data sets. Where every run lost something they hold, with a third of the usual tails.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike
from scipy import stats

from tsnrepro.stats.checks import check_probability, finite_values, is_constant
from tsnrepro.stats.comparisons import TOO_FEW, difference_of_means, groups_of, no_spread, t_test
from tsnrepro.stats.estimate import DEFAULT_LEVEL, FEWEST_RUNS, Estimate, Limits, without_interval
from tsnrepro.stats.proportions import upper_bound_when_none_lost
from tsnrepro.stats.replication import ranged

# Part of the level's tails that Student's limits are taken with; benchmarks/intervals.py proves it.
_TAILS = 1 / 3
_STUDENT = f"{Limits.BOUND}: Student t with a third of the tails"


def loss_over_runs(
    percents: ArrayLike, level: float = DEFAULT_LEVEL, unit: str = "%", runs_are: str = "trials"
) -> Estimate:
    """Average one loss in percent a run, with limits that bursts do not make too narrow.

    Student's t over runs with a third of the tails, cut at 0 and 100, where every run lost
    something; a range where some did. Where none did, what that says is about runs, not datagrams,
    and the method says it.

    Parameters
    ----------
    percents
        Lost share of each run in percent, shape (runs,).
    level, unit
        As for :func:`tsnrepro.stats.replication.mean_over_runs`.
    runs_are
        What a run is, for the method: trials, or repetitions of several trials.
    """
    check_probability(level, "level")
    runs = finite_values(percents, "percents")
    if not runs.any():
        chance = 100 * upper_bound_when_none_lost(runs.size, level)
        why = (
            f"0 of {runs.size} {runs_are} lost; the chance that one loses is at most "
            f"{chance:.0f} % ({100 * level:g} %, one-sided)"
        )
        return without_interval(0.0, why, runs.size, unit, level)
    mean = float(runs.mean())
    if runs.size < FEWEST_RUNS or is_constant(runs):
        return ranged(mean, runs, f"fewer than {FEWEST_RUNS} runs", level, unit)
    if not runs.all():
        lossless = int((runs == 0).sum())
        why = f"{lossless} of {runs.size} {runs_are} lost nothing, and bursts differ"
        return ranged(mean, runs, why, level, unit)
    found = stats.ttest_1samp(runs, 0.0).confidence_interval(widened(level))
    low, high = max(float(found.low), 0.0), min(float(found.high), 100.0)
    method = f"{_STUDENT} over {runs_are}, cut at 0 and 100"
    return Estimate(mean, low, high, level, method, runs.size, unit, Limits.BOUND)


def difference_of_losses(
    a: ArrayLike,
    b: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "percentage points",
    *,
    paired: bool = False,
) -> Estimate:
    """Estimate mean(a) - mean(b) of losses, with limits that bursts do not make too narrow.

    Student's (paired) or Welch's t with a third of the tails, cut at 100 either way, where every
    run of one group lost something; else no limits.

    Parameters
    ----------
    a, b
        Losses in percent of the configuration in question and of the control, a run each.
    level, unit, paired
        As for :func:`tsnrepro.stats.comparisons.median_difference`.

    Raises
    ------
    ValueError
        A group is empty or not finite, or the groups cannot be paired.
    """
    check_probability(level, "level")
    first, second = groups_of(a, b, paired=paired)
    difference, n = float(first.mean() - second.mean()), first.size + second.size
    if not (first.any() or second.any()):
        return without_interval(0.0, "no run of either lost", n, unit, level)
    if min(first.size, second.size) < FEWEST_RUNS:
        return without_interval(difference, TOO_FEW, n, unit, level)
    if not (first.all() or second.all()):
        why = "runs of both lost nothing, and bursts differ"
        return without_interval(difference, why, n, unit, level)
    if no_spread(first, second, paired=paired):
        return without_interval(difference, "no spread", n, unit, level)
    found = t_test(first, second, paired=paired).confidence_interval(widened(level))
    low, high = max(float(found.low), -100.0), min(float(found.high), 100.0)
    method = f"{_STUDENT}, " + ("of differences by repetition" if paired else "Welch's")
    return Estimate(difference, low, high, level, method, n, unit, Limits.BOUND)


def difference_of_shares(
    a: ArrayLike,
    b: ArrayLike,
    level: float = DEFAULT_LEVEL,
    unit: str = "percentage points",
    *,
    paired: bool = False,
) -> Estimate:
    """Estimate mean(a) - mean(b) of the shares of trials that lost, a repetition each, in percent.

    Shares are between none and all, so no long burst is to come: Student's (paired) or Welch's t,
    cut at 100 either way. Of few trials a repetition its limits hold more often than `level`.

    Parameters
    ----------
    a, b, level, unit, paired
        As for :func:`difference_of_losses`.
    """
    found = difference_of_means(a, b, level, unit, paired=paired).estimate
    if not found.decides:
        return found
    low, high = max(found.low, -100.0), min(found.high, 100.0)
    method = f"{Limits.BOUND}: {found.method}, cut at 100"
    return replace(found, low=low, high=high, method=method, limits=Limits.BOUND)


def widened(level: float) -> float:
    """Return the level of Student's limits that hold bursts with the level asked for."""
    return 1 - _TAILS * (1 - level)
