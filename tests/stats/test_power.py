"""Power: what is said to be found is found in so many campaigns, by the tests that are used."""

from dataclasses import replace

import numpy as np
import pytest

from tsnrepro.stats.comparisons import relative_difference, signed_rank
from tsnrepro.stats.equivalence import Verdict, equivalence
from tsnrepro.stats.estimate import Estimate, Limits
from tsnrepro.stats.power import (
    POWER,
    Scatter,
    as_student,
    repetitions_for_equivalence,
    repetitions_to_find,
    rise_of_share_found,
    scatter_of_change,
    scatter_of_pairs,
    smallest_change_found,
)
from tsnrepro.stats.proportions import compare_within_strata


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


def stalled(rng, repetitions):
    """Runs of which one in seven is held by a stall, 13 to 80 times as long."""
    values = np.exp(rng.normal(0, 0.25, (2, repetitions)))
    held = rng.random(values.shape) < 0.15
    return np.where(held, rng.uniform(13, 80, values.shape), values)


def found_by(scatter_of, campaigns, significance):
    """Return in which share of campaigns signed ranks find what the one before said."""
    rng, found = np.random.default_rng(11), 0
    for _ in range(campaigns):
        first, second = stalled(rng, 12)
        change = signed_rank(np.log(first), np.log(second)).estimate
        percent = {name: 100 * np.expm1(getattr(change, name)) for name in ("value", "low", "high")}
        scatter = scatter_of(Estimate(**percent, level=0.95, method="", n=12), first, second)
        factor = 1 + smallest_change_found(scatter, significance) / 100
        first, second = stalled(rng, 12)
        # As modes are compared: by differences in microseconds.
        found += signed_rank(factor * first, second).p_value <= significance
    return found / campaigns


def test_the_smallest_change_is_found_where_stalls_hold_the_tail():
    def of_pairs(change, first, second):
        return scatter_of_pairs(change, first, second, paired=True, ranked=True)

    def deviation(_, first, second):
        return Scatter(float(np.log(first / second).std(ddof=1)), 12, 11)

    assert found_by(of_pairs, 300, 0.05 / 6) > POWER - 0.05
    assert found_by(of_pairs, 300, 0.05 / 24) > POWER - 0.05
    # What Student's formula says of the same scatter.
    assert found_by(deviation, 300, 0.05 / 24) < POWER - 0.1


def test_more_pairs_reach_further_and_a_larger_family_less_far():
    rng = np.random.default_rng(2)
    few, many = (pairs(rng, n, 0.1) for n in (8, 32))
    change = [
        scatter_of_pairs(relative_difference(*each, paired=True).estimate, *each, paired=True)
        for each in (few, many)
    ]
    alone, more = (smallest_change_found(scatter, 0.05) for scatter in change)
    assert more < alone < smallest_change_found(change[0], 0.05 / 20)


def test_as_many_pairs_as_there_are_find_the_smallest_change():
    first, second = stalled(np.random.default_rng(4), 12)
    change = relative_difference(first, second, paired=True).estimate
    scatter = scatter_of_pairs(change, first, second, paired=True)
    found = smallest_change_found(scatter, 0.01)
    assert smallest_change_found(as_student(scatter, 0.01), 0.01) == pytest.approx(found)
    assert repetitions_to_find(scatter, found * 1.001, 0.01) == 12


@pytest.mark.parametrize(("repetitions", "paired"), [(5, True), (12, False)])
def test_few_pairs_or_none_promise_nothing(repetitions, paired):
    first, second = pairs(np.random.default_rng(1), repetitions, 0.1)
    change = relative_difference(first, second, paired=paired).estimate
    scatter = scatter_of_pairs(change, first, second, paired=paired)
    assert scatter == scatter_of_change(change, repetitions)
    assert not scatter.promises


def test_readings_with_a_step_widen_what_is_found():
    first = np.array([10, 10, 11, 10, 10, 11, 10, 10.0])
    second = np.array([10, 11, 10, 10, 10, 10, 11, 10.0])
    read = scatter_of_pairs(
        relative_difference(first, second, paired=True).estimate, first, second, paired=True
    )
    apart = replace(read, distances=tuple(np.array(read.distances) / 2))
    assert smallest_change_found(read, 0.05) > smallest_change_found(apart, 0.05)


def test_the_smallest_rise_of_a_share_is_found_by_the_exact_test():
    rng, found, campaigns = np.random.default_rng(6), 0, 200
    blocks = np.array([(repetition, 4, 1) for repetition in range(3) for _ in range(6)])
    changed = np.tile([True] * 4 + [False], len(blocks))
    number = np.repeat(np.arange(len(blocks)), 5)
    for _ in range(campaigns):
        before = rng.random(changed.size) < 0.15
        lost = before.reshape(3, -1).sum(axis=1)
        rise = rise_of_share_found(blocks, np.column_stack([lost, [30] * 3]), 0.05)
        after = rng.random(changed.size) < 0.15 + rise.smallest * changed
        found += compare_within_strata(after, changed, number).p_value <= 0.05
    assert found / campaigns > POWER - 0.08
    assert found / campaigns < 0.97


def test_a_share_that_cannot_rise_far_enough_promises_nothing():
    rise = rise_of_share_found([(0, 1, 1)], [(9, 20)], 0.05)
    assert rise.smallest is None
    assert rise.end_found == 0
    assert rise_of_share_found([(0, 100, 100)], [(100, 200)], 0.05).end_found == 1
