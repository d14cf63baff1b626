"""What tsnrepro costs beside measuring, each time next to the least that it could cost.

Prints two ratios, measured in one run:

1. a no-op ``snakemake`` in this repository against ``snakemake`` on an empty workflow;
2. everything but measuring (the campaign's results rebuilt from the raw store) against papermill on
   an empty notebook for each notebook plus latexmk alone.

Needs the results of a campaign, ``quick`` unless named: python benchmarks/overhead.py [CAMPAIGN]
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
RESULTS = ROOT / "results"
REPEATS = 3
EMPTY_NOTEBOOK = {
    "cells": [],
    "metadata": {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    },
    "nbformat": 4,
    "nbformat_minor": 5,
}


def seconds(argv: list[str], folder: Path, **environment: str) -> float:
    """Run a command and return its wall time; a failure ends the benchmark."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    began = time.monotonic()
    done = subprocess.run(
        argv,
        cwd=folder,
        env=os.environ | {"PATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    spent = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{' '.join(argv)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return spent


def no_op(campaign: str, scratch: Path) -> tuple[float, float]:
    """Return the times of a no-op here and of an empty workflow, medians of alternating runs."""
    (scratch / "Snakefile").write_text("rule all:\n    input:\n        [],\n")
    ours, empty = [], []
    for _ in range(REPEATS):
        snakemake = ["snakemake", "--cores", "4"]
        empty.append(seconds(snakemake, scratch))
        ours.append(seconds([*snakemake, "--config", f"campaign={campaign}"], ROOT))
    return statistics.median(ours), statistics.median(empty)


def outside(campaign: str, scratch: Path) -> tuple[float, float, int]:
    """Return the times of rebuilding all results and of the least that needs, and the notebooks."""
    folders = RESULTS.glob(f"*/{campaign}")
    runs = [path for path in folders if path.parent.name not in {"papers", "reports"}]
    notebooks = sum(len(list(run.rglob("*.ipynb"))) for run in runs)
    source = scratch / "empty.ipynb"
    source.write_text(json.dumps(EMPTY_NOTEBOOK))
    papermill = [str(BIN / "papermill"), str(source), str(scratch / "out.ipynb")]
    least = sum(seconds(papermill, scratch) for _ in range(notebooks))
    papers = RESULTS / "papers" / campaign
    for paper in papers.iterdir():
        manuscript = ROOT / "paper" / paper.name
        command = ["latexmk", "-g", f"-outdir={scratch / paper.name}"]
        least += seconds(command, manuscript, TSNREPRO_PAPER=str(paper))
    for folder in (*runs, papers, RESULTS / "reports" / campaign):
        shutil.rmtree(folder)
    rebuilt = seconds(["snakemake", "--cores", "4", "--config", f"campaign={campaign}"], ROOT)
    return rebuilt, least, notebooks


def main() -> None:
    """Measure and print both ratios."""
    campaign = sys.argv[1] if len(sys.argv) > 1 else "quick"
    if not (RESULTS / "reports" / campaign).is_dir():
        sys.exit(f"no results of campaign {campaign}: run snakemake --cores 4 first")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        ours, empty = no_op(campaign, scratch)
        print(f"no-op: {ours:.2f} s, empty workflow: {empty:.2f} s, ratio {ours / empty:.2f}")
        rebuilt, least, notebooks = outside(campaign, scratch)
        print(
            f"all but measuring: {rebuilt:.1f} s; {notebooks} empty notebooks and latexmk alone:"
            f" {least:.1f} s; ratio {rebuilt / least:.2f}"
        )


if __name__ == "__main__":
    main()
