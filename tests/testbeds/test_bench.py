"""A PC with two or four ports and a device between: real frames, and the ports as they were."""

import json
import os
import signal

import pytest
from benches import (
    BAD_DEVICES,
    LISTENER_PORTS,
    MEASURE,
    SENT,
    SLOW_FRAMES_PER_S,
    SLOW_QUEUE_FRAMES,
    TALKER_PORTS,
    Pc,
    unchanged,
    write_repository,
)

from tsnrepro.testbeds.bench.ports import namespace

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

NAME = "bench-of-a-test"
# Of a campaign's hundred commands on the PC; more by this variable.
KILLS = int(os.environ.get("TSNREPRO_BENCH_KILLS", "8"))


@pytest.fixture(params=[pytest.param("none", marks=pytest.mark.long), "GS308"])
def pc(request, tmp_path, alone):
    with Pc(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def cable(tmp_path, alone):
    with Pc(tmp_path, "none") as made:
        yield made


@pytest.fixture
def four(tmp_path, alone):
    with Pc(tmp_path, "unmanaged", paths=2) as made:
        yield made


def test_experiments_run_unchanged(pc):
    """One port each: loss, latency and RFC 2544 of the device, without FRER."""
    write_repository(pc)
    with unchanged(pc):
        out, err = pc.python(MEASURE)
    assert "RESULT" in out, err[-3000:]
    found = json.loads(out.partition("RESULT")[2])
    assert "FRER needs two member paths" in out
    between = {"none": "a cable"}.get(pc.device, pc.device)
    for name, run in found.items():
        assert run["label"].endswith(f"{between} between them")
        for record in run["records"]:
            assert record["status"] == "measured", (name, record)
            assert record["factors"]["configuration"] == "control"


DURATION_S = 2
# Of the frames sent: the ends of a trial are no multiples of the slow device's intervals.
TIMER_SHARE = 0.02
BAD = f"""\
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement

common = dict(configuration="control", payload_bytes=1472, duration_s={DURATION_S})
with testbed:
    found = Measurement()
    factors = dict(common, rate_mbps=2, generator="talker")
    loss.measure(testbed, Trial("loss", "test", factors, 1), found)
print("RESULT" + json.dumps(found.values["accounting"]))
"""


@pytest.mark.parametrize("bad", BAD_DEVICES)
def test_what_a_bad_device_does_is_between_the_ports(tmp_path, alone, bad):
    """One that loses every tenth frame, is slow or lets none through: named, and no error."""
    with Pc(tmp_path, "GS308") as pc, unchanged(pc), pc.poor_device(BAD_DEVICES[bad]):
        out, err = pc.python(BAD)
    assert "RESULT" in out, err[-3000:]
    found = json.loads(out.partition("RESULT")[2])
    assert found["received"] + sum(found["drops"].values()) == found["sent"], found
    lost = found["drops"].pop("between sw1 m0 and sw2 m0")
    # What a slow one still has when the trial ends comes to a listener that has ended.
    waiting = SLOW_QUEUE_FRAMES if bad == "is slow" else 0
    assert sum(found["drops"].values()) <= waiting, found
    carried = SLOW_FRAMES_PER_S * DURATION_S / found["sent"]
    share = {
        "loses": (0.05, 0.15),
        "is slow": (
            1 - carried - waiting / found["sent"] - TIMER_SHARE,
            1 - carried + TIMER_SHARE,
        ),
        "is mute": (1, 1),
    }[bad]
    assert share[0] <= lost / found["sent"] <= share[1], found


FRER = f"""{SENT}
with testbed:
    testbed.configure("frer", StreamFilter("udp", 5202))
    testbed.pin_neighbours()
    both = sent(200)
    testbed.faults.cut(1)
    one = sent(200)
    testbed.faults.repair(1)
print("RESULT" + json.dumps([both, one]))
"""


def test_frer_over_two_unmanaged_devices(four):
    """Every frame comes over both; with one link down the other alone delivers all."""
    with unchanged(four):
        out, err = four.python(FRER)
    assert "RESULT" in out, err[-3000:]
    both, one = json.loads(out.partition("RESULT")[2])
    assert both == [[200, 200], 200, 200]
    assert one == [[200, 0], 0, 200]


# --- refusals ---------------------------------------------------------------------------------

OPEN = """\
from tsnrepro.common.errors import TestbedError
try:
    with testbed:
        print("up")
except TestbedError as error:
    print(error.what, error.remedy, sep=" -> ")
"""
SLOW_CARD = """\
from tsnrepro.testbeds.hosts import ports
ports.speed_and_duplex = lambda *_, **__: ("100 Mb/s, half duplex", False)
"""
OVER_SSH = """\
import os
os.environ["SSH_CONNECTION"] = "192.0.2.9 40000 192.0.2.1 22"
"""
TALKER_PORT, LISTENER_PORT = TALKER_PORTS[0], LISTENER_PORTS[0]


def talker(name):
    return {"ports": {"talker": [name], "listener": [LISTENER_PORT]}}


@pytest.mark.parametrize(
    ("made", "changes", "before", "says"),
    [
        ("ip addr add 192.0.2.1/24 dev {}", {}, "", "has the address 192.0.2.1/24"),
        ("ip addr add 2001:db8::1/64 dev {} nodad", {}, "", "has the address 2001:db8::1/64"),
        ("ip addr add 192.0.2.1/24 dev {}", {}, OVER_SSH, "the SSH connection uses"),
        ("ip route add 198.51.100.0/24 dev {}", {}, "", "carries the route to 198.51.100.0/24"),
        ("ip link add br7 type bridge; ip link set {} master br7", {}, "", "is a port of br7"),
        ("ip link add link {} name mv0 type macvlan", {}, "", "is the lower device of mv0"),
        ("tc qdisc add dev {} root pfifo", {}, "", "has configured queues: pfifo"),
        ("tc qdisc add dev {} clsact", {}, "", "already has filters attached"),
        (
            "ip link property add dev {} altname blue",
            talker("blue"),
            "",
            f"blue is another name of {TALKER_PORT}",
        ),
        ("true", talker("enp99s0"), "", "there is no network device 'enp99s0'"),
        ("true", talker("lo"), "", "lo is a loopback device"),
        ("true", {"virtual_ports": False}, "", "is a virtual device, not a network card's port"),
        ("true", {}, SLOW_CARD, "runs at 100 Mb/s, half duplex, and link_rate_mbps is 1000"),
    ],
)
def test_ports_that_are_in_use_are_refused(cable, made, changes, before, says):
    cable.run("sh", "-ec", made.format(TALKER_PORT))
    with unchanged(cable):
        out, err = cable.python(before + OPEN, **changes)
    assert says in out, (out, err)
    assert " -> " in out


# --- kills ------------------------------------------------------------------------------------

# Ends itself like `kill -9` before the n-th command on this machine, or after that many seconds.
KILLED = """\
import os, signal, threading
from tsnrepro.testbeds.hosts.local import LocalHost
run, left = LocalHost.run, [{commands}]

def counted(self, argv, **options):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return run(self, argv, **options)

LocalHost.run = counted
with testbed:
    print("up", flush=True)
    if {seconds}:
        threading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGKILL)).start()
        while True:
            testbed.snapshot()
print("RESULT", {commands} - left[0])
"""
GIVE_BACK = """\
from tsnrepro.testbeds.bench.ports import give_back
from tsnrepro.testbeds.hosts.rollback import Journal
print(give_back(Journal(sys.argv[2], Path(sys.argv[3]))))
"""
NEVER = 10**6


def commands_of_a_campaign(pc):
    """Return the number of commands on this machine from bringing up to giving back."""
    out, err = pc.python(KILLED.format(commands=NEVER, seconds=0))
    assert "RESULT" in out, err[-3000:]
    return int(out.rpartition(" ")[2])


def killed(pc, commands=NEVER, seconds=0.0):
    process = pc.start(KILLED.format(commands=commands, seconds=seconds))
    out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL or "RESULT" not in out, (out, err)
    return out


def test_a_campaign_that_is_killed_at_any_command_leaves_ports_that_are_given_back(cable):
    total = commands_of_a_campaign(cable)
    step = max(1, total // KILLS)
    for commands in range(0, total, step):
        with unchanged(cable):
            killed(cable, commands)
            _, err = cable.python(GIVE_BACK)
            assert not err, (commands, err)


def test_a_campaign_that_is_killed_while_it_measures_is_given_back_by_the_next(cable):
    with unchanged(cable):
        assert "up" in killed(cable, seconds=0.3)
        assert TALKER_PORT not in cable.run("ls", "/sys/class/net")
        assert namespace(NAME, "sw1") in cable.run("ip", "netns", "list")
        out, err = cable.python(OPEN)
        assert "up" in out, err


def test_a_port_that_came_back_under_another_name_gets_its_own(cable):
    """As the kernel does with a card whose namespace ends."""
    with unchanged(cable):
        killed(cable, seconds=0.1)
        space = namespace(NAME, "sw1")
        cable.run("ip", "-n", space, "link", "set", "m0", "down")
        cable.run("sh", "-c", f"ip -n {space} link set m0 netns $$ name eth7")
        cable.run("ip", "netns", "delete", space)
        out, err = cable.python(GIVE_BACK)
        assert "True" in out, err


MEANWHILE = """\
import subprocess

def ip(*words):
    subprocess.run(["ip", *words], check=True)

with testbed:
    {meanwhile}
print("RESULT")
"""
RENAMED = """\
space = "tsnrepro-" + sys.argv[2] + "-sw1"
    ip("-n", space, "link", "set", "m0", "down")
    ip("-n", space, "link", "set", "m0", "name", "eth9")
"""
# Both ends of a veth pair come back together, under their names and addresses.
REPLUGGED = """\
state = testbed._journal.read()["state"]
    ip("-n", "tsnrepro-" + sys.argv[2] + "-sw1", "link", "del", "m0")
    one, other = [["name", d, "address", s["mac"]] for d, s in state.items()]
    ip("link", "add", *one, "type", "veth", "peer", *other)
    ip("link", "set", one[1], "up")
"""


@pytest.mark.parametrize("meanwhile", [RENAMED, REPLUGGED], ids=["renamed", "plugged in again"])
def test_a_port_that_is_changed_while_it_measures_is_given_back(cable, meanwhile):
    with unchanged(cable):
        out, err = cable.python(MEANWHILE.format(meanwhile=meanwhile))
        assert "RESULT" in out, err[-3000:]


def test_after_a_power_failure_the_ports_are_where_they_were(cable):
    with unchanged(cable):
        killed(cable, seconds=0.1)
        saved = json.loads((cable.folder / f"{NAME}.json").read_text())["state"]
        for host in ("sw1", "sw2"):
            # With the veth devices in it, which are here again after a boot.
            cable.run("ip", "netns", "delete", namespace(NAME, host))
        ends = [
            word for port in cable.ports for word in ("name", port, "address", saved[port]["mac"])
        ]
        cable.run("ip", "link", "add", *ends[:4], "type", "veth", "peer", *ends[4:])
        for port in cable.ports:
            cable.run("ip", "link", "set", port, "up")
        out, err = cable.python(GIVE_BACK)
        assert "True" in out, err


DRY_RUN = """\
from tsnrepro.testbeds.bench.ports import give_back
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import print_command
give_back(Journal(sys.argv[2], Path(sys.argv[3])), print_command)
"""


def test_a_dry_run_of_restore_prints_its_commands_and_changes_nothing(cable):
    killed(cable, seconds=0.1)
    with unchanged(cable):
        out, err = cable.python(DRY_RUN)
    space = namespace(NAME, "sw1")
    assert f"ip -n {space} link set dev m0 netns" in out, err
    assert f"name {TALKER_PORT}" in out
    assert f"ip netns delete {space}" in out


def test_a_port_that_is_gone_does_not_keep_the_others_from_coming_back(four):
    killed(four, seconds=0.1)
    four.run("ip", "-n", namespace(NAME, "sw1"), "link", "del", "m1")
    _, err = four.python(GIVE_BACK)
    assert "is neither here nor in" in err
    assert {TALKER_PORTS[0], *LISTENER_PORTS} <= {*four.run("ls", "/sys/class/net").split()}
    assert (four.folder / f"{NAME}.json").exists()


# --- doctor -----------------------------------------------------------------------------------

EXAMINE = """\
from tsnrepro.testbeds.bench.ports import local_shell
from tsnrepro.testbeds.doctor import bench, bench_frames
from tsnrepro.testbeds.hosts.rollback import Journal
journal = Journal(sys.argv[2], Path(sys.argv[3]))
findings = bench.examine(settings) + bench_frames.send_over(settings, journal, local_shell())
print("RESULT" + json.dumps([finding.as_dict() for finding in findings]))
"""


def examined(pc):
    with unchanged(pc):
        out, err = pc.python(EXAMINE)
    assert "RESULT" in out, err[-3000:]
    found = {each["check"]: each for each in json.loads(out.partition("RESULT")[2])}
    assert all(each["remedy"] for each in found.values() if each["verdict"] != "pass")
    return found


def verdicts(found, word):
    return {check: each["verdict"] for check, each in found.items() if word in check}


def test_the_doctor_of_a_sound_bench(four):
    found = examined(four)
    assert [check for check, each in found.items() if each["verdict"] == "stop"] == []
    for port in four.ports:
        of_ethtool = ("EEE", "pause frames", "coalescing", "interrupts", "offloads")
        for check in ("link", "speed", *of_ethtool):
            assert f"{check} of {port}" in found
        assert found[f"time stamps of {port}"]["found"].startswith("by the kernel")
        assert found[f"speed of {port}"]["found"].endswith("not of a card, so not checked")
        assert found[f"other traffic on {port}"]["verdict"] == "pass"
    path = f"{TALKER_PORTS[1]} to {LISTENER_PORTS[1]}"
    for what in ("frames", "frames with VLAN tag", "full frames with R-TAG"):
        assert found[f"{what} from {path}"]["found"] == "20 of 20 came"
    assert found[f"separation of {path}"]["verdict"] == "pass"
    assert found[f"MAC learning of {path}"]["found"].startswith("0 of 20")


def test_the_doctor_finds_a_device_that_drops_long_frames_and_takes_vlan_tags_off(tmp_path, alone):
    with Pc(tmp_path, "GS308") as pc, pc.poor_device():
        found = examined(pc)
    path = f"{TALKER_PORTS[0]} to {LISTENER_PORTS[0]}"
    assert found[f"frames from {path}"]["verdict"] == "pass"
    assert found[f"full frames with R-TAG from {path}"]["found"] == "0 of 20 came"
    tagged = found[f"frames with VLAN tag from {path}"]
    assert (tagged["verdict"], tagged["found"]) == ("warn", "0 of 20 came, 20 with other tags")
    learning = found[f"MAC learning of {path}"]
    assert (learning["verdict"], learning["found"][:8]) == ("warn", "20 of 20")


def test_the_doctor_finds_paths_that_share_a_device(four):
    four.at_device("ip", "link", "set", f"to-{TALKER_PORTS[1]}", "master", "br0")
    found = examined(four)
    assert "stop" in verdicts(found, "separation of").values()
    assert found[f"frames from {TALKER_PORTS[1]} to {LISTENER_PORTS[1]}"]["verdict"] == "stop"


def test_the_doctor_finds_a_port_in_use(cable):
    cable.run("ip", "addr", "add", "192.0.2.1/24", "dev", TALKER_PORTS[0])
    out, err = cable.python(
        "from tsnrepro.testbeds.doctor import bench\n"
        "print(*(each.line() for each in bench.examine(settings)), sep='\\n')"
    )
    assert f"ports: {TALKER_PORTS[0]} has the address 192.0.2.1/24" in out, err
    assert "-> `ip addr del" in out
