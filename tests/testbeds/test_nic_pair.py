"""Two hosts and a cable over real SSH: namespaces stand in for the machines, frames are real."""

import json
import time
from contextlib import ExitStack

import pytest
from gate_lists import two_windows
from racks import CARDS, Pair
from shaping_parts import trials_of

from tsnrepro.common.errors import TestbedError, ToolError
from tsnrepro.common.topology import STATIONS
from tsnrepro.experiments.shaping import measure as shaping
from tsnrepro.experiments.shaping.log import LOG, decompress
from tsnrepro.experiments.shaping.settings import ShapingPart
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.doctor.examine import examine
from tsnrepro.testbeds.doctor.findings import PASS, STOP
from tsnrepro.testbeds.hosts import clock_sync
from tsnrepro.testbeds.hosts.clock_sync import ClockSynchronizer
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.nic_pair.testbed import NicPairTestbed, restore
from tsnrepro.tools.linuxptp import TimeService, parse_ptp_state, pmc

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

NAME = "cards-of-a-test"
PACKETS = 300
LOCKED_SECONDS = 30
PTP = {"time_stamping": "software", "free_running": True, "lock_timeout_s": LOCKED_SECONDS}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair(tmp_path_factory.mktemp("pair")) as made:
        yield made


def state(pair):
    """Return the state of both hosts, seen from outside and without the code under test."""
    found = {}
    for role in STATIONS:
        (link,) = json.loads(pair.run(role, "ip", "-j", "-d", "addr", "show", "dev", CARDS[role]))
        found[role] = {
            "link": (link["mtu"], "UP" in link["flags"]),
            "addresses": [a["local"] for a in link["addr_info"] if a["family"] == "inet"],
            "offloads": pair.run(role, "ethtool", "-k", CARDS[role]),
            "queues": pair.run(role, "tc", "qdisc", "show", "dev", CARDS[role]),
            "run": sorted(pair.run(role, "ls", "/run").split()),
            "programs": [
                line
                for line in pair.run(role, "ps", "-e", "-o", "comm=").splitlines()
                if line in ("ptp4l", "phc2sys", "talker", "listener")
            ],
        }
    return found


@pytest.fixture
def unchanged(pair):
    before = state(pair)
    yield
    assert state(pair) == before
    assert Journal(NAME, pair.folder).read() is None


def measured(testbed, found=None, **changes):
    settings = ShapingPart(
        **{"name": "test", "kind": "end-station", "modes": ["fifo"], "packets": PACKETS},
        **{"payload_bytes": 256, "interval_us": 500.0, "loads_mbps": [0.0], **changes},
        gates=two_windows(500_000, 500_000, scheduled=5, others=[0]),
    )
    (trial,) = trials_of(settings, 1)
    found = found or Measurement()
    shaping.measure(testbed, trial, found)
    return found


def test_a_trial_between_two_cards(pair, unchanged):
    """Its queues are those of the talker's own port; the hosts' clocks are one here."""
    with NicPairTestbed(pair.settings(), NAME, "a test", pair.folder) as testbed:
        facts = testbed.describe()
        found = measured(testbed)
    assert facts["cards"] == {"talker": "other", "listener": "other"}
    result = found.values["result"]
    assert result["sent"] == result["received"] == PACKETS
    assert found.values["medium"] == "network cards"
    assert [row["kind"] for row in found.values["qdiscs"]] == ["bfifo"]
    agreed = found.values["machine"]["clocks"]
    assert [each["method"] for each in agreed] == ["one kernel, one clock"] * 2
    log = decompress(found.outputs[LOG])
    assert (log["stamped_ns"] > log["sent_ns"]).all()
    text = json.dumps([facts, found.commands])
    for secret in ("127.0.0.1", str(pair.folder), *(f":{port}" for port in pair.ports.values())):
        assert secret not in text


def test_a_trial_under_load(pair, unchanged):
    with NicPairTestbed(pair.settings(), NAME, "a test", pair.folder) as testbed:
        found = measured(testbed, loads_mbps=[20.0])
    assert found.values["result"]["load_delivered_mbps"] == pytest.approx(20, rel=0.2)


def test_a_trial_whose_clocks_part_fails_with_all_that_it_measured(pair, unchanged, monkeypatch):
    found, looks = Measurement(), []

    def agreement(*_):
        looks.append(ClockSyncFailure("parted") if looks else ClockSync(1.0, "one clock"))
        return looks[-1]

    monkeypatch.setattr(clock_sync, "compare_clocks", agreement)
    with (
        NicPairTestbed(pair.settings(), NAME, "a test", pair.folder) as testbed,
        pytest.raises(ToolError, match="clocks no longer agree: parted"),
    ):
        measured(testbed, found)
    assert len(decompress(found.outputs[LOG])) == PACKETS
    assert "talker.txt" in found.outputs
    assert found.values["machine"]["clocks"][1] == {"reason": "parted"}


def test_linuxptp_runs_beside_the_steps_and_no_longer(pair, unchanged):
    """With stamps of the kernel and clocks left alone, which all hosts of this machine share."""
    settings = pair.settings(ptp=PTP)
    with NicPairTestbed(settings, NAME, "a test", pair.folder) as testbed, ExitStack() as stack:
        hosts = testbed._jobs.hosts
        for role in STATIONS:  # as a job has set them up
            card = CARDS[role]
            pair.run(role, "ip", "link", "set", card, "up")
        keeper: ClockSynchronizer = testbed._clocks
        stack.enter_context(keeper.synchronized(LOCKED_SECONDS))
        service = TimeService("/run/tsnrepro-programs/linuxptp/ptp4l")
        end = time.monotonic() + LOCKED_SECONDS
        while time.monotonic() < end:
            told = hosts["listener"].run(pmc(service), deadline_s=10).stdout
            if "RESPONSE" in told and parse_ptp_state(told).steps_removed == 1:
                break
            time.sleep(0.5)
        states = [
            parse_ptp_state(hosts[role].run(pmc(service), deadline_s=10).check().stdout)
            for role in STATIONS
        ]
        assert states[0].steps_removed == 0
        assert states[1].grandmaster == states[0].grandmaster
        assert states[1].steps_removed == 1
        assert [state(pair)[role]["programs"] for role in STATIONS] == [["ptp4l"]] * 2


def test_what_a_killed_campaign_left_is_put_back(pair, unchanged):
    testbed = NicPairTestbed(pair.settings(), NAME, "a test", pair.folder)
    with testbed:
        card = CARDS["talker"]
        pair.run("talker", "tc", "qdisc", "replace", "dev", card, "root", "bfifo", "limit", "9000")
        pair.run("talker", "ip", "addr", "add", "10.0.100.1/24", "dev", card)
        pair.run("talker", "ip", "link", "set", card, "mtu", "1400")
        testbed._lease.keep_configured()
    journal = Journal(NAME, pair.folder)
    assert journal.read()["state"]
    assert restore(NAME, journal)
    assert not restore(NAME, journal)


def test_a_card_with_somebodys_queues_is_refused(pair):
    card = CARDS["listener"]
    pair.run("listener", "tc", "qdisc", "replace", "dev", card, "root", "bfifo", "limit", "9000")
    before = state(pair)
    try:
        with (
            pytest.raises(TestbedError, match=f"{card} has configured queues: bfifo"),
            NicPairTestbed(pair.settings(), NAME, "a test", pair.folder),
        ):
            pass
        assert state(pair) == before
        assert Journal(NAME, pair.folder).read() is None
    finally:
        pair.run("listener", "tc", "qdisc", "del", "dev", card, "root")


def test_a_card_at_another_speed_is_refused(pair, unchanged):
    slower = pair.settings(link_rate_mbps=1000)
    with (
        pytest.raises(TestbedError, match="runs at 10000 Mb/s, full duplex"),
        NicPairTestbed(slower, NAME, "a test", pair.folder),
    ):
        pass


def test_the_doctor_knows_what_a_pair_needs(pair, unchanged):
    found = {(f.check, f.role): f.verdict for f in examine(pair.settings())}
    assert found["tools", "talker"] == PASS
    assert found["ports", "listener"] == PASS
    by_card = pair.settings(ptp=PTP | {"time_stamping": "hardware", "free_running": False})
    stops = {f.check for f in examine(by_card) if f.verdict == STOP}
    assert f"hardware clock of {CARDS['talker']}" in stops
