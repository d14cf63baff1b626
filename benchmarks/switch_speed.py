"""How many frames the FRER switches carry a second of processor time, beside plain forwarding.

The same frames cross the same emulated testbed without token buckets: replicated, recovered and
untagged (``frer``), or forwarded by the same programs over one path (``control``). The two take
turns, so that a drift of the machine falls on both::

    python benchmarks/switch_speed.py --rounds 5 --seconds 3

Printed are the medians over rounds of frames delivered a second of processor time that the whole
machine used, and the ratio of the two with its 95 % interval over rounds. Nothing else may run:
what the machine uses before the first round is shown, and above 5 % the result is marked as
unusable. ``--own-threads`` counts the time of talker, listener and the kernel's ksoftirqd threads
in place of the machine's: the switches run in those, so other programs hardly disturb it. It is
right only where the kernel books interrupts to the thread that they interrupt, so not with
CONFIG_IRQ_TIME_ACCOUNTING.

``--xdpfrer DIR`` compares with xdpfrer (github.com/EricssonResearch/xdpfrer) from a checkout, which
is built by its own Makefile (clang, libbpf-dev, bpftool). It gets hosts, cables and stations like
ours, and the same frames: with VLAN tag 10, because it takes no others, and one way, so the hosts
know each other's MAC address beforehand. It redirects in XDP, past the egress queues; the offload
that it cannot do without (GRO at the receiving end of each veth pair) is on for it.

Where bpftool is installed, the mean time of each of the switches' programs is printed too, as the
kernel counts it (kernel.bpf_stats_enabled, on for as long as this runs). What other programs do to
the caches is in it, so builds are compared where nothing else runs.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tsnrepro.config import EmulatedSettings
from tsnrepro.native import streams
from tsnrepro.native.streams.command import (
    READY,
    Pacing,
    StopCondition,
    listener,
    parse_listener,
    talker,
)
from tsnrepro.stats.comparisons import relative_difference
from tsnrepro.testbeds.emulated.testbed import (
    CARD,
    HOST_PORT,
    LISTENER,
    SWITCHES,
    TALKER,
    EmulatedTestbed,
)
from tsnrepro.tools.frerctl import StreamFilter

PORT = 5202
STREAM = StreamFilter("udp", PORT)
# 18 bytes of payload make the smallest frame (64 bytes with FCS), 1472 the largest (1518).
PAYLOADS_BYTES = (18, 1472)
BUFFER_BYTES = 64_000_000
BUSY = 0.05
# Above this share of frames lost or twice there in a round, what was measured is not FRER.
LOST = 0.01
DEADLINE_SECONDS = 60
PROGRAMS = (
    *("host_ingress", "member_ingress"),
    *("replicate", "replicate_postprocessing", "eliminate"),
)
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"
VLAN = 10
VLAN_SOURCE = f"""\
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

SEC("egress") int tag(struct __sk_buff *skb)
{{
	return bpf_skb_vlan_push(skb, bpf_htons(0x8100), {VLAN}) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}}

SEC("ingress") int untag(struct __sk_buff *skb)
{{
	return bpf_skb_vlan_pop(skb) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
"""
# Runs a command and prints last the processor time that it used, in seconds.
TIMED = """\
import resource, signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
child.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""

# Nanoseconds and runs of a program, by its name and number.
Times = dict[tuple[str, int], tuple[int, int]]


class XdpfrerTestbed(EmulatedTestbed):
    """The same hosts, cables and stations, with xdpfrer in both switches.

    It is built by ``make`` in ``folder``/src. The switches that :class:`EmulatedTestbed` sets up
    never start, so nothing but rates and addresses may be asked of it.
    """

    kind = "xdpfrer"

    def __init__(self, settings: EmulatedSettings, purpose: str, folder: Path) -> None:
        super().__init__(settings, purpose)
        subprocess.run(["make", "-C", str(folder / "src"), "xdpfrer"], check=True)
        self._xdpfrer = str(folder / "src" / "xdpfrer")

    def _start_stations(self) -> None:
        members, vlan = self.member_ports(), f":{VLAN}"
        for name in (TALKER, LISTENER):
            self._run(name, [self.frerctl, "station", CARD])
        for name, port in [(LISTENER, CARD), *((SWITCHES[1], member) for member in members)]:
            self._run(name, ["ethtool", "-K", port, "gro", "on"])
        into = [word for port in members for word in ("-i", port + vlan)]
        out = [word for port in members for word in ("-e", port + vlan)]
        self._start(SWITCHES[1], ["elim", *into, "-e", HOST_PORT + vlan])
        self._start(SWITCHES[0], ["repl", "-i", HOST_PORT + vlan, *out])

    def _start(self, name: str, mode: list[str]) -> None:
        argv = [self._xdpfrer, "-q", "-m", *mode]
        process = self.hosts[name].start(argv, deadline_s=24 * 3600)
        time.sleep(1)
        if not process.running:
            process.wait().check()
            raise SystemExit(f"xdpfrer ended by itself: {argv}")


class Arm(NamedTuple):
    """One of those that take turns."""

    name: str
    testbed: EmulatedTestbed
    payload: int
    vlan: bool

    def set_up(self) -> None:
        """Let the switches start afresh."""
        if self.name in ("frer", "control"):
            self.testbed.configure(self.name, STREAM)


def program_times() -> Times:
    """Return what every switch program on this machine has used since it was loaded."""
    if not shutil.which("bpftool"):
        return {}
    shown = subprocess.run(
        ["bpftool", "prog", "show", "-j"], capture_output=True, text=True, check=True
    )
    return {
        (program["name"], program["id"]): (program.get("run_time_ns", 0), program.get("run_cnt", 0))
        for program in json.loads(shown.stdout)
        if program.get("name") in PROGRAMS
    }


def print_program_times(before: Times, after: Times, known: Times) -> None:
    """Print the mean of a run between two readings; programs of other testbeds are left out."""
    for name in PROGRAMS:
        ran = [
            (now[0] - before.get(key, (0, 0))[0], now[1] - before.get(key, (0, 0))[1])
            for key, now in after.items()
            if key[0] == name and key not in known
        ]
        if runs := sum(count for _, count in ran):
            print(f"         {name:15s} {sum(ns for ns, _ in ran) / runs:6.0f} ns a run")


@contextmanager
def kernel_statistics() -> Iterator[None]:
    """Let the kernel time every run of every BPF program, at some ten nanoseconds a run."""
    with open(STATISTICS, encoding="ascii") as file:
        was = file.read()
    try:
        with open(STATISTICS, "w", encoding="ascii") as file:
            file.write("1")
        yield
    finally:
        with open(STATISTICS, "w", encoding="ascii") as file:
            file.write(was)


def processor_seconds() -> float:
    """Return the processor time that the machine has used so far, interrupts included."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq + steal) / 100


def softirq_seconds() -> float:
    """Return the processor time that the kernel's ksoftirqd threads have used so far."""
    used = 0
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end while its turn comes.
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().startswith("ksoftirqd/"):
                used += int((process / "schedstat").read_text().split()[0])
    return used / 1e9


def idle_use(seconds: float = 2.0) -> float:
    """Return how many processors the machine uses while nothing of this runs."""
    before = processor_seconds()
    time.sleep(seconds)
    return (processor_seconds() - before) / seconds


def without_buckets(testbed: EmulatedTestbed) -> None:
    """Take every token bucket away: the processor is to be the limit, not a line."""
    for name in (TALKER, *SWITCHES, LISTENER):
        ports = [HOST_PORT, *testbed.member_ports()] if name in SWITCHES else [CARD]
        for port in ports:
            run(testbed, name, f"tc qdisc replace dev {port} root pfifo limit 10000")


def add_vlan(testbed: EmulatedTestbed, program: Path) -> None:
    """Let talker and listener speak in a VLAN, and neither need an answer of the other."""
    testbed.pin_neighbours()
    for name, hook in ((TALKER, "egress"), (LISTENER, "ingress")):
        code = f"bpf direct-action object-file {program} section {hook}"
        run(testbed, name, f"tc filter add dev {CARD} {hook} prio 2 {code}")


def build_vlan(folder: Path) -> Path:
    """Compile what puts VLAN tags on and takes them off; no kernel is without this helper."""
    source, program = folder / "vlan.bpf.c", folder / "vlan.bpf.o"
    source.write_text(VLAN_SOURCE, encoding="ascii")
    headers = f"-I/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    command = ["clang", "-O2", "-g", "-target", "bpf", headers, "-c", source, "-o", program]
    subprocess.run(command, check=True)
    return program


def run(testbed: EmulatedTestbed, name: str, command: str) -> str:
    """Run a command without quotes on a host, and return what it printed."""
    done = testbed.hosts[name].run(command.split(), deadline_s=DEADLINE_SECONDS)
    return done.check().stdout.strip()


def frames_a_second(arm: Arm, seconds: float, arguments: argparse.Namespace) -> float:
    """Return frames delivered once, a second of processor time, at a rate that loses none."""
    arm.set_up()
    hosts = arm.testbed.hosts
    argv = listener(
        str(streams.listener()),
        [PORT],
        StopCondition(seconds=seconds + DEADLINE_SECONDS / 2),
        buffer_bytes=BUFFER_BYTES,
    )
    timed = [sys.executable, "-c", TIMED]
    receiving = hosts[LISTENER].start([*timed, *argv], deadline_s=DEADLINE_SECONDS)
    assert receiving.read_line() == READY
    pacing = Pacing(round(arguments.burst * 1e9 / arguments.pps), arguments.burst, spin_ns=0)
    sending = talker(
        str(streams.talker()),
        arm.testbed.address(LISTENER),
        PORT,
        pacing,
        StopCondition(seconds=seconds),
        payload_bytes=arm.payload,
    )
    before = processor_seconds(), softirq_seconds()
    sent = hosts[TALKER].run([*timed, *sending], deadline_s=DEADLINE_SECONDS).check().stdout
    time.sleep(0.2)
    machine, softirq = processor_seconds() - before[0], softirq_seconds() - before[1]
    receiving.stop()
    (said, reading), (told, talking) = (
        text.rstrip().rsplit("\n", 1) for text in (receiving.wait().stdout, sent)
    )
    arrived, attempts = parse_listener(said).stream(PORT), json.loads(told)["sent"]
    if arrived.unique < (1 - LOST) * attempts or arrived.duplicates > LOST * attempts:
        print(f"         {arm.name}: {arrived.unique} of {attempts} frames, ", end="")
        print(f"{arrived.duplicates} twice - UNUSABLE")
    own = float(reading) + float(talking) + softirq
    return arrived.unique / (own if arguments.own_threads else machine)


def time_programs(arm: Arm, arguments: argparse.Namespace, known: Times) -> None:
    """Print what a run of each program takes."""
    with kernel_statistics():
        before = program_times()
        frames_a_second(arm, 1.0, arguments)
        print_program_times(before, program_times(), known)


def compare(one: Arm, other: Arm, arguments: argparse.Namespace) -> None:
    """Let two take turns, and print their medians and the ratio of the rounds."""
    found: dict[Arm, list[float]] = {one: [], other: []}
    for number in range(arguments.rounds):
        for arm in (one, other) if number % 2 else (other, one):
            found[arm].append(frames_a_second(arm, arguments.seconds, arguments))
    size = f"{one.payload:5d} B{' VLAN' if one.vlan else ''}"
    for arm, values in found.items():
        print(f"{size}  {arm.name:8s} {statistics.median(values):10.0f} frames/processor-s")
    more = relative_difference(found[one], found[other], paired=True).estimate
    value, low, high = (1 + each / 100 for each in (more.value, more.low, more.high))
    each = " ".join(f"{a / b:.3f}" for a, b in zip(found[one], found[other], strict=True))
    print(f"{size}  {one.name}/{other.name} {value:.3f} [{low:.3f}, {high:.3f}]  rounds {each}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--pps", type=float, default=100_000.0)
    parser.add_argument("--burst", type=int, default=16)
    parser.add_argument("--own-threads", action="store_true")
    parser.add_argument("--xdpfrer", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    busy = idle_use()
    unusable = busy > BUSY and not arguments.own_threads
    print(f"before: {busy:.2f} processors in use{' - UNUSABLE, not quiet' if unusable else ''}")
    settings, purpose = EmulatedSettings(locate_drops=False), "benchmark of the switches"
    known = program_times()
    with contextlib.ExitStack() as stack:
        ours = theirs = stack.enter_context(EmulatedTestbed(settings, purpose))
        if arguments.xdpfrer:
            theirs = XdpfrerTestbed(settings, purpose, arguments.xdpfrer)
            stack.enter_context(theirs)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            program = build_vlan(Path(folder))
            add_vlan(ours, program)
            add_vlan(theirs, program)
        for testbed in {ours, theirs}:
            without_buckets(testbed)
        other, vlan = ("xdpfrer", True) if arguments.xdpfrer else ("control", False)
        for payload in PAYLOADS_BYTES:
            arms = Arm("frer", ours, payload, vlan), Arm(other, theirs, payload, vlan)
            compare(*arms, arguments)
            for arm in arms if arguments.xdpfrer else arms[:1]:
                time_programs(arm, arguments, known)


if __name__ == "__main__":
    main()
