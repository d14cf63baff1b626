import math

import numpy as np
import pytest

from tsnrepro.stats import checks
from tsnrepro.stats.estimate import Estimate


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
    assert censored.has_interval
    assert censored.contains(500.0)
    assert censored.contains(1e9)
    assert not censored.contains(499.9)
    without = Estimate(3.0, math.nan, math.nan, 0.95, "m", 1)
    assert not without.has_interval
    assert not without.contains(3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": 3.0}, "upside down"),
        ({"level": 95.0}, "level"),
        ({"level": 1.0}, "level"),
        ({"n": 0}, "at least one"),
    ],
)
def test_impossible_estimates_cannot_be_built(changes, message):
    fields = {"value": 1.0, "low": 0.5, "high": 2.0, "level": 0.95, "method": "m", "n": 3}
    with pytest.raises(ValueError, match=message):
        Estimate(**(fields | changes))


def test_an_estimate_cannot_be_changed():
    estimate = Estimate(1.0, 0.5, 2.0, 0.95, "m", 3)
    with pytest.raises(AttributeError):
        estimate.value = 2.0  # type: ignore[misc]


def test_bad_samples_are_named_with_their_place():
    with pytest.raises(ValueError, match="latency is empty"):
        checks.finite_values([], "latency")
    with pytest.raises(ValueError, match=r"latency holds 2 value.*index 1"):
        checks.finite_values([1.0, math.nan, math.inf], "latency")
    with pytest.raises(ValueError, match=r"shape \(2, 1\)"):
        checks.finite_values([[1.0], [2.0]], "latency")


def test_rounding_of_the_last_bit_is_no_spread():
    assert checks.is_constant(np.array([0.3, 0.1 + 0.2]))
    assert checks.is_constant(np.zeros(3))
    assert not checks.is_constant(np.array([941.0, 941.000001]))
