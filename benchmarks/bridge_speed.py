"""How fast the software bridge forwards, beside dpdk-testpmd and the kernel's bridge.

One namespace has two veth ports, and what forwards between them takes turns round by round: the
software bridge with best effort, the same with credit and with gates that are closed for a
hundredth of each millisecond, dpdk-testpmd in its modes ``io`` and ``mac`` with the same port
driver, and the kernel's bridge. A packet generator on one side (trafgen of netsniff-ng) sends as
fast as it can, frames are counted where they come out; then our talker sends a thousand datagrams a
second, whose one-way latency is taken::

    python benchmarks/bridge_speed.py --rounds 3 --seconds 2

Printed are medians over rounds: of frames delivered and offered a second, of each round's ratio to
testpmd's ``io`` and of shaping to best effort, and of P50 and P99.9 of latency from the write to
the kernel's receive stamp. Generator and forwarder share the machine, so only comparisons mean
anything; where all that is offered is delivered, the generator was the limit. The bridge has three
threads, testpmd one that forwards: with fewer than four processors those that poll all the time
share them with the generator, and any other load on the machine costs a polling bridge most. So
best effort and shaping are compared with threads that sleep between two looks too. dpdk-testpmd is
of Debian's package dpdk-dev, without which its rows are left out.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.experiments.shaping.log import network_latency_us
from tsnrepro.native import streams
from tsnrepro.native.bridge import tsn_bridge
from tsnrepro.native.bridge.settings_file import BridgeSettings, PortSettings, Shaper, command
from tsnrepro.native.streams.command import READY, Pacing, StopCondition, listener, talker
from tsnrepro.native.streams.log import read_listener_log
from tsnrepro.testbeds.emulated.namespace import NamespaceHost

SIZES = (64, 1518)
PORTS = ("p0", "p1")
ADDRESSES = {"sender": "10.0.0.1", "listener": "10.0.0.2"}
MACS = {"sender": "02:00:00:00:01:01", "listener": "02:00:00:00:01:02"}
UDP_PORT, INTERVAL_NS = 5005, 1_000_000
# Ethernet, IPv4 and UDP headers and the check sequence.
HEADERS_BYTES = 46
# What the bridge sleeps as a switch of the experiment shaping.
SLEEP_US = 200
# Frames go at any rate that the machine can: the line is no limit.
LINE_MBPS = 100_000
FAST = {"rate_mbps": LINE_MBPS, "ahead_us": 1000, "queue_bytes": 1_000_000}
ALL = GateWindow(open_classes=[*range(8)], interval_ns=990_000)
REST = GateWindow(open_classes=[7], interval_ns=10_000)
SHAPED = PortSettings(
    **FAST, gates=GateControlList(entries=[ALL, REST]), shapers={5: Shaper(LINE_MBPS / 2)}
)


def run(host, *argv):
    done = subprocess.run(host.enter(list(argv)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def cable(one, port, other):
    """Plug a cable between a port of one host and eth0 of another."""
    near = ["name", port, "netns", str(one.pid)]
    far = ["name", "eth0", "netns", str(other.pid)]
    subprocess.run(["ip", "link", "add", *near, "type", "veth", "peer", *far], check=True)
    for host, device in ((one, port), (other, "eth0")):
        run(host, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
        run(host, "ip", "link", "set", device, "up")


def inside(host, argv):
    """Return a command as one of a host's network namespace, which a signal reaches directly."""
    enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/proc/{host.pid}/ns/net"]
    return [*enter, *argv]


@contextmanager
def started(host, argv, ready, **options):
    """Run a forwarder until the block ends; it is ready when it has said so."""
    argv = inside(host, argv)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **options)
    try:
        if not any(ready in line for line in iter(process.stdout.readline, "")):
            raise SystemExit(f"{' '.join(argv)} did not start")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@contextmanager
def software(host, folder, port, sleep_us=0):
    path = folder / "settings"
    path.write_text(BridgeSettings(port, sleep_us=sleep_us).text())
    with started(host, command(str(tsn_bridge()), str(path), PORTS), "ready"):
        yield


@contextmanager
def testpmd(host, folder, mode):
    vdevs = [
        f"--vdev=net_af_packet{number},iface={port},blocksz=4096,framesz=2048,framecnt=1024,"
        "qdisc_bypass=1"
        for number, port in enumerate(PORTS)
    ]
    eal = ["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "256", *vdevs]
    # Its input stays open: at the end of it testpmd ends.
    argv = ["dpdk-testpmd", *eal, "--lcores=0,1", "--", f"--forward-mode={mode}", "--auto-start"]
    # Mode mac writes the next station's address into each frame.
    peers = [f"--eth-peer={number},{mac}" for number, mac in enumerate(MACS.values())]
    argv = ["stdbuf", "-oL", *argv, "--total-num-mbufs=16384", *peers]
    with started(
        host,
        [*argv, "--interactive"],
        "packet forwarding - ports=",
        stdin=subprocess.PIPE,
        cwd=folder,
    ):
        yield


@contextmanager
def kernel(host, folder, ports=PORTS):
    run(host, "ip", "link", "add", "br0", "type", "bridge")
    for port in ports:
        run(host, "ip", "link", "set", port, "master", "br0")
    run(host, "ip", "link", "set", "br0", "up")
    time.sleep(1.2)  # until its ports forward
    yield
    run(host, "ip", "link", "del", "br0")


FORWARDERS = {
    "bridge, best effort": lambda host, folder: software(host, folder, PortSettings(**FAST)),
    "bridge, gates and credit": lambda host, folder: software(host, folder, SHAPED),
    "bridge, sleeping, best effort": lambda host, folder: software(
        host, folder, PortSettings(**FAST), sleep_us=SLEEP_US
    ),
    "bridge, sleeping, gates and credit": lambda host, folder: software(
        host, folder, SHAPED, sleep_us=SLEEP_US
    ),
    "testpmd io": lambda host, folder: testpmd(host, folder, "io"),
    "testpmd mac": lambda host, folder: testpmd(host, folder, "mac"),
    "kernel's bridge": kernel,
}
# What a forwarder's frames a second are told as a share of, but for testpmd's.
BESIDE = {
    "bridge, gates and credit": "bridge, best effort",
    "bridge, sleeping, gates and credit": "bridge, sleeping, best effort",
}


def frame_file(folder, size):
    """Write what trafgen sends: a broadcast, tagged with PCP 5, of so many bytes with FCS."""
    path = folder / f"frame{size}"
    head = [*[0xFF] * 6, *[2, 0, 0, 0, 0, 1], 0x81, 0x00, 0xA0, 0x0A, 0x88, 0xB5]
    body = ", ".join(f"0x{byte:02x}" for byte in head)
    path.write_text(f"{{ {body}, fill(0x00, {size - 4 - len(head)}) }}\n")
    return path


def packets(host, direction):
    return int(run(host, "cat", f"/sys/class/net/eth0/statistics/{direction}_packets"))


def delivered(sender, listener, path, seconds):
    """Return the frames a second that come out, and that the generator sends meanwhile."""
    argv = ["trafgen", "--conf", str(path), "--dev", "eth0", "--cpus", "1", "--qdisc-path"]
    generator = subprocess.Popen(
        sender.enter(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(0.7)
        began, first = time.monotonic(), (packets(listener, "rx"), packets(sender, "tx"))
        time.sleep(seconds)
        last, ended = (packets(listener, "rx"), packets(sender, "tx")), time.monotonic()
    finally:
        run(sender, "pkill", "trafgen")  # in the sender's own process namespace
        generator.wait()
    return tuple((b - a) / (ended - began) for a, b in zip(first, last, strict=True))


def give_address(host, name):
    """Give a host its addresses, and the other's."""
    (other,) = {*ADDRESSES} - {name}
    run(host, "ip", "link", "set", "eth0", "address", MACS[name])
    run(host, "ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
    # Where frames pass through a program, nobody fills in checksums later.
    run(host, "ethtool", "-K", "eth0", "tx", "off")
    known = [ADDRESSES[other], "lladdr", MACS[other], "dev", "eth0", "nud", "permanent"]
    run(host, "ip", "neighbour", "replace", *known)


def latencies_us(sender, receiver, path, size, seconds):
    """Return the latencies of datagrams whose frames have so many bytes."""
    receive = listener(
        str(streams.listener()), [UDP_PORT], StopCondition(), log=str(path), timestamps="software"
    )
    send = talker(
        str(streams.talker()),
        ADDRESSES["listener"],
        UDP_PORT,
        Pacing(INTERVAL_NS),
        StopCondition(count=round(seconds * 1e9 / INTERVAL_NS)),
        payload_bytes=size - HEADERS_BYTES,
    )
    with started(receiver, receive, READY):
        run(sender, *send)
        time.sleep(0.1)  # the last are on their way
    return network_latency_us(read_listener_log(path.read_bytes()))


@dataclass
class Found:
    """What the rounds showed of a forwarder, a value a round."""

    frames: list = field(default_factory=list)
    offered: list = field(default_factory=list)
    p50_us: list = field(default_factory=list)
    p999_us: list = field(default_factory=list)


def measure(rounds, seconds, sizes):
    names = [n for n in FORWARDERS if shutil.which("dpdk-testpmd") or "testpmd" not in n]
    results = {(size, name): Found() for size in sizes for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sender, switch, receiver = map(NamespaceHost, ("sender", "switch", "listener"))
        try:
            cable(switch, PORTS[0], sender)
            cable(switch, PORTS[1], receiver)
            give_address(sender, "sender")
            give_address(receiver, "listener")
            for _ in range(rounds):
                for size in sizes:
                    path = frame_file(folder, size)
                    for name in names:
                        found = results[size, name]
                        with FORWARDERS[name](switch, folder):
                            out, offered = delivered(sender, receiver, path, seconds)
                            times = latencies_us(sender, receiver, folder / "log", size, seconds)
                        found.frames.append(out)
                        found.offered.append(offered)
                        found.p50_us.append(np.quantile(times, 0.5))
                        found.p999_us.append(np.quantile(times, 0.999))
        finally:
            for host in (sender, switch, receiver):
                host.close()
    return results


def share_of(found, beside):
    """Return the median of each round's ratio of frames a second, as text."""
    if beside is None:
        return ""
    pairs = zip(found.frames, beside.frames, strict=True)
    return f"{statistics.median(own / other for own, other in pairs):.2f}"


def show(results):
    print(
        f"{'bytes':>5}  {'forwarder':<34} {'frames/s':>10} {'offered/s':>10}  {'of testpmd io':>13}"
        f"  {'of best effort':>14}  {'P50 us':>8} {'P99.9 us':>9}"
    )
    for (size, name), found in results.items():
        of_testpmd = share_of(found, results.get((size, "testpmd io")))
        of_best_effort = share_of(found, results.get((size, BESIDE.get(name))))
        out, sent, p50, p999 = map(
            statistics.median, (found.frames, found.offered, found.p50_us, found.p999_us)
        )
        print(
            f"{size:>5}  {name:<34} {out:>10,.0f} {sent:>10,.0f}  {of_testpmd:>13}"
            f"  {of_best_effort:>14}  {p50:>8.1f} {p999:>9.1f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="with FCS")
    options = parser.parse_args()
    if os.geteuid():
        raise SystemExit("it needs root, for network namespaces")
    show(measure(options.rounds, options.seconds, options.sizes))


if __name__ == "__main__":
    main()
