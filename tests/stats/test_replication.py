import math

import numpy as np
import pytest

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.replication import mean_over_runs, range_over_runs

# Student (1908), Biometrika 6(1), hours of sleep gained with the first drug; the limits are those
# of R's t.test on its data set `sleep`.
FIRST_DRUG = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])


def test_students_example_as_logarithms():
    estimate = mean_over_runs(np.exp(FIRST_DRUG), unit="us")
    assert math.log(estimate.value) == pytest.approx(0.75)
    limits = np.log([estimate.low, estimate.high])
    assert limits == pytest.approx([-0.5297804, 2.0297804], abs=5e-8)
    assert (estimate.n, estimate.unit, estimate.limits) == (10, "us", Limits.INTERVAL)


def test_limits_are_positive_and_below_the_ceiling():
    assert mean_over_runs([5.0, 20.0, 330.0]).low > 0
    rates = mean_over_runs([861.0, 940.0, 950.0], ceiling=957.1)
    assert rates.high == 957.1
    # An impossible value stays visible.
    assert mean_over_runs([900.0, 1000.0, 1100.0], ceiling=957.1).value > 957.1


@pytest.mark.parametrize("values", [[12.5], [941.0] * 5])
def test_one_run_or_equal_ones_have_a_value_and_no_limits(values):
    for estimate in (mean_over_runs(values), range_over_runs(values, "counts")):
        assert estimate.value == values[0]
        assert math.isnan(estimate.low)
        assert math.isnan(estimate.high)
        assert estimate.limits is Limits.NONE
        assert estimate.method.startswith("no interval: ")


@pytest.mark.parametrize(("values", "why"), [([1.0, 3.0], "fewer than 3"), ([0.0, 1, 2], "posit")])
def test_without_interval_there_is_a_range(values, why):
    estimate = mean_over_runs(values)
    assert (estimate.low, estimate.high) == (min(values), max(values))
    assert estimate.limits is Limits.RANGE
    assert not estimate.decides
    assert estimate.method.startswith("range over ")
    assert why in estimate.method


def test_unusable_runs():
    with pytest.raises(ValueError, match="is empty"):
        mean_over_runs([])
    with pytest.raises(ValueError, match="level"):
        mean_over_runs([1.0, 2.0], level=95)
