import math

import numpy as np
import pytest
from scipy import optimize, stats

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.replication import median_over_runs, range_over_runs, spread_over_runs

# Student (1908), Biometrika 6(1), hours of sleep gained with the first drug. Of ten values the
# second and the ninth bound the median with 1 - 2 (1 + 10) / 2^10 (Conover 1999, 3.2).
FIRST_DRUG = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])


def test_order_statistics_bound_the_median():
    estimate = median_over_runs(FIRST_DRUG, unit="h")
    assert (estimate.value, estimate.low, estimate.high) == (0.35, -1.2, 3.4)
    assert (estimate.n, estimate.unit, estimate.limits) == (10, "h", Limits.BOUND)
    wider = median_over_runs(FIRST_DRUG, level=0.98)
    assert (wider.low, wider.high) == (-1.6, 3.7)
    other = stats.quantile_test(FIRST_DRUG, p=0.5).confidence_interval(0.95)
    assert (other.low, other.high) == (estimate.low, estimate.high)


@pytest.mark.parametrize("draw", ["regimes", "one_in_ten", "pareto", "lognormal"])
@pytest.mark.parametrize("runs", [6, 9, 16])
def test_limits_hold_for_runs_that_really_occur(draw, runs):
    """Two regimes of medians, one run in ten ten times as long, stalls with a heavy tail."""
    rng = np.random.default_rng(runs)
    size = (5000, runs)
    sets = {
        "regimes": np.where(rng.random(size) < 0.42, 30.0, 9.0) * rng.lognormal(0, 0.02, size),
        "one_in_ten": rng.lognormal(0, 0.1, size) * np.where(rng.random(size) < 0.1, 10, 1),
        "pareto": 10 + rng.pareto(1.1, size),
        "lognormal": rng.lognormal(0, 1, size),
    }[draw]
    truth = {
        # Of the lower regime, which has 58 % of the runs, 50 / 58 lie below the median.
        "regimes": 9 * np.exp(0.02 * stats.norm.ppf(0.5 / 0.58)),
        "one_in_ten": _median_of_one_in_ten(),
        "pareto": 10 + 2 ** (1 / 1.1) - 1,
        "lognormal": 1.0,
    }[draw]
    found = [median_over_runs(each) for each in sets]
    held = sum(each.contains(truth) for each in found)
    assert all(each.decides for each in found)
    assert stats.binom.cdf(held, len(sets), 0.95) > 0.001


def _median_of_one_in_ten() -> float:
    def below(x: float) -> float:
        log = math.log(x)
        few = stats.norm.cdf((log - math.log(10)) / 0.1)
        return 0.9 * stats.norm.cdf(log / 0.1) + 0.1 * few - 0.5

    return optimize.brentq(below, 0.5, 2)


def test_limits_are_below_the_ceiling():
    rates = median_over_runs([861.0, 940.0, 950.0, 900.0, 910.0, 957.0], ceiling=950.0)
    assert (rates.low, rates.high) == (861.0, 950.0)
    # An impossible value stays visible.
    assert median_over_runs([960.0, 1000.0, 1100.0], ceiling=957.1).value > 957.1


@pytest.mark.parametrize("values", [[12.5], [941.0] * 5])
def test_one_run_or_equal_ones_have_a_value_and_no_limits(values):
    for estimate in (median_over_runs(values), range_over_runs(values, "counts")):
        assert estimate.value == values[0]
        assert math.isnan(estimate.low)
        assert math.isnan(estimate.high)
        assert estimate.limits is Limits.NONE
        assert estimate.method.startswith("no interval: ")


@pytest.mark.parametrize("values", [[1.0, 3.0], [0.0, 1, 2], [3.0, 1, 2, 5, 4]])
def test_fewer_than_six_runs_have_a_range(values):
    estimate = median_over_runs(values)
    assert (estimate.low, estimate.high) == (min(values), max(values))
    assert estimate.limits is Limits.RANGE
    assert not estimate.decides
    assert estimate.method.startswith("range over ")
    assert "too few" in estimate.method


def test_unusable_runs():
    with pytest.raises(ValueError, match="is empty"):
        median_over_runs([])
    with pytest.raises(ValueError, match="level"):
        median_over_runs([1.0, 2.0], level=95)


def test_one_run_that_lost_among_others_that_did_not_has_no_variation():
    """It would be the square root of their number, whatever was lost."""
    for lost in (0.1, 30.0):
        found = spread_over_runs([[0.0, lost, 0.0]], "losses")
        assert math.isnan(found.value)
        assert "a single run of 3" in found.method
    both = spread_over_runs([[0.0, 3.0, 0.0], [1.0, 2.0, 3.0]], "losses")
    assert both.value > 0


def test_runs_that_their_neighbours_tell_are_said_to_correlate():
    assert "neighbouring runs correlate by 0.6" in median_over_runs(range(8)).method
    assert "correlate" not in median_over_runs([3.0, 8, 1, 6, 2, 7, 4, 5]).method
