"""The guest testbed, booted: gates of a real taprio, failures of every kind, nothing left over."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from shaping_parts import part

from tsnrepro.common.errors import JobDeadlineError, TestbedError
from tsnrepro.experiments.shaping import card_queues
from tsnrepro.native import streams
from tsnrepro.native.streams import command
from tsnrepro.native.streams.log import read_listener_log
from tsnrepro.testbeds import requirements
from tsnrepro.testbeds.bench.jobs import probe_chip
from tsnrepro.testbeds.emulated import local_jobs
from tsnrepro.testbeds.guest import initramfs, kernel
from tsnrepro.testbeds.guest import testbed as guest_testbed
from tsnrepro.testbeds.guest.testbed import GuestTestbed
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.jobs import results
from tsnrepro.testbeds.jobs.job import Bridge, Job, Link, LinkEnd, Pause, Step, Stop, Vlan
from tsnrepro.tools.qdisc import VETH_MBPS, cbs, credits_of, pin_queues

pytestmark = pytest.mark.guest

REQUIRED = os.environ.get("CI") == "true" or os.environ.get("TSNREPRO_REQUIRE_GUEST") == "1"
LOCK_PATIENCE_SECONDS = 180

CYCLE_NS = 1_000_000
# The gate of class 5 is open in the second quarter of the cycle, all others are in the rest.
OPEN_NS, CLOSE_NS = 250_000, 500_000
EDGE_NS = 5_000
PACKETS = 2000
# Not a part of the cycle: sends come at every phase, most of them at a closed gate.
INTERVAL_NS = 970_000
CLASSES = "num_tc 8 map 0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0 queues " + " ".join(
    f"1@{queue}" for queue in range(8)
)
TALKER = LinkEnd("talker", "eth0", ("10.0.0.1/24",))
LISTENER = LinkEnd("listener", "eth0", ("10.0.0.2/24",))


@pytest.fixture(scope="module", autouse=True)
def required():
    if lacks := guest_testbed.missing_requirements():
        sentence = f"this machine lacks {', '.join(lacks)} for the guest testbed"
        if REQUIRED:
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)


@pytest.fixture(scope="module")
def guests(required):
    end = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        testbed = GuestTestbed(purpose="the test suite")
        try:
            testbed.__enter__()
        except TestbedError as error:
            if "in use" not in error.what or time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            break
    yield testbed
    testbed.__exit__(None, None, None)


def tc(text: str) -> tuple[str, ...]:
    return ("tc", *text.split())


def job(*steps, **changes) -> Job:
    return Job("test", **{"links": (Link(TALKER, LISTENER),), "steps": steps, **changes})


# --- what it is for ----------------------------------------------------------------------------


def taprio_of_all_classes() -> tuple[str, ...]:
    gates = f"sched-entry S df {OPEN_NS} sched-entry S 20 {CLOSE_NS - OPEN_NS}"
    gates += f" sched-entry S df {CYCLE_NS - CLOSE_NS} clockid CLOCK_TAI"
    return tc(f"qdisc replace dev eth0 root handle 1: taprio {CLASSES} base-time 0 {gates}")


def part_of_a_port(**changes):
    """Return a part of end stations whose gate of class 5 is open in the second quarter."""
    windows = [
        {"open_classes": [0], "interval_ns": OPEN_NS},
        {"open_classes": [5], "interval_ns": CLOSE_NS - OPEN_NS},
        {"open_classes": [0], "interval_ns": CYCLE_NS - CLOSE_NS},
    ]
    return part(gates={"entries": windows}, **changes)


def taprio_of_a_benchs_port() -> tuple[str, ...]:
    (argv,) = card_queues.commands(part_of_a_port(), "tas", "eth0", "other")
    return tuple(argv)


def taprio_job(seed: int, taprio: tuple[str, ...]) -> Job:
    listen = command.listener(
        str(streams.listener()),
        [5000],
        command.StopCondition(count=PACKETS),
        log="/tmp/arrivals",
        timestamps="software",
    )
    talk = command.talker(
        str(streams.talker()),
        "10.0.0.2",
        5000,
        command.Pacing(INTERVAL_NS),
        command.StopCondition(count=PACKETS),
        payload_bytes=100,
        priority=5,
    )
    return job(
        Step("listen", "listener", tuple(listen), 20, background=True, files=("/tmp/arrivals",)),
        Pause(0.1),
        Step("talk", "talker", tuple(talk), 20),
        configure=(Step("taprio", "talker", taprio, 5),),
        programs=(str(streams.talker()), str(streams.listener())),
        seed=seed,
    )


@pytest.mark.parametrize(
    ("seed", "taprio"),
    [(1, taprio_of_all_classes), (2, taprio_of_all_classes), (3, taprio_of_a_benchs_port)],
)
def test_packets_of_a_gated_class_leave_while_its_gate_is_open(guests, seed, taprio):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = guests.run(taprio_job(seed, taprio())).check()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    arrivals = read_listener_log(result.file("/tmp/arrivals"))
    assert len(np.unique(arrivals["sequence"])) == PACKETS
    assert (arrivals["stamped_ns"] > 0).all()

    phases = arrivals["stamped_ns"].astype(np.int64) % CYCLE_NS
    inside = (phases >= OPEN_NS - EDGE_NS) & (phases <= CLOSE_NS + EDGE_NS)
    assert inside.mean() >= 0.995
    # They were sent at every phase: the gate, not the talker, put them there.
    sent = arrivals["sent_ns"].astype(np.int64) % CYCLE_NS
    fraction_sent_while_open = ((sent >= OPEN_NS) & (sent < CLOSE_NS)).mean()
    assert fraction_sent_while_open == pytest.approx(0.25, abs=0.03)
    # About a minute on a machine of its own; processor time, because tests share theirs.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60


def test_a_kernel_that_has_taprio_needs_no_guest(guests, monkeypatch):
    """What runs a job on this machine, run in a guest in place of a machine with such a kernel."""
    inner = taprio_job(3, taprio_of_all_classes())
    # The guest has no file system besides its root.
    monkeypatch.setattr(local_jobs, "_mounts", list)
    text = f"{shlex.join(local_jobs._command(inner))} </in/files >/tmp/brought"
    result = guests.run(
        job(
            Step("inner", "talker", ("sh", "-c", text), 60, files=("/tmp/brought",)),
            programs=(*inner.programs, "chroot", "setpriv", "unshare"),
            inputs={"/in/files": local_jobs._archive(inner)},
            memory_mb=1024,
        )
    ).check()
    brought = results.unpack(result.file("/tmp/brought"), inner)
    assert {done.exit_status for done in results.steps_of(brought, inner).values()} == {0}
    arrivals = read_listener_log(results.files_of(brought, inner)["/tmp/arrivals"])
    assert len(np.unique(arrivals["sequence"])) == PACKETS
    phases = arrivals["stamped_ns"].astype(np.int64) % CYCLE_NS
    assert ((phases >= OPEN_NS - EDGE_NS) & (phases <= CLOSE_NS + EDGE_NS)).mean() >= 0.995


def test_a_switch_serves_a_frame_by_its_pcp_in_the_queue_it_is_pinned_to(guests):
    """The talker's socket priority becomes the PCP, and the PCP the queue of the switch's port."""
    vlans = {
        name: (Vlan(10, (f"10.0.10.{number}/24",)),)
        for number, name in enumerate(("talker", "listener"), 1)
    }
    links = (
        Link(LinkEnd("talker", "eth0", vlans=vlans["talker"]), LinkEnd("sw", "p0")),
        Link(LinkEnd("sw", "p1"), LinkEnd("listener", "eth0", vlans=vlans["listener"])),
    )
    # Every class is pinned: a frame that no filter takes keeps the queue that the talker's
    # kernel chose by its flow's hash, which may be any.
    queues = (
        tc(f"qdisc replace dev p1 root handle 1: mqprio {CLASSES} hw 0"),
        tc("qdisc replace dev p1 parent 1:6 handle 6: pfifo limit 1000"),
        *map(tuple, pin_queues("p1", {0: 0, 5: 5})),
    )

    def talk(name: str, priority: int, count: int) -> Step:
        argv = command.talker(
            str(streams.talker()),
            "10.0.10.2",
            5000,
            command.Pacing(100_000),
            command.StopCondition(count=count),
            payload_bytes=100,
            priority=priority,
        )
        return Step(name, "talker", tuple(argv), 10)

    listen = command.listener(str(streams.listener()), [5000], command.StopCondition(count=800))
    result = guests.run(
        job(
            Step("listen", "listener", tuple(listen), 20, background=True),
            Pause(0.1),
            talk("fives", 5, 300),
            talk("zeros", 0, 500),
            Pause(0.1),
            Step("counted", "sw", tc("-s -j qdisc show dev p1"), 5),
            links=links,
            bridges=(Bridge("sw", ("p0", "p1")),),
            configure=tuple(Step(f"queue{n}", "sw", argv, 5) for n, argv in enumerate(queues)),
            programs=(str(streams.talker()), str(streams.listener())),
        )
    ).check()
    assert command.parse_listener(result.steps["listen"].stdout).streams[0].received == 800
    queues = json.loads(result.steps["counted"].stdout)
    counts = {queue.get("parent"): queue["packets"] for queue in queues}
    assert (counts["1:6"], counts["1:1"]) == (300, 500)


def test_credit_holds_a_saturating_talker_to_its_idle_slope(guests):
    """IEEE 802.1Q-2022, 8.6.8.2; the kernel counts a frame's 42 bytes of headers, not its FCS."""
    idle_slope_mbps, payload_bytes = 20.0, 1000
    frame_bytes = payload_bytes + 42
    credit = credits_of(
        idle_slope_mbps,
        VETH_MBPS,
        frame_wire_bytes=frame_bytes,
        interference_wire_bytes=frame_bytes,
    )
    listen = command.listener(str(streams.listener()), [5000], command.StopCondition(count=2000))
    talk = command.talker(
        str(streams.talker()),
        "10.0.0.2",
        5000,
        command.Pacing(None),
        command.StopCondition(count=2000),
        payload_bytes=payload_bytes,
    )
    result = guests.run(
        job(
            Step("listen", "listener", tuple(listen), 20, background=True),
            Pause(0.1),
            Step("talk", "talker", tuple(talk), 20),
            configure=(Step("cbs", "talker", tuple(cbs("eth0", credit)), 5),),
            programs=(str(streams.talker()), str(streams.listener())),
        )
    ).check()
    arrived = command.parse_listener(result.steps["listen"].stdout).streams[0]
    assert arrived.unique == 2000
    assert arrived.first_ns is not None
    assert arrived.last_ns is not None
    seconds = (arrived.last_ns - arrived.first_ns) / 1e9
    rate_mbps = (arrived.unique - 1) * frame_bytes * 8 / seconds / 1e6
    assert rate_mbps == pytest.approx(idle_slope_mbps, rel=0.02)


class Refusing:
    """A host whose driver has neither gates nor launch times; it keeps what it was asked."""

    name = "talker"

    def __init__(self):
        self.asked = []

    def run(self, argv, **_):
        status = 0 if "mqprio" in argv or (argv[2] == "del" and self.asked[-2:-1]) else 2
        self.asked.append((tuple(argv), status))
        return Completed(self.name, tuple(argv), status, "", "", 0.0, 0.0)


def test_a_benchs_port_shapes_by_every_mode_that_its_kernel_has(guests):
    """A veth device refuses what only cards can, and the kernel accepts what is set instead."""
    port = Refusing()
    assert probe_chip(port, "eth0") == "other"
    modes = {"tas": "taprio", "cbs": "cbs", "etf": "etf", "prio": "prio", "fifo": "bfifo"}
    asked = [(f"probe-{n}", argv) for n, (argv, _) in enumerate(port.asked)]
    for mode in modes:
        chosen = part_of_a_port(modes=[mode], idle_slope_mbps=20.0)
        queues = card_queues.commands(chosen, mode, "eth0", "other")
        asked += [(f"{mode}-{n}", tuple(argv)) for n, argv in enumerate(queues)]
        asked.append((f"{mode}-shown", tc("-j qdisc show dev eth0")))
        asked.append((f"{mode}-end", tc("qdisc del dev eth0 root")))
    done = guests.run(job(*(Step(name, "talker", argv, 5) for name, argv in asked))).steps
    for number, (argv, status) in enumerate(port.asked):
        assert (done[f"probe-{number}"].exit_status == 0) == (status == 0), argv
    for name, _ in asked[len(port.asked) :]:
        assert done[name].exit_status == 0, (name, done[name].stderr)
    for mode, kind in modes.items():
        assert kind in {row["kind"] for row in json.loads(done[f"{mode}-shown"].stdout)}


def test_the_guests_kernel_has_what_the_probe_tries(guests):
    """The probe says nothing is missing where nothing is: its "lacks" are no faults of its own."""
    probe = requirements.PROBE
    done = guests.run(job(Step("probe", "talker", ("sh", "-c", probe), 20))).steps["probe"]
    assert done.stdout.split() == ["tried"], done.stderr


def test_the_probe_agrees_with_what_this_machines_kernel_accepts():
    lacks = requirements.missing_qdiscs()
    assert set(lacks) <= {"mqprio", "taprio", "cbs", "etf", "802.1Q"}
    for name in ("taprio", "cbs"):
        loadable = subprocess.run(
            ["modprobe", "--dry-run", "--quiet", f"sch_{name}"], check=False
        ).returncode
        if loadable:
            continue  # built in, or not there at all: modprobe cannot tell
        assert name not in lacks


# --- commands ----------------------------------------------------------------------------------


def test_commands_end_as_they_would_over_ssh(guests):
    odd = "a  b'c\"$HOME*"
    result = guests.run(
        job(
            Step("unknown", "talker", ("no-such-program",), 5),
            Step("say", "talker", ("sh", "-c", 'echo "$1"; echo no >&2; exit 3', "sh", odd), 5),
            Step("late", "talker", ("sleep", "60"), 2),
            Step("server", "listener", ("sleep", "600"), 300, background=True),
            Step("own-end", "listener", ("sh", "-c", "sleep 1; exit 5"), 30, background=True),
            Pause(100),
            Stop("server"),
            Step("write", "talker", ("sh", "-c", "cat /in/put >/tmp/out"), 5, files=("/tmp/out",)),
            Step("forget", "talker", ("true",), 5, files=("/tmp/never",)),
            inputs={"/in/put": b"\x00\xff\n"},
        )
    )
    steps = result.steps
    assert steps["unknown"].exit_status == 127
    assert (steps["say"].exit_status, steps["say"].stdout, steps["say"].stderr) == (
        3,
        f"{odd}\n",
        "no\n",
    )
    assert steps["late"].exit_status == 124
    assert steps["late"].seconds == pytest.approx(2, abs=0.2)
    assert steps["server"].exit_status == 143
    assert steps["server"].seconds == pytest.approx(100, rel=0.05)
    assert steps["own-end"].exit_status == 5
    assert steps["own-end"].seconds == pytest.approx(1, abs=0.2)
    assert steps["say"].host == "talker"
    assert list(steps) == [
        *("unknown", "say", "late", "server", "own-end", "write", "forget"),
    ]
    assert result.files == {"/tmp/out": b"\x00\xff\n"}
    if result.virtual_time:
        # A hundred seconds passed inside, not here; and the note says so.
        assert result.wall_s < 100
        assert "virtual" in result.note


def test_a_link_that_cannot_be_made_is_an_error_with_the_kernels_words(guests):
    small = LinkEnd("listener", "eth0", mtu=20)
    with pytest.raises(TestbedError, match=r"could not set up the topology.*(?s:.*)mtu"):
        guests.run(job(links=(Link(TALKER, small),)))


def test_a_guest_that_dies_is_an_error_with_its_last_words(guests):
    crash = Step("crash", "talker", ("sh", "-c", "echo c >/proc/sysrq-trigger"), 5)
    with pytest.raises(TestbedError, match=r"without results(?s:.*)[Pp]anic"):
        guests.run(job(crash))


# --- nothing is left over ----------------------------------------------------------------------


def running_qemu(below: int) -> list[int]:
    """Return the process numbers of qemu whose ancestor is the process ``below``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            if name.startswith("qemu-system") and below in ancestors(int(folder.name)):
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(status.split("PPid:")[1].split()[0])
        found.append(pid)
    return found


@pytest.mark.timed
def test_a_job_that_never_ends_is_ended(guests):
    spin = Step("spin", "talker", ("sh", "-c", "while :; do :; done"), 100_000)
    began = time.monotonic()
    too_late = r"did not end within 12 s of wall time.*guest: ready"
    with pytest.raises(JobDeadlineError, match=too_late):
        guests.run(job(spin, deadline_s=12))
    assert time.monotonic() - began < 20
    assert running_qemu(os.getpid()) == []


def test_a_guest_beside_others_measures_the_same(guests):
    """Its time is virtual: what else the machine does cannot show in it.

    The moment of the first packet is not the same in any two guests, and with it the phases are
    not; the way from an open gate to the stamp takes the same instructions in all.
    """
    with ThreadPoolExecutor(2) as pool:
        beside = list(pool.map(guests.run, [taprio_job(3, taprio_of_all_classes())] * 2))
    alone = delays_through_the_open_gate(guests.run(taprio_job(3, taprio_of_all_classes())))
    for result in beside:
        np.testing.assert_allclose(delays_through_the_open_gate(result), alone, rtol=0.02)


def delays_through_the_open_gate(result) -> np.ndarray:
    """Return quantiles, in ns, over the packets that no gate held up."""
    arrivals = read_listener_log(result.check().file("/tmp/arrivals"))
    sent = arrivals["sent_ns"].astype(np.int64)
    delays = arrivals["stamped_ns"].astype(np.int64) - sent
    passed = delays[(sent % CYCLE_NS >= OPEN_NS + EDGE_NS) & (sent % CYCLE_NS < CLOSE_NS - EDGE_NS)]
    assert len(passed) > PACKETS / 5
    return np.quantile(passed, [0, 0.01, 0.5, 0.9])


def test_a_testbed_that_closes_ends_its_guests():
    spin = Step("spin", "talker", ("sh", "-c", "while :; do :; done"), 1000)
    testbed = GuestTestbed(purpose="the test suite")
    testbed._kernel = kernel.get(None)
    testbed._base = initramfs.base(testbed._kernel)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(testbed.run, job(spin, deadline_s=100))
        while not running_qemu(os.getpid()):
            time.sleep(0.05)
        testbed.__exit__(None, None, None)
        with pytest.raises(TestbedError, match="stopped with its testbed"):
            running.result(timeout=20)
    assert running_qemu(os.getpid()) == []


KILLED = """
    from tsnrepro.testbeds.jobs.job import Job, Link, LinkEnd, Step
    from tsnrepro.testbeds.guest.testbed import GuestTestbed
    spin = Step("spin", "a", ("sh", "-c", "while :; do :; done"), 1000)
    with GuestTestbed() as guests:
        link = Link(LinkEnd("a", "eth0"), LinkEnd("b", "eth0"))
        guests.run(Job("killed", links=(link,), steps=(spin,)))
"""


@pytest.mark.timed
def test_a_program_that_is_killed_leaves_no_guest(guests, tmp_path):
    # A temporary folder of its own gives it a lock of its own.
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        end = time.monotonic() + 30
        while not (started := running_qemu(program.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        assert len(started) == 1
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    end = time.monotonic() + 5
    while (left := Path(f"/proc/{started[0]}").exists()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left
