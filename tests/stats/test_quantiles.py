import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import signal, stats

from tsnrepro.stats.quantiles import (
    block_bootstrap_quantile,
    block_length,
    correlated_quantile,
    order_statistic_interval,
    replicated_quantile,
    sample_quantile,
)

samples_of_any_kind = arrays(
    np.float64, st.integers(2, 80), elements=st.floats(-1e6, 1e6, width=32)
)


def autoregressive(rng, n, correlation):
    """Return n values of a stationary AR(1) series with standard normal law."""
    noise = rng.standard_normal(n + 400)
    series = signal.lfilter([1], [1, -correlation], noise)[400:]
    return np.asarray(series) * math.sqrt(1 - correlation**2)


@given(samples_of_any_kind, st.floats(0.001, 0.999))
def test_sample_quantile_is_definition_one_of_hyndman_and_fan(samples, q):
    assert sample_quantile(samples, q) == np.quantile(samples, q, method="inverted_cdf")


def test_sample_quantile_does_not_slip_by_rounding():
    # 0.07 * 100 is 7.000000000000001 in binary.
    assert sample_quantile(np.arange(1, 101), 0.07) == 7
    assert sample_quantile(np.arange(1, 1001), 0.999) == 999


# Ranks of the 95 % interval of a median: Conover, Practical Nonparametric Statistics, table A3
# (binomial), likewise in every table of the sign test.
@pytest.mark.parametrize(
    ("n", "low", "high"), [(6, 1, 6), (10, 2, 9), (15, 4, 12), (20, 6, 15), (25, 8, 18)]
)
def test_published_ranks_of_the_median(n, low, high):
    samples = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    estimate = order_statistic_interval(samples, 0.5, unit="us")
    assert (estimate.low, estimate.high) == (low, high)
    assert (estimate.n, estimate.unit) == (n, "us")


def test_too_few_samples_leave_a_limit_open():
    assert order_statistic_interval(np.arange(5.0), 0.5).low == -math.inf
    assert order_statistic_interval(np.arange(5.0), 0.5).high == math.inf
    assert order_statistic_interval(np.arange(3687.0), 0.999).high == math.inf
    assert order_statistic_interval(np.arange(3688.0), 0.999).high == 3687.0


@given(samples_of_any_kind, st.floats(0.01, 0.99), st.sampled_from([0.8, 0.95, 0.99]))
def test_every_method_gives_an_ordered_interval_of_measured_values(samples, q, level):
    for method in (order_statistic_interval, correlated_quantile, block_bootstrap_quantile):
        estimate = method(samples, q, level=level)
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.value in samples
        for limit in (estimate.low, estimate.high):
            assert math.isinf(limit) or limit in samples


def test_uncorrelated_samples_need_no_blocks():
    # With blocks of one sample and all of them worth themselves both methods are the same.
    samples = np.tile([1.0, 2.0], 500) + np.arange(1000) * 1e-6
    plain = order_statistic_interval(samples, 0.5)
    effective = correlated_quantile(samples, 0.5, block=1)
    assert (effective.low, effective.high) == (plain.low, plain.high)
    assert "effective sample size 1000" in effective.method


def test_samples_repeated_in_place_are_worth_a_fraction():
    rng = np.random.default_rng(3)
    distinct = rng.exponential(10.0, 4000)
    repeated = np.repeat(distinct, 25)
    estimate = correlated_quantile(repeated, 0.9, block=250)
    worth = int(estimate.method.split(",")[1].split()[-1])
    assert worth == pytest.approx(4000, rel=0.15)
    plain = order_statistic_interval(distinct, 0.9)
    assert estimate.high - estimate.low == pytest.approx(plain.high - plain.low, rel=0.25)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.95])
def test_bootstrap_with_blocks_of_one_is_the_binomial_law(q):
    n = 400
    samples = np.random.default_rng(4).permutation(np.arange(1.0, n + 1))
    estimate = block_bootstrap_quantile(samples, q, block=1)
    needed = math.ceil(q * n - 1e-9)
    # A resample's quantile is at most the r-th sample with P(Bin(n, r / n) >= needed).
    ranks = np.arange(1, n + 1)
    chance = stats.binom.sf(needed - 1, n, ranks / n)
    assert estimate.low == ranks[np.argmax(chance >= 0.025)]
    assert estimate.high == ranks[np.argmax(chance >= 0.975)]


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_exact_bootstrap_is_the_limit_of_the_simulated_one(q):
    samples = autoregressive(np.random.default_rng(6), 1500, 0.8)
    exact = block_bootstrap_quantile(samples, q, block=30)
    simulated = block_bootstrap_quantile(samples, q, 30, 8000, np.random.default_rng(7))
    width = exact.high - exact.low
    assert simulated.low == pytest.approx(exact.low, abs=0.03 * width)
    assert simulated.high == pytest.approx(exact.high, abs=0.03 * width)
    assert simulated.method.endswith("8000 resamples")


def test_bootstrap_of_whole_numbers_stays_on_them():
    rng = np.random.default_rng(9)
    samples = np.round(np.exp(autoregressive(rng, 5000, 0.9)) * 20)
    estimate = block_bootstrap_quantile(samples, 0.99)
    assert estimate.low == int(estimate.low)
    assert estimate.low < estimate.value < estimate.high


def test_constant_latencies_have_a_constant_quantile():
    for method in (block_bootstrap_quantile, correlated_quantile):
        estimate = method(np.full(1000, 42.0), 0.9)
        assert (estimate.low, estimate.value, estimate.high) == (42.0, 42.0, 42.0)


@pytest.mark.parametrize("method", [block_bootstrap_quantile, correlated_quantile])
def test_one_burst_sets_no_upper_limit(method):
    # A hundred late samples in a row are one event: P99 cannot be bounded from above.
    rng = np.random.default_rng(12)
    samples = rng.normal(50, 1, 10_000)
    samples[4000:4150] += 500
    assert method(samples, 0.99, block=300).high == math.inf
    assert math.isfinite(order_statistic_interval(samples, 0.99).high)


def test_block_length_follows_the_rule_for_a_known_correlation():
    # For R(k) = c^k the rule is (6 c^2 / (1 - c^2)^2)^(1/3) n^(1/3).
    rng = np.random.default_rng(13)
    n, correlation = 200_000, 0.7
    wanted = (6 * correlation**2 / (1 - correlation**2) ** 2 * n) ** (1 / 3)
    lengths = [block_length(autoregressive(rng, n, correlation)) for _ in range(10)]
    assert np.mean(lengths) == pytest.approx(wanted, rel=0.1)


def test_block_length_of_series_without_memory_is_short_and_of_a_trend_capped():
    rng = np.random.default_rng(14)
    assert np.median([block_length(rng.standard_normal(10_000)) for _ in range(20)]) <= 5
    assert block_length(np.linspace(0, 1, 10_000)) > 200
    assert block_length(np.linspace(0, 1, 10_000)) <= 300
    assert block_length(np.ones(1000)) == 1
    assert block_length([1.0, 2.0, 3.0]) == 1


def test_correlation_breaks_the_plain_interval_and_not_the_block_ones():
    rng = np.random.default_rng(15)
    truth = stats.norm.ppf(0.9)
    plain = bootstrap = effective = 0
    repeats = 300
    for _ in range(repeats):
        samples = autoregressive(rng, 3000, 0.9)
        plain += order_statistic_interval(samples, 0.9).contains(truth)
        bootstrap += block_bootstrap_quantile(samples, 0.9).contains(truth)
        effective += correlated_quantile(samples, 0.9).contains(truth)
    assert plain / repeats < 0.6
    assert bootstrap / repeats > 0.88
    assert 0.90 < effective / repeats < 0.985


def test_effective_samples_cover_the_tail_better_than_the_bootstrap():
    rng = np.random.default_rng(16)
    truth = stats.norm.ppf(0.99)
    bootstrap = effective = 0
    for _ in range(200):
        samples = autoregressive(rng, 3000, 0.9)
        bootstrap += block_bootstrap_quantile(samples, 0.99).contains(truth)
        effective += correlated_quantile(samples, 0.99).contains(truth)
    assert effective / 200 > 0.88
    assert effective > bootstrap


def test_independent_samples_are_covered_at_the_level():
    rng = np.random.default_rng(17)
    truth = stats.norm.ppf(0.99)
    covered = sum(
        order_statistic_interval(rng.standard_normal(1000), 0.99).contains(truth)
        for _ in range(1000)
    )
    # Ranks are whole numbers, so the interval is on the safe side by design.
    assert 0.94 < covered / 1000 < 0.99


def test_a_million_samples_take_seconds():
    samples = np.exp(autoregressive(np.random.default_rng(18), 1_000_000, 0.9))
    begin = time.perf_counter()
    estimate = block_bootstrap_quantile(samples, 0.999)
    correlated_quantile(samples, 0.999)
    assert time.perf_counter() - begin < 20
    assert estimate.low < math.exp(stats.norm.ppf(0.999)) < estimate.high


def test_simulated_resamples_are_capped_and_counted():
    samples = np.random.default_rng(19).standard_normal(1_000_000)
    estimate = block_bootstrap_quantile(samples, 0.5, 1000, 10**9, np.random.default_rng(20))
    assert estimate.method.endswith("400 resamples")


def test_runs_are_the_unit_from_two_on():
    rng = np.random.default_rng(22)
    runs = [rng.normal(100 + shift, 1, 2000) for shift in (-9.0, 0.0, 9.0)]
    estimate = replicated_quantile(runs, 0.9, unit="us")
    medians = [np.quantile(run, 0.9, method="inverted_cdf") for run in runs]
    limits = stats.ttest_1samp(medians, 0).confidence_interval(0.95)
    assert estimate.value == pytest.approx(np.mean(medians))
    assert (estimate.low, estimate.high) == pytest.approx((limits.low, limits.high))
    assert (estimate.n, estimate.unit, estimate.method) == (3, "us", "Student t over runs")
    pooled = order_statistic_interval(np.concatenate(runs), 0.9)
    assert estimate.high - estimate.low > 10 * (pooled.high - pooled.low)


def test_one_run_says_that_it_is_one():
    run = autoregressive(np.random.default_rng(23), 5000, 0.5)
    estimate = replicated_quantile([run], 0.9)
    within = correlated_quantile(run, 0.9)
    assert (estimate.low, estimate.high) == (within.low, within.high)
    assert estimate.method.startswith("one run, spread within it only")
    assert estimate.n == 5000


@pytest.mark.parametrize(
    "method", [order_statistic_interval, block_bootstrap_quantile, correlated_quantile]
)
def test_unusable_samples(method):
    with pytest.raises(ValueError, match="samples is empty"):
        method([], 0.5)
    with pytest.raises(ValueError, match="index 2"):
        method([1.0, 2.0, math.nan], 0.5)
    with pytest.raises(ValueError, match=r"0\.999 for P99\.9"):
        method([1.0, 2.0], 99.9)
    with pytest.raises(ValueError, match="level"):
        method([1.0, 2.0], 0.5, level=95)


def test_unusable_blocks_and_resamples():
    samples = np.arange(10.0)
    for method in (block_bootstrap_quantile, correlated_quantile):
        with pytest.raises(ValueError, match="two samples"):
            method([1.0], 0.5)
        for block in (0, 6):
            with pytest.raises(ValueError, match="half of the 10 samples"):
                method(samples, 0.5, block)
    with pytest.raises(ValueError, match="rng"):
        block_bootstrap_quantile(samples, 0.5, n_boot=100)
    with pytest.raises(ValueError, match="n_boot=0"):
        block_bootstrap_quantile(samples, 0.5, n_boot=0, rng=np.random.default_rng(1))


def test_unusable_runs():
    with pytest.raises(ValueError, match="runs is empty"):
        replicated_quantile([], 0.5)
    with pytest.raises(ValueError, match="run 1 is empty"):
        replicated_quantile([[1.0, 2.0], []], 0.5)
