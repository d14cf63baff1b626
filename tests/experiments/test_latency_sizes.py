"""Latency by size on samples with known quantiles."""

import numpy as np
import pandas as pd
import pytest
from test_analysis_latency import RUNS, measured

from tsnrepro.experiments.latency import sizes as latency_sizes
from tsnrepro.experiments.latency.settings import EXPERIMENT
from tsnrepro.results.results import Results


@pytest.fixture(scope="module")
def of_two_sizes():
    """Trials of 64 and 1518 bytes; those of 64 are ten times as many, and half as long."""
    trials, samples = measured(1.0)
    trials = trials.assign(payload_bytes=1518)
    small = trials.assign(
        payload_bytes=64,
        trial=trials["trial"] + "-small",
        sha256=trials["sha256"].str.replace("0", "1"),
        **{f"{name}_us": trials[f"{name}_us"] / 2 for name in ("mean", "min", "max")},
    )
    rng = np.random.default_rng(5)
    more = {f"{name}-small": np.exp(rng.normal(3.0, 0.2, 200_000)) / 2 for name in samples}
    return pd.concat([trials, small], ignore_index=True), samples | more


@pytest.fixture(scope="module")
def found(of_two_sizes):
    trials, samples = of_two_sizes
    results = Results("latency", trials)
    latency_sizes.add(results, trials, samples)
    assert [key for key in results.keys if not EXPERIMENT.declares_key(key)] == []
    return results


def test_each_size_has_its_own_quantiles(found):
    for payload, centre in ((64, np.exp(3.0) / 2), (1518, np.exp(3.0))):
        value, low, high = found.interval(f"latency.payload_{payload}.p50.frer.us")
        assert value == pytest.approx(centre, rel=0.03)
        assert low <= value <= high
        assert found.of(f"latency.payload_{payload}.runs.frer.count").value == RUNS


def test_sizes_that_were_not_tried_have_their_keys(found):
    for payload in (128, 256, 512, 1024):
        item = found.of(f"latency.payload_{payload}.p99_9.frer.us")
        assert item.value is None
        assert "no trial gives it" in item.method


def test_a_quantile_needs_samples_beyond_it(found):
    assert found.of("latency.payload_64.p99_99.frer.us").value is not None
    few = found.of("latency.payload_1518.p99_99.frer.us")
    assert few.value is None
    assert "2 samples of a run lie beyond it, fewer than 10" in few.method


def test_the_margin_falls_as_the_latency_rises(found):
    value, low, high = found.interval("latency.payload_1518.p99_9.frer.us")
    margin, least, most = found.interval("latency.payload_1518.margin.frer.percent")
    assert margin == pytest.approx(100 * (1 - value / 300))
    assert least == pytest.approx(100 * (1 - high / 300))
    assert most == pytest.approx(100 * (1 - low / 300))
    whole, *_ = found.interval("latency.payload_1518.round_trip_margin.frer.percent")
    assert whole == pytest.approx(100 * (1 - 2 * value / 300))


def test_jitter_is_p99_above_the_smallest_of_the_run(of_two_sizes, found):
    trials, samples = of_two_sizes
    runs = trials[(trials["payload_bytes"] == 1518) & (trials["configuration"] == "frer")]["trial"]
    ends = [(np.quantile(samples[r], 0.99, method="inverted_cdf"), samples[r].min()) for r in runs]
    each = [high - low for high, low in ends]
    value, *_ = found.interval("latency.payload_1518.jitter.frer.us")
    assert value == np.median(each)


def test_the_document_stands_beside_the_message_of_its_size(of_two_sizes):
    table = latency_sizes.table(*of_two_sizes)
    of_p99_9 = table[table["statistic"] == "p99_9"]
    for payload, printed, frames in ((64, 178.14, 110), (1518, 262.14, 1518 + 46 + 38)):
        row = of_p99_9[of_p99_9["payload_bytes"] == payload]
        assert set(row["published_us"]) == {printed}
        # Headers and check sequence; of two fragments, twice, with one header of UDP.
        assert set(row["frame_bytes"]) == {frames}
    # The documents print nothing for 128 bytes.
    assert table[table["payload_bytes"] == 128]["published_us"].isna().all()


def test_the_figure_shows_both_sizes(of_two_sizes):
    figure = latency_sizes.latency_by_size(latency_sizes.table(*of_two_sizes), "invented")
    ticks = [text.get_text() for text in figure.axes[-1].get_xticklabels()]
    assert ticks == ["64", "1518"]
    assert figure.axes[-1].get_xlabel() == "message size (bytes)"
    assert figure.axes[0].get_ylabel() == "median (µs)"


def test_half_round_trips_are_drawn_against_half_of_the_bound(of_two_sizes):
    figure = latency_sizes.latency_by_size(latency_sizes.table(*of_two_sizes), "invented")
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[-1].get_lines()}
    assert set(lines["half of 300 µs round trip"]) == {150}
    (legend,) = figure.legends
    assert "half of 300 µs round trip" in [text.get_text() for text in legend.get_texts()]


def test_one_way_latencies_have_no_round_trips_beside_them(of_two_sizes):
    trials, samples = of_two_sizes
    trials = trials.assign(quantity="one way")
    table = latency_sizes.table(trials, samples)
    assert table["published_us"].isna().all()
    of_round_trips = table["statistic"].isin(["margin", "round_trip_margin", "waiting"])
    assert table[of_round_trips]["value"].isna().all()
    assert "one-way latencies" in " ".join(table[of_round_trips]["method"])
    figure = latency_sizes.latency_by_size(table, "invented")
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not {"published", "half of 300 µs round trip"} & {*shown}
