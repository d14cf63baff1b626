"""Series in pieces have the same results as arrays."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsnrepro.stats import long_series
from tsnrepro.stats.long_series import LongSeries
from tsnrepro.stats.quantiles import correlated_quantile, replicated_quantile, sample_quantile

QS = (0.25, 0.5, 0.9, 0.99, 0.999)


def in_pieces(values, length=1000, quantiles=QS):
    """Return a long series of an array, and a list that counts its passes."""
    readings = []

    def pieces():
        readings.append(1)
        for start in range(0, len(values), length):
            yield values[start : start + length]

    return LongSeries(pieces, quantiles), readings


def latencies(n, seed=5, decimals=None):
    """Return skewed latencies in microseconds, of full resolution or in decimals."""
    values = np.exp(np.random.default_rng(seed).normal(3, 0.3, n))
    return values if decimals is None else values.round(decimals)


def of_any_kind():
    some = st.floats(-1e100, 1e100) | st.floats(19, 21) | st.sampled_from([0.0, -0.0, 5e-324])
    return arrays(np.float64, st.integers(1, 60), elements=some)


@pytest.mark.parametrize("collected", [4_000_000, 3])
@settings(max_examples=40, deadline=None)
@given(values=of_any_kind(), length=st.integers(1, 40), q=st.floats(0.001, 0.999))
def test_order_statistics_are_exact(collected, values, length, q):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_series, "_MAX_COLLECTED", collected)
        series, _ = in_pieces(values, length)
        assert sample_quantile(series, q) == sample_quantile(values, q)
        everything = series.order_statistics(range(1, len(values) + 1))
    assert [everything[rank + 1] for rank in range(len(values))] == np.sort(values).tolist()


@pytest.mark.parametrize("values", [latencies(60_001), latencies(60_000, decimals=3)])
@pytest.mark.parametrize("collected", [4_000_000, 10])
def test_intervals_are_those_of_the_array(monkeypatch, values, collected):
    monkeypatch.setattr(long_series, "_MAX_COLLECTED", collected)
    series, _ = in_pieces(values)
    for q in QS:
        assert correlated_quantile(series, q, unit="us") == correlated_quantile(
            values, q, unit="us"
        )


@pytest.mark.parametrize(
    "values", [np.arange(60.0), np.linspace(0, 1, 10_000), np.full(1000, 42.0)]
)
def test_no_limits_where_the_array_has_none(values):
    series, _ = in_pieces(values)
    assert correlated_quantile(series, 0.5) == correlated_quantile(values, 0.5)


def test_one_pass_computes_all_quantiles():
    series, readings = in_pieces(latencies(60_000))
    for q in QS:
        correlated_quantile(series, q)
    assert len(readings) == 3
    series, readings = in_pieces(latencies(60_000, decimals=3))
    for q in QS:
        correlated_quantile(series, q)
        sample_quantile(series, q)
    assert len(readings) == 2


def test_runs_in_pieces_are_replicated_as_arrays_are():
    runs = [latencies(5000, seed) for seed in range(4)]
    series = [in_pieces(run)[0] for run in runs]
    assert replicated_quantile(series, 0.9) == replicated_quantile(runs, 0.9)
    assert replicated_quantile(series[:1], 0.9) == replicated_quantile(runs[:1], 0.9)


def test_moments_and_ends():
    values = latencies(30_011) + 1e4
    series, readings = in_pieces(values)
    assert (len(series), series.min, series.max) == (len(values), values.min(), values.max())
    assert series.mean == pytest.approx(values.mean(), rel=1e-13)
    assert series.sd == pytest.approx(values.std(ddof=1), rel=1e-9)
    assert math.isnan(in_pieces(values[:1])[0].sd)
    assert len(readings) == 1


def test_figures_need_no_further_pass():
    values = latencies(50_000)
    series, readings = in_pieces(values)
    shares = np.linspace(0.001, 0.999, 200)
    exact = np.quantile(values, shares, method="inverted_cdf")
    near = series.approximate_quantiles(shares)
    assert (near >= exact).all()
    assert near == pytest.approx(exact, rel=1 / 32768)
    assert len(readings) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "empty"), ([1.0, math.nan], "not finite"), ([math.inf], "not finite")],
)
def test_unusable_series(values, message):
    series = LongSeries(partial(iter, [np.array(values)]))
    with pytest.raises(ValueError, match=message):
        correlated_quantile(series, 0.5)
