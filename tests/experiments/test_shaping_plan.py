"""Settings and trials of the experiment ``shaping``."""

from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from shaping_parts import part

from tsnrepro.errors import ConfigurationError
from tsnrepro.experiments import shaping
from tsnrepro.experiments.shaping.factors import factors_of, part_of
from tsnrepro.experiments.shaping.plan import trials_of
from tsnrepro.experiments.shaping.schedule import flows_of, two_windows
from tsnrepro.settings.shaping import ShapingSettings


def campaign(*parts, repetitions=2):
    settings = ShapingSettings(repetitions=repetitions, parts=list(parts))
    return SimpleNamespace(shaping=settings, seed=3)


def test_every_mode_meets_every_load_in_every_repetition():
    planned = shaping.plan(campaign(part(loads_mbps=[0.0, 900.0]), repetitions=3))
    seen = [(p.trial.factors["mode"], p.trial.factors["load_mbps"]) for p in planned]
    assert sorted(seen) == sorted(
        (mode, load) for mode in ("tas", "prio", "fifo") for load in (0.0, 900.0) for _ in range(3)
    )
    assert [p.trial.repetition for p in planned] == [1] * 6 + [2] * 6 + [3] * 6


def test_a_direct_link_has_no_load():
    trials = trials_of(part("bridge", modes=["direct", "fifo"], loads_mbps=[0.0, 900.0]), 1)
    assert [t.label for t in trials] == ["test-direct-idle", "test-fifo-idle", "test-fifo-900M"]


def test_a_testbed_runs_only_its_parts():
    parts = part(), part(name="slow", testbeds=["guest"])
    planned = shaping.plan(campaign(*parts), "guest")
    assert {p.trial.factors["part"] for p in planned} == {"slow"}
    assert len(shaping.plan(campaign(*parts))) == 12


def test_a_campaign_without_shaping_has_no_trials():
    assert shaping.plan(SimpleNamespace(shaping=None, seed=1)) == []


def test_no_trial_is_planned_under_a_schedule_that_cannot_be():
    published = two_windows(5_000, 5_000, scheduled=5, others=[0])
    with pytest.raises(ConfigurationError, match="no frame of the load fits") as refused:
        shaping.plan(campaign(part(gates=published, loads_mbps=[900.0])))
    assert "shaping part test" in refused.value.where
    assert "12,304 ns" in refused.value.remedy


def test_without_a_load_only_the_stream_must_fit():
    published = two_windows(5_000, 5_000, scheduled=5, others=[0])
    assert shaping.plan(campaign(part(gates=published)))


def test_factors_give_the_part_back():
    wanted = part("bridge", modes=["cbs"], idle_slope_mbps=20.0, loads_mbps=[900.0])
    again = part_of(factors_of(wanted, "cbs", 900.0))
    assert again == wanted


def test_a_bridge_tags_its_frames_and_member_ports_carry_r_tags():
    assert [flow.wire_bytes for flow in flows_of(part())] == [(256 + 66,)]
    assert [flow.wire_bytes for flow in flows_of(part("bridge"))] == [(256 + 70,)]
    assert [flow.wire_bytes for flow in flows_of(part("tas-frer"))] == [(256 + 76,)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gates": None}, "mode tas needs gates"),
        ({"modes": ["cbs"]}, "idle_slope_mbps"),
        ({"modes": ["direct"]}, "has no mode direct"),
        ({"load_priority": 5}, "both of class 5"),
        ({"interval_spread_us": 301.0}, "overtake"),
        ({"payload_bytes": 11}, "greater than or equal to 12"),
        ({"payload": 256}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, said):
    with pytest.raises(ValidationError, match=said):
        part(**changes)


def test_parts_have_names_of_their_own():
    with pytest.raises(ValidationError, match="used twice: test"):
        ShapingSettings(repetitions=1, parts=[part(), part()])
