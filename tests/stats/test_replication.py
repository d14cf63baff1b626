import math

import numpy as np
import pytest

from tsnrepro.stats.replication import mean_over_runs, ratio_over_runs

# Student (1908), Biometrika 6(1), hours of sleep gained: the pairs' differences and the first
# drug. The limits are those of R's t.test on its data set `sleep`.
FIRST_DRUG = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DIFFERENCES = [-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4]


@pytest.mark.parametrize(
    ("values", "mean", "low", "high"),
    [
        (FIRST_DRUG, 0.75, -0.5297804, 2.0297804),
        (DIFFERENCES, -1.58, -2.4598858, -0.7001142),
    ],
)
def test_students_own_example(values, mean, low, high):
    estimate = mean_over_runs(values, unit="h")
    assert estimate.value == pytest.approx(mean)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=5e-8)
    assert (estimate.n, estimate.unit) == (10, "h")


def test_one_run_has_a_value_and_no_interval():
    for estimate in (mean_over_runs([12.5]), ratio_over_runs([25.0], [2.0])):
        assert estimate.value == 12.5
        assert math.isnan(estimate.low)
        assert math.isnan(estimate.high)
        assert estimate.method.startswith("one run")
        assert estimate.n == 1


def test_identical_runs_shrink_the_interval_to_the_value():
    estimate = mean_over_runs([941.0] * 5)
    assert (estimate.low, estimate.value, estimate.high) == (941.0, 941.0, 941.0)


def test_ratio_over_equal_denominators_is_the_mean_of_the_ratios():
    lost = [3.0, 0.0, 7.0, 1.0, 4.0]
    ratio = ratio_over_runs(lost, [1000.0] * 5, level=0.9)
    mean = mean_over_runs(np.array(lost) / 1000, level=0.9)
    assert ratio.value == pytest.approx(mean.value)
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high))


def test_ratio_weighs_runs_by_what_they_sent_and_does_not_fall_below_zero():
    estimate = ratio_over_runs([0, 0, 0, 90], [1000, 1000, 1000, 6000])
    assert estimate.value == pytest.approx(0.01)
    assert estimate.low == 0.0
    assert estimate.high > 0.01


def test_a_ratio_the_same_in_every_run_has_no_spread():
    control = np.array([50.0, 55.0, 61.0])
    estimate = ratio_over_runs(1.07 * control, control)
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((1.07, 1.07, 1.07))


def test_ratio_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(1000):
        control = rng.normal(100, 10, 12)
        frer = 1.05 * control + rng.normal(0, 5, 12)
        covered += ratio_over_runs(frer, control).contains(1.05)
    # Binomial noise of 1000 draws at 95 % is 0.7 points.
    assert 0.925 < covered / 1000 < 0.975


def test_negative_numerators_may_have_negative_limits():
    assert ratio_over_runs([-1.0, 1.0, 0.5], [10.0, 10.0, 10.0]).low < 0


@pytest.mark.parametrize(
    ("numerators", "denominators", "message"),
    [
        ([], [], "numerators is empty"),
        ([1.0], [1.0, 2.0], "1 against 2"),
        ([1.0, 2.0], [1.0, 0.0], "index 1"),
        ([math.nan, 2.0], [1.0, 1.0], "not finite"),
    ],
)
def test_unusable_ratios(numerators, denominators, message):
    with pytest.raises(ValueError, match=message):
        ratio_over_runs(numerators, denominators)


def test_unusable_means():
    with pytest.raises(ValueError, match="values is empty"):
        mean_over_runs([])
    with pytest.raises(ValueError, match="level"):
        mean_over_runs([1.0, 2.0], level=95)
