"""Settings and trials of the experiment ``shaping``."""

import pytest
from gate_lists import two_windows
from pydantic import ValidationError
from shaping_parts import part, trials_of

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.experiments.shaping import plan as shaping
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.schedule import flows_of, schedules
from tsnrepro.experiments.shaping.settings import ShapingSettings


def plan(*parts, repetitions=2, kind="model"):
    return shaping.plan(ShapingSettings(repetitions=repetitions, parts=list(parts)), 3, kind)


def test_every_mode_meets_every_load_in_every_repetition():
    planned = plan(part(loads_mbps=[0.0, 900.0]), repetitions=3)
    seen = [(p.trial.factors["mode"], p.trial.factors["load_mbps"]) for p in planned]
    assert sorted(seen) == sorted(
        (mode, load) for mode in ("tas", "prio", "fifo") for load in (0.0, 900.0) for _ in range(3)
    )
    assert [p.trial.repetition for p in planned] == [1] * 6 + [2] * 6 + [3] * 6


def test_a_part_may_be_measured_more_often_on_a_testbed():
    often = part(name="often", testbeds={"model": {}, "emulated": {"repetitions": 4}})
    counts = {kind: len(plan(often, part(), kind=kind)) for kind in ("model", "emulated")}
    assert counts == {"model": 3 * 2 * 2, "emulated": 3 * 4}
    assert "repetitions" not in Factors.one(often.on("emulated"), "tas", 0.0).stored()


def test_a_direct_link_has_no_load():
    trials = trials_of(part("bridge", modes=["direct", "fifo"], loads_mbps=[0.0, 900.0]), 1)
    assert [t.label for t in trials] == ["test-direct-idle", "test-fifo-idle", "test-fifo-900M"]


def test_a_testbed_runs_only_its_parts():
    slower = {"link_rate_mbps": 200.0, "modes": ["tas", "fifo"]}
    parts = part(), part(name="both", testbeds={"model": {}, "guest": slower})
    planned = plan(*parts, kind="guest")
    assert {p.trial.factors["part"] for p in planned} == {"both"}
    assert {p.trial.factors["link_rate_mbps"] for p in planned} == {200.0}
    assert len(planned) == 2 * 2
    on_model = plan(*parts)
    assert len(on_model) == 2 * (3 + 3)
    assert {p.trial.factors["link_rate_mbps"] for p in on_model} == {1000.0}


def test_the_schedules_are_those_of_the_testbed():
    slower = part(testbeds={"model": {}, "guest": {"link_rate_mbps": 200.0}})
    settings = ShapingSettings(repetitions=1, parts=[slower, part(name="model-only")])
    assert set(schedules(settings, "model")) == {"test", "model-only"}
    carried = {
        kind: schedules(settings, kind)["test"]["carries_bytes"].iloc[0]
        for kind in ("model", "guest")
    }
    assert carried == {"model": 2_500, "guest": 500}


def test_no_trial_is_planned_under_a_schedule_that_cannot_be():
    published = two_windows(5_000, 5_000, scheduled=5, others=[0])
    with pytest.raises(ConfigurationError, match="no frame of the load fits") as refused:
        plan(part(gates=published, loads_mbps=[900.0]))
    assert "shaping part test" in refused.value.where
    assert "12,304 ns" in refused.value.remedy


def test_without_a_load_only_the_stream_must_fit():
    published = two_windows(5_000, 5_000, scheduled=5, others=[0])
    assert plan(part(gates=published))


def test_factors_give_the_part_back():
    wanted = part("bridge", modes=["cbs"], idle_slope_mbps=20.0, loads_mbps=[900.0])
    stored = Factors.one(wanted, "cbs", 900.0).stored()
    assert Factors.read(stored).part == wanted


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
        ({"load_priority": 5}, "priority and load_priority are both 5"),
        ({"interval_spread_us": 301.0}, "would be reordered"),
        ({"payload_bytes": 11}, "greater than or equal to 12"),
        ({"payload": 256}, "Extra inputs"),
        ({"testbeds": {}}, "at least 1 item"),
        ({"testbeds": {"gust": {}}}, "'emulated', 'guest', 'model'"),
        ({"testbeds": {"guest": {"payload": 256}}}, r"testbeds\.guest\.payload\s+Extra inputs"),
        (
            {"testbeds": {"guest": {"modes": ["cbs"]}}},
            r"testbeds\.guest: mode cbs needs idle_slope",
        ),
        ({"testbeds": {"guest": {"gates": None}}}, r"testbeds\.guest: mode tas needs gates"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, said):
    with pytest.raises(ValidationError, match=said):
        part(**changes)


def test_parts_have_names_of_their_own():
    with pytest.raises(ValidationError, match="used twice: test"):
        ShapingSettings(repetitions=1, parts=[part(), part()])
