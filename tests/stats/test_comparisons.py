import math
import warnings
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tsnrepro.stats.comparisons import (
    difference_of_means,
    holm,
    relative_difference,
    signed_rank,
)
from tsnrepro.stats.estimate import Limits

# Student (1908), Biometrika 6(1), hours of sleep gained with two drugs; results of R's t.test
# on its data set `sleep`, unequal variances.
FIRST_DRUG = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND_DRUG = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

positive_groups = arrays(np.float64, st.integers(3, 12), elements=st.floats(1, 100))


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
    if comparison.estimate.decides and abs(p_value - 0.05) > 1e-9:
        assert comparison.estimate.contains(0.0) == (p_value > 0.05)


def test_paired_t_on_students_data():
    comparison = difference_of_means(FIRST_DRUG, SECOND_DRUG, paired=True)
    estimate = comparison.estimate
    assert (estimate.low, estimate.high) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)
    assert comparison.p_value == pytest.approx(0.002833, abs=5e-7)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("frer", "p_value"), [(941.0, 1.0), (940.0, math.nan)])
def test_groups_without_spread_have_a_difference_without_interval(frer, p_value, paired):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = difference_of_means([frer] * 3, [941.0] * 3, paired=paired)
        relative = relative_difference([frer] * 3, [941.0] * 3, paired=paired)
    for found in (comparison, relative):
        assert found.p_value == pytest.approx(p_value, nan_ok=True)
    assert comparison.estimate.value == frer - 941
    assert relative.estimate.value == pytest.approx(100 * (frer / 941 - 1))
    for estimate in (comparison.estimate, relative.estimate):
        assert estimate.limits is Limits.NONE
        assert "no spread" in estimate.method


def test_a_common_shift_cancels_in_pairs():
    control = np.array([10.0, 40.0, 160.0])
    frer = control * [1.1, 1.12, 1.08]
    assert relative_difference(frer, control).estimate.low < 0
    in_pairs = relative_difference(frer, control, paired=True).estimate
    assert 0 < in_pairs.low < 10 < in_pairs.high
    assert in_pairs.method == "Student t of differences by repetition of logarithms"


def test_spread_in_one_group_only_is_students_interval_of_that_group():
    frer = [939.0, 941.0, 940.0, 943.0]
    estimate = difference_of_means(frer, [941.0] * 4).estimate
    half = stats.t.ppf(0.975, 3) * np.std(frer, ddof=1) / 2
    assert (estimate.low, estimate.high) == pytest.approx((-0.25 - half, -0.25 + half))


def test_few_values_against_more_have_no_interval():
    found = difference_of_means([5.0, 5.1, 5.2], [4.0, 4.5, 5.0, 4.2, 4.4, 4.1])
    assert math.isnan(found.p_value)
    assert "different sizes" in found.estimate.method


def test_two_values_give_no_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = difference_of_means([5.0, 5.0], [4.0, 4.5, 5.0])
        relative = relative_difference([5.0, 5.0], [5.0, 4.0, 6.25])
    assert comparison.estimate.value == 0.5
    assert relative.estimate.value == pytest.approx(0.0, abs=1e-12)
    for estimate in (comparison.estimate, relative.estimate):
        assert not estimate.decides
        assert "fewer than 3" in estimate.method
    assert math.isnan(comparison.p_value)


def test_a_value_of_zero_has_no_logarithm_and_the_ratio_no_interval():
    found = relative_difference([0.0, 2.0, 4.0], [1.0, 1.0, 2.0]).estimate
    assert found.value == pytest.approx(50)
    assert not found.decides


def test_groups_of_different_sizes_cannot_be_paired():
    with pytest.raises(ValueError, match="3 of a against 4 of b"):
        relative_difference([1.0] * 3, [1.0] * 4, paired=True)


@given(positive_groups, positive_groups, st.floats(0.01, 100))
def test_relative_difference_is_free_of_units_and_invertible(a, b, factor):
    # Of equal values rounding decides whether their logarithms scatter.
    assume(np.ptp(np.log(a)) > 1e-9 and np.ptp(np.log(b)) > 1e-9)
    forward = relative_difference(a, b).estimate
    assume(forward.decides)
    scaled = relative_difference(a * factor, b * factor).estimate
    backward = relative_difference(b, a).estimate
    assert scaled.value == pytest.approx(forward.value, abs=1e-6)
    assert scaled.high == pytest.approx(forward.high, rel=1e-6, abs=1e-6)
    assert (1 + forward.value / 100) * (1 + backward.value / 100) == pytest.approx(1)
    if forward.low > -100 and math.isfinite(backward.high):
        assert (1 + forward.low / 100) * (1 + backward.high / 100) == pytest.approx(1, rel=1e-4)
    assert forward.low >= -100


def test_relative_difference_of_the_published_tail_latencies():
    # 262.14 us over 244.95 us is 7.02 % of the control, not 6.6 %.
    estimate = relative_difference([262.14] * 3, [244.95] * 3).estimate
    assert estimate.value == pytest.approx(7.02, abs=0.005)


def test_relative_difference_needs_a_positive_mean():
    with pytest.raises(ValueError, match="positive mean of b"):
        relative_difference([1.0, 2.0], [-1.0, 1.0])


def test_holm_by_hand():
    # Sorted: 4 x 0.005, 3 x 0.01, 2 x 0.03, then 0.04 raised to the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.001, 0.02, 1.0]), min_size=1))
def test_holm_is_that_of_statsmodels(family):
    with patch("gc.collect"):  # which it calls each time
        expected = multipletests(family, method="holm")[1]
    assert holm(family).tolist() == expected.tolist()


@pytest.mark.parametrize("family", [[], [0.1, math.nan], [-0.1], [1.1]])
def test_holm_refuses_invalid_p_values(family):
    with pytest.raises(ValueError, match=r"p.values"):
        holm(family)


@pytest.mark.parametrize("function", [difference_of_means, relative_difference])
def test_unusable_groups(function):
    with pytest.raises(ValueError, match="b is empty"):
        function([1.0, 2.0], [])
    with pytest.raises(ValueError, match="a holds 1 value"):
        function([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match="level"):
        function([1.0, 2.0], [1.0, 3.0], level=95)


@given(arrays(np.float64, st.integers(1, 14), elements=st.floats(-1e3, 1e3), unique=True))
def test_signed_ranks_are_scipys_and_their_limits_agree_with_them(differences):
    assume(np.unique(np.abs(differences)).size == differences.size and differences.all())
    found = signed_rank(differences, np.zeros(differences.size))
    assert found.p_value == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)
    if found.estimate.decides:
        outside = not found.estimate.low <= 0 <= found.estimate.high
        assert outside == (found.p_value <= 0.05)
    assert found.estimate.decides == (differences.size >= 6)


def test_signed_ranks_of_the_darwin_maize():
    """Darwin 1876, Zea mays, crossed less self-fertilised, in eighths of an inch."""
    differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    found = signed_rank(differences, np.zeros(15))
    assert found.p_value == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)
    assert found.p_value == pytest.approx(0.0413, abs=1e-4)
