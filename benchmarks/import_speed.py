"""Speed and memory of imports beside those of the libraries that read the same bytes, in one run.

- A data set: a process that imports it into an empty store, beside a process that only reads its
  files with pandas. What counts is the work once the modules are loaded; the import should take no
  more than 1.5 times what pandas takes to read.
- Packets of one test in each format: a process that reads them by our reader beside one that reads
  the same columns with pyarrow and subtracts, or joins; at most 1.2 times pyarrow's time, and
  700 MB.

Each time is the best of several, taken in turn. Files are generated in a temporary folder, but for
the data set, whose folder and mapping are named:

    python benchmarks/import_speed.py [--lines 10000000] [--data-set FOLDER --mapping d10test]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

BEST_OF = 5
LINES = 10_000_000
DATA_SET_LIMIT, TIME_LIMIT, MEMORY_LIMIT_MB = 1.5, 1.2, 700

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
OURS = """
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import joined_times, packet_times, sockperf
def source(name):
    return SourceFile(Path(name), name)
"""
THEIRS = """
import pyarrow as pa
from pyarrow import compute, csv
def read(name, kind=pa.int64(), **options):
    kinds = csv.ConvertOptions(column_types=dict.fromkeys(["seq", "sent", "received"], kind))
    return csv.read_csv(name, csv.ReadOptions(**options), convert_options=kinds)
def difference(table):
    return compute.subtract(table["received"], table["sent"]).cast(pa.float64()).to_numpy()
"""
# The peak in getrusage(2) would be that of the process that started this one, where that is larger.
MEASURED = """
import sys, time
from pathlib import Path
{modules}
began = time.perf_counter()
found = {work}
spent = time.perf_counter() - began
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(spent, status["VmHWM"].split()[0], len(found))
"""
# What both readers do, by format; write_files() makes the files.
FORMATS = {
    "times in ns": (
        "packet_times.read(source('ns.csv'), Times(sent='sent', received='received', unit='ns'))"
        ".latencies_us",
        "difference(read('ns.csv'))",
    ),
    "times in s": (
        "packet_times.read(source('s.csv'), Times(sent='sent', received='received', unit='s'))"
        ".latencies_us",
        "difference(read('s.csv', pa.decimal128(30, 12)))",
    ),
    "times in two files": (
        "joined_times.read(source('talker.csv'), source('listener.csv'), Times(sent='sent', "
        "received='received', unit='ns', sequence='seq', listener='listener.csv')).latencies_us",
        "difference(read('talker.csv').join(read('listener.csv'), 'seq').sort_by('seq'))",
    ),
    "isochron report": (
        "packet_times.read(source('isochron.txt'), Times(sent='T', received='R', unit='ns', "
        "printf_args='qTR', printf_format='%u,%d,%d')).latencies_us",
        "difference(read('isochron.txt', column_names=['seq', 'sent', 'received']))",
    ),
    "full log of sockperf": (
        "sockperf.observations(source('sockperf.log'))",
        "read('sockperf.log', pa.float64(), column_names=['seq', 'sent', 'received', 'latency'], "
        "skip_rows=1)['latency'].to_numpy()",
    ),
}


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


def write_files(folder: Path, count: int) -> None:
    """Write packets of one test in each format."""
    rng = np.random.default_rng(1)
    number = pa.array(np.arange(count))
    sent = 1_700_000_000 * 10**9 + 20_000 * np.arange(count)
    received = sent + 3000 + rng.integers(0, 50_000, count)
    ns = {"seq": number, "sent": pa.array(sent), "received": pa.array(received)}
    s = {name: in_seconds(ns[name]) for name in ("sent", "received")}
    arrived = pa.array(rng.permutation(count))
    write(folder / "ns.csv", {name: ns[name] for name in s})
    write(folder / "s.csv", s)
    write(folder / "talker.csv", {name: ns[name] for name in ("seq", "sent")})
    listener = {name: ns[name].take(arrived) for name in ("seq", "received")}
    write(folder / "listener.csv", listener)
    write(folder / "isochron.txt", ns, header="")
    log = {"seq": number, **s, "latency": pa.array((received - sent) / 2000)}
    write(folder / "sockperf.log", log, header="packet, txTime(sec), rxTime(sec), latency(usec)")


def in_seconds(nanoseconds: pa.Array) -> pa.Array:
    """Return times in seconds with nine decimals."""
    billionth = pa.scalar(Decimal("1e-9"), pa.decimal128(10, 9))
    return compute.multiply(nanoseconds.cast(pa.decimal128(19, 0)), billionth)


def write(path: Path, columns: dict[str, pa.Array], *, header: str | None = None) -> None:
    """Write columns as CSV below a header line, by default their names."""
    header = ",".join(columns) if header is None else header
    with path.open("wb") as file:
        file.write(f"{header}\n".encode() if header else b"")
        csv.write_csv(pa.table(columns), file, csv.WriteOptions(include_header=False))


def formats(lines: int, folder: Path) -> None:
    """Print time and memory of both readers for each format."""
    write_files(folder, lines)
    print(f"{lines:,} packets, best of {BEST_OF} processes")
    for name, works in FORMATS.items():
        said: list[list[list[float]]] = [[], []]
        for _ in range(BEST_OF):
            for found, modules, work in zip(said, (OURS, THEIRS), works, strict=True):
                code = MEASURED.format(modules=modules, work=work)
                done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True,
                                      capture_output=True, text=True)  # fmt: skip
                found.append([float(word) for word in done.stdout.split()])
                if found[-1][2] != lines:
                    raise SystemExit(f"{name}: {found[-1][2]:.0f} of {lines} lines were read")
        ours, theirs = (min(one[0] for one in found) for found in said)
        ours_mb, theirs_mb = (max(one[1] for one in found) / 1e3 for found in said)
        mine = f"{ours:6.2f} s{ours_mb:7.0f} MB"
        print(
            f"  {name:22}{mine}, pyarrow{theirs:6.2f} s{theirs_mb:7.0f} MB: {ours / theirs:.2f} x"
        )
    print(f"  limits: {TIME_LIMIT:g} x, {MEMORY_LIMIT_MB} MB")


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
        formats(arguments.lines, Path(folder))


if __name__ == "__main__":
    main()
