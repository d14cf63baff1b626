"""Loss over hours: made-up soaks with a known drift, and records without times."""

import numpy as np
import pandas as pd
import pytest

from tsnrepro.experiments.loss import over_time as loss_over_time
from tsnrepro.experiments.loss.over_time import COLUMNS, over_time
from tsnrepro.results.results import Results

HOURS = 24.0


def soak(drift_percent_an_hour=0.0, repetitions=12, seed=1, **columns):
    """A day of two loads and configurations; the control's loss grows, in bursts."""
    rng = np.random.default_rng(seed)
    rows = []
    for order in range(4 * repetitions):
        repetition, place = divmod(order, 4)
        configuration, rate = ("control", "frer")[place % 2], (100, 300)[place // 2]
        hours = order * HOURS / (4 * repetitions)
        mean = 0.5 + (drift_percent_an_hour * hours if configuration == "control" else 0)
        sent = 100_000
        lost = int(50 * rng.poisson(mean / 100 * sent / 50))
        rows.append(
            {
                "trial": f"t{order}",
                "sha256": f"{order:064x}",
                "question": "sweep",
                "configuration": configuration,
                "repetition": repetition + 1,
                "order": order,
                "target_mbps": float(rate),
                "started": pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(hours=hours),
                "sent": sent,
                "lost": lost,
                "loss_percent": 100 * lost / sent,
            }
        )
    return pd.DataFrame(rows).assign(**columns)


def results_of(trials, **options):
    results = Results("loss", trials)
    table = over_time(trials, **options)
    loss_over_time.add(results, trials, table)
    return results


def test_a_drift_is_found_where_it_is_and_only_there():
    results = results_of(soak(0.05))
    grown = results.of("loss.time.control.trend.percent")
    assert grown.low < 0.05 < grown.high
    assert grown.low > 0
    assert grown.unit == "%/h"
    steady = results.of("loss.time.frer.trend.percent")
    assert steady.low < 0 < steady.high
    earlier, later = (
        results.of(f"loss.time.control.{part}.percent").value for part in ("earlier", "later")
    )
    assert later - earlier == pytest.approx(0.05 * HOURS / 2, rel=0.2)


def test_the_repetition_is_the_unit_and_stands_at_its_hour():
    trials = soak()
    table = over_time(trials)
    assert list(table.columns) == COLUMNS
    assert (table["trials"] == 2).all()
    assert len(table) == 2 * 12
    first = table[(table["configuration"] == "control") & (table["repetition"] == 1)].iloc[0]
    # Trials 0 and 2 of 48 in a day.
    assert first["hours"] == pytest.approx(0.5)
    own = trials[(trials["configuration"] == "control") & (trials["repetition"] == 1)]
    assert first["loss_percent"] == pytest.approx(own["loss_percent"].mean())
    results = results_of(trials)
    assert results.of("loss.time.repetitions.count").value == 12
    assert results.of("loss.time.span.hours").value == pytest.approx(22.5, abs=0.01)


def test_trials_in_another_order_of_the_table_are_the_same_hours():
    trials = soak(0.05)
    shuffled = trials.sample(frac=1, random_state=4)
    plain, other = results_of(trials), results_of(shuffled)
    key = "loss.time.control.trend.percent"
    assert plain.of(key).value == pytest.approx(other.of(key).value)


def test_other_questions_take_no_part():
    trials = soak(0.05)
    narrow = soak(9.0, question="bottleneck", seed=2)
    narrow["trial"] = "b" + narrow["trial"]
    both = pd.concat([trials, narrow], ignore_index=True)
    pd.testing.assert_frame_equal(over_time(both), over_time(trials))


@pytest.mark.parametrize(
    ("trials", "options"),
    [(soak(), {"timed": False}), (soak(started=pd.NaT), {}), (soak(loss_percent=np.nan), {})],
)
def test_without_times_or_losses_there_is_a_reason_and_no_number(trials, options):
    results = results_of(trials, **options)
    trend = results.of("loss.time.control.trend.percent")
    assert trend.value is None
    assert "no times" in trend.method
    assert results.of("loss.time.span.hours").value is None
    loss_over_time.loss_over_time(over_time(trials, **options), "a testbed")


def test_three_repetitions_have_a_slope_without_limits():
    results = results_of(soak(repetitions=3))
    trend = results.of("loss.time.control.trend.percent")
    assert trend.value is not None
    assert trend.low is None
    assert "fewer than 6" in trend.method
