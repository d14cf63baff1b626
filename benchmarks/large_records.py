"""A latency run of 100 million samples, from its record to intervals and a figure, in one run.

The record is a trial of the model's, as the store keeps it. Processes of their own take turns:

- reading: the whole file into an array, which is what the others are measured by;
- analysis: what a user's run does: checksums, moments, seven quantiles with intervals, the figure;
- of a tenth of the samples: the interval of the median and of P99 as the analysis gives it, beside
  ``scipy.stats.bootstrap`` (percentile, so many resamples), which takes samples for independent.

Limits: 1 GiB of memory at most in the analysis, and a quarter of the speed of reading. Intervals
agree if their ends lie within a third of scipy's width of each other: samples are independent here,
but both have the noise of their batches or resamples.

    python benchmarks/large_records.py [--samples 100000000] [--resamples 99] [--seed 1]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SAMPLES = 100_000_000
MOST_MEMORY_MB, LEAST_SPEED = 1024**3 / 1e6, 0.25
PIECE = 1_000_000
QUANTILES = (0.5, 0.99)
AGREE = 1 / 3

COMMON = """
import gzip, io, json, resource, sys, time
from pathlib import Path
import numpy as np
root, trial = Path(sys.argv[1]), sys.argv[2]
def end(**found):
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"seconds": seconds, "memory_mb": peak} | found))
"""
READING = """
path = root / "model/large/latency" / trial / "half-round-trips-ps.npy.gz"
began = time.perf_counter()
with gzip.open(path) as file:
    values = np.load(io.BytesIO(file.read()))
end(samples=len(values))
"""
ANALYSIS = """
from tsnrepro.experiments.latency import analysis as latency
from tsnrepro.experiments.latency.figures import latency_distribution
from tsnrepro.records.store import RawStore
from tsnrepro.stats.long_series import LongSeries
from tsnrepro.stats.quantiles import correlated_quantile
import tsnrepro.stats.series_kernels
latency._HELD_SAMPLES = int(sys.argv[3])
began = time.perf_counter()
store = RawStore(root, "model", "large", "latency")
store.read(store.folder / trial)
series = latency.series(root / "run.json")[trial]
moments = [series.mean, series.sd, series.min, series.max] if isinstance(series, LongSeries) else []
estimates = {q: correlated_quantile(series, q) for q in latency.TOGETHER}
figure = latency_distribution({"control": [series]}, "model")
figure.savefig(root / "figure.png")
limits = {q: [e.low, e.value, e.high] for q, e in estimates.items()}
end(samples=len(series), limits=limits, in_pieces=isinstance(series, LongSeries))
"""
BOOTSTRAP = """
from scipy import stats
with gzip.open(root / "model/large/latency" / trial / "half-round-trips-ps.npy.gz") as file:
    values = np.load(io.BytesIO(file.read())) / 1e6
began = time.perf_counter()
limits = {}
for q in json.loads(sys.argv[3]):
    found = stats.bootstrap(
        (values,), lambda x, axis=-1, q=q: np.quantile(x, q, axis=axis), batch=1,
        n_resamples=int(sys.argv[4]), method="percentile", rng=1,
    ).confidence_interval
    limits[q] = [found.low, float(np.quantile(values, q)), found.high]
end(limits=limits)
"""
OURS = """
from tsnrepro.stats.quantiles import correlated_quantile
with gzip.open(root / "model/large/latency" / trial / "half-round-trips-ps.npy.gz") as file:
    values = np.load(io.BytesIO(file.read())) / 1e6
began = time.perf_counter()
found = {q: correlated_quantile(values, q) for q in json.loads(sys.argv[3])}
end(limits={q: [e.low, e.value, e.high] for q, e in found.items()})
"""


def record(root: Path, samples: int, seed: int) -> str:
    """Write a run of one trial with so many half round trips, and return the trial's name."""
    import gzip  # noqa: PLC0415
    import hashlib  # noqa: PLC0415

    name = "control-1472B-r1-large"
    folder = root / "model/large/latency" / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    saved = folder / "half-round-trips-ps.npy.gz"
    with gzip.GzipFile(saved, "wb", compresslevel=1, mtime=0) as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (samples,)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, samples, PIECE):
            count = min(PIECE, samples - start)
            picoseconds = 2e7 * np.exp(0.3 * rng.standard_normal(count))
            file.write(picoseconds.astype("<i8").tobytes())
    (folder / "trial.json").write_text("{}")
    sums = ""
    for path in (saved, folder / "trial.json"):
        with path.open("rb") as file:
            sums += f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n"
    (folder / "SHA256SUMS").write_text(sums)
    entry = {"trial": name, "sha256": hashlib.sha256(sums.encode()).hexdigest()}
    manifest = {"testbed": "model", "campaign": "large", "experiment": "latency"}
    manifest |= {"folder": "model/large/latency", "trials": [entry]}
    (root / "run.json").write_text(json.dumps(manifest))
    return name


def process(program: str, root: Path, name: str, *arguments: str) -> dict:
    """Run a program in a process of its own and return what it found."""
    argv = [sys.executable, "-c", COMMON + program, str(root), name, *arguments]
    return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)


def apart(one: dict, other: dict) -> float:
    """Return how far ends of intervals lie apart at most, in widths of the other's."""
    distances = []
    for q, (low, _, high) in other["limits"].items():
        mine = one["limits"][q]
        distances.append(max(abs(mine[0] - low), abs(mine[2] - high)) / (high - low))
    return max(distances)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--held", type=int, default=1 << 24, help="samples that may be held")
    parser.add_argument("--resamples", type=int, default=99)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tsnrepro-") as folder:
        root = Path(folder)
        name = record(root / "all", options.samples, options.seed)
        found = {
            "reading": process(READING, root / "all", name),
            "analysis": process(ANALYSIS, root / "all", name, str(options.held)),
        }
        name = record(root / "tenth", options.samples // 10, options.seed)
        asked = json.dumps(QUANTILES)
        found["intervals, a tenth"] = process(OURS, root / "tenth", name, asked)
        found["scipy, a tenth"] = process(
            BOOTSTRAP, root / "tenth", name, asked, str(options.resamples)
        )
    for what, told in found.items():
        print(f"{what:20} {told['seconds']:8.2f} s {told['memory_mb']:8.0f} MB")
    speed = found["reading"]["seconds"] / found["analysis"]["seconds"]
    ours, scipys = found["intervals, a tenth"], found["scipy, a tenth"]
    distance = apart(ours, scipys)
    print(f"analysis / reading: {speed:.2f} of its speed")
    print(f"scipy / ours: {scipys['seconds'] / ours['seconds']:.1f} times the time")
    print(f"memory: {scipys['memory_mb'] / ours['memory_mb']:.1f} times; ends {distance:.2f} apart")
    print(json.dumps(found))
    good = found["analysis"]["memory_mb"] <= MOST_MEMORY_MB and speed >= LEAST_SPEED
    return 0 if good and distance <= AGREE else 1


if __name__ == "__main__":
    sys.exit(main())
