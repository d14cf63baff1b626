"""Sound outputs that were cut, doubled, mixed or changed in their units: refused, or the truth.

A file of which a part is left may have fewer packets. What nothing in a file can show is left out:
digits that its last number lacks, or rows without numbers that are there twice.
"""

import json
import random

import pytest
import tool_outputs as printed
from iperf3_writer import TcpTest, UdpTest
from reader_files import source_file, table
from test_imports_isochron import EPOCH_NS, times
from test_imports_isochron import printed as printed_packets

from tsnrepro.common.errors import TsnreproError
from tsnrepro.imports.readers import read_observations
from tsnrepro.imports.reading import DataFolder, read_file

SEEDS = 8
# Without the count of what was sent, the loss is that by gaps.
_TAIL_POINTS = 5


def delays_ns(rng):
    return [rng.randint(1000, 10**6) for _ in range(rng.randint(2, 12))]


def udp(rng):
    sent = tuple(rng.randint(200, 2000) for _ in range(rng.randint(1, 4)))
    lost = tuple(rng.randint(0, count // 3) for count in sent)
    streams, version = rng.choice([1, 1, 2, 4]), rng.choice([0, 1, 2, 3, 6, 7, 9, 10, 13, 17, 19])
    return UdpTest(1472, sent, lost, rng.randint(0, 9), streams, version, rng.random() < 0.3)


def tcp(rng):
    received = rng.randint(10**8, 10**9)
    return TcpTest(received, received + rng.randint(0, 10**7), rng.randint(0, 99))


def packets(rng):
    return [(EPOCH_NS + 10**7 * k, EPOCH_NS + 10**7 * k + d) for k, d in enumerate(delays_ns(rng))]


def isochron_report(rng):
    rows = [[number, *pair] for number, pair in enumerate(packets(rng), start=1)]
    if rng.random() < 0.5:
        rows[-1][2] = 0
    return printed_packets(rows)


def microseconds(rng):
    return [delay / 1000 for delay in delays_ns(rng)]


def csv_times(rng):
    return "tx,rx\n" + "".join(f"{sent},{received}\n" for sent, received in packets(rng))


ONE_WAY = {"latency_quantity": "one way"}
IPERF3, TCP = table("iperf3"), table("iperf3", "tcp")
SOCKPERF = table("sockperf", "latency")
CSV = table("times", "latency", times={"sent": "tx", "received": "rx", "unit": "ns"}, **ONE_WAY)
ISOCHRON = table("times", "latency", times=times().model_dump(exclude_none=True), **ONE_WAY)
WRITERS = {
    "iperf3 -u": (lambda rng: udp(rng).text(verbose=rng.random() < 0.5), IPERF3),
    "iperf3 -u --json": (lambda rng: json.dumps(udp(rng).document(), indent=1), IPERF3),
    "iperf3 -u --json-stream": (lambda rng: udp(rng).events(), IPERF3),
    "iperf3": (lambda rng: tcp(rng).text(verbose=rng.random() < 0.5), TCP),
    "iperf3 --json": (lambda rng: json.dumps(tcp(rng).document(), indent=1), TCP),
    "sockperf": (lambda rng: printed.sockperf_summary(microseconds(rng)), SOCKPERF),
    "sockperf log": (
        lambda rng: printed.sockperf_log(microseconds(rng), summary=rng.random() < 0.5),
        SOCKPERF,
    ),
    "isochron": (isochron_report, ISOCHRON),
    "times": (csv_times, CSV),
}


def lines(text):
    return text.splitlines(keepends=True)


def mixed(one, other, rng):
    waiting, found = [lines(one), lines(other)], []
    while any(waiting):
        part = rng.choice([part for part in waiting if part])
        found.append(part.pop(0))
    return "".join(found)


def gap(text, rng):
    whole = lines(text)
    first, last = sorted(rng.randint(0, len(whole)) for _ in range(2))
    return "".join(whole[:first] + whole[last:])


def other_unit(text, rng):
    units = ["usec", "Kbits", "Mbits", "Gbits", "KBytes", "MBytes", "GBytes", "bits/sec", " sec "]
    there = [unit for unit in units if unit in text] or ["\n"]
    others = [*units, "nsec", "msec", " min "] if len(there) > 1 else ["\n"]
    return text.replace(rng.choice(there), rng.choice(others), rng.choice([1, -1]))


DAMAGES = {
    "cut": lambda one, _, rng: one[: rng.randrange(len(one))],
    "beginning lost": lambda one, _, rng: one[rng.randrange(len(one)) :],
    "lines lost": lambda one, _, rng: gap(one, rng),
    "single lines lost": lambda one, _, rng: "".join(x for x in lines(one) if rng.random() < 0.6),
    "doubled": lambda one, *_: one + one,
    "two tests": lambda one, other, _: one + other,
    "mixed": mixed,
    "another unit": lambda one, _, rng: other_unit(one, rng),
}


def read(text, layout):
    """Return the results of a file's trials and their observations."""
    file = source_file(text)
    trials = read_file(DataFolder(file.path.parent, []), file, "t", layout, None).trials
    sources = [trial.source.get("observations") for trial in trials]
    observed = [read_observations(file, source).tolist() if source else [] for source in sources]
    return [(trial.result, seen) for trial, seen in zip(trials, observed, strict=True)]


def agrees(result, truth):
    by_gaps = "sent" not in result and "sent" in truth
    return all(
        name in truth
        and (
            value == truth[name]
            or (name == "loss_percent" and by_gaps and abs(value - truth[name]) < _TAIL_POINTS)
        )
        for name, value in result.items()
    )


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", WRITERS)
def test_damaged_outputs_are_refused_or_the_truth(kind, damage):
    write, layout = WRITERS[kind]
    for seed in range(SEEDS):
        rng = random.Random(f"{kind} {damage} {seed}")
        one, other = write(rng), write(rng)
        ((whole, observed),) = read(one, layout)
        truths = [whole, read(other, layout)[0][0]]
        damaged = DAMAGES[damage](one, other, rng)
        try:
            found = read(damaged, layout)
        except TsnreproError:
            continue
        for result, seen in found:
            part = seen and set(seen) <= set(observed) and len(seen) <= len(observed)
            assert part or any(agrees(result, truth) for truth in truths), (seed, damaged)
