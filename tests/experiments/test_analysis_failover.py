"""Failover: rates around the cut, recovery against its limit, and what was offered."""

import numpy as np
import pandas as pd
import pytest

from tsnrepro.config.registry import experiment
from tsnrepro.experiments.failure import analysis as failure
from tsnrepro.experiments.failure import figures

NAME = "failure.failover.frer"


def trials(**changed):
    """Return three repetitions of either configuration; ``changed`` columns are those of FRER."""
    rows = []
    for configuration in ("control", "frer"):
        for number in range(3):
            frer = configuration == "frer"
            row = {
                **{"trial": f"{configuration}-{number}", "sha256": f"{number}".ljust(64, "a")},
                **{"repetition": number + 1, "scenario": "failover", "delay_ms": None},
                **{"configuration": configuration, "rate_pps": 45_000.0, "payload_bytes": 1472},
                **{"duration_s": 3.0, "receive_buffer_bytes": 8_000_000, "achieved_pps": 44_000.0},
                **{"lost": 0, "duplicated": 0, "reordered": 0, "alarms": 0},
                **{"longest_gap_ms": 1.5, "silent_at_end_ms": 0.0, "elsewhere_ms": 1.5},
                **{"before_mbps": 500.0 + number, "after_mbps": 501.0 + number},
                "during_mbps": 500.0 + number if frer else 0.0,
                "recovery_ms": 0.5 + 0.1 * number if frer else 1000.0 + number,
                "lost_while_cut": 0 if frer else 45_000,
                "sent_while_cut": 45_000 + number,
                "as_long_percent": 1.0 + number if frer else 0.0,
                "as_long_windows_percent": 10.0 + number if frer else 0.0,
            }
            rows.append(row | ({k: v[number] for k, v in changed.items()} if frer else {}))
    return pd.DataFrame(rows)


def test_rates_and_what_is_left_of_them_on_one_path():
    found = failure.analyse(trials())
    assert found.of(f"{NAME}.during.mbps").value == pytest.approx(501, abs=0.01)
    share = found.of(f"{NAME}.during_share.percent")
    assert share.value == pytest.approx(100)
    assert found.of("failure.failover.control.during_share.percent").value == 0
    assert found.of(f"{NAME}.lost_while_cut").value == 0
    assert found.of("failure.failover.control.lost_while_cut").value == 45_000


def test_what_the_talker_did_not_reach_is_told():
    found = failure.analyse(trials())
    assert found.of("failure.failover.target.mbps").value == pytest.approx(529.92)
    assert found.of(f"{NAME}.offered.mbps").value == pytest.approx(44_000 * 1472 * 8 / 1e6)


@pytest.mark.parametrize(
    ("gaps", "word"),
    [((0.4, 0.5, 1.5), "all"), ((0.4, 0.5, 1.500001), "some"), ((2, 3, 4), "none")],
)
def test_the_gap_at_the_cut_is_held_against_the_longest_elsewhere_trial_by_trial(gaps, word):
    found = failure.analyse(trials(recovery_ms=gaps))
    assert found.of(f"{NAME}.no_longer").value == word
    estimate = found.of(f"{NAME}.gap.ms")
    assert estimate.low < estimate.value < estimate.high
    assert found.of(f"{NAME}.elsewhere.ms").value == 1.5


def test_the_share_of_gaps_that_are_as_long_is_a_range_over_trials():
    found = failure.analyse(trials())
    assert found.interval(f"{NAME}.as_long.percent") == (2.0, 1.0, 3.0)
    assert found.interval(f"{NAME}.as_long_windows.percent") == (11.0, 10.0, 12.0)


def test_of_nothing_lost_the_bound_is_exact():
    found = failure.analyse(trials())
    sent = 3 * 45_000 + 3
    assert found.of(f"{NAME}.sent_while_cut.count").value == sent
    bound = found.of(f"{NAME}.loss_bound.percent")
    # At the bound, nothing lost of so many has a chance of 5 %.
    assert (1 - bound.value / 100) ** sent == pytest.approx(0.05)
    assert "independently" in bound.method


def test_of_what_was_lost_there_is_no_bound():
    found = failure.analyse(trials(lost_while_cut=(0, 0, 1)))
    assert found.of(f"{NAME}.loss_bound.percent").value is None
    assert found.of(f"{NAME}.sent_while_cut.count").value == 3 * 45_000 + 3


def test_a_record_without_shares_has_none():
    """Those of former versions have the gaps alone."""
    later = ["sent_while_cut", "as_long_percent", "as_long_windows_percent"]
    found = failure.analyse(trials().drop(columns=later))
    assert found.of(f"{NAME}.no_longer").value == "all"
    for key in ("as_long.percent", "as_long_windows.percent", "sent_while_cut.count"):
        assert found.of(f"{NAME}.{key}").value is None
    assert found.of(f"{NAME}.loss_bound.percent").value is None


def test_the_figure_steps_at_each_arrival_around_the_cut():
    times = np.array([0.990, 0.996, 0.999, 1.002, 1.004, 1.008])
    numbers, edges = figures._received_around(times, {"from_s": 1.0, "until_s": 1.001})
    assert numbers.tolist() == [0, 1, 2, 3, 4]
    assert edges == pytest.approx([-5, -4, -1, 2, 4, 6])


def test_every_key_is_promised():
    declared = experiment("failure")
    assert [key for key in failure.analyse(trials()).keys if not declared.declares_key(key)] == []


def test_a_longer_path_has_results_by_its_delay():
    changed = {"scenario": "delay", "delay_ms": 10.0}
    found = failure.analyse(trials(reordered=(1, 2, 3)).assign(**changed))
    assert found.of("failure.delay_10_ms.delay.ms").value == 10
    assert found.of("failure.delay_10_ms.frer.reordered").value == 2
    declared = experiment("failure")
    assert [key for key in found.keys if not declared.declares_key(key)] == []


def test_without_such_trials_there_are_no_such_results():
    others = trials().assign(scenario="none")
    assert not [key for key in failure.analyse(others).keys if key.startswith("failure.failover")]


def test_alarms_that_nobody_could_raise_are_unknown():
    """The second switch of such a rack looks for no latent errors; control has none to look for."""
    table = trials(alarms=(None, None, None)).assign(sent=1000, first_alarm_s=None)
    found = failure.analyse(table)
    assert found.of(f"{NAME}.alarms").value is None
    assert found.of("failure.failover.control.alarms").value == 0
    rows = failure.summary(table).set_index("configuration")
    assert pd.isna(rows.loc["frer", "alarms"])
    assert rows.loc["control", "alarms"] == 0
