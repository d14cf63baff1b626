"""Power: what is said to be found is found in so many campaigns, by the tests that are used."""

import numpy as np
import pytest

from tsnrepro.stats.comparisons import relative_difference, signed_rank
from tsnrepro.stats.equivalence import Verdict, equivalence
from tsnrepro.stats.estimate import Estimate, Limits
from tsnrepro.stats.power import (
    POWER,
    Scatter,
    repetitions_for_equivalence,
    repetitions_to_find,
    scatter_of_change,
    smallest_change_found,
)


def pairs(rng, repetitions, deviation):
    return np.exp(rng.normal(0, deviation / 2**0.5, (2, repetitions)))


@pytest.mark.parametrize(("repetitions", "tests"), [(3, 1), (6, 5), (12, 1)])
def test_the_smallest_change_is_found_in_four_of_five_further_campaigns(repetitions, tests):
    rng, found, campaigns = np.random.default_rng(5), 0, 600
    for _ in range(campaigns):
        before, after = (pairs(rng, repetitions, 0.05) for _ in range(2))
        shown = relative_difference(*before, paired=True).estimate
        scatter = scatter_of_change(shown, repetitions)
        change = 1 + smallest_change_found(scatter, 0.05 / tests) / 100
        p_value = relative_difference(change * after[0], after[1], paired=True).p_value
        found += p_value < 0.05 / tests
    # Four standard deviations of a share of 600.
    assert found / campaigns == pytest.approx(POWER, abs=0.065)


def test_the_scatter_is_that_of_differences_of_logarithms():
    first, second = pairs(np.random.default_rng(1), 8, 0.1)
    expected = np.log(first / second).std(ddof=1)
    found = scatter_of_change(relative_difference(first, second, paired=True).estimate, 8)
    assert found == Scatter(pytest.approx(expected), 8, 7)
    apart = relative_difference(first, second).estimate
    assert scatter_of_change(apart, 8).freedom == 14


def test_as_many_repetitions_as_are_said_find_it_and_fewer_do_not():
    rng, scatter = np.random.default_rng(3), Scatter(0.05, 6, 5)
    needed = repetitions_to_find(scatter, 5.0, 0.05)
    assert smallest_change_found(Scatter(0.05, needed, 5), 0.05) <= 5.0
    assert smallest_change_found(Scatter(0.05, needed - 1, 5), 0.05) > 5.0
    known = Scatter(0.05, 6, 10**6)
    n = repetitions_for_equivalence(known, 5.0, 0.05)
    verdicts = [equivalence(*pairs(rng, n, 0.05), 5.0, paired=True).verdict for _ in range(400)]
    assert verdicts.count(Verdict.EQUIVALENT) / 400 == pytest.approx(POWER, abs=0.08)


def test_a_change_beyond_a_margin_is_that_much_larger():
    scatter = Scatter(0.05, 6, 5)
    alone = 1 + smallest_change_found(scatter, 0.05) / 100
    beyond = 1 + smallest_change_found(scatter, 0.05, beyond_percent=10) / 100
    assert beyond == pytest.approx(1.1 * alone)


def test_no_number_of_repetitions_is_better_than_an_absurd_one():
    assert repetitions_to_find(Scatter(3.0, 6, 5), 0.1, 0.05) is None


@pytest.mark.parametrize(
    ("low", "high", "limits"),
    [
        (-5.0, 5.0, Limits.BRACKET),
        (-5.0, np.inf, Limits.BOUND),
        (-5.0, 5.0, Limits.RANGE),
        (0.0, 0.0, Limits.INTERVAL),
        (-100.0, 5.0, Limits.BOUND),
    ],
)
def test_limits_that_do_not_show_the_scatter_give_no_power(low, high, limits):
    assert scatter_of_change(Estimate(0.0, low, high, 0.95, "", 6, "%", limits), 6) is None


def test_equal_runs_have_no_interval_by_ranks():
    found = signed_rank([2.0] * 12, [2.0] * 12)
    assert found.estimate.limits is Limits.NONE
    assert found.estimate.value == 0
    assert found.p_value == 1
