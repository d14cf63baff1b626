"""Latency: moments and quantiles of half round trips, and FRER against control."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from tsnrepro.analysis.results import Results
from tsnrepro.experiments.latency import LOG
from tsnrepro.records.tables import open_run
from tsnrepro.stats.comparisons import holm, relative_difference
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.quantiles import replicated_quantile
from tsnrepro.stats.replication import mean_over_runs
from tsnrepro.tools.sockperf import parse_log

CONFIGURATIONS = ("control", "frer")
QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
COMPARED = ("mean", "p50", "p90", "p99", "p99_9")
SIGNIFICANCE = 0.05


def samples(manifest_path: str | Path) -> dict[str, np.ndarray]:
    """Return every half round trip in microseconds, in order, by trial."""
    store, manifest = open_run(manifest_path)
    return {
        entry["trial"]: parse_log(store.output(entry["trial"], LOG))[
            "half_round_trip_us"
        ].to_numpy()
        for entry in manifest["trials"]
    }


def analyse(trials: pd.DataFrame, half_round_trips: dict[str, np.ndarray]) -> Results:
    """Return all results of the experiment ``latency``."""
    results = Results("latency", trials)
    of = {c: trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for configuration, group in of.items():
        runs = [half_round_trips[trial] for trial in group["trial"]]
        for name, estimate in _estimates(group, runs):
            key = f"latency.{name}.{configuration}.us"
            results.estimate(key, estimate, 2, group["trial"])
        observations = int(group["observations"].sum())
        results.value(f"latency.observations.{configuration}.count", observations, group["trial"])
    _compare(results, of["frer"], of["control"], trials)
    duration = float(trials["duration_s"].iloc[0])
    method = "configuration"
    results.value("latency.duration_s", duration, trials["trial"], unit="s", method=method)
    return results


def _estimates(group: pd.DataFrame, runs: list[np.ndarray]) -> Iterator[tuple[str, Estimate]]:
    for name in ("mean", "sd", "min", "max"):
        yield name, mean_over_runs(group[f"{name}_us"], unit="us")
    for name, q in QUANTILES.items():
        yield name, replicated_quantile(runs, q, unit="us")


def _compare(
    results: Results, frer: pd.DataFrame, control: pd.DataFrame, trials: pd.DataFrame
) -> None:
    changes = {
        name: relative_difference(frer[f"{name}_us"], control[f"{name}_us"]) for name in COMPARED
    }
    for name, change in changes.items():
        key = f"latency.{name}.difference.percent"
        results.estimate(key, change.estimate, 1, trials["trial"])
    p_values = [change.p_value for change in changes.values()]
    adjusted = holm(p_values) if np.isfinite(p_values).all() else np.ones(len(p_values))
    method = f"relative difference, Holm over {len(COMPARED)} statistics at {SIGNIFICANCE:g}"
    for (name, change), p_value in zip(changes.items(), adjusted, strict=True):
        verdict = "cannot tell"
        if p_value < SIGNIFICANCE:
            verdict = "lower" if change.estimate.value < 0 else "higher"
        results.value(f"latency.{name}.verdict", verdict, trials["trial"], method=method)
