"""Estimates over trials with missing values: the others count; without any there is no value."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.experiments.latency import analysis as latency
from tsnrepro.experiments.loss import analysis as loss
from tsnrepro.experiments.tcp import analysis as tcp
from tsnrepro.results import estimates
from tsnrepro.results.results import Results
from tsnrepro.stats.comparisons import median_difference, relative_difference
from tsnrepro.stats.estimate import MIN_RUNS
from tsnrepro.stats.replication import median_over_runs

numbers = st.lists(st.floats(1, 1000), min_size=2, max_size=8)


def table(values, extra=0):
    x = [*values, *[np.nan] * extra]
    return pd.DataFrame({"x": x, "repetition": range(len(x))})


@given(numbers, numbers, st.integers(0, 3))
def test_missing_values_change_no_estimate(first, second, extra):
    a, b = table(first, extra), table(second, extra)
    # Compared as text, because nan is not equal to itself.
    assert repr(estimates.mean(a, "x", "Mb/s")) == repr(median_over_runs(first, unit="Mb/s"))
    # Repetitions that one lacks are left out where three or more are common to both.
    common = min(len(first), len(second))
    if common >= MIN_RUNS:
        first, second = first[:common], second[:common]
    paired = len(first) == len(second)
    gap, ratio = estimates.difference(a, b, "x", "%"), estimates.relative(a, b, "x")
    assert repr(gap) == repr(median_difference(first, second, unit="%", paired=paired))
    assert repr(ratio) == repr(relative_difference(first, second, paired=paired))


def test_without_any_value_there_is_no_result():
    none, some = table([], 3), table([1.0, 2.0])
    for estimate in (
        estimates.mean(none, "x", "s"),
        estimates.difference(none, some, "x", "s"),
        estimates.difference(some, none, "x", "s"),
        estimates.relative(none, some, "x").estimate,
    ):
        assert math.isnan(estimate.value)
        assert not estimate.decides
    assert estimates.total(none, "x") is None
    assert estimates.total(table([1, 2], 1), "x") == 3


@pytest.mark.parametrize(
    ("durations", "value", "low", "high"),
    [([5, 5, np.nan], 5, None, None), ([5, 10, 30], None, 5, 30), ([np.nan], None, None, None)],
)
def test_a_shared_number_or_the_range(durations, value, low, high):
    count = len(durations)
    names = [f"t{i}" for i in range(count)]
    trials = pd.DataFrame({"trial": names, "sha256": ["0" * 64] * count, "d": durations})
    results = Results("loss", trials)
    estimates.shared(results, "a.duration_s", trials, "d", "s")
    assert results.interval("a.duration_s") == (value, low, high)


@pytest.mark.parametrize(
    ("durations", "digits"),
    [([2, 2], 0), ([0.5], 1), ([0.5, 1.0], 1), ([0.15, 0.15], 2), ([1 / 3], 2), ([np.nan], 0)],
)
def test_a_shared_number_is_printed_as_it_was_set(durations, digits):
    names = [f"t{i}" for i in range(len(durations))]
    trials = pd.DataFrame({"trial": names, "sha256": "0" * 64, "d": durations})
    results = Results("loss", trials)
    estimates.shared(results, "a.duration_s", trials, "d", "s")
    assert results.of("a.duration_s").digits == digits


@pytest.mark.parametrize(
    ("durations", "named"),
    [
        ([], (None, None, None)),
        ([10], (10, None, None)),
        ([60, 10], (10, None, 60)),
        ([10, 30, 60], (10, 30, 60)),
        ([1, 2, 3, 4, 5], (1, 3, 5)),
    ],
)
def test_durations_of_tcp_by_name(durations, named):
    found = tcp._durations(pd.DataFrame({"duration_s": [*durations, *durations, np.nan]}))
    assert tuple(found.values()) == named


@pytest.mark.parametrize(
    ("control", "frer", "main"),
    [
        ([64, 1518], [64, 256], 64),
        ([64, 1472, 1518], [64, 1472, 1518], 1472),
        ([64], [256], 256),
        ([], [64, 128], 128),
        ([], [], None),
    ],
)
def test_latencies_of_one_payload_are_compared(control, frer, main):
    kinds = ["control"] * len(control) + ["frer"] * len(frer)
    trials = pd.DataFrame({"configuration": kinds, "payload_bytes": [*control, *frer]})
    assert latency.main_payload(trials) == main


def test_the_payload_of_the_main_sweep():
    assert loss.main_payload(pd.DataFrame({"payload_bytes": [64, 1472, 1518]})) == 1472
    assert loss.main_payload(pd.DataFrame({"payload_bytes": [64, 1400]})) == 1400


def test_the_load_is_the_offered_one_or_else_the_target():
    trials = pd.DataFrame({"offered_mbps": [99.5, np.nan], "target_mbps": [100.0, 200.0]})
    assert loss.load_mbps(trials).tolist() == [99.5, 200]
    assert loss.target_mbps(trials).tolist() == [100, 200]


def test_latencies_of_two_kinds_are_not_mixed():
    trials = pd.DataFrame({"quantity": ["one way", "half round trip"]})
    with pytest.raises(Exception, match="different kinds"):
        latency.quantity(trials)
    assert latency.quantity(trials[:1]) == "one way"
    assert latency.quantity(pd.DataFrame({"trial": ["a"]})) == "half round trip"
