"""Trends against least squares where they are exact, and against what cannot be told."""

import numpy as np
import pytest
from scipy import stats

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.trends import trend_over_runs


def test_a_straight_line_has_its_slope_however_unevenly_it_was_seen():
    times = np.array([0.0, 1.0, 1.5, 4.0, 4.2, 9.0, 9.5])
    found = trend_over_runs(3 - 0.25 * times, times, unit="%/h")
    assert found.value == pytest.approx(-0.25)
    assert (found.unit, found.n) == ("%/h", 7)


def test_limits_are_students_over_the_slopes_of_pairs():
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


def test_a_shift_of_all_runs_changes_nothing():
    rng = np.random.default_rng(3)
    values, times = rng.normal(size=20), np.arange(20.0)
    plain, shifted = trend_over_runs(values, times), trend_over_runs(values + 70, times + 1000)
    assert shifted.low == pytest.approx(plain.low)
    assert shifted.high == pytest.approx(plain.high)


@pytest.mark.parametrize(
    ("values", "why"), [([1, 2, 3, 4, 9], "fewer than 6"), ([2.0] * 8, "no spread")]
)
def test_few_or_equal_runs_have_a_slope_and_no_limits(values, why):
    found = trend_over_runs(values, np.arange(len(values)))
    assert why in found.method
    assert not found.decides


@pytest.mark.parametrize(
    ("values", "times"),
    [([1.0], [0.0]), ([1.0, 2.0], [0.0]), ([1.0, 2.0], [1.0, 1.0]), ([1.0, np.nan], [0.0, 1.0])],
)
def test_unusable_runs(values, times):
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        trend_over_runs(values, times)
