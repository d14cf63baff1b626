"""A PC with network ports for tests of the bench: namespaces with veth devices as its ports.

What a campaign does there runs in a process of its own, as a user's would, and may be killed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from racks import AroundPc

from tsnrepro.testbeds.emulated.namespace import NamespaceHost

NAME = "bench-of-a-test"
TALKER_PORTS, LISTENER_PORTS = ("enp3s0", "enp5s0"), ("enp4s0", "enp6s0")
PRELUDE = """\
import json, sys
from pathlib import Path
from tsnrepro.config import BenchSettings, parse
from tsnrepro.testbeds.bench.testbed import BenchTestbed
settings = parse(BenchSettings, json.loads(sys.argv[1]), "a bench of a test")
testbed = BenchTestbed(settings, sys.argv[2], "a test", Path(sys.argv[3]))
"""


# The kernel takes a VLAN tag out of a frame before such a socket has it.
POOR_DEVICE = """\
import select, socket, sys
ports = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in sys.argv[1:]]
for port, name in zip(ports, sys.argv[1:]):
    port.bind((name, 3))
print("ready", flush=True)
while True:
    for port in select.select(ports, [], [])[0]:
        frame, (_, _, kind, *_) = port.recvfrom(4096)
        if kind != socket.PACKET_OUTGOING and len(frame) <= 1514:
            ports[ports[0] is port].send(frame)
"""

# Large frames only: what tools agree on before a test passes.
BAD_DEVICE = (
    POOR_DEVICE.replace(
        "len(frame) <= 1514:",
        "not (len(frame) > 1000 and {spoils}):",
    )
    .replace("import select", "import time, itertools, select")
    .replace("while True:", "count = itertools.count()\nwhile True:")
)
# Large frames wait in a queue and leave at a rate; where the queue is full, they are dropped.
SLOW_FRAMES_PER_S, SLOW_QUEUE_FRAMES = 50, 20
SLOW_DEVICE = (
    POOR_DEVICE.replace("import select", "import time, select").partition("while True:")[0]
    + f"""
waiting, due = [], 0
while True:
    left = max(0, due - time.monotonic()) if waiting else None
    for port in select.select(ports, [], [], left)[0]:
        frame, (_, _, kind, *_) = port.recvfrom(4096)
        to = ports[ports[0] is port]
        if kind != socket.PACKET_OUTGOING and len(frame) <= 1000:
            to.send(frame)
        elif kind != socket.PACKET_OUTGOING and len(waiting) < {SLOW_QUEUE_FRAMES}:
            due = due if waiting else time.monotonic() + {1 / SLOW_FRAMES_PER_S}
            waiting.append((to, frame))
    if waiting and time.monotonic() >= due:
        to, frame = waiting.pop(0)
        to.send(frame)
        due += {1 / SLOW_FRAMES_PER_S}
"""
)
BAD_DEVICES = {
    "loses": BAD_DEVICE.format(spoils="next(count) % 10 == 0"),
    "is slow": SLOW_DEVICE,
    "is mute": BAD_DEVICE.format(spoils="True"),
}


class Pc:
    """A PC with one or two ports each for talker and listener.

    Parameters
    ----------
    folder
        For the journal.
    device
        ``none`` is a cable between each two, else a bridge of the kernel joins them.
    paths
        Number of ports of each side.
    """

    def __init__(self, folder: Path, device: str, paths: int = 1) -> None:
        self.folder, self.device, self.paths = folder, device, paths
        self.ports = [*TALKER_PORTS[:paths], *LISTENER_PORTS[:paths]]

    def __enter__(self) -> "Pc":
        self.space = NamespaceHost("pc")
        # Outside of the PC, so that no port of its is the device's.
        self.between = NamespaceHost("device")
        for path in range(self.paths):
            one, other = TALKER_PORTS[path], LISTENER_PORTS[path]
            if self.device == "none":
                self.run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
            else:
                self._bridge(f"br{path}", one, other)
        for port in self.ports:
            # As drivers of cards have it.
            self.run("ethtool", "-K", port, "tx-tcp-mangleid-segmentation", "off")
            self.run("ip", "link", "set", port, "up")
        return self

    def _bridge(self, name: str, *ports: str) -> None:
        at = str(self.between.pid)
        self.at_device("ip", "link", "add", name, "type", "bridge", "mcast_snooping", "0")
        for port in ports:
            peer = f"to-{port}"
            end = ["peer", "name", peer, "netns", at]
            argv = ["ip", "link", "add", "name", port, "netns", str(self.space.pid)]
            subprocess.run([*argv, "type", "veth", *end], check=True)
            # Like a real switch, it sends nothing of its own.
            self.at_device("sysctl", "-qw", f"net.ipv6.conf.{peer}.disable_ipv6=1")
            self.at_device("ip", "link", "set", peer, "mtu", "1600", "master", name, "up")
        self.at_device("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
        self.at_device("ip", "link", "set", name, "up")

    def __exit__(self, *_) -> None:
        self.space.close()
        self.between.close()

    def run(self, *argv: str) -> str:
        """Run a command on the PC and return its output."""
        return _run(self.space, argv)

    def at_device(self, *argv: str) -> str:
        """Run a command in the device between the ports."""
        return _run(self.between, argv)

    @contextmanager
    def poor_device(self, program: str = POOR_DEVICE) -> Iterator[None]:
        """Forward by a program, by default one that takes VLAN tags off and drops long frames."""
        self.at_device("ip", "link", "del", "br0")
        names = [f"to-{port}" for port in self.ports]
        argv = self.between.enter([sys.executable, "-c", program, *names])
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()
            process.wait()

    def document(self, **changes) -> dict:
        """Return the testbed's file."""
        ports = {
            "talker": [*TALKER_PORTS[: self.paths]],
            "listener": [*LISTENER_PORTS[: self.paths]],
        }
        kind = {"kind": "bench", "device": self.device, "virtual_ports": True}
        return {**kind, "ports": ports, **changes}

    def start(self, body: str, **changes) -> subprocess.Popen:
        """Start a Python program with the bench as ``testbed``; see ``PRELUDE``."""
        arguments = [json.dumps(self.document(**changes)), NAME, str(self.folder)]
        return subprocess.Popen(
            self.space.enter([sys.executable, "-c", PRELUDE + body, *arguments]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # The test holds this machine's lock.
            env={**os.environ, "TMPDIR": str(self.folder)},
        )

    def python(self, body: str, **changes) -> tuple[str, str]:
        """Run such a program to its end; return its output and its errors."""
        return self.start(body, **changes).communicate()

    def state(self) -> dict:
        """Return the state of the PC, seen without the code under test."""
        links = json.loads(self.run("ip", "-j", "-d", "link", "show"))
        return {
            "links": {
                link["ifname"]: (link["address"], link["mtu"], sorted(link["flags"]))
                for link in links
            },
            "offloads": {port: self.run("ethtool", "-k", port) for port in self._there(links)},
            "queues": sorted(self.run("tc", "qdisc", "show").splitlines()),
            "ipv6": {
                port: self.run("sysctl", "-n", f"net.ipv6.conf.{port}.disable_ipv6")
                for port in self._there(links)
            },
            "namespaces": self.run("ip", "netns", "list"),
            "journals": sorted(path.name for path in self.folder.glob("*.json")),
        }

    def _there(self, links: list[dict]) -> list[str]:
        return sorted({link["ifname"] for link in links} & {*self.ports})


def write_repository(pc: "Pc | AroundPc", name: str = NAME) -> None:
    """Write the bench and a campaign into a repository of the test's own."""
    for part in ("testbeds", "campaigns"):
        (pc.folder / "config" / part).mkdir(parents=True)
    (pc.folder / f"config/testbeds/{name}.yaml").write_text(json.dumps(pc.document()))
    (pc.folder / "config/campaigns/short.yaml").write_text(CAMPAIGN)
    (pc.folder / "data").mkdir()


def _run(space: NamespaceHost, argv: tuple[str, ...]) -> str:
    done = subprocess.run(space.enter([*argv]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout


@contextmanager
def unchanged(pc: Pc) -> Iterator[None]:
    """See that the PC is as before after a block."""
    before = pc.state()
    yield
    assert pc.state() == before


CAMPAIGN = """\
description: One trial each
loss: {repetitions: 1, parts: [{payload_bytes: 1472, rates_mbps: [100], duration_s: 1}]}
latency: {repetitions: 1, payloads_bytes: [1472], duration_s: 1}
rfc2544:
  throughput:
    frames_bytes: [512]
    payloads_bytes: []
    methods: [binary-search]
    binary_search: {steps: 3, duration_s: 0.1}
"""
# As `snakemake` does: plan, measure, analyse. The repository is one of the test's own.
MEASURE = """\
import shutil
from tsnrepro.config import files
from tsnrepro.experiments.latency import analysis as latency
from tsnrepro.experiments.loss import analysis as loss
from tsnrepro.experiments.rfc2544 import analysis as rfc2544
from tsnrepro.records.store import recorded_trials
from tsnrepro.results import testbed as testbed_facts
from tsnrepro.results.output import RunOutput
from tsnrepro.runner.run import run_experiment
from tsnrepro.testbeds.hosts import rollback

folder = Path(sys.argv[3])
files.root = rollback.root = lambda: folder
analyses = {
    "loss": lambda output: loss.analyse(output.trials, 1000.0),
    "latency": lambda output: latency.analyse(output.trials, latency.series(output.run)),
    "rfc2544": lambda output: rfc2544.analyse(list(recorded_trials(output.run))),
}
found = {}
for name, analyse in analyses.items():
    run = folder / "results" / sys.argv[2] / "short" / name / "run.json"
    run.parent.mkdir(parents=True)
    manifest = run_experiment(name, sys.argv[2], "short", str(run))
    output = RunOutput(run)
    results = analyse(output)
    found[name] = {
        "records": list(recorded_trials(output.run)),
        "label": testbed_facts.label_of(run),
    }
print("RESULT" + json.dumps(found, default=str))
"""


# Sends that many frames; returns those over each member path, those eliminated, those delivered.
SENT = """\
from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.testbeds.quiescence import settle
from tsnrepro.tools.frerctl import StreamFilter
from tsnrepro.tools.snapshot import CounterDifferences
from tsnrepro.native import streams
from tsnrepro.native.streams.command import Pacing, StopCondition, talker

def sent(count):
    before = testbed.snapshot()
    argv = talker(str(streams.talker()), testbed.address(LISTENER), 5202, Pacing(500_000),
                  StopCondition(count, 5), payload_bytes=256)
    testbed.hosts[TALKER].run(argv, deadline_s=10).check()
    settle(testbed, 256)
    found = CounterDifferences(before, testbed.quiescent_snapshot())
    over = [found.port("sw2", m, "in").stream_frames for m in testbed.member_ports()]
    return over, found.at("sw2", "eliminated"), found.port(LISTENER, "eth0", "in").stream_frames
"""
