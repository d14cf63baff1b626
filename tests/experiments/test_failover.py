"""Failover: rates and silences around a cut, from arrivals whose truth is known."""

import numpy as np
import pytest

from tsnrepro.common.errors import ToolError
from tsnrepro.common.ethernet import payload_rate_mbps
from tsnrepro.experiments.failure import plan as failure
from tsnrepro.experiments.failure.failover import failover
from tsnrepro.experiments.failure.plan import Factors
from tsnrepro.experiments.failure.settings import FailureSettings
from tsnrepro.native.streams.log import LISTENER_DTYPE
from tsnrepro.runner.faults import AppliedFault, Fault
from tsnrepro.runner.load import IntendedLoad, LoadOutcome

PPS, SECONDS, PAYLOAD = 1000, 3.0, 1000
FIRST_NS = 1_700_000_000_000_000_000
LOAD = IntendedLoad("frer", PAYLOAD, PPS, SECONDS)
CUT, REPAIR = Fault(1.0, "cut", path=0), Fault(2.0, "repair", path=0)


def outcome(came, faults=(CUT, REPAIR), late_s=0.0):
    """Return a run in which only some numbers came, 0.1 ms after they were sent."""
    numbers = np.flatnonzero(came)
    arrivals = np.zeros(len(numbers), LISTENER_DTYPE)
    arrivals["sequence"] = numbers
    arrivals["sent_ns"] = FIRST_NS + numbers * 1_000_000
    arrivals["received_ns"] = arrivals["sent_ns"] + 100_000
    return LoadOutcome(
        sent=len(came),
        received_total=len(numbers),
        received_unique=len(numbers),
        sending_s=SECONDS,
        first_ns=FIRST_NS,
        arrivals=arrivals,
        faults=tuple(AppliedFault(f, f.at_s, f.at_s + late_s) for f in faults),
    )


def all_came():
    return np.ones(int(PPS * SECONDS), bool)


def test_a_cut_that_nobody_notices():
    found = failover(outcome(all_came()), LOAD)
    for phase in ("before", "during", "after"):
        assert found[f"{phase}_mbps"] == pytest.approx(8.0, rel=0.002)
    assert found["recovery_ms"] == pytest.approx(1.0)
    assert found["elsewhere_ms"] == pytest.approx(1.0)
    assert found["lost_while_cut"] == 0


def test_a_path_that_takes_over_late_is_seen():
    came = all_came()
    came[1000:1030] = False
    found = failover(outcome(came), LOAD)
    assert found["recovery_ms"] == pytest.approx(31.0)
    assert found["elsewhere_ms"] == pytest.approx(1.0)
    assert found["during_mbps"] == pytest.approx(8.0 * 0.97, rel=0.002)
    assert found["lost_while_cut"] == 30


def test_without_another_path_nothing_comes_until_the_repair():
    came = all_came()
    came[1000:2000] = False
    found = failover(outcome(came), LOAD)
    assert found["during_mbps"] == pytest.approx(0.0)
    assert found["recovery_ms"] == pytest.approx(1001.0)
    assert found["after_mbps"] == pytest.approx(8.0, rel=0.002)


def test_half_the_rate_on_the_surviving_path_is_seen():
    came = all_came()
    came[1000:2000:2] = False
    found = failover(outcome(came), LOAD)
    assert found["during_mbps"] / found["before_mbps"] == pytest.approx(0.5, rel=0.005)


def test_a_stall_elsewhere_is_not_the_cuts():
    came = all_came()
    came[300:350] = False
    found = failover(outcome(came), LOAD)
    assert found["recovery_ms"] == pytest.approx(1.0)
    assert found["elsewhere_ms"] == pytest.approx(51.0)
    assert found["lost_while_cut"] == 0


def test_a_cut_that_took_effect_late_is_looked_for_as_long():
    came = all_came()
    came[1010:1020] = False
    assert failover(outcome(came, late_s=0.02), LOAD)["recovery_ms"] == pytest.approx(11.0)


def test_other_faults_are_no_failover():
    with pytest.raises(ValueError, match="one cut and one repair"):
        failover(outcome(all_came(), faults=(CUT,)), LOAD)


def test_its_load_and_repetitions_are_its_own():
    settings = FailureSettings.model_validate(
        {
            **{"scenarios": ["cuts", "failover"], "repetitions": 1, "duration_s": 2},
            "failover": {"rate_mbps": 400, "repetitions": 3},
        }
    )
    trials = [planned.trial for planned in failure.plan(settings, 1, "model")]
    own = [trial for trial in trials if trial.factors["scenario"] == "failover"]
    assert len(own) == 2 * 3
    assert {trial.factors["receive_buffer_bytes"] for trial in own} == {8_000_000}
    for trial in own:
        factors = Factors.of(trial)
        rate_mbps = payload_rate_mbps(factors.rate_pps, factors.payload_bytes)
        assert rate_mbps == pytest.approx(400)
    others = [trial for trial in trials if trial.factors["scenario"] == "cuts"]
    assert len(others) == 2
    # What other scenarios are does not change with it: their trials stay those on record.
    assert all("receive_buffer_bytes" not in trial.factors for trial in others)


def test_a_link_that_came_up_too_late_is_said():
    """A copper link agrees on a speed for seconds, longer than a short trial has left."""
    with pytest.raises(ToolError, match=r"up again 3\.50 s .* sent at 3\.00 s"):
        failover(outcome(all_came(), late_s=1.5), LOAD)
