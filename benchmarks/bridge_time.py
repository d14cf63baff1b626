"""What a bridge on the way costs the time that ptp4l carries over it.

Two namespaces, a leader and a follower, hang on a bridge's ports of 100 Mb/s, and a third that may
load the port to the follower beyond what it can send. Bridges take turns: the software bridge,
which sends PTP's frames before all others, and the kernel's with a token bucket for a line::

    python benchmarks/bridge_time.py --rounds 3 --seconds 20

ptp4l runs in software stamps and sets no clock. Both namespaces have the machine's one clock, so
the true offset is 0, and what the follower finds is the error of the way: P50 and the largest of
its absolute values, a value a second. Without load no bridge is transparent either: none of them
corrects the time that frames stay in it.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bridge_speed import SLEEP_US, cable, inside, kernel, run, started

from tsnrepro.native import streams
from tsnrepro.native.bridge import tsn_bridge
from tsnrepro.native.bridge.settings_file import BridgeSettings, PortSettings, command
from tsnrepro.native.streams.command import READY, Pacing, StopCondition, listener, talker
from tsnrepro.testbeds.emulated.namespace import NamespaceHost

PORTS = {"p0": "leader", "p1": "follower", "p2": "loader"}
LINE_MBPS, LOAD_MBPS = 100, 120
QUEUE_BYTES = 262144
LOAD_PORT, LOAD_BYTES = 5006, 1460
SETTLE_SECONDS = 5
_OFFSET = re.compile(r"master offset\s+(-?\d+)")
_CONFIGURATION = """\
[global]
network_transport L2
delay_mechanism E2E
time_stamping software
free_running 1
freq_est_interval 0
summary_interval -3
logSyncInterval -3
logMinDelayReqInterval -3
logAnnounceInterval 0
tx_timestamp_timeout 50
priority1 {priority}
uds_address {folder}/{name}
use_syslog 0
verbose 1
[eth0]
"""


@contextmanager
def software(host, folder):
    """Run the software bridge as the experiment shaping does on few processors."""
    path = folder / "settings"
    port = PortSettings(rate_mbps=LINE_MBPS, queue_bytes=QUEUE_BYTES, ahead_us=50)
    path.write_text(BridgeSettings(port, sleep_us=SLEEP_US, realtime=True).text())
    with started(host, command(str(tsn_bridge()), str(path), [*PORTS]), "ready"):
        yield


@contextmanager
def kernels(host, folder):
    """Run the kernel's bridge, its port to the follower held to the same rate."""
    bucket = ["rate", f"{LINE_MBPS}mbit", "burst", "4000", "limit", str(QUEUE_BYTES)]
    with kernel(host, folder, [*PORTS]):
        run(host, "tc", "qdisc", "replace", "dev", "p1", "root", "tbf", *bucket)
        yield
        run(host, "tc", "qdisc", "delete", "dev", "p1", "root")


BRIDGES = {"software bridge": software, "kernel's bridge": kernels}


@contextmanager
def carried(hosts, folder):
    """Run ptp4l on leader and follower; yields the follower's output."""
    with ExitStack() as stack:
        logs = {}
        for name, priority in (("leader", 100), ("follower", 200)):
            path, logs[name] = folder / f"{name}.conf", folder / f"{name}.log"
            text = _CONFIGURATION.format(priority=priority, folder=folder, name=name)
            path.write_text(text)
            with logs[name].open("w") as log:
                argv = ["ptp4l", "-f", str(path), *(["-s"] if name == "follower" else [])]
                entered = inside(hosts[name], argv)
                process = subprocess.Popen(entered, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
        yield logs["follower"]


@contextmanager
def loaded(hosts, seconds):
    """Send more to the follower than its port can."""
    receive = listener(str(streams.listener()), [LOAD_PORT], StopCondition())
    pacing = Pacing.at_rate(LOAD_MBPS, LOAD_BYTES)
    stop = StopCondition(seconds=seconds)
    send = talker(
        str(streams.talker()), "10.0.0.2", LOAD_PORT, pacing, stop, payload_bytes=LOAD_BYTES
    )
    with started(hosts["follower"], receive, READY):
        process = subprocess.Popen(inside(hosts["loader"], send), stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def offsets_ns(log):
    return [abs(int(found)) for found in _OFFSET.findall(log.read_text())]


def measure(rounds, seconds):
    results = {(bridge, load): [] for load in ("idle", "loaded") for bridge in BRIDGES}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        switch = NamespaceHost("switch")
        stack.callback(switch.close)
        hosts = {}
        for number, (port, name) in enumerate(PORTS.items(), 1):
            hosts[name] = NamespaceHost(name)
            stack.callback(hosts[name].close)
            cable(switch, port, hosts[name])
            run(hosts[name], "ip", "address", "add", f"10.0.0.{number}/24", "dev", "eth0")
        for _ in range(rounds):
            for name, bridge in BRIDGES.items():
                with bridge(switch, folder), carried(hosts, folder) as log:
                    # The loader learns the follower's address, and the bridge where it is.
                    run(hosts["loader"], "ping", "-c", "1", "-w", "5", "10.0.0.2")
                    time.sleep(SETTLE_SECONDS + seconds)
                    idle, said = offsets_ns(log), log.read_text()[-500:]
                    with loaded(hosts, SETTLE_SECONDS + seconds + 1):
                        time.sleep(SETTLE_SECONDS)
                        before = len(offsets_ns(log))
                        time.sleep(seconds)
                        under_load = offsets_ns(log)[before:]
                if not idle:
                    raise SystemExit(f"ptp4l found no offset through the {name}: {said}")
                results[name, "idle"].append(idle[-seconds:])
                results[name, "loaded"].append(under_load)
    return results


def show(results):
    print(f"{'bridge':<18} {'load':<7} {'values':>7} {'|offset| P50 us':>16} {'largest us':>11}")
    for (bridge, load), rounds in results.items():
        found = [offset / 1000 for each in rounds for offset in each]
        told = f"{statistics.median(found):>16.1f} {max(found):>11.1f}" if found else "no offset"
        print(f"{bridge:<18} {load:<7} {len(found):>7} {told}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    if os.geteuid():
        raise SystemExit("it needs root, for network namespaces")
    show(measure(options.rounds, options.seconds))


if __name__ == "__main__":
    main()
