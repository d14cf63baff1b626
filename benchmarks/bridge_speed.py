"""How fast the software bridge forwards, beside dpdk-testpmd and the kernel's bridge.

One namespace has two veth ports, and what forwards between them takes turns round by round: the
software bridge with best effort, the same with gates and credit on every frame, dpdk-testpmd in its
modes ``io`` and ``mac`` with the same port driver, and the kernel's bridge. A packet generator on
one side (trafgen of netsniff-ng) sends as fast as it can, frames are counted where they come out::

    python benchmarks/bridge_speed.py --rounds 3 --seconds 2

Printed are medians over rounds of frames delivered and offered a second, and of each round's ratio
to testpmd's ``io``. Generator and forwarder share the machine, so only the ratios mean anything;
where all that is offered is delivered, the generator was the limit. dpdk-testpmd is of Debian's
package dpdk-dev, without which its rows are left out.
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
from pathlib import Path

from tsnrepro.bridge import build
from tsnrepro.bridge.words import BridgeSettings, PortSettings, Shaper, command
from tsnrepro.settings.shaping import GateControlList, GateWindow
from tsnrepro.testbed.namespace import NamespaceHost

SIZES = (64, 1518)
PORTS = ("p0", "p1")
# Frames go at any rate that the machine can: the line is no limit.
LINE_MBPS = 100_000
FAST = {"rate_mbps": LINE_MBPS, "ahead_us": 1000, "queue_bytes": 1_000_000}
ALL = GateWindow(open_classes=[*range(8)], interval_ns=900_000)
REST = GateWindow(open_classes=[7], interval_ns=100_000)
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


@contextmanager
def started(host, argv, ready, **options):
    """Run a forwarder until the block ends; it is ready when it has said so."""
    enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/proc/{host.pid}/ns/net"]
    process = subprocess.Popen([*enter, *argv], stdout=subprocess.PIPE, text=True, **options)
    try:
        if not any(ready in line for line in iter(process.stdout.readline, "")):
            raise SystemExit(f"{argv[0]} did not start")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@contextmanager
def software(host, folder, port):
    path = folder / "settings"
    path.write_text(BridgeSettings(port, sleep_us=0).text())
    with started(host, command(str(build.bridge()), str(path), PORTS), "ready"):
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
    argv = ["stdbuf", "-oL", *argv, "--total-num-mbufs=16384"]
    with started(
        host,
        [*argv, "--interactive"],
        "packet forwarding - ports=",
        stdin=subprocess.PIPE,
        cwd=folder,
    ):
        yield


@contextmanager
def kernel(host, folder):
    run(host, "ip", "link", "add", "br0", "type", "bridge")
    for port in PORTS:
        run(host, "ip", "link", "set", port, "master", "br0")
    run(host, "ip", "link", "set", "br0", "up")
    time.sleep(1.2)  # until its ports forward
    yield
    run(host, "ip", "link", "del", "br0")


FORWARDERS = {
    "bridge, best effort": lambda host, folder: software(host, folder, PortSettings(**FAST)),
    "bridge, gates and credit": lambda host, folder: software(host, folder, SHAPED),
    "testpmd io": lambda host, folder: testpmd(host, folder, "io"),
    "testpmd mac": lambda host, folder: testpmd(host, folder, "mac"),
    "kernel's bridge": kernel,
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


def measure(rounds, seconds, sizes):
    names = [n for n in FORWARDERS if shutil.which("dpdk-testpmd") or "testpmd" not in n]
    rates = {(size, name): [] for size in sizes for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sender, switch, listener = map(NamespaceHost, ("sender", "switch", "listener"))
        try:
            cable(switch, PORTS[0], sender)
            cable(switch, PORTS[1], listener)
            for _ in range(rounds):
                for size in sizes:
                    path = frame_file(folder, size)
                    for name in names:
                        with FORWARDERS[name](switch, folder):
                            rates[size, name].append(delivered(sender, listener, path, seconds))
        finally:
            for host in (sender, switch, listener):
                host.close()
    return rates


def show(rates):
    print(
        f"{'bytes':>5}  {'forwarder':<26} {'frames/s':>10} {'offered/s':>10}  {'of testpmd io':>13}"
    )
    for (size, name), values in rates.items():
        out, offered = ([pair[place] for pair in values] for place in (0, 1))
        beside = rates.get((size, "testpmd io"))
        ratio = ""
        if beside:
            pairs = zip(out, beside, strict=True)
            ratio = f"{statistics.median(own / other for own, (other, _) in pairs):.2f}"
        middle, sent = statistics.median(out), statistics.median(offered)
        print(f"{size:>5}  {name:<26} {middle:>10,.0f} {sent:>10,.0f}  {ratio:>13}")


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
