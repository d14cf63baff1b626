"""Failure: what a stream lost in each scenario, FRER beside control, and when."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.native.streams.log import decompress
from tsnrepro.records.outputs import ARRIVALS
from tsnrepro.records.runs import open_run
from tsnrepro.results.figures import COLOURS, LABELS, bounds, new
from tsnrepro.results.missing import count, loss, mean, shared
from tsnrepro.results.results import Results

_QUANTITIES = {
    "lost": ("1", 0),
    "duplicated": ("1", 0),
    "reordered": ("1", 0),
    "longest_silence_ms": ("ms", 1),
    "alarms": ("1", 0),
}
_BINS = 120
FAILOVER = "failover"
# What documents on FRER name for its recovery.
RECOVERY_MS = 1.0


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
        for quantity, (unit, digits) in _QUANTITIES.items():
            key = f"failure.{_word(variant)}.{configuration}.{quantity}"
            found = count(group, quantity) if unit == "1" else mean(group, quantity, unit)
            results.estimate(key, found, digits, group["trial"])
    for variant, group in table[table["delay_ms"].notna()].groupby("variant"):
        shared(results, f"failure.{_word(variant)}.delay.ms", group, "delay_ms", "ms")
    _failover(results, trials[trials["scenario"] == FAILOVER])
    results.value("failure.trials.count", len(trials), trials["trial"])
    return results


def _word(variant: Any) -> str:
    """Return a variant as a word of a key."""
    return str(variant).replace("-", "_").replace(" ", "_").replace(".", "_")


def _failover(results: Results, trials: pd.DataFrame) -> None:
    """Add what a path's cut under load did to the rate at the listener, and for how long."""
    if trials.empty:
        return
    name = f"failure.{FAILOVER}"
    loads = trials.assign(
        target=trials["rate_pps"] * trials["payload_bytes"] * 8 / 1e6,
        buffer_mb=trials["receive_buffer_bytes"].astype(float) / 1e6,
    )
    shared(results, f"{name}.target.mbps", loads, "target", "Mb/s")
    shared(results, f"{name}.payload_bytes", loads, "payload_bytes", "bytes")
    shared(results, f"{name}.duration_s", loads, "duration_s", "s")
    shared(results, f"{name}.receive_buffer.mb", loads, "buffer_mb", "MB")
    results.value(f"{name}.limit.ms", RECOVERY_MS, [], unit="ms", method="chosen before measuring")
    for configuration in CONFIGURATIONS:
        group = loads[loads["configuration"] == configuration]
        _of_failover(results, f"{name}.{configuration}", group)


def _of_failover(results: Results, name: str, group: pd.DataFrame) -> None:
    names = group["trial"]
    results.value(f"{name}.trials.count", len(group), names)
    offered = group.assign(mbps=group["achieved_pps"] * group["payload_bytes"] * 8 / 1e6)
    results.estimate(f"{name}.offered.mbps", mean(offered, "mbps", "Mb/s"), 1, names)
    for phase in ("before", "during", "after"):
        rate = mean(group, f"{phase}_mbps", "Mb/s")
        results.estimate(f"{name}.{phase}.mbps", rate, 1, names)
    share = group.assign(share=100 * group["during_mbps"] / group["before_mbps"])
    results.estimate(f"{name}.during_share.percent", mean(share, "share", "%"), 1, names)
    results.estimate(f"{name}.recovery.ms", mean(group, "recovery_ms", "ms"), 2, names)
    highest = float(group["recovery_ms"].max()) if len(group) else None
    method = "the longest of all repetitions"
    results.value(f"{name}.highest.ms", highest, names, unit="ms", digits=2, method=method)
    within = group["recovery_ms"] <= RECOVERY_MS
    word = None if group.empty else "all" if within.all() else "some" if within.any() else "none"
    results.value(f"{name}.within", word, names, method="trials that recovered within the limit")
    results.estimate(f"{name}.elsewhere.ms", mean(group, "elsewhere_ms", "ms"), 2, names)
    results.estimate(f"{name}.lost_while_cut", count(group, "lost_while_cut"), 0, names)


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


def failover(manifest_path: str | Path, trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the payload rate at the listener over time, a line a repetition, with the cut."""
    figure, axes = new(2.3, testbed)
    chosen = trials[trials["scenario"] == FAILOVER]
    store, _ = open_run(manifest_path)
    for row in chosen.to_dict("records"):
        seconds, rate = _rate_over_time(arrivals_of(manifest_path, row["trial"]), row)
        name, first = row["configuration"], row["repetition"] == 1
        label = LABELS[name] if first else None
        axes.stairs(rate, seconds, color=COLOURS[name], label=label, linewidth=0.9, alpha=0.8)
        for fault in store.read(store.folder / row["trial"])["values"]["faults"] if first else ():
            axes.axvline(fault["until_s"], color="0.7", linewidth=0.5, zorder=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("delivered payload (Mb/s)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _rate_over_time(
    arrivals: npt.NDArray[np.void], row: dict[Hashable, Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the edges of the bins in seconds, and the payload rate in each in Mb/s."""
    _, first = np.unique(arrivals["sequence"], return_index=True)
    edges = np.linspace(0, row["duration_s"], _BINS + 1)
    if not len(first):
        return edges, np.zeros(_BINS)
    times = arrivals["received_ns"][first].astype(np.int64)
    began = arrivals["sent_ns"].astype(np.int64).min()
    came, _ = np.histogram((times - began) / 1e9, edges)
    return edges, came * row["payload_bytes"] * 8 / 1e6 / np.diff(edges)


def losses(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the mean share of lost datagrams in each scenario, FRER beside control.

    Bars have limits where repetitions give some: a range is no error bar.
    """
    shares = prepared(trials).assign(percent=_percent)
    table = summary(trials).assign(percent=_percent)
    wide = table.pivot_table(index="variant", columns="configuration", values="percent")
    figure, axes = new(0.6 + 0.22 * len(wide), testbed)
    rows = np.arange(len(wide))
    for offset, name in zip((0.18, -0.18), CONFIGURATIONS, strict=True):
        if name in wide:
            places = dict(zip(wide.index, rows + offset, strict=True))
            axes.barh(rows + offset, wide[name], 0.34, color=COLOURS[name], label=LABELS[name])
            _limits(axes, shares[shares["configuration"] == name], places)
    axes.set_yticks(rows, wide.index)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xlim(0, 130)
    axes.set_xlabel("lost datagrams (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _percent(table: pd.DataFrame) -> pd.Series:
    return 100 * table["lost"] / table["sent"]


def _limits(axes: Axes, trials: pd.DataFrame, places: dict[Hashable, float]) -> None:
    """Draw the limits of the loss of each variant, at its bar's place."""
    for variant, group in trials.groupby("variant"):
        bounds(axes, loss(group, "percent"), places[variant], lying=True)
