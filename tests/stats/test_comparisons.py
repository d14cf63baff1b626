import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from tsnrepro.stats.comparisons import (
    difference_of_means,
    difference_of_thresholds,
    effect_size,
    holm,
    ratio_of_thresholds,
    relative_difference,
)
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.thresholds import binomial_threshold

# Student (1908), Biometrika 6(1), hours of sleep gained with two drugs; results of R's t.test
# on its data set `sleep`, unequal variances.
FIRST_DRUG = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND_DRUG = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

positive_groups = arrays(np.float64, st.integers(2, 12), elements=st.floats(1, 100))


def wilson(successes: int, trials: int) -> Estimate:
    low, high = proportion_confint(successes, trials, method="wilson")
    return Estimate(successes / trials, low, high, 0.95, "Wilson", trials)


def test_welch_on_students_data():
    comparison = difference_of_means(FIRST_DRUG, SECOND_DRUG, unit="h")
    estimate = comparison.estimate
    assert estimate.value == pytest.approx(-1.58)
    assert (estimate.low, estimate.high) == pytest.approx((-3.3654832, 0.2054832), abs=5e-8)
    assert comparison.p_value == pytest.approx(0.07939, abs=5e-6)
    assert (estimate.n, estimate.unit, estimate.method) == (20, "h", "Welch t")


@given(positive_groups, positive_groups)
def test_the_interval_excludes_zero_exactly_where_p_is_small(a, b):
    comparison = difference_of_means(a, b)
    p_value = comparison.p_value
    if abs(p_value - 0.05) > 1e-9:
        assert comparison.estimate.contains(0.0) == (p_value > 0.05)


def test_identical_groups_without_spread_do_not_differ():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = difference_of_means([941.0] * 3, [941.0] * 4)
        relative = relative_difference([941.0] * 3, [941.0] * 4)
        size = effect_size([941.0] * 3, [941.0] * 4)
    assert comparison.p_value == relative.p_value == 1.0
    assert (comparison.estimate.low, comparison.estimate.high) == (0.0, 0.0)
    assert (relative.estimate.low, relative.estimate.high) == (0.0, 0.0)
    assert size.value == 0.0
    assert not size.has_interval


def test_different_groups_without_spread_differ_by_just_that():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = difference_of_means([940.0] * 3, [941.0] * 3)
        relative = relative_difference([940.0] * 3, [941.0] * 3)
        size = effect_size([940.0] * 3, [941.0] * 3)
    assert comparison.p_value == relative.p_value == 0.0
    assert (comparison.estimate.low, comparison.estimate.high) == (-1.0, -1.0)
    assert relative.estimate.high == pytest.approx(-100 / 941)
    assert size.value == -math.inf


def test_spread_in_one_group_only_is_students_interval_of_that_group():
    frer = [939.0, 941.0, 940.0, 943.0]
    estimate = difference_of_means(frer, [941.0] * 3).estimate
    half = stats.t.ppf(0.975, 3) * np.std(frer, ddof=1) / 2
    assert (estimate.low, estimate.high) == pytest.approx((-0.25 - half, -0.25 + half))


def test_a_single_value_leaves_the_difference_without_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = difference_of_means([5.0], [4.0, 4.5])
        relative = relative_difference([5.0], [4.0, 6.0])
        size = effect_size([5.0], [4.0, 4.5])
    assert comparison.estimate.value == 0.75
    assert relative.estimate.value == pytest.approx(0.0, abs=1e-12)
    for estimate in (comparison.estimate, relative.estimate, size):
        assert not estimate.has_interval
        assert "fewer than two" in estimate.method
    assert math.isnan(comparison.p_value)


@given(positive_groups, positive_groups, st.floats(0.01, 100))
def test_relative_difference_knows_no_unit_and_turns_over(a, b, factor):
    forward = relative_difference(a, b).estimate
    scaled = relative_difference(a * factor, b * factor).estimate
    backward = relative_difference(b, a).estimate
    assert scaled.value == pytest.approx(forward.value, abs=1e-6)
    assert scaled.high == pytest.approx(forward.high, rel=1e-6, abs=1e-6)
    assert (1 + forward.value / 100) * (1 + backward.value / 100) == pytest.approx(1)
    assert (1 + forward.low / 100) * (1 + backward.high / 100) == pytest.approx(1)
    assert forward.low >= -100


def test_relative_difference_of_the_published_tail_latencies():
    # 262.14 us over 244.95 us is 7.02 % of the control, not 6.6 %.
    estimate = relative_difference([262.14, 262.14], [244.95, 244.95]).estimate
    assert estimate.value == pytest.approx(7.02, abs=0.005)


def test_relative_difference_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    covered = rejected = 0
    for _ in range(1000):
        a, b = rng.normal(110, 12, 8), rng.normal(100, 20, 15)
        covered += relative_difference(a, b).estimate.contains(10.0)
        rejected += relative_difference(a / 1.1, b).p_value < 0.05
    assert 0.93 < covered / 1000 < 0.975
    assert 0.025 < rejected / 1000 < 0.07


def test_relative_difference_needs_something_to_relate_to():
    with pytest.raises(ValueError, match="positive mean of b"):
        relative_difference([1.0, 2.0], [-1.0, 1.0])


def test_effect_size_on_students_data():
    # d = t sqrt(2 / 10) with t = -1.8608 of R's t.test; correction 1 - 3 / (4 x 18 - 1).
    estimate = effect_size(FIRST_DRUG, SECOND_DRUG)
    assert estimate.value == pytest.approx(-1.8608 * math.sqrt(0.2) * (1 - 3 / 71), abs=2e-4)
    to_t = math.sqrt(5)
    assert stats.nct.cdf(-1.860813, 18, estimate.low * to_t) == pytest.approx(0.975, abs=1e-5)
    assert stats.nct.cdf(-1.860813, 18, estimate.high * to_t) == pytest.approx(0.025, abs=1e-5)


def test_effect_size_correction_is_the_gamma_ratio():
    # gamma(1) / gamma(1/2) for 2 degrees of freedom, gamma(2) / (sqrt(2) gamma(3/2)) for 4.
    two = effect_size([3.0, 5.0], [0.0, 1.0]).value
    assert two == pytest.approx(3.5 / math.sqrt(1.25) / math.sqrt(math.pi))
    four = effect_size([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]).value
    assert four == pytest.approx(math.sqrt(2 / math.pi))


@given(positive_groups, positive_groups)
def test_effect_size_changes_sign_with_the_order_of_the_groups(a, b):
    forward, backward = effect_size(a, b), effect_size(b, a)
    assert forward.value == pytest.approx(-backward.value, rel=1e-6, abs=1e-9)
    if forward.has_interval:
        assert forward.low <= forward.value <= forward.high
        assert forward.low == pytest.approx(-backward.high, rel=1e-4, abs=1e-6)


def test_effect_size_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(8)
    covered = sum(
        effect_size(rng.normal(0.8, 1, 6), rng.normal(0, 1, 9)).contains(0.8) for _ in range(400)
    )
    assert 0.92 < covered / 400 < 0.98


def test_huge_effects_still_have_an_interval():
    rng = np.random.default_rng(1)
    estimate = effect_size(rng.normal(1e4, 1, 5), rng.normal(0, 1, 5))
    assert 0 < estimate.low < estimate.value < estimate.high < math.inf


def test_holm_by_hand():
    # Sorted: 4 x 0.005, 3 x 0.01, 2 x 0.03, then 0.04 raised to the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("family", [[], [0.1, math.nan], [-0.1], [1.1]])
def test_holm_refuses_what_is_no_p_value(family):
    with pytest.raises(ValueError, match=r"p.values"):
        holm(family)


def test_recovered_variances_reproduce_newcombes_interval():
    # Newcombe (1998), Statistics in Medicine 17(8), table II: 56/70 - 48/80, method 10.
    estimate = difference_of_thresholds(wilson(56, 70), wilson(48, 80))
    assert estimate.value == pytest.approx(0.2)
    assert (estimate.low, estimate.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert estimate.method == "MOVER"
    assert estimate.n == 150


def test_recovered_variances_of_symmetric_intervals_add_in_squares():
    a = Estimate(10.0, 7.0, 13.0, 0.95, "z", 5, "Mb/s")
    b = Estimate(4.0, 0.0, 8.0, 0.95, "z", 5, "Mb/s")
    estimate = difference_of_thresholds(a, b)
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((1.0, 6.0, 11.0))
    assert estimate.unit == "Mb/s"


def test_ratio_of_thresholds_turns_over():
    a = Estimate(530.0, 500.0, 541.0, 0.95, "p", 16, "Mb/s")
    b = Estimate(398.0, 394.0, 428.0, 0.95, "p", 32, "Mb/s")
    forward, backward = ratio_of_thresholds(a, b), ratio_of_thresholds(b, a)
    assert forward.value == pytest.approx(530 / 398)
    assert forward.low * backward.high == pytest.approx(1)
    assert forward.low > 1
    assert forward.unit == ""


def test_open_limits_stay_open():
    a = Estimate(500.0, 450.0, math.inf, 0.95, "p", 4, "Mb/s")
    b = Estimate(400.0, 0.0, 410.0, 0.95, "p", 4, "Mb/s")
    difference = difference_of_thresholds(a, b)
    assert difference.high == math.inf
    assert difference.low == pytest.approx(100 - math.hypot(50, 10))
    assert ratio_of_thresholds(a, b).high == math.inf
    assert ratio_of_thresholds(b, a).low == 0.0


def test_a_censored_sweep_bounds_the_difference_on_one_side():
    clean = binomial_threshold(np.arange(100, 1000, 50), np.zeros(18, dtype=bool))
    control = Estimate(398.0, 394.0, 428.0, 0.95, "p", 32, "Mb/s")
    difference = difference_of_thresholds(clean, control)
    assert math.isnan(difference.value)
    assert difference.low == clean.low - 428.0
    assert difference.high == math.inf
    assert "censored" in difference.method
    ratio = ratio_of_thresholds(clean, control)
    assert ratio.low == pytest.approx(clean.low / 428.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "kb/s"}, "units"),
        ({"level": 0.9}, "levels"),
        ({"low": math.nan}, "interval"),
        ({"value": 600.0}, "interval"),
    ],
)
def test_thresholds_that_do_not_go_together(changes, message):
    fields = {"value": 530.0, "low": 500.0, "high": 541.0, "level": 0.95, "method": "p", "n": 9}
    good = Estimate(**fields, unit="Mb/s")
    bad = Estimate(**({"unit": "Mb/s"} | fields | changes))
    with pytest.raises(ValueError, match=message):
        difference_of_thresholds(good, bad)


def test_ratio_needs_positive_thresholds():
    good = Estimate(530.0, 500.0, 541.0, 0.95, "p", 9)
    with pytest.raises(ValueError, match="positive"):
        ratio_of_thresholds(good, Estimate(1.0, -1.0, 2.0, 0.95, "p", 9))


@pytest.mark.parametrize("function", [difference_of_means, relative_difference, effect_size])
def test_unusable_groups(function):
    with pytest.raises(ValueError, match="b is empty"):
        function([1.0, 2.0], [])
    with pytest.raises(ValueError, match="a holds 1 value"):
        function([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match="level"):
        function([1.0, 2.0], [1.0, 3.0], level=95)
