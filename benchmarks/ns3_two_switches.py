"""Two switches in ns-3, for benchmarks/model_speed.py: prints one line of JSON a run.

Talker, two forwarding nodes, listener on links of 1 Gb/s: bridges on CSMA links (each has two ends,
so nothing collides), or routers on point-to-point links, which takes ns-3 less work. A UDP client
sends at fixed intervals, a UDP server counts. What is timed is the processor time of Simulator::Run
alone: topology, start of Python and just-in-time compilation of the bindings are left out. ns-3 has
no FRER.

    python benchmarks/ns3_two_switches.py [--network routed] PACKETS [PACKETS ...]

It needs the bindings (`import ns`), so it may need an interpreter of its own; it imports nothing
else. Each run prints {"packets": ..., "delivered": ..., "seconds": ..., "version": ...}.
"""

import argparse
import importlib.metadata
import json
import time
from typing import Any

FIRST_SEND_S = 1.0  # after the addresses are resolved


def connect(ns: Any, wire: Any, near: Any, far: Any) -> Any:
    """Return the two devices of a new link."""
    ends = ns.NodeContainer()
    ends.Add(near)
    ends.Add(far)
    return wire.Install(ends)


def bridged(ns: Any, nodes: Any) -> Any:
    """Join talker, two bridges and listener by CSMA links; return the listener's address."""
    talker, first, second, listener = (nodes.Get(number) for number in range(4))
    wire = ns.CsmaHelper()
    wire.SetChannelAttribute("DataRate", ns.StringValue("1Gbps"))
    # The channel is busy for its delay too, so a delay would take from the rate.
    wire.SetChannelAttribute("Delay", ns.TimeValue(ns.NanoSeconds(0)))
    into = connect(ns, wire, talker, first)
    middle = connect(ns, wire, first, second)
    out = connect(ns, wire, second, listener)
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
    return addresses.Assign(cards).GetAddress(1)


def routed(ns: Any, nodes: Any) -> Any:
    """Join talker, two routers and listener point to point; return the listener's address."""
    wire = ns.PointToPointHelper()
    wire.SetDeviceAttribute("DataRate", ns.StringValue("1Gbps"))
    wire.SetChannelAttribute("Delay", ns.TimeValue(ns.NanoSeconds(1000)))
    ns.InternetStackHelper().Install(nodes)
    addresses = ns.Ipv4AddressHelper()
    for number in range(3):
        devices = connect(ns, wire, nodes.Get(number), nodes.Get(number + 1))
        addresses.SetBase(ns.Ipv4Address(f"10.0.{number}.0"), ns.Ipv4Mask("255.255.255.0"))
        interfaces = addresses.Assign(devices)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    return interfaces.GetAddress(1)


HEADERS = {"bridged": 14 + 20 + 8 + 4, "routed": 2 + 20 + 8}
"""Bytes of a frame besides its payload: Ethernet with FCS or PPP, IPv4, UDP."""


def build(ns: Any, packets: int, options: argparse.Namespace) -> Any:
    """Return the application that counts, in a network that is ready to run."""
    nodes = ns.NodeContainer()
    nodes.Create(4)
    address = {"bridged": bridged, "routed": routed}[options.network](ns, nodes)
    serving = ns.UdpServerHelper(9).Install(nodes.Get(3))
    serving.Start(ns.Seconds(0))
    client = ns.UdpClientHelper(address.ConvertTo(), 9)
    payload = options.frame_bytes - HEADERS[options.network]
    client.SetAttribute("PacketSize", ns.UintegerValue(payload))
    # One packet ahead of all others, so that addresses are resolved when these come.
    client.SetAttribute("MaxPackets", ns.UintegerValue(1))
    client.Install(nodes.Get(0)).Start(ns.Seconds(FIRST_SEND_S / 2))
    client.SetAttribute("MaxPackets", ns.UintegerValue(packets - 1))
    client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(options.interval_ns)))
    client.Install(nodes.Get(0)).Start(ns.Seconds(FIRST_SEND_S))
    ns.Simulator.Stop(ns.Seconds(FIRST_SEND_S + 1 + packets * options.interval_ns / 1e9))
    return serving.Get(0).GetObject[ns.UdpServer]()


def run(ns: Any, packets: int, options: argparse.Namespace) -> dict[str, float | int | str]:
    """Simulate so many packets and return what is printed."""
    server = build(ns, packets, options)
    started = time.process_time()
    ns.Simulator.Run()
    seconds = time.process_time() - started
    delivered = int(server.GetReceived())
    ns.Simulator.Destroy()
    return {
        "packets": packets,
        "delivered": delivered,
        "seconds": seconds,
        "version": importlib.metadata.version("ns3"),
    }


def main() -> None:
    """Run once for each number of packets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packets", type=int, nargs="+", help="packets of each run, at least 2")
    parser.add_argument("--interval-ns", type=int, default=750)
    parser.add_argument("--frame-bytes", type=int, default=64)
    parser.add_argument("--network", choices=HEADERS, default="bridged")
    options = parser.parse_args()
    if min(options.packets) < 2:
        parser.error("give at least 2 packets: the first one resolves the addresses")
    from ns import ns  # noqa: PLC0415 - so that --help works without the bindings

    for packets in options.packets:
        print(json.dumps(run(ns, packets, options)), flush=True)


if __name__ == "__main__":
    main()
