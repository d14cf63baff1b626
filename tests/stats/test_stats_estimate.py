import math

import numpy as np
import pytest

from tsnrepro.records.values import decides
from tsnrepro.stats import checks
from tsnrepro.stats.estimate import Estimate, Limits, without_interval


def test_scaling_moves_value_and_limits_together():
    ratio = Estimate(0.01, 0.005, 0.02, 0.95, "Clopper-Pearson", 1000)
    percent = ratio.scaled(100, "%")
    assert (percent.value, percent.low, percent.high) == pytest.approx((1.0, 0.5, 2.0))
    assert (percent.unit, percent.level, percent.method, percent.n) == (
        "%",
        0.95,
        "Clopper-Pearson",
        1000,
    )


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan])
def test_scaling_refuses_factors_that_would_turn_the_interval(factor):
    with pytest.raises(ValueError, match="factor"):
        Estimate(1.0, 0.5, 2.0, 0.95, "m", 3).scaled(factor, "us")


def test_an_interval_covers_its_ends_and_infinity_but_nan_covers_nothing():
    censored = Estimate(math.nan, 500.0, math.inf, 0.95, "m", 6)
    assert censored.contains(500.0)
    assert censored.contains(1e9)
    assert not censored.contains(499.9)
    without = without_interval(3.0, "one run", 1)
    assert not without.decides
    assert not without.contains(3.0)


@pytest.mark.parametrize("limits", Limits)
def test_the_method_begins_with_the_kind_of_limits(limits):
    method = "Student t" if limits is Limits.INTERVAL else f"{limits}: of three runs"
    estimate = Estimate(1.0, 0.5, 2.0, 0.95, method, 3, limits=limits)
    # Results documents have only the method, which must show the same.
    assert decides(estimate.method) == estimate.decides


def test_a_ceiling_cuts_limits_but_not_values():
    estimate = Estimate(940.0, 900.0, 1100.0, 0.95, "m", 3, "Mb/s")
    assert estimate.at_most(957.1).high == 957.1
    assert estimate.at_most(920.0) == estimate
    open_above = Estimate(math.nan, 900.0, math.inf, 0.95, "m", 3)
    assert open_above.at_most(957.1).high == 957.1


@pytest.mark.parametrize(
    ("low", "high", "within"),
    [(0.991, 1.009, True), (0.98, 1.01, False), (0.99, math.inf, False), (-math.inf, 1.01, False)],
)
def test_precise_if_limits_are_within_a_share_of_their_middle(low, high, within):
    assert Estimate(math.nan, low, high, 0.95, "m", 6).is_precise_to(1.0) == within
    assert not Estimate(math.nan, low, high, 0.95, "m", 5).is_precise_to(1.0)
    range_of = Estimate(math.nan, low, high, 0.95, "range", 6, limits=Limits.RANGE)
    assert not range_of.is_precise_to(1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": 3.0}, "upside down"),
        ({"level": 95.0}, "level"),
        ({"level": 1.0}, "level"),
        ({"n": 0}, "at least one"),
    ],
)
def test_invalid_estimates(changes, message):
    fields = {"value": 1.0, "low": 0.5, "high": 2.0, "level": 0.95, "method": "m", "n": 3}
    with pytest.raises(ValueError, match=message):
        Estimate(**(fields | changes))


def test_estimates_are_immutable():
    estimate = Estimate(1.0, 0.5, 2.0, 0.95, "m", 3)
    with pytest.raises(AttributeError):
        estimate.value = 2.0  # type: ignore[misc]


def test_bad_samples_are_named_with_their_index():
    with pytest.raises(ValueError, match="latency is empty"):
        checks.finite_values([], "latency")
    with pytest.raises(ValueError, match=r"latency holds 2 value.*index 1"):
        checks.finite_values([1.0, math.nan, math.inf], "latency")
    with pytest.raises(ValueError, match=r"shape \(2, 1\)"):
        checks.finite_values([[1.0], [2.0]], "latency")


def test_rounding_is_not_spread():
    assert checks.is_constant(np.array([0.3, 0.1 + 0.2]))
    assert checks.is_constant(np.zeros(3))
    assert not checks.is_constant(np.array([941.0, 941.000001]))
