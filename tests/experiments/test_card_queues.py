"""What a network card is told for each mode of shaping, by what its queues can do."""

import pytest
from shaping_parts import part

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import parse
from tsnrepro.config.campaigns import Campaign
from tsnrepro.experiments.shaping import on_hosts
from tsnrepro.experiments.shaping.settings import MODES_OF, TOGGLED
from tsnrepro.testbeds.jobs.job import Cable, LinkEnd

MAP = "map 1 1 1 1 1 0 1 1 1 1 1 1 1 1 1 1"
TALKER = LinkEnd("talker", "enp3s0", ("10.0.101.1/24",))
LISTENER = LinkEnd("listener", "enp4s0", ("10.0.101.2/24",))


def cable(chip="i225", stamps="hardware"):
    return Cable(TALKER, LISTENER, chip, stamps)


def told(mode, chip, **changes):
    """Return the commands for the talker's card, as text."""
    settings = part(modes=[mode], idle_slope_mbps=20.0, loads_mbps=[500.0], **changes)
    job = on_hosts.job_of(settings, mode, 1, cable(chip))
    assert {step.host for step in job.configure} == {"talker"}
    return [" ".join(step.argv) for step in job.configure]


def test_i225_has_the_gates_itself():
    """The stream's window is the first of the list; its class is the card's first."""
    (taprio,) = told("tas", "i225")
    assert "dev enp3s0 root handle 100: taprio num_tc 4" in taprio
    assert f"{MAP} queues 1@0 1@1 1@2 1@3" in taprio
    assert taprio.endswith("flags 0x2")
    assert "clockid" not in taprio
    entries = taprio.split("sched-entry S ")[1:]
    assert [entry.split()[0] for entry in entries] == ["01", "0e"]


def test_i210_launches_within_the_windows():
    taprio, stream, others = told("tas", "i210")
    assert f"num_tc 2 {MAP} queues 1@0 1@1" in taprio
    assert "flags 0x1 txtime-delay 500000 clockid CLOCK_TAI" in taprio
    launched = "etf clockid CLOCK_TAI delta 300000 offload skip_sock_check"
    assert stream.endswith(f"parent 100:1 {launched}")
    assert others.endswith(f"parent 100:2 {launched}")


def test_any_other_card_has_the_kernels_gates():
    (taprio,) = told("tas", "other")
    assert taprio.endswith("clockid CLOCK_TAI")
    assert "flags" not in taprio


@pytest.mark.parametrize(("chip", "offload"), [("i210", "1"), ("i225", "1"), ("other", "0")])
def test_credit_is_the_cards_where_it_has_any(chip, offload):
    mqprio, cbs = told("cbs", chip)
    assert "mqprio" in mqprio
    assert "parent 100:1 cbs" in cbs
    assert cbs.endswith(f"offload {offload}")


def test_launch_times_are_the_cards_where_it_has_any():
    assert told("etf", "i210")[1].endswith("delta 300000 offload")
    assert told("etf", "other")[1].endswith("delta 300000")


def test_no_line_stands_in_for_the_cable():
    """The stream goes to the listener's own address, and its card stamps what arrives."""
    settings = part(loads_mbps=[500.0])
    for mode in ("fifo", "prio"):
        job = on_hosts.job_of(settings, mode, 1, cable())
        assert not job.bridges
        assert [(link.one, link.other) for link in job.links] == [(TALKER, LISTENER)]
        words = [" ".join(step.argv) for step in job.commands()]
        assert not any("tbf" in text for text in words)
        steps = {step.name: " ".join(step.argv) for step in job.commands()}
        assert "10.0.101.2" in steps["talker"]
        assert "10.0.101.2" in steps["load"]
        assert "--timestamps hardware" in steps["listener"].replace("=", " ")


def test_every_mode_of_an_end_station_is_told():
    for mode in MODES_OF["end-station"]:
        assert mode == TOGGLED or told(mode, "i225")


def test_a_cable_has_no_bridge():
    """A part of kind bridge is measured where a switch stands between the cards, and only there."""
    settings = part("bridge", modes=["fifo"])
    with pytest.raises(ConfigurationError, match="no switch stands between the cards"):
        on_hosts.job_of(settings, "fifo", 1, cable())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "tas-frer", "modes": ["tas"]}, "it has no member paths for tas-frer"),
        ({"modes": ["direct"]}, "the board cannot be bypassed"),
        ({"switch": "bridge", "modes": ["fifo"]}, "its hardware shapes, not switch: bridge"),
    ],
)
def test_what_cards_cannot_do_is_refused_beforehand(changes, said):
    settings = part("bridge").model_dump(exclude_unset=True) | changes
    shaping = {"repetitions": 1, "parts": [settings | {"testbeds": {"nic-pair": {}}}]}
    with pytest.raises(ConfigurationError, match=said):
        parse(Campaign, {"description": "x", "shaping": shaping}, "a campaign")
