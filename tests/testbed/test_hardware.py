"""A rack over real SSH, its hosts and switches stood in for by namespaces: frames are real."""

import io
import json
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest
from racks import CARDS, Rack

from tsnrepro.errors import ConfigurationError, TestbedError
from tsnrepro.experiments import latency, loss, mausezahn, ping, tcp
from tsnrepro.experiments.measurement import Measurement
from tsnrepro.records.store import Trial
from tsnrepro.settings import load_testbed
from tsnrepro.testbed.hardware import actions
from tsnrepro.testbed.hardware.doctor import PASS, STOP, WARN, examine
from tsnrepro.testbed.hardware.journal import Journal
from tsnrepro.testbed.hardware.proof import prove
from tsnrepro.testbed.hardware.testbed import HardwareTestbed, restore
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

NAME = "rack-of-a-test"
LINK_SECONDS = 0.05


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Two boards: everything that only a LAN966x does."""
    with Rack(tmp_path_factory.mktemp("boards"), ("lan966x", "lan966x")) as rack:
        yield rack


@pytest.fixture(scope="module")
def boards_up(boards):
    before = fingerprint(boards)
    with HardwareTestbed(boards.settings(), NAME, "a test", boards.folder) as testbed:
        yield testbed
    assert fingerprint(boards) == before
    assert Journal(NAME, boards.folder).read() is None


@pytest.fixture(scope="module")
def computers(tmp_path_factory):
    """Two Linux computers with our data plane: quick to bring up."""
    with Rack(tmp_path_factory.mktemp("computers"), ("ebpf", "ebpf")) as rack:
        yield rack


@pytest.fixture(scope="module")
def computers_up(computers):
    before = fingerprint(computers)
    with HardwareTestbed(computers.settings(), f"{NAME}-2", "a test", computers.folder) as testbed:
        yield testbed
    assert fingerprint(computers) == before


def fingerprint(rack: Rack) -> dict:
    """Return the state of all hosts, seen from outside and without the code under test."""
    found = {}
    for role in rack.spaces:
        links = json.loads(rack.run(role, "ip", "-j", "-d", "addr", "show"))
        kept = ("ifname", "mtu", "flags", "master")
        addresses = {
            link["ifname"]: [a["local"] for a in link["addr_info"] if a["family"] == "inet"]
            for link in links
        }
        found[role] = {
            "links": [{key: link.get(key) for key in kept} for link in links],
            "addresses": addresses,
            "offloads": [rack.run(role, "ethtool", "-k", link["ifname"]) for link in links],
            "queues": rack.run(role, "tc", "qdisc", "show"),
            "neighbours": rack.run(role, "ip", "neigh", "show", "nud", "permanent"),
            "ipfrag_time": rack.run(role, "sysctl", "-n", "net.ipv4.ipfrag_time"),
            "programs": rack.run(role, "ls", "/run").split().count("tsnrepro-programs"),
            "reserved": rack.run(role, "ls", "/run").split().count("tsnrepro-reservation"),
        }
        if rack.drivers.get(role) == "lan966x":
            board = json.loads(rack.spaces[role].file("/run/lan966x.json").read_text() or "{}")
            found[role]["board"] = chip_state(board)
    return found


def chip_state(board: dict) -> dict:
    """Return what a board is told; a flow that was only looked at is as one never named."""
    flow = {"ms_enable": 0, "ms_id": 0, "generation": 0, "pop": 0, "dev1": "-", "dev2": "-"}
    kept = ("bridges", "masters", "vlans", "ms", "rules")
    found = {key: board.get(key, {}) for key in kept}
    found["flows"] = {k: v for k, v in board.get("flows", {}).items() if v != flow}
    for key in ("cs", "flooding"):
        found[key] = {k: v for k, v in board.get(key, {}).items() if any(v.values())}
    return found


def measured(experiment, testbed, label: str, **factors) -> Measurement:
    found = Measurement()
    name = experiment.__name__.rpartition(".")[2]
    experiment.measure(testbed, Trial(name, label, factors, 1), found)
    return found


def loss_at(testbed, configuration: str, rate_mbps: float = 20, **factors):
    wanted = {
        **{"configuration": configuration, "payload_bytes": 1472, "rate_mbps": rate_mbps},
        **{"duration_s": 1, "generator": "iperf3", **factors},
    }
    return measured(loss, testbed, f"{configuration}-{rate_mbps}", **wanted)


# --- measuring ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rack", ["boards_up", "computers_up"])
@pytest.mark.parametrize("generator", ["iperf3", "talker"])
def test_frer_sends_each_datagram_over_both_paths_and_lets_one_through(rack, generator, request):
    testbed = request.getfixturevalue(rack)
    values = loss_at(testbed, "frer", generator=generator).values
    accounting, sent = values["accounting"], values["result"]["sent"]
    assert sent > 1000
    assert accounting["copies"] == accounting["eliminated"] == sent
    assert accounting["received"] == sent
    assert set(accounting["drops"].values()) == {0}, accounting["drops"]
    assert values["recovery"]["discarded"] == sent
    assert values["recovery"]["tagless"] == 0


@pytest.mark.parametrize("rack", ["boards_up", "computers_up"])
def test_control_sends_each_datagram_once(rack, request):
    testbed = request.getfixturevalue(rack)
    values = loss_at(testbed, "control").values
    accounting, sent = values["accounting"], values["result"]["sent"]
    assert (accounting["copies"], accounting["eliminated"]) == (0, 0)
    assert accounting["received"] == sent
    assert set(accounting["drops"].values()) == {0}, accounting["drops"]


@pytest.mark.parametrize(
    ("experiment", "factors"),
    [
        (tcp, {"configuration": "frer", "duration_s": 1}),
        (latency, {"configuration": "frer", "payload_bytes": 64, "duration_s": 1}),
        (ping, {"payload_bytes": 64, "requests": 20, "interval_ms": 10}),
        (mausezahn, {"configuration": "frer", "payload_bytes": 256}),
    ],
    ids=["tcp", "latency", "ping", "mausezahn"],
)
def test_other_experiments_run_unchanged(boards_up, experiment, factors):
    if experiment is mausezahn:
        factors = factors | {"rate_mbps": 2.0, "duration_s": 2.0, "deadline_s": 20.0}
    found = measured(experiment, boards_up, "once", **factors)
    assert found.values


def test_no_record_names_a_host_of_the_rack(boards_up, boards):
    text = json.dumps(boards_up.describe()) + json.dumps(
        [c for c in loss_at(boards_up, "frer").commands]
    )
    secret = ["127.0.0.1", str(boards.folder), *map(str, boards.ports.values()), *CARDS.values()]
    assert not [word for word in secret if word in text]


@pytest.mark.parametrize("rack", ["boards", "computers"])
def test_what_a_narrow_path_drops_is_named_where_it_was_dropped(rack, request):
    machines, testbed = (request.getfixturevalue(name) for name in (rack, f"{rack}_up"))
    limit = ["tbf", "rate", "10mbit", "burst", "16k", "limit", "32k"]
    for port in ("eth1", "eth2"):
        machines.run("sw1", "tc", "qdisc", "replace", "dev", port, "root", *limit)
    try:
        accounting = loss_at(testbed, "control").values["accounting"]
    finally:
        for port in ("eth1", "eth2"):
            machines.run("sw1", "tc", "qdisc", "del", "dev", port, "root")
    lost = accounting["sent"] - accounting["received"]
    assert lost > 500
    assert accounting["drops"]["sw1 queue m0"] == lost
    assert accounting["unaccounted"] == 0


def test_what_a_cable_loses_is_named_after_its_ends(computers, computers_up):
    def lose(ppm: int) -> None:
        fault = ["fault", "eth1", "--drop-ppm", str(ppm), "--duplicate-ppm", "0"]
        computers.run("sw2", "/run/tsnrepro-programs/frerctl", *fault)

    lose(200_000)
    try:
        accounting = loss_at(computers_up, "frer").values["accounting"]
    finally:
        lose(0)
    assert accounting["drops"]["between sw1 m0 and sw2 m0"] > 100
    assert accounting["received"] == accounting["sent"]
    assert accounting["unaccounted"] == 0


# --- before and after -------------------------------------------------------------------------


def test_a_failure_while_setting_up_puts_everything_back(computers, monkeypatch):
    before = fingerprint(computers)

    def fail(*_):
        raise TestbedError("no more", "sw2")

    with pytest.raises(TestbedError, match="no more"):
        with monkeypatch.context() as patched:
            from tsnrepro.testbed.hardware.station import Station  # noqa: PLC0415

            patched.setattr(Station, "pin", fail)
            with HardwareTestbed(computers.settings(), "failing", "", computers.folder) as testbed:
                testbed.configure("frer", StreamFilter("udp", 5202))
                testbed.pin_neighbours()
    assert fingerprint(computers) == before
