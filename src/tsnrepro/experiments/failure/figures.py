"""Figures of failures: what a stream's listener misses, and what it receives around a cut."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.experiments.failure.analysis import FAILOVER, prepared
from tsnrepro.native.streams.log import decompress
from tsnrepro.records.store import ARRIVALS, open_run
from tsnrepro.results.figures import (
    COLOURS,
    LABELS,
    STYLES,
    count_shown,
    loss_axis,
    mark_trials,
    new,
    stacked,
)

_BINS = 120
# Drawn before a cut and after it.
_AROUND_S = 5e-3


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
    every = trials[trials["scenario"] == scenario]
    chosen = every[every["repetition"] == 1]
    count_shown(figure, len(chosen), len(every))
    store, _ = open_run(manifest_path)
    for row in chosen.to_dict("records"):
        sequence = np.unique(arrivals_of(manifest_path, row["trial"])["sequence"])
        edges = np.linspace(0, row["sent"], _BINS + 1)
        arrived, _ = np.histogram(sequence, edges)
        offered, _ = np.histogram(np.arange(row["sent"]), edges)
        seconds = edges / row["rate_pps"]
        share = 100 * arrived / np.maximum(offered, 1)
        name = row["configuration"]
        style = {"color": COLOURS[name], "linestyle": STYLES[name], "label": LABELS[name]}
        axes.stairs(share, seconds, linewidth=1.2, **style)
        for fault in store.read(store.folder / row["trial"])["values"]["faults"]:
            axes.axvline(fault["until_s"], color="0.7", linewidth=0.5, zorder=0)
    axes.set_ylim(-4, 108)
    axes.set_xlabel("sending time (s)")
    axes.set_ylabel("arrived (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def failover(manifest_path: str | Path, trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the payload rate at the listener over time, and what it received around the cut.

    A line is a repetition. The time in which the cut took effect in the first is grey.
    """
    figure, (whole, around) = stacked(3.6, testbed, 2)
    chosen = trials[trials["scenario"] == FAILOVER]
    count_shown(figure, len(chosen), len(chosen))
    store, _ = open_run(manifest_path)
    for row in chosen.to_dict("records"):
        times = _received_s(arrivals_of(manifest_path, row["trial"]))
        seconds, rate = _rate_over_time(times, row)
        name, first = row["configuration"], row["repetition"] == 1
        label = LABELS[name] if first else None
        style = {"color": COLOURS[name], "linestyle": STYLES[name], "linewidth": 0.9, "alpha": 0.8}
        whole.stairs(rate, seconds, label=label, **style)
        faults = store.read(store.folder / row["trial"])["values"]["faults"]
        numbers, edges = _received_around(times, faults[0])
        around.stairs(numbers, edges, baseline=None, **style)
        for fault in faults if first else ():
            whole.axvline(fault["until_s"], color="0.7", linewidth=0.5, zorder=0)
        if first:
            took_ms = 1e3 * (faults[0]["until_s"] - faults[0]["from_s"])
            around.axvspan(0, took_ms, color="0.85", linewidth=0.5, zorder=0)
    whole.set_ylim(bottom=0)
    whole.set_xlabel("time (s)")
    whole.set_ylabel("delivered payload (Mb/s)")
    around.set_xlabel("time from the cut (ms)")
    around.set_ylabel("received datagrams")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _received_s(arrivals: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    """Return when each number first came, in seconds after the first was sent, in order of time."""
    _, first = np.unique(arrivals["sequence"], return_index=True)
    if not len(first):
        return np.empty(0)
    began = arrivals["sent_ns"].astype(np.int64).min()
    return np.sort(arrivals["received_ns"][first].astype(np.int64) - began) / 1e9


def _rate_over_time(
    times: npt.NDArray[np.float64], row: dict[Hashable, Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the edges of the bins in seconds, and the payload rate in each in Mb/s."""
    edges = np.linspace(0, row["duration_s"], _BINS + 1)
    came, _ = np.histogram(times, edges)
    return edges, came * row["payload_bytes"] * 8 / 1e6 / np.diff(edges)


def _received_around(
    times: npt.NDArray[np.float64], cut: dict[str, Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the steps of the number received around a cut, and their edges in ms from it."""
    begin, end = cut["from_s"] - _AROUND_S, cut["until_s"] + _AROUND_S
    came = times[(times >= begin) & (times <= end)]
    edges = np.concatenate([[begin], came, [end]])
    return np.arange(len(came) + 1), 1e3 * (edges - cut["from_s"])


def losses(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the share of lost datagrams in each scenario, a mark a trial, FRER beside control."""
    named = prepared(trials)
    variants = sorted(named["variant"].unique(), reverse=True)
    figure, axes = new(0.8 + 0.19 * len(variants), testbed)
    count_shown(figure, int((named["sent"] > 0).sum()), len(named))
    for aside, configuration in zip((0.16, -0.16), LABELS, strict=True):
        own = named[named["configuration"] == configuration]
        rows = own["variant"].map(variants.index) + aside
        mark_trials(axes, configuration, 100 * own["lost"] / own["sent"], rows)
    axes.set_yticks(range(len(variants)), variants)
    axes.set_ylim(-0.6, len(variants) - 0.4)
    loss_axis(axes, along="x")
    axes.set_xlabel("lost datagrams (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
