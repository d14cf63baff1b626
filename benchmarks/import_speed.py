"""Speed of imports beside that of the libraries that read the same bytes, in one run.

- A data set: the process that imports it, beside the process that only reads its files with
  pandas. What counts is the time beyond the start of the process; the import should take no more
  than 1.5 times what pandas takes to read.
- A full log of sockperf: our parser beside pyarrow's CSV reader on the same bytes; it should reach
  half its speed.

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
DATA_SET_LIMIT, LOG_LIMIT = 1.5, 0.5

START = "import tsnrepro.records.foreign.importing"
IMPORT = """
import sys
from pathlib import Path
from tsnrepro.records.foreign.importing import import_folder
report = import_folder(Path(sys.argv[1]), sys.argv[2], "timed", Path(sys.argv[3]))
print(report.written)
"""
PANDAS_START = "import pandas, json"
READ = """
import json, sys
from pathlib import Path
import pandas as pd
read = 0
for path in sorted(Path(sys.argv[1]).rglob("*")):
    if path.suffix == ".csv":
        read += len(pd.read_csv(path))
    elif path.suffix == ".json":
        try:
            read += len(pd.read_json(path))
        except ValueError:  # records of unlike lengths: as far as pandas goes
            read += len(pd.json_normalize(json.loads(path.read_text(encoding="utf-8"))))
print(read)
"""


def seconds_of(code: str, *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def data_set(folder: str, mapping: str, scratch: Path) -> None:
    times: dict[str, list[float]] = {name: [] for name in ("start", "import", "pandas", "read")}
    for number in range(BEST_OF):
        times["start"].append(seconds_of(START))
        times["import"].append(seconds_of(IMPORT, folder, mapping, str(scratch / str(number))))
        times["pandas"].append(seconds_of(PANDAS_START))
        times["read"].append(seconds_of(READ, folder))
    best = {name: 1000 * min(values) for name, values in times.items()}
    beyond, reading = best["import"] - best["start"], best["read"] - best["pandas"]
    print(f"data set, best of {BEST_OF} processes, ms")
    print(f"  {'':24}{'start':>8}{'work':>8}{'whole':>8}")
    print(f"  {'tsnrepro import':24}{best['start']:8.0f}{beyond:8.0f}{best['import']:8.0f}")
    print(f"  {'pandas reads the files':24}{best['pandas']:8.0f}{reading:8.0f}{best['read']:8.0f}")
    print(f"  work: {beyond / reading:.2f} x pandas (limit {DATA_SET_LIMIT:g})")
    print(f"  whole process: {best['import'] / best['read']:.2f} x pandas")


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


if __name__ == "__main__":
    main()
