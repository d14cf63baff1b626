"""linuxptp over a cable of its own keeps the clocks of a rack's talker and listener together."""

import json

import pytest
from racks import PTP_CARDS, Rack

from tsnrepro.common.errors import TestbedError
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.doctor.examine import examine
from tsnrepro.testbeds.doctor.findings import PASS, STOP
from tsnrepro.testbeds.hosts import clock_sync

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

# The clocks of all namespaces are one, which nobody may set: ptp4l only watches.
PTP = {"time_stamping": "software", "free_running": True, "lock_timeout_s": 30}
LOAD = IntendedLoad("frer", 256, 1000.0, 0.5)


@pytest.fixture(scope="module")
def rack(tmp_path_factory):
    with Rack(tmp_path_factory.mktemp("clocks"), ("ebpf", "ebpf"), PTP) as made:
        yield made


@pytest.fixture(scope="module")
def testbed(rack):
    with rack.up("clocks") as testbed:
        yield testbed


def running(rack: Rack) -> list[str]:
    """Return the programs of linuxptp on the stations."""
    names = [
        name
        for role in ("talker", "listener")
        for name in rack.run(role, "ps", "-e", "-o", "comm=").split()
    ]
    return [name for name in names if name in ("ptp4l", "phc2sys")]


def sent(testbed, **asked):
    requests = backend(
        testbed, Trial("rfc2544", "label", {"configuration": "frer"}, 1), Measurement()
    )
    (outcome,) = requests.constant_rate([LOAD], **asked)
    return outcome


def test_linuxptp_runs_while_a_trial_needs_the_clocks_and_no_longer(rack, testbed, monkeypatch):
    seen = []
    monkeypatch.setattr(
        clock_sync.ClockSynchronizer,
        "_check_running",
        lambda keeper: seen.append((running(rack), sorted(keeper._running))),
    )
    outcome = sent(testbed, arrivals=True)
    both = (["ptp4l", "ptp4l"], ["listener: ptp4l", "talker: ptp4l"])
    assert seen[-1] == both
    assert running(rack) == []
    assert [found.method for found in outcome.clocks] == ["one kernel, one clock"] * 2
    assert outcome.why_not_one_way(1e6) is None
    assert outcome.listener_ahead_ns is None
    seen.clear()
    sent(testbed)
    assert seen == []
    assert "linuxptp" not in rack.run("talker", "ls", "/run/tsnrepro-programs").split()


def test_a_program_that_ends_by_itself_ends_the_trial(rack, testbed, monkeypatch):
    monkeypatch.setattr(
        clock_sync, "ptp4l_configuration", lambda *_: "[global]\nno_such_option 1\n"
    )
    with pytest.raises(TestbedError, match="ended unexpectedly"):
        sent(testbed, arrivals=True)
    assert running(rack) == []


def test_facts_name_no_card(testbed):
    facts = testbed.describe()
    assert facts["settings"]["ptp"]["time_stamping"] == "software"
    assert not [card for card in PTP_CARDS.values() if f'"{card}"' in json.dumps(facts["settings"])]


def test_the_doctor_asks_for_linuxptp_and_the_clocks_of_its_cards(rack):
    found = {(f.check, f.role): f.verdict for f in examine(rack.settings())}
    assert found["tools", "talker"] == PASS
    by_card = PTP | {"time_stamping": "hardware", "free_running": False, "interfaces": PTP_CARDS}
    stops = {f.check for f in examine(rack.settings(ptp=by_card)) if f.verdict == STOP}
    assert f"hardware clock of {PTP_CARDS['listener']}" in stops
