"""A rack over real SSH, its hosts and switches stood in for by namespaces: frames are real."""

import gzip
import json
import random
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext

import pytest
from racks import CARDS, SHELL, Rack, fingerprint

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import parse
from tsnrepro.experiments.latency import measure as latency
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.analysis import analyse as analyse_loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.experiments.loss.settings import LossSettings
from tsnrepro.experiments.mausezahn import measure as mausezahn
from tsnrepro.experiments.ping import measure as ping
from tsnrepro.experiments.rfc2544 import measure as rfc2544
from tsnrepro.experiments.streams import measure as streams
from tsnrepro.experiments.tcp import measure as tcp
from tsnrepro.experiments.traffic import measure as traffic
from tsnrepro.records.store import RawStore, Trial
from tsnrepro.records.tables import load_trials
from tsnrepro.results.testbed import label_of, settings_of, write_facts
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.run import run_trials, write_manifest
from tsnrepro.testbeds import commands
from tsnrepro.testbeds.doctor.examine import examine
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN
from tsnrepro.testbeds.doctor.frer import verify_frer
from tsnrepro.testbeds.hosts import rollback
from tsnrepro.testbeds.hosts.lease import HostLease
from tsnrepro.testbeds.hosts.remote import connect
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.rack.lan966x import Lan966xDriver
from tsnrepro.testbeds.rack.station import StationDriver
from tsnrepro.testbeds.rack.testbed import RackTestbed, restore

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

NAME = "rack-of-a-test"
LINK_SECONDS = 0.05


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Two boards: everything that only a LAN966x does."""
    with Rack(tmp_path_factory.mktemp("boards"), ("lan966x", "lan966x")) as rack:
        yield rack


@pytest.fixture(scope="module")
def boards_up(boards):
    with boards.up(NAME) as testbed:
        yield testbed
    assert Journal(NAME, boards.folder).read() is None


@pytest.fixture(scope="module")
def computers(tmp_path_factory):
    """Two Linux computers with our data plane: quick to bring up."""
    with Rack(tmp_path_factory.mktemp("computers"), ("ebpf", "ebpf")) as rack:
        yield rack


@pytest.fixture(scope="module")
def computers_up(computers):
    with computers.up(f"{NAME}-2") as testbed:
        yield testbed


def measured(experiment, testbed, label: str, **factors) -> Measurement:
    found = Measurement()
    name = experiment.__name__.split(".")[-2]
    experiment.measure(testbed, Trial(name, label, factors, 1), found)
    return found


def loss_at(testbed, configuration: str, rate_mbps: float = 20, **factors):
    wanted = {
        **{"configuration": configuration, "payload_bytes": 1472, "rate_mbps": rate_mbps},
        **{"duration_s": 1, "generator": "iperf3", **factors},
    }
    return measured(loss, testbed, f"{configuration}-{rate_mbps}", **wanted)


# --- measuring ------------------------------------------------------------


MAUSEZAHN = {
    **{"configuration": "frer", "frame_bytes": 256, "load_percent": 0.05},
    **{"duration_s": 2.0, "deadline_s": 20.0},
}
BISECTION = {
    **{"benchmark": "throughput", "method": "binary-search", "configuration": "frer"},
    **{"payload_bytes": 1472, "frame_bytes": 1518, "tag_counts": False, "duration_s": 0.2},
    **{"ceiling_s": 0.2, "shortfall_percent": 5.0, "full_waits": False},
    # A machine at work loses at the first loads, but not at a thirty-second of the ceiling.
    "settings": {"steps": 6, "duration_s": 0.2, "loss_percent": 1, "resolution_mbps": None},
}
# A board's shell is slow here, where each of its commands starts an interpreter.
BOTH = [pytest.param("boards_up", marks=pytest.mark.long), "computers_up"]


def assert_network_lost_nothing(accounting, sent):
    """Hold against a trial that only the listener lost: a machine at work may keep it waiting."""
    at_listener = {p: n for p, n in accounting["drops"].items() if p.startswith("listener")}
    assert accounting["received"] + sum(at_listener.values()) == sent, accounting["drops"]
    assert sum(accounting["drops"].values()) == sum(at_listener.values()), accounting["drops"]


@pytest.mark.parametrize(
    ("rack", "generator"),
    [
        *(("boards_up", "iperf3"), ("computers_up", "iperf3"), ("computers_up", "talker")),
        pytest.param("boards_up", "talker", marks=pytest.mark.long),
    ],
)
def test_frer_sends_each_datagram_over_both_paths_and_lets_one_through(rack, generator, request):
    testbed = request.getfixturevalue(rack)
    values = loss_at(testbed, "frer", generator=generator).values
    accounting, sent = values["accounting"], values["result"]["sent"]
    assert sent > 1000
    assert accounting["copies"] == accounting["eliminated"] == sent, accounting
    assert_network_lost_nothing(accounting, sent)
    # Recovery of the data plane has counters for all traffic, the tool's own connection too.
    assert values["recovery"]["discarded"] >= sent
    assert values["recovery"]["tagless"] == 0


@pytest.mark.parametrize("rack", ["boards_up", "computers_up"])
def test_control_sends_each_datagram_once(rack, request):
    testbed = request.getfixturevalue(rack)
    values = loss_at(testbed, "control").values
    accounting, sent = values["accounting"], values["result"]["sent"]
    assert (accounting["copies"], accounting["eliminated"]) == (0, 0)
    assert_network_lost_nothing(accounting, sent)


@pytest.mark.parametrize(
    ("experiment", "factors"),
    [
        (tcp, {"configuration": "frer", "duration_s": 1}),
        pytest.param(
            *(latency, {"configuration": "frer", "payload_bytes": 64, "duration_s": 1}),
            marks=pytest.mark.long,
        ),
        (ping, {"payload_bytes": 64, "requests": 20, "interval_ms": 10}),
        (mausezahn, MAUSEZAHN),
    ],
    ids=["tcp", "latency", "ping", "mausezahn"],
)
@pytest.mark.parametrize("rack", BOTH)
def test_other_experiments_run_unchanged(rack, experiment, factors, request):
    found = measured(experiment, request.getfixturevalue(rack), "once", **factors)
    assert found.values["result"]


@pytest.mark.parametrize(
    "rack", [pytest.param("boards_up", marks=pytest.mark.long), "computers_up"]
)
def test_a_bisection_finds_what_the_rack_carries(rack, request):
    found = measured(rfc2544, request.getfixturevalue(rack), "bisection", **BISECTION)
    result = found.values["results"]["binary_search"]
    assert 0 < result["lower_pps"] <= result["path_pps"]


def test_several_streams_have_their_own_numbers(computers_up):
    factors = {"streams": 3, "payload_bytes": 256, "rate_pps": 500, "duration_s": 1}
    found = measured(streams, computers_up, "streams", **factors, best_effort_mbps=1)
    result = found.values["result"]
    assert result["own_sequences"]
    assert result["sent"] == result["passed"] == result["discarded"] >= 1400
    assert result["lost"] == result["best_effort_lost"] == 0


def test_traffic_of_a_car_comes_whole(computers_up):
    sources = [
        {"kind": "camera", "name": "camera", "pictures_per_s": 10, "picture_bytes": 20_000},
        {"kind": "random", "name": "v2x", "rate_pps": 100, "payload_bytes": 256},
    ]
    factors = {"mix": "car", "duration_s": 1, "receive_buffer_bytes": None, "sources": sources}
    found = measured(traffic, computers_up, "car-frer", configuration="frer", **factors)
    camera, v2x = found.values["streams"]
    assert camera["pictures"]["whole"] == camera["pictures"]["sent"] == 10
    assert v2x["unique"] == v2x["sent"] > 50
    for stream in (camera, v2x):
        assert stream["accounting"]["copies"] == stream["accounting"]["eliminated"] > 0
        assert stream["accounting"]["unaccounted"] == 0


@pytest.mark.parametrize("rack", [pytest.param("boards", marks=pytest.mark.long), "computers"])
def test_no_record_names_a_host_of_the_rack(rack, request):
    machines, testbed = (request.getfixturevalue(name) for name in (rack, f"{rack}_up"))
    found = loss_at(testbed, "frer")
    text = json.dumps([testbed.describe(), found.commands, found.outputs])
    ports = [f":{port}" for port in machines.ports.values()]
    secret = ["127.0.0.1", str(machines.folder), *ports, *CARDS.values()]
    found = [text[max(0, text.find(word) - 80) :][:160] for word in secret if word in text]
    assert not found


@pytest.mark.parametrize("rack", [pytest.param("boards", marks=pytest.mark.long), "computers"])
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
    # Beside the stream, what the queue dropped may be the tool's own connection.
    assert 0 <= lost - accounting["drops"]["sw1 queue m0"] <= 5, accounting["drops"]
    assert accounting["unaccounted"] == 0


def test_a_run_on_a_rack_is_recorded_and_analysed(computers_up, tmp_path):
    parts = [{"payload_bytes": 1472, "rates_mbps": [10, 30], "duration_s": 0.3}]
    parts[0]["generator"] = "talker"
    narrow = {"objective": "bottleneck", "payload_bytes": 1472, "rates_mbps": [10]}
    narrow |= {"duration_s": 1, "member_link_rate_mbps": 5}
    settings = parse(LossSettings, {"repetitions": 1, "parts": [*parts, narrow]}, "a test")
    planned = [item for item in plan_loss(settings, 1, "rack") if not item.testbed]
    assert len(planned) == 4
    store = RawStore(tmp_path, "a-rack", "a-test", "loss")
    found = run_trials(store, planned, 1, lambda: nullcontext(computers_up), loss.measure)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    kept += b"".join(gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.json.gz"))
    for address in (
        *computers_up.concealed,
        *(s.mac() for s in computers_up._rack.stations.values()),
    ):
        assert address.encode() not in kept
    manifest = tmp_path / "run.json"
    write_manifest(found, str(manifest))
    trials = load_trials(manifest)
    assert set(trials["unaccounted"]) == {0}
    # On a busy machine some may be lost; whatever is has a place.
    places = trials[["network_lost", "host_lost", "unread"]].sum(axis=1)
    assert list(trials["lost"]) == list(places)
    results = analyse_loss(trials, settings_of(manifest)["link_rate_mbps"])
    assert results.of("loss.trials.count").value == 4
    assert "rack" in label_of(manifest)
    write_facts(manifest, tmp_path / "facts.json")


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


# --- before and after ------------------------------------------------------------


def test_a_failure_while_setting_up_puts_everything_back(tmp_path, monkeypatch):
    def fail(*_):
        raise TestbedError("no more", "listener")

    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        before = fingerprint(rack)
        monkeypatch.setattr(StationDriver, "prepare", fail)
        with pytest.raises(TestbedError, match="no more"):
            RackTestbed(rack.settings(), "failing", "", tmp_path).__enter__()
        assert fingerprint(rack) == before
        assert Journal("failing", tmp_path).read() is None


# Sets the rack up, twice, and says when it begins; whoever started it kills it meanwhile.
_CAMPAIGN = """\
import sys
from pathlib import Path
from tsnrepro.config import load_testbed
from tsnrepro.testbeds.rack.testbed import RackTestbed
from tsnrepro.tools.frerctl import StreamFilter
folder = Path(sys.argv[1])
settings = load_testbed(folder / "rack.yaml")
print("begins", flush=True)
while True:
    with RackTestbed(settings, "killed", "a campaign that is killed", folder) as testbed:
        testbed.configure("frer", StreamFilter("udp", 5202))
        testbed.snapshot()
"""


def killed_after(folder, seconds: float) -> None:
    """Start a campaign and kill it so long after its beginning."""
    argv = [sys.executable, "-c", _CAMPAIGN, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as campaign:
        assert campaign.stdout is not None
        assert campaign.stdout.readline().strip() == "begins"
        time.sleep(seconds)
        campaign.kill()


def kill_and_restore(folder, times: list[float], drivers: tuple[str, str]) -> int:
    """Kill campaigns at these times; return how often there was something to restore."""
    found = 0
    with Rack(folder, drivers) as rack:
        before = fingerprint(rack)
        for seconds in times:
            killed_after(folder, seconds)
            found += restore("killed", Journal("killed", folder))
            assert fingerprint(rack) == before, f"after a kill at {seconds:.3f} s"
    return found


def test_a_killed_campaign_is_undone(tmp_path):
    assert kill_and_restore(tmp_path, [0.8, 2.2], ("ebpf", "lan966x"))


@pytest.mark.long
@pytest.mark.parametrize("drivers", [("ebpf", "ebpf"), ("lan966x", "lan966x")])
def test_fifty_killed_campaigns_are_undone(tmp_path, drivers):
    """Times are spread over what one setting up and undoing takes."""
    times = [12 * (number + random.random()) / 25 for number in range(25)]
    assert kill_and_restore(tmp_path, times, drivers) > 15


def test_what_is_let_go_halfway_is_let_go_by_the_next(tmp_path, monkeypatch):
    """A reservation outlives whoever is killed at the very end, and is still known for ours."""

    def ended(*_):
        raise TestbedError("no more", "listener")

    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        before = fingerprint(rack)
        with (
            monkeypatch.context() as patched,
            pytest.raises(TestbedError, match="no more"),
            RackTestbed(rack.settings(), "killed", "a test", tmp_path),
        ):
            patched.setattr(HostLease, "release", ended)
        assert all(now["reserved"] for now in fingerprint(rack).values())
        assert restore("killed", Journal("killed", tmp_path))
        assert fingerprint(rack) == before


def test_a_killed_undoing_is_finished(tmp_path):
    """What it gave back on a board already is not given back twice, and no hindrance."""
    with Rack(tmp_path, ("lan966x", "lan966x")) as rack, rack.up("killed"):
        noted = rack.run("sw1", "cat", "/run/tsnrepro-member-streams").split()
        rack.run("sw1", sys.executable, str(SHELL), "frer", "msf", noted[1])


def test_the_next_campaign_goes_on_by_itself(tmp_path):
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        before = fingerprint(rack)
        killed_after(tmp_path, 1.5)
        with RackTestbed(rack.settings(), "killed", "the next", tmp_path):
            pass
        assert fingerprint(rack) == before


def test_somebody_elses_filters_are_left_alone(tmp_path):
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        rack.run("sw2", "tc", "qdisc", "add", "dev", "eth1", "clsact")
        before = fingerprint(rack)
        with pytest.raises(TestbedError, match="eth1 already has filters attached"):
            RackTestbed(rack.settings(), "others", "", tmp_path).__enter__()
        assert fingerprint(rack) == before


# --- several controllers ------------------------------------------------------------


def test_a_second_controller_is_told_who_is_there(computers, computers_up):
    another = RackTestbed(computers.settings(), "another", "curious", computers.folder)
    with pytest.raises(TestbedError, match=r"leased by .* \(a test\) since 20"):
        another.__enter__()
    assert Journal("another", computers.folder).read() is None


def test_a_reservation_ends_by_itself(tmp_path):
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack, ExitStack() as stack:
        hosts = connect(rack.settings(), ("talker", "sw1"), stack)
        shells = {role: Shell(host) for role, host in hosts.items()}
        gone = HostLease(shells, 1, "gone")
        gone.acquire()
        with pytest.raises(TestbedError, match="gone"):
            HostLease(shells, 1, "next").acquire()
        for role in shells:
            rack.run(role, "sh", "-c", "echo 1 >/run/tsnrepro-reservation/until")
        after = HostLease(shells, 1, "next")
        after.acquire()
        gone.release()
        with pytest.raises(TestbedError, match="next"):
            gone.acquire()


# --- who is let in ------------------------------------------------------------


def test_a_host_whose_key_is_not_known_is_refused(tmp_path):
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        other = tmp_path / "others"
        lines = (tmp_path / "known_hosts").read_text().splitlines()
        other.write_text("\n".join(lines[1:]) + "\n")
        with pytest.raises(TestbedError, match="not found in known_hosts"):
            connect(rack.settings(known_hosts=str(other)), ("talker",), ExitStack())
        swapped = [f"{lines[0].split()[0]} {' '.join(lines[1].split()[1:])}"]
        other.write_text("\n".join(swapped) + "\n")
        with pytest.raises(TestbedError, match="does not match"):
            connect(rack.settings(known_hosts=str(other)), ("talker",), ExitStack())


def test_hosts_are_reached_through_another(tmp_path):
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack, rack.jump_host() as jump, ExitStack() as stack:
        hosts = connect(rack.settings(jump_host=jump), ("sw2",), stack)
        assert hosts["sw2"].run(["hostname"], deadline_s=5).stdout.strip() == "sw2"


# --- doctor, dry run ------------------------------------------------------------


def test_the_doctor_finds_what_is_wrong_and_changes_nothing(tmp_path):
    with Rack(tmp_path, ("ebpf", "lan966x")) as rack:
        rack.run("sw1", "ip", "link", "set", "eth2", "down")
        before = fingerprint(rack)
        found = examine(rack.settings(link_rate_mbps=100))
        assert fingerprint(rack) == before
    verdicts = {(finding.role, finding.check): finding for finding in found}
    assert verdicts["sw1", "link of eth2"].verdict == STOP
    assert "ip link set eth2 up" in verdicts["sw1", "link of eth2"].remedy
    assert verdicts["sw1", "link of eth1"].verdict == PASS
    assert verdicts["talker", "speed of enp2s0"].verdict == WARN
    assert verdicts["sw2", "classifier"].verdict == PASS
    assert verdicts["talker", "clock"].verdict == PASS
    assert all(finding.remedy for finding in found if finding.verdict != PASS)


def test_the_doctor_names_every_host_that_cannot_be_reached(tmp_path):
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        settings = rack.settings()
    found = [finding for finding in examine(settings) if finding.verdict == STOP]
    assert {finding.check for finding in found} == {"reachable"}
    assert {finding.role for finding in found} == {"talker", "listener", "sw1", "sw2"}


@pytest.mark.parametrize("rack", BOTH)
def test_frer_is_proved_by_frames(rack, request):
    found = verify_frer(request.getfixturevalue(rack), link_s=LINK_SECONDS)
    assert [finding.line() for finding in found if finding.verdict != PASS] == []
    assert {"replication", "elimination", "delivery"} < {finding.check for finding in found}


def test_a_dead_path_is_no_proof(computers, computers_up):
    computers.run("sw2", "ip", "link", "set", "eth2", "down")
    try:
        found = {f.check: f for f in verify_frer(computers_up, link_s=LINK_SECONDS)}
    finally:
        computers.run("sw2", "ip", "link", "set", "eth2", "up")
    assert found["replication"].verdict == found["path m1 alone"].verdict == STOP
    assert "200 over m0, 0 over m1" in found["replication"].found
    assert found["path m0 alone"].verdict == PASS


def test_a_dry_run_prints_every_command_and_changes_nothing(tmp_path, monkeypatch, capsys):
    with Rack(tmp_path, ("lan966x", "ebpf")) as rack:
        before = fingerprint(rack)
        monkeypatch.setattr(commands, "testbed_settings", lambda _: rack.settings())
        commands.configure("a-rack", "frer", dry_run=True)
        assert fingerprint(rack) == before
    printed = capsys.readouterr().out.splitlines()
    wanted = (
        "sw1# frer vlan 10 --flood_disable 1 --learn_disable 1",
        "sw1# bridge vlan add dev eth4 vid 10 pvid untagged",
        "sw1# frer iflow 1 --generation 1 --dev1 eth1 --dev2 eth2",
        "sw1# frer cs 0 --enable 1 --alg 0 --hlen 512 --reset_time 200 --take_no_seq 0",
        "sw2# ip link set dev eth1 mtu 1600 promisc on up",
        "talker# ip addr add 10.0.100.1/24 dev enp2s0",
    )
    assert [line for line in wanted if line not in printed] == []


def test_the_commands_of_a_rack(tmp_path, monkeypatch, capsys):
    """As a person uses them: set up by hand, look, undo."""
    with Rack(tmp_path, ("ebpf", "ebpf")) as rack:
        before = fingerprint(rack)
        monkeypatch.setattr(commands, "testbed_settings", lambda _: rack.settings())
        monkeypatch.setattr(rollback, "root", lambda: tmp_path)
        commands.configure("a-rack", "frer", dry_run=False)
        assert fingerprint(rack) != before
        commands.restore_rack("a-rack", dry_run=True)
        assert "sw1# tc qdisc del dev eth1 clsact" in capsys.readouterr().out
        commands.restore_rack("a-rack", dry_run=False)
        assert fingerprint(rack) == before
        commands.restore_rack("a-rack", dry_run=False)
        rack.run("talker", "ip", "link", "set", CARDS["talker"], "down")
        with pytest.raises(TestbedError, match="checks failed"):
            commands.doctor("a-rack", as_json=True, frer=True)
    printed = capsys.readouterr().out
    assert (
        "a-rack: restored to its state before the campaign\na-rack: nothing to restore" in printed
    )
    findings = json.loads(printed[printed.index("[\n") :])
    assert {"check", "role", "verdict", "found", "remedy"} == set(findings[0])


# --- the stand-in ---

REFUSED = [
    (["vcap", "add", "is1", "10", "0", "s1_dmac_vid"], 2, "Usage"),
    (["vcap", "add", "1", "is1", "10", "0", "VCAP_KFS_ANY", "VCAP_AFS_S1"], 2, "Unknown keyset"),
    (["vcap", "get", "4711"], 1, "Could not find rule"),
    (["frer", "eflow", "1"], 1, "Unknown command"),
    (["frer", "ms", "eth9", "1"], 1, "No such device"),
    (["frer", "ms", "eth4", "77"], 0, "failed, rc: -7"),
    (["frer", "iflow", "300", "--generation", "1"], 0, "failed, rc: -7"),
    (["bridge", "vlan", "add", "dev", "eth1", "vid", "10"], 255, "Operation not supported"),
]


def test_the_stand_in_refuses_what_a_board_refuses(tmp_path):
    with Rack(tmp_path, ("lan966x", "ebpf")) as rack, ExitStack() as stack:
        (board,) = connect(rack.settings(), ("sw1",), stack).values()
        for argv, status, said in REFUSED:
            done = board.run(argv, deadline_s=5)
            assert (done.exit_status, said in done.stdout + done.stderr) == (status, True), argv


def test_a_refusal_with_exit_status_zero_is_noticed(tmp_path):
    with Rack(tmp_path, ("lan966x", "ebpf")) as rack, ExitStack() as stack:
        connection = connect(rack.settings(), ("sw1",), stack)["sw1"]
        driver = Lan966xDriver(Shell(connection), rack.settings().hosts.sw1)
        driver._set_frer(["iflow", "300"], {"generation": "1"})
        with pytest.raises(TestbedError, match="iflow 300 --generation 1 failed"):
            driver._run_pending()
