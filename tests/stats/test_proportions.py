import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.proportions import compare_within_strata, share, upper_bound_when_none_lost


# "Clopper-Pearson" column of Newcombe (1998), Statistics in Medicine 17(8), table I.
@pytest.mark.parametrize(
    ("lost", "sent", "low", "high"),
    [
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ],
)
def test_published_intervals(lost, sent, low, high):
    estimate = share(lost, sent)
    assert estimate.low == pytest.approx(low, abs=5e-5)
    assert estimate.high == pytest.approx(high, abs=5e-5)
    assert estimate.value == lost / sent
    assert estimate.limits is Limits.BOUND
    assert estimate.n == sent


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_each_limit_leaves_half_of_alpha_beyond_it(counts):
    lost, sent = counts
    estimate = share(lost, sent, level=0.9)
    assert estimate.low <= estimate.value <= estimate.high
    if lost:
        assert stats.binom.sf(lost - 1, sent, estimate.low) == pytest.approx(0.05, rel=1e-6)
    else:
        assert estimate.low == 0
    if lost < sent:
        assert stats.binom.cdf(lost, sent, estimate.high) == pytest.approx(0.05, rel=1e-6)
    else:
        assert estimate.high == 1


def test_two_sided_limit_at_zero_lost_has_its_closed_form():
    assert share(0, 225_034).high == pytest.approx(1 - 0.025 ** (1 / 225_034), rel=1e-9)
    assert share(0, 225_034).scaled(100, "%").high == pytest.approx(0.00164, abs=5e-6)


def test_none_lost_of_225034_does_not_show_the_thousandth_of_a_percent():
    bound_percent = 100 * upper_bound_when_none_lost(225_034)
    assert round(bound_percent, 5) == 0.00133
    assert bound_percent > 0.001


@pytest.mark.parametrize("n", [100, 1000, 225_034, 10**9])
def test_rule_of_three(n):
    assert upper_bound_when_none_lost(n) * n == pytest.approx(3, rel=0.02)


def test_one_sided_limit_is_the_two_sided_one_of_twice_the_error():
    assert upper_bound_when_none_lost(500, 0.95) == pytest.approx(share(0, 500, 0.9).high)


@pytest.mark.parametrize(
    ("lost", "sent", "message"),
    [(0, 0, "n must"), (-1, 10, "count"), (11, 10, "n=10")],
)
def test_impossible_counts(lost, sent, message):
    with pytest.raises(ValueError, match=message):
        share(lost, sent)


def test_counts_are_integers():
    with pytest.raises(TypeError):
        share(0.5, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
def test_levels_are_fractions(level):
    for call in (
        lambda: share(0, 10, level),
        lambda: upper_bound_when_none_lost(10, level),
    ):
        with pytest.raises(ValueError, match="level"):
            call()


def test_bounds_need_a_draw():
    with pytest.raises(ValueError, match="n=0"):
        upper_bound_when_none_lost(0)


def paired(first, second):
    strata = [*range(len(first)), *range(len(second))]
    groups = [True] * len(first) + [False] * len(second)
    return compare_within_strata([*first, *second], groups, strata)


def test_pairs_are_compared_as_by_mcnemar():
    # Approval before and after in Agresti (2013), Categorical Data Analysis, section 11.1: 150 and
    # 86 of 1600 changed their minds.
    first = [True] * (794 + 150) + [False] * (86 + 570)
    second = [True] * 794 + [False] * 150 + [True] * 86 + [False] * 570
    found = paired(first, second)
    assert (found.trials, found.outcomes) == ((1600, 1600), (944, 880))
    assert found.p_value == pytest.approx(mcnemar([[794, 150], [86, 570]]).pvalue)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_one_stratum_is_compared_as_by_fisher(trials):
    outcome, first = ([trial[place] for trial in trials] for place in (0, 1))
    found = compare_within_strata(outcome, first, [7] * len(trials))
    if not 0 < sum(first) < len(first):
        assert (found.trials, found.p_value) == ((0, 0), 1)
        return
    table = [[hit, size - hit] for hit, size in zip(found.outcomes, found.trials, strict=True)]
    assert found.p_value == pytest.approx(stats.fisher_exact(table).pvalue)


def test_one_of_five_in_each_stratum_is_a_sum_of_chances():
    """Six of 18 trials lost and none of the 72 that share their strata: a fifth to the sixth."""
    strata = np.repeat(np.arange(18), 5)
    first = np.tile([True] + 4 * [False], 18)
    found = compare_within_strata(first & (strata < 6), first, strata)
    assert (found.trials, found.outcomes) == ((18, 72), (6, 0))
    assert found.p_value == pytest.approx(0.2**6)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_concordant_pairs_do_not_matter_and_sides_are_symmetric(pairs):
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    found, turned = paired(first, second), paired(second, first)
    assert found.p_value == pytest.approx(turned.p_value)
    assert found.outcomes == turned.outcomes[::-1]
    differing = [(one, other) for one, other in pairs if one != other]
    without = paired([one for one, _ in differing], [other for _, other in differing])
    assert found.p_value == pytest.approx(without.p_value)
