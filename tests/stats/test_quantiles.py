import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import signal

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.quantiles import (
    correlated_quantile,
    replicated_quantile,
    sample_quantile,
    samples_beyond,
    too_few_beyond,
)
from tsnrepro.stats.replication import median_over_runs

samples_of_any_kind = arrays(
    np.float64, st.integers(2, 300), elements=st.floats(-1e6, 1e6, width=32)
)


def autoregressive(rng, n, correlation):
    """Return n values of a stationary AR(1) series with standard normal law."""
    noise = rng.standard_normal(n + 400)
    series = signal.lfilter([1], [1, -correlation], noise)[400:]
    return np.asarray(series) * math.sqrt(1 - correlation**2)


@given(samples_of_any_kind, st.floats(0.001, 0.999))
def test_sample_quantile_is_definition_one_of_hyndman_and_fan(samples, q):
    before = samples.copy()
    assert sample_quantile(samples, q) == np.quantile(samples, q, method="inverted_cdf")
    assert (samples == before).all()


def test_sample_quantile_does_not_slip_by_rounding():
    # 0.07 * 100 is 7.000000000000001 in binary.
    assert sample_quantile(np.arange(1, 101), 0.07) == 7
    assert sample_quantile(np.arange(1, 1001), 0.999) == 999


@given(samples_of_any_kind, st.floats(0.01, 0.99), st.sampled_from([0.8, 0.95, 0.99]))
def test_limits_are_ordered_and_were_measured(samples, q, level):
    estimate = correlated_quantile(samples, q, level=level)
    assert estimate.value in samples
    if estimate.decides:
        assert estimate.low <= estimate.value <= estimate.high
        assert all(math.isinf(x) or x in samples for x in (estimate.low, estimate.high))


def test_correlation_widens_the_interval():
    rng = np.random.default_rng(3)
    plain, slow = (correlated_quantile(autoregressive(rng, 50_000, c), 0.9) for c in (0.0, 0.97))
    assert slow.high - slow.low > 3 * (plain.high - plain.low)


@pytest.mark.parametrize(
    ("samples", "q", "why"),
    [
        (np.arange(60.0), 0.5, "fewer than 100 samples"),
        (np.linspace(0, 1, 10_000), 0.5, "correlated over"),
        (np.random.default_rng(1).standard_normal(2000), 0.999, "too few clusters"),
        (np.full(1000, 42.0), 0.9, "too few clusters"),
    ],
)
def test_without_interval_the_method_is_the_reason(samples, q, why):
    estimate = correlated_quantile(samples, q)
    assert estimate.limits is Limits.NONE
    assert why in estimate.method
    assert estimate.value == sample_quantile(samples, q)


def test_one_burst_does_not_bound_a_tail():
    # A hundred late samples in a row are one event.
    samples = np.random.default_rng(12).normal(50, 1, 10_000)
    samples[4000:4150] += 500
    assert not correlated_quantile(samples, 0.99).decides
    assert correlated_quantile(samples, 0.5).decides


def test_ten_million_samples_take_one_copy():
    samples = np.random.default_rng(18).standard_normal(10_000_000)
    tracemalloc.start()
    estimate = correlated_quantile(samples, 0.999)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6  # and 80 MB of samples
    assert estimate.low < 3.0902 < estimate.high


def test_runs_are_the_unit():
    rng = np.random.default_rng(22)
    runs = [rng.normal(100 + shift, 1, 2000) for shift in (-9.0, 0.0, 9.0)]
    each = [sample_quantile(run, 0.9) for run in runs]
    assert replicated_quantile(runs, 0.9, unit="us") == median_over_runs(each, unit="us")


def test_the_method_names_a_single_run():
    run = autoregressive(np.random.default_rng(23), 5000, 0.5)
    estimate, within = replicated_quantile([run], 0.9), correlated_quantile(run, 0.9)
    assert (estimate.low, estimate.high) == (within.low, within.high)
    assert "of one run" in estimate.method
    assert estimate.n == 5000


@pytest.mark.parametrize(
    ("count", "q", "more"),
    [
        (1000, 0.99, 10),
        (999, 0.99, 9),
        (600, 0.999, 0),
        (20_000, 0.9999, 2),
        (1, 0.5, 0),
        (0, 0.5, 0),
    ],
)
def test_beyond_a_quantile_lie_the_samples_above_its_rank(count, q, more):
    assert samples_beyond(count, q) == more
    if count:
        samples = np.arange(count, dtype=float)
        assert (samples > sample_quantile(samples, q)).sum() == more


def test_runs_locate_a_quantile_together_but_not_by_their_maxima():
    assert too_few_beyond([600] * 9, 0.99) == ""
    assert too_few_beyond([300] * 3, 0.99).startswith("9 samples of all runs")
    assert too_few_beyond([600] * 100, 0.999) == "no sample of a run lies beyond it"
    assert too_few_beyond([5000, 5000, 900], 0.999) == "no sample of a run lies beyond it"


def test_unusable_samples():
    with pytest.raises(ValueError, match="samples is empty"):
        correlated_quantile([], 0.5)
    with pytest.raises(ValueError, match="index 2"):
        correlated_quantile([1.0, 2.0, math.nan], 0.5)
    with pytest.raises(ValueError, match="q must lie between 0 and 1"):
        correlated_quantile([1.0, 2.0], 99.9)
    with pytest.raises(ValueError, match="runs is empty"):
        replicated_quantile([], 0.5)
    with pytest.raises(ValueError, match="run 1 is empty"):
        replicated_quantile([[1.0, 2.0], []], 0.5)
