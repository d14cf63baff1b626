"""Speed of imports beside that of the libraries that read the same bytes, in one run.

- A data set: a process that imports it into an empty store, beside a process that only reads its
  files with pandas. What counts is the work once the modules are loaded; the import should take no
  more than 1.5 times what pandas takes to read.
- A full log of sockperf: our parser beside pyarrow's CSV reader on the same bytes; it should reach
  half its speed.
- Times of single packets: a process that reads them by our reader beside one that reads the two
  columns with pyarrow and subtracts, in nanoseconds and in seconds with nine decimals; at most 1.2
  times pyarrow's time, and 500 MB.

Each time is the best of several, taken in turn. Files are generated in a temporary folder, but for
the data set, whose folder and mapping are named:

    python benchmarks/import_speed.py [--lines 10000000] [--data-set FOLDER --mapping d10test]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from tsnrepro.tools.sockperf import parse_log

BEST_OF = 5
LINES = 10_000_000
CHUNK = 100_000
HEADER = "packet, txTime(sec), rxTime(sec), latency(usec)\n"
RULE = "------------------------------\n"
DATA_SET_LIMIT, LOG_LIMIT, TIMES_LIMIT = 1.5, 0.5, 1.2

# Each process says how long its work took, after the modules were there.
IMPORT = """
import sys, time
from pathlib import Path
from tsnrepro.imports.importer import import_folder
began = time.perf_counter()
import_folder(Path(sys.argv[1]), sys.argv[2], "timed", Path(sys.argv[3]))
print(time.perf_counter() - began)
"""
READ = """
import json, sys, time
from pathlib import Path
import pandas as pd
began = time.perf_counter()
for path in sorted(Path(sys.argv[1]).rglob("*")):
    if path.suffix == ".csv":
        pd.read_csv(path)
    elif path.suffix == ".json":
        try:
            pd.read_json(path)
        except ValueError:  # records of unlike lengths: as far as pandas goes
            pd.json_normalize(json.loads(path.read_text(encoding="utf-8")))
print(time.perf_counter() - began)
"""
# Seconds of work, the most memory in kB, and how many packets there were.
READ_TIMES = """
import resource, sys, time
from pathlib import Path
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import packet_times
began = time.perf_counter()
times = Times(sent="sent", received="received", unit=sys.argv[2])
found = packet_times.read(SourceFile(Path(sys.argv[1]), "times.csv"), times)
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
      len(found.latencies_us))
"""
PYARROW_TIMES = """
import resource, sys, time
import pyarrow as pa
from pyarrow import compute, csv
began = time.perf_counter()
kind = pa.int64() if sys.argv[2] == "ns" else pa.decimal128(30, 12)
options = csv.ConvertOptions(column_types={"sent": kind, "received": kind})
table = csv.read_csv(sys.argv[1], convert_options=options)
latency = compute.subtract(table["received"], table["sent"]).cast(pa.float64()).to_numpy()
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
      len(latency))
"""


def run(code: str, *arguments: str) -> tuple[float, float]:
    """Return the time of a process and of its work, in milliseconds."""
    began = time.perf_counter()
    command = [sys.executable, "-c", code, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return 1000 * (time.perf_counter() - began), 1000 * float(said)


def data_set(folder: str, mapping: str, scratch: Path) -> None:
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for number in range(BEST_OF):
        ours.append(run(IMPORT, folder, mapping, str(scratch / str(number))))
        theirs.append(run(READ, folder))
    best = {}
    print(f"data set, best of {BEST_OF} processes, ms{'work':>10}{'process':>10}")
    for name, times in (("tsnrepro import", ours), ("pandas reads the files", theirs)):
        best[name] = tuple(min(column) for column in zip(*times, strict=True))
        print(f"  {name:31}{best[name][1]:10.0f}{best[name][0]:10.0f}")
    ratios = [a / b for a, b in zip(*best.values(), strict=True)]
    print(f"  work: {ratios[1]:.2f} x pandas (limit {DATA_SET_LIMIT:g})")
    print(f"  whole process: {ratios[0]:.2f} x pandas")


def write_log(path: Path, lines: int) -> None:
    rng = np.random.default_rng(1)
    now = 2.4
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{RULE}a generated log, for timing its parser\n{RULE}{HEADER}")
        for first in range(0, lines, CHUNK):
            count = min(CHUNK, lines - first)
            latency = rng.gamma(4, 8, count) + 3
            sent = now + np.cumsum(2.1e-6 * latency)
            received = sent + 2e-6 * latency
            now = float(received[-1])
            file.write(
                "".join(
                    f"{first + i}, {s:.9f}, {r:.9f}, {v:.3f}\n"
                    for i, (s, r, v) in enumerate(
                        zip(sent.tolist(), received.tolist(), latency.tolist(), strict=True)
                    )
                )
            )
        file.write(RULE)


def full_log(lines: int, scratch: Path) -> None:
    path = scratch / "sockperf.log"
    write_log(path, lines)
    data = path.read_bytes()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(BEST_OF):
        began = time.perf_counter()
        rows = len(parse_log(data))
        ours.append(time.perf_counter() - began)
        start, end = data.index(HEADER.encode()) + len(HEADER), data.rindex(RULE.encode())
        body = pa.py_buffer(data)[start:end]
        began = time.perf_counter()
        table = csv.read_csv(pa.BufferReader(body), csv.ReadOptions(column_names=list("abcd")))
        theirs.append(time.perf_counter() - began)
        if not rows == len(table) == lines:
            raise SystemExit(f"{rows} rows, pyarrow has {len(table)}, written were {lines}")
    megabytes = len(data) / 1e6
    print(f"full log of sockperf, {lines:,} observations, {megabytes:.0f} MB, best of {BEST_OF}")
    for name, times in (("parse_log", ours), ("pyarrow's CSV reader", theirs)):
        best = min(times)
        print(f"  {name:24}{best:8.2f} s{megabytes / best:10.0f} MB/s")
    print(f"  speed: {min(theirs) / min(ours):.2f} x pyarrow (limit {LOG_LIMIT:g})")


def packet_times(lines: int, scratch: Path) -> None:
    path = scratch / "times.csv"
    for unit, template in (("ns", "{}{:09d},{}{:09d}\n"), ("s", "{}.{:09d},{}.{:09d}\n")):
        _write_times(path, lines, template)
        best = {}
        for name, code in (("our reader", READ_TIMES), ("pyarrow", PYARROW_TIMES)):
            said = [subprocess.run([sys.executable, "-c", code, str(path), unit], check=True,
                                   capture_output=True, text=True).stdout.split()
                    for _ in range(BEST_OF)]  # fmt: skip
            best[name] = min(float(one[0]) for one in said), max(int(one[1]) for one in said)
            if {int(one[2]) for one in said} != {lines}:
                raise SystemExit(f"{name} did not read {lines} lines")
        print(f"times of {lines:,} packets in {unit}, best of {BEST_OF} processes")
        for name, (seconds, kilobytes) in best.items():
            print(f"  {name:24}{seconds:8.2f} s{kilobytes / 1e3:10.0f} MB at most")
        ratio = best["our reader"][0] / best["pyarrow"][0]
        print(f"  time: {ratio:.2f} x pyarrow (limit {TIMES_LIMIT:g})")


def _write_times(path: Path, lines: int, template: str) -> None:
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("sent,received\n")
        for first in range(0, lines, CHUNK):
            count = min(CHUNK, lines - first)
            sent = 1_700_000_000 * 10**9 + 20_000 * (first + np.arange(count))
            received = sent + 3000 + rng.integers(0, 50_000, count)
            pairs = zip(sent.tolist(), received.tolist(), strict=True)
            file.write(
                "".join(template.format(*divmod(s, 10**9), *divmod(r, 10**9)) for s, r in pairs)
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--data-set", metavar="FOLDER")
    parser.add_argument("--mapping", default="d10test")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.data_set:
            data_set(arguments.data_set, arguments.mapping, Path(folder))
        else:
            print("data set: not timed; name its folder with --data-set")
        full_log(arguments.lines, Path(folder))
        packet_times(arguments.lines, Path(folder))


if __name__ == "__main__":
    main()
