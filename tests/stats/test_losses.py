"""Losses over a few runs, which come in bursts, and their trend."""

import math

import numpy as np
import pytest
from scipy import stats

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.losses import (
    difference_of_shares,
    loss_over_runs,
    trend_over_runs,
)

# Student's quantile with a third of the tails of 95 %, two degrees of freedom.
THIRD = stats.t.ppf(1 - 0.025 / 3, 2)


def test_runs_without_loss_are_counted_as_runs():
    estimate = loss_over_runs([0.0, 0.0, 0.0])
    assert (estimate.value, estimate.limits) == (0.0, Limits.NONE)
    # 1 - 0.05^(1/3)
    assert "0 of 3 trials lost" in estimate.method
    assert "at most 63 %" in estimate.method
    of_several = loss_over_runs([0.0, 0.0, 0.0], runs_are="repetitions")
    assert "0 of 3 repetitions lost" in of_several.method


@pytest.mark.parametrize("lost", [[1.0, 2.0, 3.0], [0.0, 0.0, 6.0], [0.01] * 9 + [5.0]])
def test_a_mean_of_losses_has_the_range_of_the_runs(lost):
    estimate = loss_over_runs(lost)
    assert estimate.value == pytest.approx(np.mean(lost))
    assert (estimate.low, estimate.high, estimate.limits) == (min(lost), max(lost), Limits.RANGE)
    assert "may lose more" in estimate.method


def test_shares_of_trials_have_students_limits_cut_at_100():
    found = difference_of_shares([100 / 3, 50, 200 / 3], [0.0, 0.0, 0.0], paired=True)
    half = stats.t.ppf(0.975, 2) * (100 / 6) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((50 - half, 50 + half))
    assert found.limits is Limits.BOUND
    assert difference_of_shares([100.0, 40, 90], [0.0, 0, 0], paired=True).high == 100
    assert difference_of_shares([50.0] * 3, [0.0] * 3, paired=True).limits is Limits.NONE


def test_unusable_losses():
    with pytest.raises(ValueError, match="is empty"):
        loss_over_runs([])
    with pytest.raises(ValueError, match="level"):
        loss_over_runs([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="pair up"):
        difference_of_shares([1.0], [1.0, 2.0], paired=True)


# --- trend ----------------------------------------------------------------------------------------


def test_the_slope_of_a_straight_line_at_uneven_times():
    times = np.array([0.0, 1.0, 1.5, 4.0, 4.2, 9.0, 9.5])
    found = trend_over_runs(3 - 0.25 * times, times, unit="%/h")
    assert found.value == pytest.approx(-0.25)
    assert (found.unit, found.n) == ("%/h", 7)


def test_limits_of_a_trend_are_students_over_slopes_of_pairs():
    values = np.array([1.0, 4.0, 2.0, 99.0, 3.0, 5.0, 8.0])
    times = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
    # The run in the middle has no pair: (3 - 1) / 4, (5 - 4) / 5, (8 - 2) / 6.
    slopes = np.array([0.5, 0.2, 1.0])
    # With a third of the tails, since losses come in bursts.
    half = stats.t.ppf(1 - 0.025 / 3, 2) * slopes.std(ddof=1) / np.sqrt(3)
    found = trend_over_runs(values, times)
    assert found.value == pytest.approx(slopes.mean())
    assert (found.low, found.high) == pytest.approx((slopes.mean() - half, slopes.mean() + half))
    assert found.limits is Limits.BOUND
    assert found.method.startswith("bound")


def test_a_shift_of_all_runs_does_not_change_the_trend():
    rng = np.random.default_rng(3)
    values, times = rng.normal(size=20), np.arange(20.0)
    plain, shifted = trend_over_runs(values, times), trend_over_runs(values + 70, times + 1000)
    assert shifted.low == pytest.approx(plain.low)
    assert shifted.high == pytest.approx(plain.high)


@pytest.mark.parametrize(
    ("values", "why"), [([1, 2, 3, 4, 9], "fewer than 6"), ([2.0] * 8, "no spread")]
)
def test_few_or_equal_runs_have_a_trend_without_limits(values, why):
    found = trend_over_runs(values, np.arange(len(values)))
    assert why in found.method
    assert not found.decides


@pytest.mark.parametrize(
    ("values", "times"),
    [([1.0], [0.0]), ([1.0, 2.0], [0.0]), ([1.0, 2.0], [1.0, 1.0]), ([1.0, np.nan], [0.0, 1.0])],
)
def test_unusable_runs_of_a_trend(values, times):
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        trend_over_runs(values, times)
