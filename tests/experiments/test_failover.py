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


def test_equal_gaps_are_as_long_as_the_cuts():
    found = failover(outcome(all_came()), LOAD)
    # Those of the first arrival and of the end are 0.1 and 0.9 ms.
    gaps = 3001 - 2 * 2
    assert found["as_long_percent"] == pytest.approx(100 * (gaps - 2) / gaps)
    assert found["as_long_windows_percent"] == 100


def test_gaps_as_long_as_the_cuts_are_counted_elsewhere():
    came = all_came()
    # At the cut 4 ms without an arrival; elsewhere gaps of 3, 4, 6 and 11 ms.
    for first, lost in ((1000, 3), (200, 2), (400, 3), (600, 5), (1500, 10)):
        came[first : first + lost] = False
    found = failover(outcome(came), LOAD)
    assert found["recovery_ms"] == pytest.approx(4.0)
    assert found["elsewhere_ms"] == pytest.approx(11.0)
    # Of the gaps of those that came, 1 belongs to the cut and 2 belong to the repair.
    gaps = 3000 - (3 + 2 + 3 + 5 + 10) + 1 - 1 - 2
    assert found["as_long_percent"] == pytest.approx(100 * 3 / gaps)
    # Windows of 1 ms side by side: the gaps of 4, 6 and 11 ms, from 0.1 ms in their first window,
    # overlap 5, 7 and 12, those of the cut and the repair 5 and 3.
    assert found["as_long_windows_percent"] == pytest.approx(100 * (5 + 7 + 12) / (3000 - 5 - 3))


def test_windows_are_as_long_as_the_cut_took():
    came = all_came()
    came[1004:1007] = came[2503:2513] = False
    found = failover(outcome(came, late_s=0.009), LOAD)
    assert found["recovery_ms"] == pytest.approx(4.0)
    # Of 10 ms: the gap from 2.5021 to 2.5131 s overlaps 2; those of the cut, from 0.9991 to
    # 1.0101 s, and those of the repair overlap 3 each.
    assert found["as_long_windows_percent"] == pytest.approx(100 * 2 / (300 - 3 - 3))


def test_a_stall_over_the_cut_does_not_hide_what_is_behind_it():
    """The listener reads at 1.005 s what came since 0.995 s, the last of before the cut with it."""
    came = all_came()
    came[1000:2000] = False
    stalled = outcome(came)
    assert stalled.arrivals is not None
    stalled.arrivals["received_ns"][995:1000] = FIRST_NS + 1_005_000_000
    found = failover(stalled, LOAD)
    assert found["recovery_ms"] == pytest.approx(2000.1 - 1005.0)
    assert found["elsewhere_ms"] == pytest.approx(1.0)
    assert found["as_long_percent"] == found["as_long_windows_percent"] == 0


def test_what_was_sent_from_the_cut_to_the_repair_is_counted():
    found = failover(outcome(all_came()), LOAD)
    # Numbers 999 to 2000: what was sent 1 ms before the cut was on its way.
    assert (found["sent_while_cut"], found["lost_while_cut"]) == (1002, 0)
    came = all_came()
    came[1200:1300] = False
    found = failover(outcome(came), LOAD)
    assert (found["sent_while_cut"], found["lost_while_cut"]) == (1002, 100)


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
