"""Packets a second of the model beside simpy, and beside ns-3 where it is installed, in one run.

Two cases at 1 Gb/s with frames of 64 bytes at nine tenths of line rate:

- two switches in a row: talker, switch, switch, listener (three queues);
- FRER over two member paths with a switch on each: six queues, of which a frame's first copy
  passes four, and vector recovery.

Every program gets the same number of packets to count them as equal; then each runs as many as take
it about the given time, and its rate is the best of three runs. Processor time is what counts (each
uses one core), and of the simulation only, after a first short run that loads or compiles it.

    python benchmarks/model_speed.py [--seconds 2] [--check-packets 20000]
"""

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import simpy

from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    ConstantRate,
    Host,
    Link,
    Network,
    Port,
    Replicated,
    SinglePath,
    Stream,
    Switch,
)
from tsnrepro.model.recovery import VectorRecovery

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
    port = Port(queue_bytes=100_000)
    links = [
        Link(name="in", a="talker", b="first"),
        Link(name="middle", a="first", b="second"),
        Link(name="a-1", a="first", b="above"),
        Link(name="a-2", a="above", b="second"),
        Link(name="b-1", a="first", b="below"),
        Link(name="b-2", a="below", b="second"),
        Link(name="out", a="second", b="listener"),
    ]
    route = SinglePath(links=["in", "middle", "out"])
    if frer:
        route = Replicated(before=["in"], members=list(PATHS), after=["out"])
    switches = ("first", "second", "above", "below")
    return Network(
        hosts={"talker": Host(port=port), "listener": Host(port=port)},
        switches={name: Switch(port=port, processing_ns=PROCESSING_NS) for name in switches},
        links=links,
        streams=[
            Stream(
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


def has_ns3() -> bool:
    return importlib.util.find_spec("ns") is not None


def run_ns3(packets: int, *, frer: bool) -> Counted | None:
    """The two switches as bridges on CSMA links; ns-3 has no FRER."""
    if frer:
        return None
    ns = importlib.import_module("ns").ns
    nodes = ns.NodeContainer()
    nodes.Create(4)
    talker, first, second, listener = (nodes.Get(number) for number in range(4))
    wire = ns.CsmaHelper()
    wire.SetChannelAttribute("DataRate", ns.StringValue("1Gbps"))
    wire.SetChannelAttribute("Delay", ns.TimeValue(ns.NanoSeconds(0)))

    def connect(near, far):
        ends = ns.NodeContainer()
        ends.Add(near)
        ends.Add(far)
        return wire.Install(ends)

    into, middle, out = connect(talker, first), connect(first, second), connect(second, listener)
    for switch, near, far in (
        (first, into.Get(1), middle.Get(0)),
        (second, middle.Get(1), out.Get(0)),
    ):
        ports = ns.NetDeviceContainer()
        ports.Add(near)
        ports.Add(far)
        ns.BridgeHelper().Install(switch, ports)
    hosts = ns.NodeContainer()
    hosts.Add(talker)
    hosts.Add(listener)
    ns.InternetStackHelper().Install(hosts)
    cards = ns.NetDeviceContainer()
    cards.Add(into.Get(0))
    cards.Add(out.Get(1))
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.0"))
    interfaces = addresses.Assign(cards)
    server = ns.UdpServerHelper(9)
    serving = server.Install(listener)
    serving.Start(ns.Seconds(0))
    client = ns.UdpClientHelper(interfaces.GetAddress(1).ConvertTo(), 9)
    client.SetAttribute("MaxPackets", ns.UintegerValue(packets))
    client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(INTERVAL_NS)))
    client.SetAttribute("PacketSize", ns.UintegerValue(PAYLOAD_BYTES))
    client.Install(talker).Start(ns.Seconds(1))
    ns.Simulator.Stop(ns.Seconds(2 + packets * INTERVAL_NS / 1e9))
    started = time.process_time()
    ns.Simulator.Run()
    seconds = time.process_time() - started
    received = server.GetServer().GetReceived()
    ns.Simulator.Destroy()
    return Counted(int(received), seconds)


def measure(run: Callable[..., Counted | None], seconds: float, *, frer: bool) -> Counted | None:
    """Return the fastest of three runs that last about so long."""
    packets = 5_000
    while True:
        tried = run(packets, frer=frer)
        if tried is None or tried.seconds > 0.3 * seconds:
            break
        packets = int(packets * min(10.0, max(2.0, seconds / max(tried.seconds, 1e-6))))
    runs = [run(packets, frer=frer) for _ in range(3)]
    return max((r for r in runs if r), key=lambda r: r.delivered / r.seconds, default=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a timed run")
    parser.add_argument("--check-packets", type=int, default=20_000, help="packets counted by all")
    options = parser.parse_args()
    programs = {"model": run_model, "simpy": run_simpy}
    if has_ns3():
        programs["ns-3"] = run_ns3
    else:
        print("ns-3 is not installed (`import ns` fails): compared with simpy only")
    equal = True
    for frer, title in ((False, "two switches"), (True, "FRER, two paths, six queues")):
        print(f"\n{title}, frames of {FRAME_BYTES} bytes, 1 Gb/s ({WIRE_RATE:,.0f} frames/s)")
        print(
            f"{'program':8} {'delivered':>12} {'packets/s':>14} {'of the wire':>12} {'model':>10}"
        )
        model_rate = 0.0
        for name, run in programs.items():
            counted = run(options.check_packets, frer=frer)
            timed = measure(run, options.seconds, frer=frer)
            if counted is None or timed is None:
                print(f"{name:8} {'cannot':>12}")
                continue
            equal &= counted.delivered == options.check_packets
            rate = timed.delivered / timed.seconds
            model_rate = model_rate or rate
            print(
                f"{name:8} {counted.delivered:12,} {rate:14,.0f} {rate / WIRE_RATE:11.2f}x "
                f"{model_rate / rate:9.1f}x"
            )
    print(f"\ndelivered counts equal ({options.check_packets:,} each): {'yes' if equal else 'NO'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
