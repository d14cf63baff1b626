"""How many frames the FRER switches carry a second of processor time, beside plain forwarding.

The same frames cross the same emulated testbed without token buckets: replicated, recovered and
untagged (``frer``), or forwarded by the same programs over one path (``control``). The two take
turns, so that a drift of the machine falls on both::

    python benchmarks/switch_speed.py --rounds 5 --seconds 3

Printed is the median over rounds of frames delivered a second of processor time that the whole
machine used, and each round's ratio to the others. Nothing else may run: what the machine uses
before the first round is shown, and above 5 % the result is marked as unusable.

Where bpftool is installed, the mean time of each of the switches' programs is printed too, as the
kernel counts it (kernel.bpf_stats_enabled, on for as long as this runs). That time hardly depends
on what else runs, so it tells two builds apart on a busy machine as well.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tsnrepro.settings import EmulatedSettings
from tsnrepro.streams import build
from tsnrepro.streams.command import READY, Extent, Pacing, listener, parse_listener, talker
from tsnrepro.testbed.emulated import (
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
KINDS = ("frer", "control")
BUFFER_BYTES = 64_000_000
BUSY = 0.05
DEADLINE_SECONDS = 60
PROGRAMS = ("host_ingress", "member_ingress", "member_to_host")
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"

# Nanoseconds and runs of a program, by its name and number.
Times = dict[tuple[str, int], tuple[int, int]]


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
            command = ["tc", "qdisc", "replace", "dev", port, "root", "pfifo", "limit", "10000"]
            testbed.hosts[name].run(command, deadline_s=DEADLINE_SECONDS).check()


def frames_a_second(testbed: EmulatedTestbed, payload: int, pps: float, seconds: float) -> float:
    """Return frames delivered once, a second of processor time, at a rate that loses none."""
    programs = build.programs()
    argv = listener(
        str(programs.listener),
        [PORT],
        Extent(seconds=seconds + DEADLINE_SECONDS / 2),
        buffer_bytes=BUFFER_BYTES,
    )
    receiving = testbed.hosts[LISTENER].start(argv, deadline_s=DEADLINE_SECONDS)
    assert receiving.read_line() == READY
    pacing = Pacing(round(16e9 / pps), burst=16)
    sending = talker(
        str(programs.talker),
        testbed.address(LISTENER),
        PORT,
        pacing,
        Extent(seconds=seconds),
        payload_bytes=payload,
    )
    before = processor_seconds()
    testbed.hosts[TALKER].run(sending, deadline_s=DEADLINE_SECONDS).check()
    time.sleep(0.2)
    used = processor_seconds() - before
    receiving.stop()
    return parse_listener(receiving.wait().stdout).stream(PORT).unique / used


def time_programs(testbed: EmulatedTestbed, payload: int, pps: float, known: Times) -> None:
    """Print what a run of each program takes under FRER."""
    testbed.configure("frer", STREAM)
    with kernel_statistics():
        before = program_times()
        frames_a_second(testbed, payload, pps, 1.0)
        print_program_times(before, program_times(), known)


def compare(testbed: EmulatedTestbed, payload: int, arguments: argparse.Namespace) -> None:
    """Let the kinds take turns, and print medians and the ratios of each round."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(arguments.rounds):
        for kind in KINDS if number % 2 else KINDS[::-1]:
            testbed.configure(kind, STREAM)
            found[kind].append(frames_a_second(testbed, payload, arguments.pps, arguments.seconds))
    for kind, values in found.items():
        print(f"{payload:5d} B  {kind:8s} {statistics.median(values):10.0f} frames/processor-s")
    ratios = [a / b for a, b in zip(found["frer"], found["control"], strict=True)]
    print(f"{payload:5d} B  frer/control {statistics.median(ratios):.3f}  rounds {ratios}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--pps", type=float, default=100_000.0)
    arguments = parser.parse_args()
    busy = idle_use()
    print(f"before: {busy:.2f} processors in use{' - UNUSABLE, not quiet' if busy > BUSY else ''}")
    settings = EmulatedSettings(locate_drops=False)
    known = program_times()
    with EmulatedTestbed(settings, "benchmark of the switches") as testbed:
        without_buckets(testbed)
        for payload in PAYLOADS_BYTES:
            compare(testbed, payload, arguments)
            time_programs(testbed, payload, arguments.pps, known)


if __name__ == "__main__":
    main()
