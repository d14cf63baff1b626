import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsnrepro.stats.comparisons import relative_difference
from tsnrepro.stats.equivalence import Verdict, equivalence

groups = arrays(np.float64, st.integers(3, 12), elements=st.floats(50, 150))
margins = st.floats(0.5, 40)


@given(groups, groups, margins)
def test_equivalent_exactly_where_the_ninety_percent_interval_fits_in_the_margin(a, b, margin):
    result = equivalence(a, b, margin)
    inner = relative_difference(a, b, level=0.9).estimate
    assume(math.isfinite(inner.low) and abs(result.p_value - 0.05) > 1e-9)
    fits = -margin < inner.low and inner.high < margin
    assert (result.verdict is Verdict.EQUIVALENT) == fits


@given(groups, groups, margins)
def test_different_exactly_where_the_interval_lies_beyond_the_margin(a, b, margin):
    result = equivalence(a, b, margin)
    outer = relative_difference(a, b).estimate
    assume(math.isfinite(outer.low) and abs(result.p_value - 0.05) > 1e-9)
    beyond = outer.low > margin or outer.high < -margin
    assert (result.verdict is Verdict.DIFFERENT) == beyond


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([100.0, 100.2, 99.9, 100.1], [100.1, 99.8, 100.0, 100.2], Verdict.EQUIVALENT),
        ([110.0, 110.2, 109.9, 110.1], [100.1, 99.8, 100.0, 100.2], Verdict.DIFFERENT),
        ([90.0, 110.0, 80.0, 120.0], [100.1, 99.8, 100.0, 100.2], Verdict.CANNOT_TELL),
    ],
)
def test_the_three_verdicts(a, b, verdict):
    assert equivalence(a, b, margin_percent=1.0).verdict is verdict


def test_a_significant_difference_within_the_margin_is_equivalent():
    a, b = [100.50, 100.51, 100.49, 100.50], [100.0, 100.01, 99.99, 100.0]
    result = equivalence(a, b, margin_percent=1.0)
    assert result.p_difference < 1e-6
    assert result.verdict is Verdict.EQUIVALENT


def test_a_significant_difference_about_the_margin_stays_open():
    a, b = [101.0, 101.1, 100.9, 101.0], [100.0, 100.1, 99.9, 100.0]
    result = equivalence(a, b, margin_percent=1.0)
    assert result.p_difference < 1e-4
    assert result.verdict is Verdict.CANNOT_TELL


@pytest.mark.parametrize("frer", [941.0, 938.0, 900.0])
def test_groups_without_spread_cannot_tell(frer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = equivalence([frer] * 3, [941.0] * 3, margin_percent=1.0)
    assert result.verdict is Verdict.CANNOT_TELL
    assert math.isnan(result.p_value)


@pytest.mark.parametrize("paired", [False, True])
def test_a_timer_of_whole_microseconds_tells_no_difference_within_its_step(paired):
    # Medians 1.1 % apart, both sides of where the timer's reading changes.
    rng = np.random.default_rng(5)
    different = 0
    for _ in range(200):
        a, b = (np.floor(rng.normal(level, 0.02, 12)) for level in (91.03, 90.03))
        different += equivalence(a, b, margin_percent=1.0, paired=paired).verdict != "cannot tell"
    assert different == 0
    # Ten steps apart it tells.
    a, b = (np.floor(rng.normal(level, 0.5, 12)) for level in (100.0, 90.0))
    assert equivalence(a, b, margin_percent=1.0, paired=paired).verdict is Verdict.DIFFERENT


def test_spread_in_one_group_only():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = equivalence([941.0, 942.0, 941.0], [941.0] * 3, margin_percent=1.0)
    assert result.verdict is Verdict.EQUIVALENT
    assert 0 < result.p_value < 0.05


def test_a_single_run_can_not_tell():
    result = equivalence([941.0], [941.0, 942.0], margin_percent=1.0)
    assert result.verdict is Verdict.CANNOT_TELL
    assert math.isnan(result.p_value)


@pytest.mark.parametrize("paired", [False, True])
def test_groups_at_the_margin_are_called_equivalent_as_rarely_as_alpha(paired):
    rng = np.random.default_rng(21)
    called = 0
    for _ in range(1000):
        a, b = 101 * np.exp(rng.normal(0, 0.01, 12)), 100 * np.exp(rng.normal(0, 0.015, 12))
        verdict = equivalence(a, b, margin_percent=1.0, paired=paired).verdict
        called += verdict is Verdict.EQUIVALENT
    assert called / 1000 < 0.07


def test_verdicts_read_as_text():
    assert str(Verdict.CANNOT_TELL) == "cannot tell"


@pytest.mark.parametrize("margin", [0.0, -1.0, math.nan, 100.0])
def test_unusable_margins(margin):
    with pytest.raises(ValueError, match="margin"):
        equivalence([1.0, 2.0], [1.0, 2.0], margin)


def test_unusable_groups():
    with pytest.raises(ValueError, match="a is empty"):
        equivalence([], [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="level"):
        equivalence([1.0, 2.0], [1.0, 2.0], 1.0, level=95)
