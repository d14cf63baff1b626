"""What a few runs say of losses that come in bursts."""

import math

import numpy as np
import pytest
from scipy import stats

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.losses import difference_of_losses, difference_of_shares, loss_over_runs

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


def test_where_every_run_lost_there_are_limits_cut_at_nothing_and_at_all():
    estimate = loss_over_runs([1.0, 2.0, 3.0])
    half = THIRD / math.sqrt(3)
    assert (estimate.value, estimate.low) == pytest.approx((2, max(0, 2 - half)))
    assert estimate.high == pytest.approx(2 + half)
    assert estimate.limits is Limits.BOUND
    assert loss_over_runs([0.1, 5.0, 9.0]).low == 0
    assert loss_over_runs([90.0, 95.0, 100.0]).high == 100.0


def test_where_some_run_lost_nothing_there_is_a_range():
    estimate = loss_over_runs([0.0, 0.0, 3.0])
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 0, 3))
    assert estimate.limits is Limits.RANGE
    assert "2 of 3 trials lost nothing" in estimate.method


def test_differences_have_limits_where_one_side_lost_in_every_run():
    against = difference_of_losses([10.0, 12.0, 14.0], [0.0, 0.0, 1.0], paired=True)
    gaps = np.array([10.0, 12.0, 13.0])
    half = THIRD * gaps.std(ddof=1) / math.sqrt(3)
    assert against.low == pytest.approx(gaps.mean() - half)
    assert against.limits is Limits.BOUND
    neither = difference_of_losses([0.0, 12.0, 14.0], [0.0, 0.0, 1.0], paired=True)
    assert (neither.limits, neither.value) == (Limits.NONE, pytest.approx(25 / 3))
    assert difference_of_losses([0.0] * 3, [0.0] * 3).value == 0
    assert difference_of_losses([50.0, 100.0, 90.0], [0.0, 0.0, 90.0]).high == 100


def test_shares_of_trials_have_students_limits_cut_at_all():
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
        difference_of_losses([1.0], [1.0, 2.0], paired=True)
