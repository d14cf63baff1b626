"""Figures of loss: against load, by buffer and priority, by place, and by frame size."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tsnrepro.experiments.loss.analysis import (
    SWEEP,
    frame_bytes,
    loss_locations,
    trials_of_question,
)
from tsnrepro.experiments.loss.path_thresholds import loss_to_program
from tsnrepro.results.figures import (
    COLOURS,
    GREY,
    LABELS,
    MARKERS,
    PLACE_LABELS,
    STYLES,
    new,
    note_empty,
    panels,
)
from tsnrepro.stats.estimate import Limits

# Where nothing was lost there is only an upper limit; zero itself has no place on a log axis.
SMALLEST_LOSS_PERCENT = 1e-4


def loss_against_load(
    summary: pd.DataFrame, thresholds: Mapping[str, tuple], testbed: str
) -> Figure:
    """Draw loss with its limits over offered load; open marks on the axis are loads without loss.

    Where bursts leave no limits of a mean, there are none: a range is no error bar.
    ``thresholds`` gives (value, low, high) in Mb/s by configuration, shaded where known.
    """
    figure, axes = new(2.5, testbed)
    if summary.empty:
        note_empty(axes)
        return figure
    ordered = summary.sort_values("offered_mbps")
    for configuration, name in LABELS.items():
        group = ordered[ordered["configuration"] == configuration]
        style = {"color": COLOURS[configuration], "marker": MARKERS[configuration]}
        lossy = group[group["trials_with_loss"] > 0]
        limited = lossy["loss_limits"] == Limits.BOUND
        low = lossy["loss_low_percent"].where(limited, lossy["loss_percent"])
        low = np.maximum(low, SMALLEST_LOSS_PERCENT)
        high = lossy["loss_high_percent"].where(limited, lossy["loss_percent"])
        axes.errorbar(
            lossy["offered_mbps"],
            lossy["loss_percent"],
            yerr=[np.maximum(lossy["loss_percent"] - low, 0), high - lossy["loss_percent"]],
            linestyle=STYLES[configuration],
            capsize=1.5,
            elinewidth=0.7,
            label=name,
            **style,
        )
        clean = group[group["trials_with_loss"] == 0]
        axes.scatter(
            clean["offered_mbps"],
            np.full(len(clean), SMALLEST_LOSS_PERCENT),
            s=12,
            facecolors="none",
            edgecolors=style["color"],
            marker=style["marker"],
            linewidths=0.8,
        )
        value, left, right = thresholds.get(configuration, (None, None, None))
        if value is not None and left is not None and right is not None:
            axes.axvspan(left, right, color=style["color"], alpha=0.12, linewidth=0)
            axes.axvline(value, color=style["color"], linestyle=":", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlim(0, max(1000, 1.03 * summary["offered_mbps"].max()))
    axes.set_ylim(SMALLEST_LOSS_PERCENT, 100)
    axes.set_xlabel("offered load, payload (Mb/s)")
    axes.set_ylabel("frame loss (%)")
    axes.legend(loc="upper left")
    return figure


def intervention(summary: pd.DataFrame, testbed: str) -> Figure:
    """Draw loss over load, a row a receive buffer (0 is the default), a column a priority.

    Marks are means over trials; where no trial lost anything they lie on the axis.
    """
    buffers, priorities = sorted(summary["buffer_bytes"].unique()), (False, True)
    height = 0.5 + 0.62 * len(buffers)
    figure, grid = panels(len(buffers), 2, height, sharex=True, sharey=True)
    smallest = 1e-3
    for (row, size), (column, realtime) in product(enumerate(buffers), enumerate(priorities)):
        axes = grid[row, column]
        cell = summary[(summary["buffer_bytes"] == size) & (summary["realtime"] == realtime)]
        for configuration, name in LABELS.items():
            group = cell[cell["configuration"] == configuration].sort_values("offered_mbps")
            axes.plot(
                group["offered_mbps"],
                group["loss_percent"].clip(lower=smallest),
                STYLES[configuration],
                marker=MARKERS[configuration],
                color=COLOURS[configuration],
                markerfacecolor="none" if configuration == "frer" else COLOURS[configuration],
                clip_on=False,
                label=name,
            )
        axes.set_yscale("log")
        axes.set_ylim(smallest, 100)
        axes.set_yticks([smallest, 1, 100], ["0", "1", "100"])
        axes.minorticks_off()
        axes.tick_params(width=0.6, length=2)
        axes.set_xlim(0, 1000)
        label = f"{size / 1e6:g} MB" if size else "default buffer"
        axes.text(0.04, 0.78, label, transform=axes.transAxes, fontsize=6.5)
    for column, title in enumerate(("ordinary reader", "reader with real-time priority")):
        grid[0, column].set_title(title, fontsize=7)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2)
    figure.text(0.99, 0.99, testbed, ha="right", va="top", fontsize=6, color=GREY)
    figure.supxlabel("offered load, payload (Mb/s)", fontsize=8)
    figure.supylabel("frame loss (%)", fontsize=8)
    return figure


def where_lost(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw where the sweep lost datagrams, one bar a configuration and frame size."""
    figure, axes = new(2.4, testbed)
    trials = trials_of_question(trials, SWEEP)
    counts = loss_locations(trials).assign(
        frame=trials["payload_bytes"].map(frame_bytes), configuration=trials["configuration"]
    )
    total = counts.groupby(["frame", "configuration"]).sum(min_count=1)
    lost = total.sum(axis=1, min_count=1)
    share = total.div(lost.where(lost > 0), axis=0).fillna(0) * 100
    if share.empty:
        note_empty(axes)
        return figure
    rows = np.arange(len(share))[::-1]
    left = np.zeros(len(share))
    hatches = ("", "////", "....", "xxxx")
    for (place, label), colour, hatch in zip(
        PLACE_LABELS.items(), sns.color_palette("colorblind", 4), hatches, strict=True
    ):
        axes.barh(
            rows,
            share[place],
            0.72,
            left,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            label=label,
        )
        left += share[place].to_numpy()
    for row, number in zip(rows, lost, strict=True):
        if pd.isna(number):
            axes.text(1, row, "places not recorded", va="center", fontsize=6, color=GREY)
        else:
            axes.text(101, row, f"{number:,.0f}", va="center", fontsize=6)
    names = [f"{frame} B, {LABELS[configuration]}" for frame, configuration in share.index]
    axes.set_yticks(rows, names)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of lost datagrams (%), and their number")
    figure.legend(loc="outside upper center", ncols=2, fontsize=6, columnspacing=1)
    return figure


def frame_size(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the sweep's loss at the highest load of each frame size, a point a trial."""
    figure, axes = new(2.2, testbed)
    trials = loss_to_program(trials_of_question(trials, SWEEP))
    highest = trials.groupby("payload_bytes")["target_mbps"].transform("max")
    chosen = trials[trials["target_mbps"] == highest].copy()
    chosen["frame"] = chosen["payload_bytes"].map(frame_bytes)
    chosen["configuration"] = chosen["configuration"].map(LABELS)
    palette = {LABELS[name]: colour for name, colour in COLOURS.items()}
    if chosen.empty:
        note_empty(axes)
        return figure
    sns.stripplot(
        chosen,
        x="frame",
        y="loss_percent",
        hue="configuration",
        hue_order=list(palette),
        palette=palette,
        dodge=True,
        jitter=False,
        size=3.5,
        ax=axes,
    )
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(-0.002, 110)
    axes.set_xlabel("frame size (bytes with FCS)")
    axes.set_ylabel("frame loss (%)")
    axes.legend(title="")
    return figure
