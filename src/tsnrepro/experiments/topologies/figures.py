"""Figures of topologies: latency, loss, and the load carried."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.experiments.topologies.analysis import full, low, with_topology
from tsnrepro.results.figures import GREY, LABELS, count_shown, mark_trials, new, note_empty


def latency_by_topology(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the median latency at the low load, a mark a trial; bars are the sum of its parts.

    A ring that is cut half way has two latencies and no median to speak of.
    """
    figure, axes = new(2.7, testbed)
    chosen = low(with_topology(trials[~trials["cut"].astype(bool)]))
    if chosen.empty:
        note_empty(axes)
        return figure
    _draw(axes, chosen, "p50_us", "expected_us")
    axes.set_ylim(0, None)
    axes.set_ylabel("median one-way latency (µs)")
    _legend(figure, "sum of its parts")
    return figure


def loss_by_topology(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw loss where links lose most, at the low load; bars are the product of the paths'.

    A mark on the axis is a trial that lost nothing.
    """
    figure, axes = new(2.7, testbed)
    named = with_topology(trials)
    lossy = named[named["link_loss_percent"] == named["link_loss_percent"].max()]
    chosen = lossy[lossy["rate_mbps"] == lossy["rate_mbps"].min()]
    if not chosen["link_loss_percent"].any():
        note_empty(axes, "no links that lose")
        return figure
    least = chosen["expected_lost_percent"].min() / 3
    shown = chosen.assign(lost_percent=chosen["lost_percent"].clip(lower=least))
    _draw(axes, shown, "lost_percent", "expected_lost_percent")
    axes.set_yscale("log")
    axes.set_ylim(least, 100)
    percent = chosen["link_loss_percent"].iloc[0]
    axes.set_ylabel(f"loss (%), {percent:g} % a link")
    _legend(figure, "product of the paths' losses")
    return figure


def carried_by_topology(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw what is carried at the full load, a mark a trial; bars are the line's limit."""
    figure, axes = new(2.7, testbed)
    chosen = full(with_topology(trials))
    chosen = chosen.assign(reachable=chosen[["line_limit_mbps", "rate_mbps"]].min(axis=1))
    _draw(axes, chosen, "carried_mbps", "reachable")
    axes.set_ylim(0, None)
    axes.set_ylabel("payload carried (Mb/s)")
    _legend(figure, "line's limit")
    return figure


def _draw(axes: Axes, trials: pd.DataFrame, measured: str, expected: str) -> None:
    """Draw marks of trials and short bars of what is expected, by topology and configuration."""
    names = list(dict.fromkeys(trials["topology"]))
    for configuration in LABELS:
        own = trials[trials["configuration"] == configuration]
        shift = -0.17 if configuration == "control" else 0.17
        places = np.array([names.index(name) for name in own["topology"]]) + shift
        mark_trials(axes, configuration, places, own[measured])
        axes.hlines(own[expected], places - 0.14, places + 0.14, color=GREY, linewidth=0.9)
    count_shown(axes.figure, int(trials[measured].notna().sum()), len(trials))
    labels = [name.replace("_cut", "\ncut").replace("_", " ") for name in names]
    axes.set_xticks(range(len(names)), labels)


def _legend(figure: Figure, expected: str) -> None:
    axes = figure.axes[0]
    axes.plot([], [], "-", color=GREY, linewidth=0.9, label=expected)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
