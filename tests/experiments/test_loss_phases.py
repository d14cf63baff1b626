"""Phases, collapse, variation and precision of trials whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from test_analysis_loss import SENT, trial

from tsnrepro.experiments.loss import analysis as loss
from tsnrepro.experiments.loss import phases as loss_phases
from tsnrepro.experiments.loss.plan import plan
from tsnrepro.experiments.loss.settings import EXPERIMENT, LossPart, LossSettings
from tsnrepro.records.tables import LOSS
from tsnrepro.results.results import Results

PHASE_RATES = {1: (400, 500, 550), 3: (535, 540), 4: (555, 557, 559, 560, 561, 563, 565)}
DURATIONS = {1: 5.0, 3: 30.0, 4: 10.0}
REPETITIONS = 3


def row(phase, rate, repetition, lost=0, delivered=None, configuration="frer"):
    found = trial(configuration, rate, repetition, lost)
    name = f"{found['trial']}-{phase}"
    kept = {} if delivered is None else {"delivered_mbps": delivered}
    return found | kept | {
        "trial": name,
        "sha256": name.encode().hex().ljust(64, "0")[:64],
        "question": "sweep",
        "phase": phase,
        "duration_s": DURATIONS.get(phase, 10.0),
    }  # fmt: skip


def phases(**changes):
    """Nothing is lost but at 535 Mb/s; at 565 Mb/s a fifth of the load is delivered."""
    scatter = np.random.default_rng(3)
    rows = [
        row(
            phase,
            rate,
            number,
            lost=changes.get("lost", 53) * (rate == 535),
            delivered=changes.get("at_565") if rate == 565 else rate * scatter.normal(1, 0.001),
        )
        for phase, rates in PHASE_RATES.items()
        for rate in rates
        for number in range(1, REPETITIONS + 1)
    ]
    return LOSS.validate(pd.DataFrame(rows))


def results(trials):
    found = Results("loss", trials)
    loss_phases.add(found, trials)
    assert [key for key in found.keys if not EXPERIMENT.declares_key(key)] == []
    return found


def test_a_phase_is_pooled_with_nothing():
    sweep = [row(None, 500, number, lost=900) for number in range(1, REPETITIONS + 1)]
    trials = LOSS.validate(pd.concat([phases(), pd.DataFrame(sweep)], ignore_index=True))
    found = results(trials)
    assert found.of("loss.phase_1.rate_500.frer.percent").value == 0
    assert found.of("loss.phase_3.duration_s").value == 30
    assert list(loss.summary(trials)["target_mbps"]) == [500]
    assert loss.summary(trials)["loss_percent"].iloc[0] == pytest.approx(9)
    everything = loss.analyse(trials, 1000)
    assert everything.of("loss.lost.total.count").value == 900 * REPETITIONS


def test_the_document_stands_beside_each_load():
    table = loss_phases.by_phase(phases()).set_index(["phase", "target_mbps"])
    onset = table.loc[(3, 535.0)]
    assert onset["loss_percent"] == pytest.approx(100 * 53 / SENT)
    assert (onset["published_loss_percent"], onset["published_lost"]) == (0.053, 1420)
    assert table.loc[(3, 540.0), "published_outcome"] == "connection-failure"
    assert pd.isna(table.loc[(2, 532.0), "trials"])
    assert table.loc[(1, 400.0), "published_duration_s"] == table.loc[(1, 400.0), "duration_s"] == 5


def test_a_collapse_lies_between_the_loads_around_it():
    found = results(phases(at_565=112.0))
    value, low, high = found.interval("loss.phase_4.collapse.frer.mbps")
    # Nothing collapsed at 563 Mb/s; above 565 nothing was tried, so nothing bounds it there.
    assert (value, low, high) == (None, 561, None)
    key = "loss.phase_4.collapse.frer.lowest_share.percent"
    assert found.of(key).value == pytest.approx(100 * 112 / 565)


def test_without_a_collapse_there_is_a_reason_and_no_number():
    found = results(phases(at_565=563.0)).of("loss.phase_4.collapse.frer.mbps")
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "none of 21 trials delivered less than 50 %" in found.method


def test_variation_is_that_of_repetitions_and_not_of_loads():
    found = results(phases(at_565=563.0))
    delivered = found.of("loss.variation.zero_loss.frer.delivered.percent")
    # Loads differ by a quarter, repetitions by a thousandth; of three runs without limits.
    assert delivered.value == pytest.approx(0.1, rel=0.9)
    assert delivered.low is None
    assert "single runs may take much longer" in delivered.method
    onset = found.of("loss.variation.loss_onset.frer.loss.percent")
    assert (onset.value, onset.low) == (0, None)
    assert "no interval" in onset.method


def once_in_phases(sweep_rates):
    """Phases that tried each load once, beside a main sweep that tried its own thrice."""
    series = phases()
    single = series[series["repetition"] == 1]
    rows = [
        row(None, rate, number, lost=40 * number, delivered=rate * (1 + number / 100))
        for rate in sweep_rates
        for number in range(1, REPETITIONS + 1)
    ]
    return LOSS.validate(pd.concat([single, pd.DataFrame(rows)], ignore_index=True))


def test_where_no_phase_was_repeated_the_main_sweep_tells_the_variation():
    found = results(once_in_phases([500, 900]))
    delivered = found.of("loss.variation.zero_loss.frer.delivered.percent")
    # One load of the sweep lies in the region: steps of a per cent, and nothing of the phases.
    assert delivered.value == pytest.approx(0.98, abs=0.02)
    assert delivered.method.endswith("; of the main sweep")
    assert found.of("loss.variation.zero_loss.frer.loss.percent").value == pytest.approx(50)
    onset = found.of("loss.variation.loss_onset.frer.delivered.percent")
    assert onset.value is None
    assert "no load of the region was tried more than once" in onset.method


def test_repeated_phases_are_never_pooled_with_the_main_sweep():
    sweep = once_in_phases([500])
    sweep = sweep[sweep["phase"].isna()]
    found = results(LOSS.validate(pd.concat([phases(), sweep], ignore_index=True)))
    delivered = found.of("loss.variation.zero_loss.frer.delivered.percent")
    assert delivered.value < 0.3
    assert delivered.method.endswith("; of the phases")


def test_a_region_has_the_phases_where_one_of_its_loads_was_repeated():
    series = phases(at_565=112.0)
    several = series["target_mbps"].isin([535, 565])
    sweep = [row(None, 500, n, delivered=500 * (1 + n / 100)) for n in range(1, REPETITIONS + 1)]
    once = series[several | (series["repetition"] == 1)]
    found = results(LOSS.validate(pd.concat([once, pd.DataFrame(sweep)], ignore_index=True)))
    regions = {"zero_loss": "main sweep", "loss_onset": "phases", "catastrophic": "phases"}
    for region, whose in regions.items():
        delivered = found.of(f"loss.variation.{region}.frer.delivered.percent")
        assert delivered.value is not None
        assert delivered.method.endswith(f"; of the {whose}")


def test_jitter_is_of_the_main_sweep_by_configuration():
    rows = [
        row(None, 500, number, configuration=name) | {"jitter_ms": 0.02 * factor}
        for name, factor in (("frer", 1), ("control", 2))
        for number in range(1, REPETITIONS + 1)
    ]
    # A talker of our own reports none, and a phase is no part of the main sweep.
    rows += [row(1, 500, 9) | {"jitter_ms": 9.0}, row(None, 300, 4) | {"jitter_ms": None}]
    found = results(LOSS.validate(pd.DataFrame(rows)))
    assert found.of("loss.jitter.frer.us").value == pytest.approx(20)
    assert found.of("loss.jitter.control.us").value == pytest.approx(40)


def test_records_without_jitter_give_none():
    assert results(phases()).of("loss.jitter.frer.us").value is None


def test_what_no_counter_explains_is_the_error_of_the_count():
    trials = phases()
    trials.loc[0, "unaccounted"] = -7
    found = results(trials)
    assert found.of("loss.precision.accuracy.percent").value == pytest.approx(100 * 7 / SENT)
    assert found.of("loss.precision.accuracy.mbps").value == pytest.approx(7 * 1472 * 8 / 2 / 1e6)
    assert found.of("loss.precision.resolution.percent").value == pytest.approx(100 / SENT)


def part(**changes):
    return LossPart(**({"payload_bytes": 1472, "rates_mbps": [535], "duration_s": 5} | changes))


def test_trials_of_two_lengths_need_a_phase_each():
    with pytest.raises(ValueError, match="give each duration a phase"):
        LossSettings(repetitions=1, parts=[part(), part(duration_s=30)])
    settings = LossSettings(repetitions=1, parts=[part(), part(phase=3, duration_s=30)])
    planned = [item.trial for item in plan(settings, 1, "model")]
    assert sorted({trial.factors.get("phase", 0) for trial in planned}) == [0, 3]
    assert len({trial.digest for trial in planned}) == len(planned) == 4


def test_a_trial_without_a_phase_keeps_its_name():
    (trial, _) = (item.trial for item in plan(LossSettings(repetitions=1, parts=[part()]), 1, ""))
    assert "phase" not in trial.factors
    assert trial.label.endswith("-1472B-535M")


def test_a_phase_belongs_to_the_sweep():
    with pytest.raises(ValueError, match="phase is for the objective sweep, not for limit"):
        part(question="limit", phase=1)
