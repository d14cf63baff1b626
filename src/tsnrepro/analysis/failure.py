"""Failure: what a stream lost in each scenario, FRER beside control, and when."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.analysis.figures import COLOURS, LABELS, new
from tsnrepro.analysis.missing import count, mean
from tsnrepro.analysis.results import Results
from tsnrepro.records.columns import CONFIGURATIONS
from tsnrepro.records.outputs import ARRIVALS
from tsnrepro.records.runs import open_run
from tsnrepro.streams.log import decompress

_QUANTITIES = {
    "lost": ("1", 0),
    "duplicated": ("1", 0),
    "reordered": ("1", 0),
    "longest_silence_ms": ("ms", 1),
    "alarms": ("1", 0),
}
_BINS = 120


def prepared(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with their variant's name and the longest silence, at the end included."""
    delay = trials["delay_ms"].map(lambda ms: "" if pd.isna(ms) else f" {ms:g} ms")
    silence = trials[["longest_gap_ms", "silent_at_end_ms"]].max(axis=1)
    return trials.assign(variant=trials["scenario"] + delay, longest_silence_ms=silence)


def analyse(trials: pd.DataFrame) -> Results:
    """Return, by scenario and configuration, what was lost, repeated, out of order and silent."""
    results = Results("failure", trials)
    table = prepared(trials)
    for (variant, configuration), group in table.groupby(["variant", "configuration"]):
        name = str(variant).replace("-", "_").replace(" ", "_").replace(".", "_")
        for quantity, (unit, digits) in _QUANTITIES.items():
            key = f"failure.{name}.{configuration}.{quantity}"
            found = count(group, quantity) if unit == "1" else mean(group, quantity, unit)
            results.estimate(key, found, digits, group["trial"])
    results.value("failure.trials.count", len(trials), trials["trial"])
    return results


def summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row a variant and configuration: means over repetitions.

    ``lost`` and the like are datagrams of ``sent``; ``first_alarm_s`` is when the first latent
    error was reported, in seconds after the first datagram.
    """
    columns = ["sent", *_QUANTITIES, "first_alarm_s"]
    groups = prepared(trials).groupby(["variant", "configuration"])
    return groups[columns].mean().assign(trials=groups.size()).reset_index()


def arrivals_of(manifest_path: str | Path, trial: str) -> npt.NDArray[np.void]:
    """Return the listener's record of one trial, first arrivals and repeats."""
    store, _ = open_run(manifest_path)
    return decompress(store.output_bytes(trial, ARRIVALS))


def delivered_over_time(
    manifest_path: str | Path, trials: pd.DataFrame, scenario: str, testbed: str
) -> Figure:
    """Draw the share of datagrams that arrived over their sending time, first repetition each.

    Grey lines are the faults as they took effect.
    """
    figure, axes = new(2.3, testbed)
    chosen = trials[(trials["scenario"] == scenario) & (trials["repetition"] == 1)]
    store, _ = open_run(manifest_path)
    for row in chosen.to_dict("records"):
        sequence = np.unique(arrivals_of(manifest_path, row["trial"])["sequence"])
        edges = np.linspace(0, row["sent"], _BINS + 1)
        arrived, _ = np.histogram(sequence, edges)
        offered, _ = np.histogram(np.arange(row["sent"]), edges)
        seconds = edges / row["rate_pps"]
        share = 100 * arrived / np.maximum(offered, 1)
        name = row["configuration"]
        axes.stairs(share, seconds, color=COLOURS[name], label=LABELS[name], linewidth=1)
        for fault in store.read(store.folder / row["trial"])["values"]["faults"]:
            axes.axvline(fault["until_s"], color="0.7", linewidth=0.5, zorder=0)
    axes.set_ylim(-4, 108)
    axes.set_xlabel("sending time (s)")
    axes.set_ylabel("arrived (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def losses(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the mean share of lost datagrams in each scenario, FRER beside control."""
    table = summary(trials).assign(percent=lambda t: 100 * t["lost"] / t["sent"])
    wide = table.pivot_table(index="variant", columns="configuration", values="percent")
    figure, axes = new(0.6 + 0.22 * len(wide), testbed)
    rows = np.arange(len(wide))
    for offset, name in zip((0.18, -0.18), CONFIGURATIONS, strict=True):
        if name in wide:
            axes.barh(rows + offset, wide[name], 0.34, color=COLOURS[name], label=LABELS[name])
    axes.set_yticks(rows, wide.index)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xlim(0, 130)
    axes.set_xlabel("lost datagrams (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
