"""Whether a device has the same throughput and latency on a bench as emulated.

    python benchmarks/bench_as_emulated.py FOLDER [PAIRS]

Each pair measures RFC 2544 throughput and latency twice, in random order, without FRER: on the
testbed `emulated` with narrow member links, and on a bench whose ports are veth devices of a
namespace, with a kernel bridge between them that is as narrow, by the same token bucket and queue.
The device decides, not the machine: its 20 Mb/s are a small part of what the generators can
send, and its queue covers 50 ms in which the machine does not run them. Reports each pair, and the
ratios with the verdict of an equivalence test within pairs. FOLDER has the records; the same folder
and more PAIRS add to them. Exit status 1 unless both are equivalent.
"""

import json
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tsnrepro.config import files
from tsnrepro.records.store import recorded_trials
from tsnrepro.results.output import RunOutput
from tsnrepro.runner.run import run_experiment
from tsnrepro.stats.equivalence import Verdict, equivalence
from tsnrepro.testbeds.emulated.namespace import NamespaceHost
from tsnrepro.testbeds.hosts import rollback
from tsnrepro.tools import ethtool, qdisc

PAIRS = 6
MARGIN_PERCENT = 3
RATE_MBPS, BURST_BYTES, QUEUE_BYTES = 20, 64_000, 131_072
TALKER_PORT, LISTENER_PORT = "port0", "port1"
COMMON = {"queue_bytes": QUEUE_BYTES, "burst_bytes": BURST_BYTES}
TESTBEDS = {
    "as-emulated": {
        "kind": "emulated",
        "trace_drops": False,
        "member_link_rate_mbps": RATE_MBPS,
        **COMMON,
    },
    "on-a-bench": {
        "kind": "bench",
        "device": "bridge",
        "virtual_ports": True,
        "ports": {"talker": [TALKER_PORT], "listener": [LISTENER_PORT]},
        **COMMON,
    },
}
CAMPAIGN = "pairs"
EXPERIMENTS = ("rfc2544", "latency")
UNITS = {"throughput": "Mb/s of payload", "latency": "median in us"}


def campaign(pairs: int) -> dict:
    """Return the campaign of so many pairs."""
    search = {"steps": 16, "duration_s": 1, "resolution_mbps": 0.1}
    throughput = {
        "configurations": ["control"],
        "frames_bytes": [1518],
        "payloads_bytes": [],
        "methods": ["binary-search"],
        "repetitions": pairs,
        "binary_search": search,
    }
    latency = {"configurations": ["control"], "repetitions": pairs, "payloads_bytes": [1472]}
    return {
        "description": "A device on a bench and as emulated",
        "rfc2544": {"throughput": throughput},
        "latency": latency | {"duration_s": 2},
    }


def write(folder: Path, pairs: int) -> None:
    """Write the testbeds and the campaign; JSON is YAML."""
    documents = {f"testbeds/{name}": document for name, document in TESTBEDS.items()}
    for name, document in (documents | {f"campaigns/{CAMPAIGN}": campaign(pairs)}).items():
        path = folder / "config" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), encoding="utf-8")
    (folder / "data").mkdir(exist_ok=True)


def run_of(folder: Path, testbed: str, experiment: str) -> Path:
    """Return the manifest of a run."""
    return folder / "results" / testbed / CAMPAIGN / experiment / "run.json"


def measure(folder: Path, testbed: str) -> None:
    """Measure what a testbed lacks, in a process of the PC's namespace."""
    files.root = rollback.root = lambda: folder
    for experiment in EXPERIMENTS:
        run = run_of(folder, testbed, experiment)
        run.parent.mkdir(parents=True, exist_ok=True)
        run_experiment(experiment, testbed, CAMPAIGN, str(run))


def cable(pc: NamespaceHost, device: NamespaceHost) -> None:
    """Make the PC's ports, and the device between them."""

    def run(*argv: str, at: NamespaceHost = device) -> None:
        subprocess.run(at.enter([*argv]), check=True, stdout=subprocess.DEVNULL)

    run("ip", "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
    for port in (TALKER_PORT, LISTENER_PORT):
        end = f"to-{port}"
        # From outside, where both ends' processes are seen.
        ends = [["name", name, "netns", str(at.pid)] for name, at in ((port, pc), (end, device))]
        argv = ["ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1]]
        subprocess.run(argv, check=True)
        run("ip", "link", "set", port, "up", at=pc)
        run(*ethtool.disable_offloads(end))
        run(*qdisc.tbf(end, RATE_MBPS, burst_bytes=BURST_BYTES, limit_bytes=QUEUE_BYTES))
        run("ip", "link", "set", end, "master", "bridge", "up")
    for name in ("all", "bridge"):
        run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
    run("ip", "link", "set", "bridge", "up")


def values(folder: Path, testbed: str) -> dict[str, list[float]]:
    """Return throughput (payload, Mb/s) and median latency (us) of each pair."""
    files.root = lambda: folder
    runs = {name: RunOutput(run_of(folder, testbed, name)) for name in EXPERIMENTS}
    searches = {
        document["repetition"]: document["values"]["results"]["binary_search"]["delivered"]
        for document in recorded_trials(runs["rfc2544"].run)
    }
    medians = runs["latency"].trials.set_index("repetition")["p50_us"].sort_index()
    throughput = [searches[each]["payload_mbps"] for each in sorted(searches)]
    return {"throughput": throughput, "latency": [*medians]}


def measure_pair(folder: Path, pair: int) -> None:
    """Measure a pair, in random order; what is recorded is not measured again."""
    write(folder, pair)
    for testbed in random.sample([*TESTBEDS], len(TESTBEDS)):
        with closing(NamespaceHost("pc")) as pc, closing(NamespaceHost("device")) as device:
            cable(pc, device)
            argv = [sys.executable, __file__, str(folder), str(pair), testbed]
            subprocess.run(pc.enter(argv), check=True)


def report(folder: Path) -> bool:
    """Print the pairs and the verdicts; return whether all are of equivalence."""
    emulated, bench = (values(folder, testbed) for testbed in TESTBEDS)
    found = []
    for key, unit in UNITS.items():
        both = zip(bench[key], emulated[key], strict=True)
        pairs = "  ".join(f"{one:.2f}/{other:.2f}" for one, other in both)
        print(f"{key}, {unit}, bench/emulated: {pairs}")
        result = equivalence(bench[key], emulated[key], MARGIN_PERCENT, paired=True)
        by, what = result.difference, f"margin {MARGIN_PERCENT} %: {result.verdict}"
        print(f"{key}: {by.value:+.2f} % [{by.low:+.2f}, {by.high:+.2f}] (95 %), {what}")
        found.append(result.verdict)
    return all(verdict == Verdict.EQUIVALENT for verdict in found)


def main() -> int:
    """Measure and compare the pairs."""
    folder, pairs = Path(sys.argv[1]).resolve(), int((*sys.argv, PAIRS)[2])
    if sys.argv[3:]:
        measure(folder, sys.argv[3])
        return 0
    for pair in range(1, pairs + 1):
        measure_pair(folder, pair)
    return 0 if report(folder) else 1


if __name__ == "__main__":
    sys.exit(main())
