"""Experiment ``failure`` on a rack: what fails on request, and when, by the talker's clock."""

import pytest
from racks import Rack

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.frer import LatentSettings
from tsnrepro.experiments.failure import measure as failure
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds import faults
from tsnrepro.testbeds.hosts import clocks
from tsnrepro.testbeds.hosts.clocks import ClockSyncFailure

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

PPS, SECONDS = 1000.0, 4.0
# Reading a clock and running a command, each over SSH, on a busy machine.
SSH_SECONDS = 0.9


@pytest.fixture(scope="module")
def computers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computers")
    with Rack(folder, ("ebpf", "ebpf")) as rack, rack.up("failing-ebpf") as testbed:
        yield testbed


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    with Rack(folder, ("lan966x", "lan966x")) as rack, rack.up("failing-lan966x") as testbed:
        yield testbed


def failing(testbed, scenario: str, configuration: str = "frer", seconds: float = SECONDS) -> dict:
    factors = {
        **{"scenario": scenario, "configuration": configuration, "delay_ms": None, "paths": None},
        **{"payload_bytes": 256, "rate_pps": PPS, "duration_s": seconds},
        **{"loss_percent": 20.0, "duplicate_percent": 20.0},
        "latent": LatentSettings(period_ms=300, difference=20).model_dump(),
    }
    found = Measurement()
    failure.measure(testbed, Trial("failure", scenario, factors, 1), found)
    assert found.values["accounting"]["unaccounted"] == 0
    return found.values


def lost_in_network(values: dict) -> int:
    drops = values["accounting"]["drops"]
    at_listener = sum(n for place, n in drops.items() if place.startswith("listener"))
    return values["result"]["lost"] - at_listener


RACKS = ["computers", pytest.param("boards", marks=pytest.mark.long)]


@pytest.mark.parametrize("rack", RACKS)
def test_a_path_that_is_cut_and_repaired_costs_frer_nothing(rack, request):
    testbed = request.getfixturevalue(rack)
    control, frer = (failing(testbed, "failover", each) for each in ("control", "frer"))
    cut, repair = frer["faults"]
    for fault, at_s in ((cut, SECONDS / 3), (repair, 2 * SECONDS / 3)):
        assert fault["from_s"] < fault["until_s"] < fault["from_s"] + SSH_SECONDS
        assert at_s - 0.1 < fault["from_s"] < at_s + SSH_SECONDS
    assert frer["result"]["during_mbps"] == pytest.approx(frer["result"]["before_mbps"], rel=0.05)
    # Some were on their way when the link went down; the other path carried each of them too.
    assert lost_in_network(frer) == 0
    down_s = control["faults"][1]["from_s"] - control["faults"][0]["until_s"]
    assert control["result"]["during_mbps"] < 0.6 * control["result"]["before_mbps"]
    assert lost_in_network(control) > 0.9 * down_s * PPS
    # Our data plane gives a port that is down no frame; a chip may, and lose it behind the port.
    places = ("inside sw1", "sw1 queue m0", "between sw1 m0 and sw2 m0")
    drops = control["accounting"]["drops"]
    assert sum(drops.get(place, 0) for place in places) > 0.9 * down_s * PPS, drops


def test_a_silently_dead_path_is_noticed_on_the_talkers_clock(computers):
    values = failing(computers, "silent-death")
    assert lost_in_network(values) == 0
    (fault,) = values["faults"]  # the path dies before its command returns over SSH
    latest_s = fault["until_s"] + 3 * 0.3 + SSH_SECONDS
    assert fault["from_s"] < values["alarms"][0]["at_s"] < latest_s
    assert lost_in_network(failing(computers, "silent-death", "control")) > 0.6 * SECONDS * PPS


def test_what_else_our_data_plane_does_to_a_stream(computers):
    duplicating = failing(computers, "duplicating", seconds=1)
    assert duplicating["recovery"]["discarded"] > 1.1 * PPS
    stuck = failing(computers, "stuck-generator")
    assert lost_in_network(stuck) > 0.1 * SECONDS * PPS
    assert failing(computers, "restart-sw2", seconds=2)["faults"][0]["switch"] == "sw2"
    after = failing(computers, "none", seconds=1)
    assert lost_in_network(after) == 0
    assert not after["faults"]


@pytest.mark.long
def test_a_board_says_that_nobody_looked_for_latent_errors(boards):
    values = failing(boards, "none")
    assert values["alarms"] is None
    assert values["result"]["alarms"] is None
    assert lost_in_network(values) == 0


def test_arrivals_are_put_on_the_talkers_clock_where_nobody_keeps_the_clocks(
    computers, monkeypatch
):
    """The hosts of this rack share a clock, so what is taken off is the quickest way alone."""
    nobody = ClockSyncFailure("nobody keeps them together")
    monkeypatch.setattr(clocks, "compare_clocks", lambda *_: nobody)
    values = failing(computers, "failover")
    assert 0 < values["listener_ahead_ns"] < 5_000_000
    assert values["result"]["during_mbps"] == pytest.approx(
        values["result"]["before_mbps"], rel=0.05
    )


def test_a_link_that_does_not_come_up_is_named(computers, monkeypatch):
    monkeypatch.setattr(faults, "_LINK_SECONDS", 0.3)
    other_end = computers.hosts["sw2"]
    other_end.run(["ip", "link", "set", "dev", "m1", "down"], deadline_s=5).check()
    try:
        with pytest.raises(TestbedError, match="member path 1 is not up"):
            computers.faults.repair(1)
    finally:
        other_end.run(["ip", "link", "set", "dev", "m1", "up"], deadline_s=5).check()
    computers.faults.repair(1)
