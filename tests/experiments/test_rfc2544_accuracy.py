"""How often the searches land on the model's truth: with stalls the documents' search does not."""

import pandas as pd
import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.rfc2544.accuracy import AccuracySettings, run_accuracy
from tsnrepro.experiments.rfc2544.analysis import load_accuracy, summarise_accuracy

SETTINGS = AccuracySettings(runs=3)


@pytest.fixture(scope="module")
def table():
    return run_accuracy(SETTINGS, 7)


def test_every_search_lands_within_one_percent_without_stalls(table):
    calm = table[~table["stalls"]]
    assert set(calm["answer"]) == {
        "binary_search",
        "zero_loss",
        "half_percent",
        "rfc2544",
        "systematic",
        "threshold",
    }
    assert calm["within"].all()


def test_with_stalls_bisection_falls_short_and_mlrsearch_does_not(table):
    stalled = table[table["stalls"]].groupby(["method", "answer"])["ratio"]
    assert (stalled.min().loc["mlrsearch"] > 0.99).all()
    assert stalled.median().loc[("binary-search-60s", "binary_search")] < 0.9
    assert stalled.median().loc[("systematic", "systematic")] < 0.9


def test_the_searches_take_the_known_times(table):
    calm = table[~table["stalls"]].groupby("method")[["sending_s", "search_s"]].mean()
    assert calm.loc["mlrsearch", "sending_s"] == pytest.approx(18, rel=0.3)
    assert calm.loc["mlrsearch-rfc2544", "search_s"] == pytest.approx(242, rel=0.2)
    assert calm.loc["binary-search-60s", "search_s"] == pytest.approx(621, rel=0.2)


@pytest.mark.parametrize("stall_interval_s", [30.0, 3.0])
def test_mlrsearch_is_near_the_truth_in_three_tenths_of_the_time_of_bisection(stall_interval_s):
    settings = AccuracySettings(runs=40, stall_interval_s=stall_interval_s)
    table = run_accuracy(settings, 11, ["mlrsearch"])
    bisection = settings.binary_search_60s
    slow = bisection.steps * (bisection.duration_s + settings.pause_s)
    for _, found in table.groupby("stalls"):
        assert len(found) == 2 * settings.runs
        assert found["search_s"].mean() <= 0.3 * slow
        assert found["within"].mean() >= 0.95


def test_the_same_seed_gives_the_same_table():
    one = AccuracySettings(runs=1)
    first = run_accuracy(one, 3)
    pd.testing.assert_frame_equal(first, run_accuracy(one, 3))
    assert run_accuracy(one, 4)["truth_pps"].iloc[0] != first["truth_pps"].iloc[0]


def test_the_summary_has_exact_limits(table):
    summary = summarise_accuracy(table)
    assert len(summary) == 14
    sure = summary[summary["within"] == 3]
    # Clopper-Pearson for 3 of 3: (alpha / 2)^(1/3).
    assert sure["within_low_percent"].to_numpy() == pytest.approx(100 * 0.025 ** (1 / 3))
    assert (sure["within_high_percent"] == 100).all()


def test_the_table_is_read_as_it_was_written(table, tmp_path):
    table.to_csv(tmp_path / "accuracy.csv", index=False)
    pd.testing.assert_frame_equal(load_accuracy(tmp_path / "accuracy.csv"), table)


def test_a_missing_table_says_how_to_make_it(tmp_path):
    with pytest.raises(RecordError, match="Run: tsnrepro study accuracy"):
        load_accuracy(tmp_path / "accuracy.csv")
