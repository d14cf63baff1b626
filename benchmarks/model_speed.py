"""Packets a second of the model beside simpy, and beside ns-3 where it is installed, in one run.

Two cases at 1 Gb/s with frames of 64 bytes at nine tenths of line rate:

- two switches in a row: talker, switch, switch, listener (three queues);
- FRER over two member paths with a switch on each: six queues, of which a frame's first copy
  passes four, and vector recovery.

Every program gets the same number of packets to count them as equal; then each runs as many as take
it about the given time, and its rate is the best of three runs. Processor time is what counts (each
uses one core), and of the simulation only, after a first short run that loads or compiles it. ns-3
(which has no FRER) runs in an interpreter of its own, see benchmarks/ns3_two_switches.py.

    python benchmarks/model_speed.py [--seconds 2] [--check-packets 20000] [--ns3-python PATH]
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import simpy

from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    EgressPort,
    EndStation,
    Network,
    Replicated,
    SinglePath,
    Switch,
    TrafficStream,
)

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from plain_recovery import VectorRecovery

PAYLOAD_BYTES = 18
FRAME_BYTES = 64
TAG_BYTES = 6
INTERVAL_NS = 750  # 84 bytes on the wire take 672 ns
WIRE_RATE = 1e9 / ((FRAME_BYTES + 20) * 8)
PROCESSING_NS = 1_000
PATHS = (["a-1", "a-2"], ["b-1", "b-2"])


@dataclass(frozen=True)
class Counted:
    """What a program delivered, and the seconds of processor time it took."""

    delivered: int
    seconds: float


def network(packets: int, *, frer: bool) -> Network:
    port = EgressPort(queue_bytes=100_000)
    links = [
        DuplexLink(name="in", a="talker", b="first"),
        DuplexLink(name="middle", a="first", b="second"),
        DuplexLink(name="a-1", a="first", b="above"),
        DuplexLink(name="a-2", a="above", b="second"),
        DuplexLink(name="b-1", a="first", b="below"),
        DuplexLink(name="b-2", a="below", b="second"),
        DuplexLink(name="out", a="second", b="listener"),
    ]
    route = SinglePath(links=["in", "middle", "out"])
    if frer:
        route = Replicated(before=["in"], members=list(PATHS), after=["out"])
    switches = ("first", "second", "above", "below")
    return Network(
        hosts={"talker": EndStation(port=port), "listener": EndStation(port=port)},
        switches={name: Switch(port=port, processing_ns=PROCESSING_NS) for name in switches},
        links=links,
        streams=[
            TrafficStream(
                name="stream",
                talker="talker",
                listener="listener",
                payload_bytes=PAYLOAD_BYTES,
                send=ConstantRate(rate_mbps=PAYLOAD_BYTES * 8 / INTERVAL_NS * 1000),
                route=route,
                datagrams=packets,
            )
        ],
    )


def run_model(packets: int, *, frer: bool) -> Counted:
    described = network(packets, frer=frer)
    started = time.process_time()
    result = simulate(described, duration_s=(packets + 1) * INTERVAL_NS / 1e9)
    seconds = time.process_time() - started
    return Counted(result.streams["stream"].unique, seconds)


# The same network as plain simpy processes: one for the talker, one for each port.


class SimpyPort:
    def __init__(self, env, frame_bytes, deliver):
        self.env, self.deliver = env, deliver
        self.busy = (frame_bytes + 8) * 8
        self.gap = 12 * 8
        self.queue = simpy.Store(env)
        env.process(self.run())

    def run(self):
        while True:
            frame = yield self.queue.get()
            yield self.env.timeout(self.busy)
            self.env.process(self.forward(frame))
            yield self.env.timeout(self.gap)

    def forward(self, frame):
        yield self.env.timeout(PROCESSING_NS)
        self.deliver(frame)


def run_simpy(packets: int, *, frer: bool) -> Counted:
    env = simpy.Environment()
    delivered = [0]

    def receive(frame):
        delivered[0] += 1

    last = SimpyPort(env, FRAME_BYTES, receive)
    if frer:
        recovery = VectorRecovery()

        def eliminate(frame):
            if recovery.accept(frame % 65_536, env.now):
                last.queue.put(frame)

        tagged = FRAME_BYTES + TAG_BYTES
        seconds = [SimpyPort(env, tagged, eliminate) for _ in PATHS]
        paths = [SimpyPort(env, tagged, second.queue.put) for second in seconds]

        def replicate(frame):
            for path in paths:
                path.queue.put(frame)

        first = SimpyPort(env, FRAME_BYTES, replicate)
    else:
        middle = SimpyPort(env, FRAME_BYTES, last.queue.put)
        first = SimpyPort(env, FRAME_BYTES, middle.queue.put)

    def talk():
        for number in range(packets):
            first.queue.put(number)
            yield env.timeout(INTERVAL_NS)

    env.process(talk())
    started = time.process_time()
    env.run()
    return Counted(delivered[0], time.process_time() - started)


NS3_SCRIPT = Path(__file__).with_name("ns3_two_switches.py")
NS3_PACKETS_A_SECOND = 80_000
"""About what ns-3 does, to choose the length of its runs: its start takes longer than they do."""

NS3_MISSING = """\
ns-3 is not installed for this interpreter (`import ns` fails): compared with simpy only. To do so:
    python3 -m venv /some/where && /some/where/bin/pip install ns3==3.44.post0
    python benchmarks/model_speed.py --ns3-python /some/where/bin/python"""


def find_ns3(given: str | None) -> str | None:
    """Return the interpreter that has ns-3, or None."""
    if given is None:
        return sys.executable if importlib.util.find_spec("ns") is not None else None
    found = shutil.which(given)
    if found is None:
        sys.exit(f"--ns3-python {given}: there is no such program")
    return found


def run_ns3(python: str, network: str, check_packets: int, seconds: float) -> list[Counted]:
    """Return what ns-3 delivered of the packets that all are given, then in three timed runs."""
    timed = max(20_000, int(NS3_PACKETS_A_SECOND * seconds))
    packets = [check_packets, timed, timed, timed]
    arguments = [f"--interval-ns={INTERVAL_NS}", f"--frame-bytes={FRAME_BYTES}"]
    done = subprocess.run(
        [python, str(NS3_SCRIPT), "--network", network, *arguments, *map(str, packets)],
        capture_output=True,
        text=True,
        timeout=300 + 40 * seconds,
        check=False,
    )
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(runs) < len(packets):
        sys.exit(f"{python} {NS3_SCRIPT.name} ended with {done.returncode}: {done.stderr[-2000:]}")
    for run in runs:
        if run["delivered"] != run["packets"]:
            sys.exit(f"ns-3 ({network}) delivered {run['delivered']} of {run['packets']} packets")
    return [Counted(run["delivered"], run["seconds"]) for run in runs]


def fastest(runs: list[Counted]) -> Counted:
    """Return the run with the highest rate."""
    return max(runs, key=lambda run: run.delivered / run.seconds)


def measure(run: Callable[..., Counted], seconds: float, *, frer: bool) -> Counted:
    """Return the fastest of three runs that last about so long."""
    packets = 5_000
    while (tried := run(packets, frer=frer)).seconds <= 0.3 * seconds:
        packets = int(packets * min(10.0, max(2.0, seconds / max(tried.seconds, 1e-6))))
    return fastest([run(packets, frer=frer) for _ in range(3)])


def compare(title: str, rows: list[tuple[str, Counted, Counted]], check_packets: int) -> bool:
    """Print one case, the model's row first; tell whether all delivered the same."""
    print(f"\n{title}, frames of {FRAME_BYTES} bytes, 1 Gb/s ({WIRE_RATE:,.0f} frames/s)")
    print(f"{'program':14} {'delivered':>10} {'packets/s':>13} {'of the wire':>12} {'model':>9}")
    best = rows[0][2].delivered / rows[0][2].seconds
    for name, counted, timed in rows:
        rate = timed.delivered / timed.seconds
        print(
            f"{name:14} {counted.delivered:10,} {rate:13,.0f} {rate / WIRE_RATE:11.2f}x "
            f"{best / rate:8.1f}x"
        )
    return all(counted.delivered == check_packets for _, counted, _ in rows)


def main() -> int:
    """Run all programs on both cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a timed run")
    parser.add_argument("--check-packets", type=int, default=20_000, help="packets counted by all")
    parser.add_argument("--ns3-python", help="an interpreter with ns-3 (default: this one)")
    options = parser.parse_args()
    check, seconds = options.check_packets, options.seconds
    python = find_ns3(options.ns3_python)
    if python is None:
        print(NS3_MISSING)
    equal = True
    for frer, title in ((False, "two switches"), (True, "FRER, two paths, six queues")):
        rows = [
            (name, run(check, frer=frer), measure(run, seconds, frer=frer))
            for name, run in (("model", run_model), ("simpy", run_simpy))
        ]
        if python is not None and not frer:
            for network in ("bridged", "routed"):
                counted, *timed = run_ns3(python, network, check, seconds)
                rows.append((f"ns-3, {network}", counted, fastest(timed)))
        equal &= compare(title, rows, check)
    print(f"\ndelivered counts equal ({check:,} each): {'yes' if equal else 'NO'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
