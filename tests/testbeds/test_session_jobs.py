"""Jobs on hosts behind OpenSSH: the same as in namespaces of this machine, and nothing is left."""

import shlex
import subprocess
from dataclasses import replace

import paramiko
import pytest
from shaping_parts import measured_on_hosts

from tsnrepro.common.errors import CommandError, JobDeadlineError, TestbedError
from tsnrepro.config import EmulatedSettings
from tsnrepro.experiments.shaping import on_hosts, topology
from tsnrepro.experiments.shaping.settings import ShapingPart
from tsnrepro.native import streams
from tsnrepro.results import testbed as facts_as_results
from tsnrepro.testbeds.emulated.local_jobs import LocalJobs
from tsnrepro.testbeds.emulated.namespace import NamespaceHost
from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed
from tsnrepro.testbeds.hosts import remote
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.jobs import script
from tsnrepro.testbeds.jobs.job import Bridge, Job, Link, LinkEnd, Pause, Step, Stop, Vlan
from tsnrepro.testbeds.jobs.sessions import SessionJobs
from tsnrepro.tools import qdisc

pytestmark = [pytest.mark.namespaces, pytest.mark.slow, pytest.mark.usefixtures("own_lock")]

TALKER = LinkEnd("talker", "eth0", ("10.0.0.1/24",), mtu=1504)
LISTENER = LinkEnd("listener", "eth0", ("10.0.0.2/24",), mtu=1504)
LINKS = (
    Link(TALKER, LinkEnd("line", "p0", mtu=1504)),
    Link(LinkEnd("line", "p1", mtu=1504), LISTENER),
)
BRIDGES = (Bridge("line", ("p0", "p1")),)
WIRE = Step("wire", "line", tuple(qdisc.tbf("p1", 100, burst_bytes=2000, limit_bytes=100_000)), 10)
CLSACT = Step("clsact", "line", ("tc", "qdisc", "replace", "dev", "p1", "clsact"), 10)
# How long what a job leaves would sleep: nobody else's sleep is called so.
MARK = "3601.25"


@pytest.fixture
def own_lock(monkeypatch, tmp_path):
    """A lock of the test's own: these jobs measure nothing that a campaign could disturb."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


_STATE = [
    *("sh", "-c"),
    # A device that was up has the kernel's own queue even when it is down again; and what the
    # kernel does about IPv6 takes a while, so that the setting has to stand for it.
    """exec 2>&1
    ip -o -d link show | sed 's/ state [A-Z]*//; s/ qdisc [a-z_]*//'
    ip -o -4 address show
    sysctl net.ipv6.conf.eth0.disable_ipv6 net.ipv6.conf.p1.disable_ipv6
    ip neighbour show nud permanent
    tc qdisc show | grep -v ' 0: '
    for device in eth0 p0 p1; do ethtool -k $device; done
    find /tmp
    pgrep -a -f -x "sleep $1" """,
    *("sh", MARK),
]


# The checkout may lie below /tmp, and its compiled programs are to be seen all the same.
OWN_TMP = """\
set -e
mkdir /run/kept
mount --bind "$1" /run/kept
mount -t tmpfs tmpfs /tmp
mkdir -p "$1"
mount --bind /run/kept "$1"
"""


IN_A_ROW = (("talker", "eth0", "line", "p0"), ("line", "p1", "listener", "eth0"))


class Rack:
    """Hosts of namespaces, by default three in a row, each with sshd and a /tmp of its own."""

    def __init__(self, cables: tuple[tuple[str, str, str, str], ...] = IN_A_ROW) -> None:
        testbed, key = EmulatedTestbed(EmulatedSettings()), paramiko.ECDSAKey.generate()
        self._stack = testbed._stack
        self.hosts = {}
        for name in dict.fromkeys(name for one, _, other, _ in cables for name in (one, other)):
            space = testbed._spaces[name] = NamespaceHost(name)
            self._stack.callback(space.close)
            kept = str(streams.talker().parents[1])
            subprocess.run(space.enter(["sh", "-c", OWN_TMP, "sh", kept]), check=True)
            self.hosts[name] = testbed._connect(name, key)
            self._stack.callback(self.hosts[name].close)
        self._spaces = testbed._spaces
        for cable in cables:
            self.cable(*cable)

    def cable(self, one: str, port: str, other: str, other_port: str) -> None:
        queues = ["numtxqueues", "8", "numrxqueues", "8"]
        ends = [
            ["name", device, "netns", str(self._spaces[host].pid), *queues]
            for host, device in ((one, port), (other, other_port))
        ]
        command = ["ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1]]
        subprocess.run(command, check=True)

    def run(self, host: str, *argv: str) -> str:
        return self.hosts[host].run(list(argv), deadline_s=20).check().stdout

    def state(self) -> dict[str, str]:
        """Return what a job sets up on the hosts, and the processes that it could leave."""
        return {name: self.hosts[name].run(_STATE, deadline_s=60).stdout for name in self.hosts}

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def rack():
    made = Rack()
    yield made
    made.close()


@pytest.fixture
def unchanged(rack):
    """Fail a test after which a host is not as it was."""
    before = rack.state()
    yield before
    assert rack.state() == before


def job(*steps, **changes) -> Job:
    return Job("test", **{"links": LINKS, "bridges": BRIDGES, "steps": steps, **changes})


def shell(name: str, text: str, host: str = "talker", **changes) -> Step:
    return Step(name, host, ("sh", "-c", text), 20, **changes)


def both(rack, asked: Job):
    """Return what a job brings back from namespaces of this machine and from sessions."""
    with LocalJobs(purpose="the test suite") as jobs:
        local = jobs.run(asked)
    with SessionJobs(rack.hosts, "emulated") as jobs:
        return local, jobs.run(asked)


# --- the same job, both ways ------------------------------------------------------------------


def test_commands_end_as_they_do_in_namespaces(rack, unchanged):
    odd = "a  b'c\"$HOME*\n%s"
    asks = "trap 'echo bye; exit 4' TERM; echo up; : >/tmp/up; while :; do sleep 0.05; done"
    local, sessions = both(
        rack,
        job(
            Step("unknown", "talker", ("no-such-program",), 20),
            Step("say", "talker", ("printf", "%s|", odd, ""), 20),
            shell("fail", "echo no >&2; exit 3"),
            shell("crash", "kill -SEGV $$"),
            Step("where", "line", ("pwd",), 20),
            Step("input", "line", ("cat",), 20),
            Step("late", "talker", ("sleep", MARK), 1),
            Step("server", "listener", ("sleep", MARK), 300, background=True),
            Stop("server"),
            shell("polite", asks, background=True),
            shell("own-end", "sleep 1; echo end; exit 5", "listener", background=True),
            Pause(0.5),
            # Its trap may take a busy machine longer than that.
            shell("trapped", "until [ -e /tmp/up ]; do sleep 0.01; done; rm /tmp/up"),
            Stop("polite"),
            shell("put", "/tmp/in/put 2>&1"),
            shell("write", "cat /tmp/in/bytes >/tmp/out", files=("/tmp/out",)),
            shell("forget", "true", files=("/tmp/never",)),
            inputs={"/tmp/in/put": b"#!/bin/sh\necho put\n", "/tmp/in/bytes": bytes(range(256))},
            programs=("sleep",),
        ),
    )
    statuses = {name: done.exit_status for name, done in sessions.steps.items()}
    assert statuses == {
        **{"unknown": 127, "say": 0, "fail": 3, "crash": 139, "where": 0, "input": 0},
        **{"late": 124, "server": 143, "trapped": 0, "polite": 4, "own-end": 5},
        **{"put": 0, "write": 0, "forget": 0},
    }
    assert list(sessions.steps) == list(local.steps)
    for name, done in local.steps.items():
        here = sessions.steps[name]
        assert (here.host, here.argv) == (done.host, done.argv)
        assert (here.exit_status, here.stdout) == (done.exit_status, done.stdout), name
    assert sessions.steps["polite"].stdout == "up\nbye\n"
    assert sessions.steps["fail"].stderr == "no\n"
    assert sessions.files == local.files == {"/tmp/out": bytes(range(256))}
    assert 1 <= sessions.steps["late"].seconds < 10
    with pytest.raises(CommandError, match="127"):
        sessions.check()


def test_links_are_as_in_namespaces(rack, unchanged):
    """What is shown of devices that have other addresses, indices and counters on both ways."""
    shown = {
        "mtu": "ip -o link show eth0 | grep -o 'mtu [0-9]*'",
        "addresses": "ip -o address show | grep -o 'eth0.*inet.*scope'",
        "offloads": f"ethtool -k eth0 | grep -E '^({'|'.join(_NAMES)}):'",
        "neighbours": "ip neighbour show nud permanent | sed 's/lladdr [^ ]*//' | sort",
    }
    line = "tc qdisc show dev p1; ip -d link show br0 | grep -o 'mcast_snooping 0'; bridge link"
    local, sessions = both(
        rack,
        job(
            *(shell(name, text) for name, text in shown.items()),
            shell("line", f"({line}) | sed 's/^[0-9]*: //; s/@[^:]*//'", "line"),
            Step("ping", "talker", ("ping", "-c", "1", "-W", "5", "10.0.0.2"), 20),
            configure=(WIRE, CLSACT, shell("down", "ip -o link | grep -c 'state UP'; true")),
        ),
    )
    assert sessions.check().steps["down"].stdout == "0\n"
    for name in ("down", "line", *shown):
        said = sessions.steps[name].stdout
        assert said == local.steps[name].stdout, name
        assert said
    assert "10.0.0.2 dev eth0" in sessions.steps["neighbours"].stdout
    assert "tbf 1: root" in sessions.steps["line"].stdout


_NAMES = (
    *("rx-checksumming", "tx-checksumming", "scatter-gather", "tcp-segmentation-offload"),
    *("generic-segmentation-offload", "generic-receive-offload", "rx-vlan-offload"),
    "tx-vlan-offload",
)


def tagged(port: LinkEnd, address: str, pcp: tuple[tuple[int, int], ...]) -> LinkEnd:
    return replace(port, vlans=(Vlan(10, (address,), pcp, pcp),))


TAGGED = (
    Link(tagged(TALKER, "10.0.10.1/24", ((0, 1), (5, 6))), LINKS[0].other),
    Link(LINKS[1].one, tagged(LISTENER, "10.0.10.2/24", ())),
)


def test_vlans_are_as_in_namespaces(rack, unchanged):
    if not has_vlans(rack):
        pytest.skip("this machine's kernel has no VLAN devices")
    shown = {
        "vlan": "ip -d link show eth0.10 | grep -E -o 'vlan protocol.*|qos-map.*'",
        "neighbours": "ip neighbour show nud permanent | sed 's/lladdr [^ ]*//' | sort",
    }
    ping = Step("ping", "talker", ("ping", "-c", "1", "-W", "5", "10.0.10.2"), 20)
    steps = (*(shell(name, text) for name, text in shown.items()), ping)
    local, sessions = both(rack, job(*steps, links=TAGGED))
    assert sessions.check().steps["vlan"].stdout
    for name in shown:
        assert sessions.steps[name].stdout == local.steps[name].stdout, name


def has_vlans(rack) -> bool:
    add = "ip link add link p0 name p0.9 type vlan id 9"
    if rack.hosts["line"].run(add.split(), deadline_s=20).exit_status:
        return False
    rack.run("line", "ip", "link", "delete", "p0.9")
    return True


class WithoutVlans:
    """A host whose VLAN devices are ends of veth pairs: it needs nothing of the kernel."""

    def __init__(self, host) -> None:
        self._host, self.asked = host, []

    def __getattr__(self, name):
        return getattr(self._host, name)

    def run(self, argv, **limits):
        if "vlan" in argv:
            self.asked.append(shlex.join(argv))
            argv = ["ip", "link", "add", "name", argv[argv.index("name") + 1], "type", "veth"]
        return self._host.run(argv, **limits)


def test_vlans_are_asked_for_addressed_and_removed(rack, unchanged):
    """Also where the kernel has no VLAN: what is asked for is what the script of a guest has."""
    hosts = {name: WithoutVlans(host) for name, host in rack.hosts.items()}
    asked = job(shell("see", "ip -o address show; ip neighbour show nud permanent"), links=TAGGED)
    seen = SessionJobs(hosts).run(asked).check().steps["see"].stdout
    assert "eth0.10    inet 10.0.10.1/24" in seen
    assert "10.0.10.2 dev eth0.10 lladdr" in seen
    lines = [line for line in script.text(asked).splitlines() if " vlan " in line]
    for name in ("talker", "listener"):
        (command,) = hosts[name].asked
        assert f"run_checked ip -n {name} {command.removeprefix('ip ')}" in lines


def test_what_came_back_says_where_it_ran(rack):
    with SessionJobs(rack.hosts) as jobs:
        result = jobs.run(job(shell("kernel", "uname -r")))
        described = jobs.describe()
    assert result.kernel == result.steps["kernel"].stdout.strip()
    assert described["ran_on"]["kernel"] == result.kernel
    facts = result.describe()
    assert (facts["testbed"], facts["acceleration"], facts["qemu"]) == ("rack", "none", None)
    assert (facts["virtual_time"], facts["note"]) == (False, "")
    assert 0 < result.ready_s < result.wall_s


class Answering:
    """A host that gives one command an answer of the test's."""

    def __init__(self, host, word: str, answer: str) -> None:
        self._host, self._word, self._answer = host, word, answer

    def __getattr__(self, name):
        return getattr(self._host, name)

    def run(self, argv, **limits):
        if any(self._word in each for each in argv):
            return Completed(self.name, tuple(argv), 0, f"{self._answer}\n", "", 0.0, 0.0)
        return self._host.run(argv, **limits)


def test_kernels_that_differ_are_all_named(rack):
    hosts = {name: Answering(host, "uname", "6.1.0") for name, host in rack.hosts.items()}
    hosts["line"] = Answering(rack.hosts["line"], "uname", "5.10.0")
    result = SessionJobs(hosts).run(job(shell("say", "echo")))
    assert result.kernel == "5.10.0 (line), 6.1.0 (talker, listener)"


def test_a_page_names_the_hosts_and_not_the_machine_that_asks_them(rack, monkeypatch):
    facts = SessionJobs({"talker": Answering(rack.hosts["talker"], "uname", "6.1.0")}).describe()
    monkeypatch.setattr(facts_as_results, "facts_of", lambda path: ("digest", facts))
    assert facts_as_results.label_of("run.json").startswith("rack testbed")
    assert facts_as_results._description(facts)["kernel"] == "6.1.0"


# --- what is missing or in use ----------------------------------------------------------------


def test_a_missing_host_is_named(rack, unchanged):
    hosts = {name: host for name, host in rack.hosts.items() if name != "line"}
    with pytest.raises(TestbedError, match=r"no host line \(job test\).*talker, listener"):
        SessionJobs(hosts).run(job())


def test_a_missing_device_is_named(rack, unchanged):
    links = (Link(LinkEnd("talker", "enp9s0"), LISTENER),)
    with pytest.raises(TestbedError, match=r"no network device 'enp9s0' \(talker\)"):
        SessionJobs(rack.hosts).run(job(links=links, bridges=()))


def test_a_missing_program_is_named_with_its_host(rack, unchanged):
    asked = job(Step("talk", "line", ("no-such-program",), 5), programs=("no-such-program", "ip"))
    with pytest.raises(
        TestbedError, match=r"missing program no-such-program \(job test, host line\)"
    ):
        SessionJobs(rack.hosts).run(asked)


USES = {
    "a port of br7": (
        ["ip link add br7 type bridge", "ip link set p1 master br7"],
        ["ip link delete br7"],
    ),
    "p1 has configured queues: pfifo": (
        ["tc qdisc add dev p1 root handle 7: pfifo"],
        ["tc qdisc delete dev p1 root"],
    ),
    "route to 10.9.0.0/16": (
        ["ip link set p1 up", "ip route add 10.9.0.0/16 dev p1"],
        ["ip link set p1 down"],
    ),
    "device br0 already exists": (
        ["ip link add br0 type bridge"],
        ["ip link delete br0"],
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_others_use_is_left_to_them(rack, unchanged, use):
    taken, freed = USES[use]
    for command in taken:
        rack.run("line", *command.split())
    try:
        before = rack.state()
        with pytest.raises(TestbedError, match=rf"{use}.*\((job test, host )?line\)"):
            SessionJobs(rack.hosts).run(job())
        assert rack.state() == before
    finally:
        for command in freed:
            rack.run("line", *command.split())


def test_a_device_that_carries_the_session_is_left_to_it(rack, lived_in, unchanged):
    talker = Answering(rack.hosts["talker"], "SSH_CONNECTION", "192.0.2.7")
    with pytest.raises(
        TestbedError, match=r"the SSH connection uses the measured port eth0 \(talker\)"
    ):
        SessionJobs(rack.hosts | {"talker": talker}).run(job())


def test_an_input_that_cannot_be_written_is_named(rack, unchanged):
    with pytest.raises(TestbedError, match=r"cannot write /proc/version_of.*host talker"):
        SessionJobs(rack.hosts).run(job(inputs={"/tmp/a/b": b"", "/proc/version_of": b""}))


@pytest.mark.parametrize("kind", ["input", "collected"])
def test_a_file_that_is_there_is_left_there(rack, kind):
    rack.run("talker", "sh", "-c", "echo mine >/tmp/own")
    asked = {
        "input": job(inputs={"/tmp/own": b""}),
        "collected": job(shell("write", "echo >/tmp/own", files=("/tmp/own",))),
    }[kind]
    with pytest.raises(TestbedError, match=r"/tmp/own.* already exists.*\(job test, host talker\)"):
        SessionJobs(rack.hosts).run(asked)
    assert rack.run("talker", "cat", "/tmp/own") == "mine\n"
    rack.run("talker", "rm", "/tmp/own")


# --- how it ends ------------------------------------------------------------------------------

SERVER = Step("server", "listener", ("sleep", MARK), 300, background=True)
WRITE = shell("write", "echo >/tmp/out", files=("/tmp/out",))
SET_UP = {"configure": (WIRE, CLSACT), "inputs": {"/tmp/deep/down/put": b"x"}}


@pytest.fixture
def lived_in(rack):
    """Give the talker's port a life of its own, which it has to have again after a job."""
    for command in (
        "ip link set eth0 mtu 1400 up",
        "ip address add 192.0.2.7/28 broadcast 192.0.2.15 dev eth0",
        "ip address add 2001:db8::7/64 dev eth0",
        "ethtool -K eth0 gro on tso off",
    ):
        rack.run("talker", *command.split())
    yield
    for command in ("ip address flush dev eth0", "ip link set eth0 mtu 1500 down"):
        rack.run("talker", *command.split())


def test_a_port_is_given_back_as_it_was(rack, lived_in, unchanged):
    seen = shell("seen", "ip -o address show dev eth0")
    result = SessionJobs(rack.hosts).run(job(SERVER, seen, WRITE, Stop("server"), **SET_UP))
    assert "192.0.2.7" not in result.check().steps["seen"].stdout
    shown = rack.run("talker", "ip", "-o", "address", "show", "dev", "eth0")
    assert "2001:db8::7/64" in shown
    assert "UP" in rack.run("talker", "ip", "link", "show", "eth0").split("<")[1].split(">")[0]


def test_a_step_that_says_when_it_is_ready_is_waited_for(rack, unchanged):
    """And one that ends without saying so keeps nothing waiting."""
    asked = job(
        shell("slow", "sleep 0.5; echo ready; sleep 5", background=True, ready="ready"),
        shell("mute", "sleep 0.2; echo already", background=True, ready="ready"),
        shell("next", "true"),
        Stop("slow"),
    )
    for result in both(rack, asked):
        assert result.wall_s < 5
        assert result.steps["mute"].stdout in ("already\n", "")
        assert result.steps["next"].started_s - result.steps["slow"].started_s > 0.7


def test_a_step_that_runs_at_the_end_is_waited_for(rack, unchanged):
    result = SessionJobs(rack.hosts).run(job(shell("last", "sleep 1; echo done", background=True)))
    assert result.check().steps["last"].stdout == "done\n"


def test_a_job_beyond_its_deadline_leaves_nothing(rack, lived_in, unchanged):
    steps = (SERVER, WRITE, shell("spin", f"sleep {MARK}"))
    # The set-up takes as long as this machine needs for it.
    set_up_s = SessionJobs(rack.hosts).run(job(**SET_UP)).wall_s
    asked = job(*steps, deadline_s=set_up_s + 2, **SET_UP)
    with pytest.raises(JobDeadlineError, match=r"did not end within .* s \(job test\)"):
        SessionJobs(rack.hosts).run(asked)


def test_a_set_up_that_fails_leaves_nothing(rack, lived_in, unchanged):
    """The last port's MTU, when all others are set up."""
    small = LinkEnd("listener", "eth0", mtu=20)
    with pytest.raises(TestbedError, match=r"mtu.*\(listener# ip link set dev eth0 mtu 20\)"):
        SessionJobs(rack.hosts).run(job(links=(LINKS[0], Link(LINKS[1].one, small)), **SET_UP))


def test_a_link_without_carrier_is_named_and_leaves_nothing(rack, lived_in, unchanged, monkeypatch):
    """The other end of the talker's cable is down: the job does not name it."""
    monkeypatch.setattr(remote, "_LINK_SECONDS", 1)
    queue = Step("queue", "talker", ("tc", "qdisc", "replace", "dev", "eth0", "root", "pfifo"), 20)
    asked = job(SERVER, links=(Link(TALKER, LISTENER),), bridges=(), configure=(queue,))
    with pytest.raises(TestbedError, match=r"no link within 1 s: talker eth0"):
        SessionJobs(rack.hosts).run(asked)


class Interrupting:
    """A host on which a certain command is interrupted from the keyboard."""

    def __init__(self, host) -> None:
        self._host = host

    def __getattr__(self, name):
        return getattr(self._host, name)

    def run(self, argv, **limits):
        if "interrupt" in argv:
            raise KeyboardInterrupt
        return self._host.run(argv, **limits)


def test_an_interrupt_leaves_nothing(rack, lived_in, unchanged):
    hosts = rack.hosts | {"line": Interrupting(rack.hosts["line"])}
    asked = job(SERVER, WRITE, Step("interrupt", "line", ("interrupt",), 5), **SET_UP)
    with pytest.raises(KeyboardInterrupt):
        SessionJobs(hosts).run(asked)


def test_a_host_that_is_lost_keeps_no_other_from_being_given_back():
    """And the error is that of the step, not of what could not be taken back after it."""
    rack = Rack()
    try:
        before = rack.state()
        lose = Step("lose", "line", ("pkill", "-KILL", "sshd"), 20)
        with pytest.raises((CommandError, TestbedError), match=r"connection.*line: pkill"):
            SessionJobs(rack.hosts).run(job(SERVER, WRITE, lose, **SET_UP))
        del rack.hosts["line"]
        assert rack.state() == {name: before[name] for name in rack.hosts}
    finally:
        rack.close()


def test_a_job_beyond_its_deadline_that_leaves_something_ends_the_campaign():
    """No other job would find the hosts as it needs them."""
    rack = Rack()
    try:
        set_up_s = SessionJobs(rack.hosts).run(job(**SET_UP)).wall_s
        lose = replace(shell("lose", "sleep 1; pkill -KILL sshd", background=True), host="line")
        asked = job(lose, shell("spin", f"sleep {MARK}"), deadline_s=set_up_s + 3, **SET_UP)
        with pytest.raises(TestbedError, match="its rollback failed") as error:
            SessionJobs(rack.hosts).run(asked)
        assert not isinstance(error.value, JobDeadlineError)
    finally:
        rack.close()


# --- an experiment ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair():
    """Talker and listener on one cable, which leads to nothing behind the shaped port."""
    made = Rack((("talker", "eth0", "listener", "eth0"),))
    yield made
    made.close()


@pytest.mark.parametrize("mode", ["fifo", "prio"])
def test_a_stream_is_shaped_as_in_namespaces(pair, mode):
    """Nothing is lost either way: all of the stream fits into the line's queue."""
    settings = ShapingPart.model_validate(
        {
            **{"name": "test", "kind": "end-station", "modes": [mode], "payload_bytes": 256},
            **{"packets": 200, "interval_us": 500.0, "interval_spread_us": 0.0},
            **{"loads_mbps": [0.0], "link_rate_mbps": 100.0},
        }
    )
    asked = on_hosts.job_of(settings, mode, 1)
    before = pair.state()
    local, sessions = both(pair, asked)
    assert pair.state() == before
    statuses = [
        {name: done.exit_status for name, done in result.steps.items()}
        for result in (local, sessions)
    ]
    assert statuses[0] == statuses[1]
    if any("qdisc kind is unknown" in done.stderr for done in sessions.steps.values()):
        pytest.skip(f"this machine's kernel has no {mode}")
    layout = topology.of_veth(settings, mode)
    counted = [on_hosts._counts_of(settings, layout, done.check()) for done in (local, sessions)]
    for values in counted:
        assert values["result"]["sent"] == values["result"]["received"] == settings.packets
    kinds = [[row["kind"] for row in values["qdiscs"]] for values in counted]
    assert medium_of(settings, sessions) == "network cards"
    assert kinds[0] == kinds[1]
    assert ("prio" in kinds[1]) == (mode == "prio")


def medium_of(settings, result) -> str:
    """Return what a record calls the links of a rack that brought this result."""

    class Brought(SessionJobs):
        def run(self, job):
            return result

    return measured_on_hosts(Brought({}), settings).values["medium"]
