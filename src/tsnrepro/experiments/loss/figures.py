"""Figures of loss: against load, by buffer and priority, by place, and by frame size."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.experiments.loss.analysis import (
    SWEEP,
    frame_bytes,
    loss_locations,
    main_payload,
    trials_of_objective,
)
from tsnrepro.experiments.loss.path_thresholds import loss_to_program
from tsnrepro.published.documents import load_table
from tsnrepro.results.figures import (
    COLOURS,
    GREY,
    LABELS,
    MARKERS,
    PLACE_LABELS,
    SMALL_POINTS,
    count_shown,
    fill,
    loss_axis,
    mark_published,
    mark_trials,
    new,
    note_empty,
    side_by_side,
    stacked,
)
from tsnrepro.stats.proportions import share


def loss_against_load(
    trials: pd.DataFrame, thresholds: Mapping[str, tuple], testbed: str
) -> Figure:
    """Draw over the offered load how many trials of the main payload lose, and what each loses.

    ``thresholds`` gives (value, low, high) in Mb/s by configuration, the load at which half of
    the trials lose; it is dotted, and shaded where it has limits.
    """
    figure, (shares, losses) = stacked(3.2, testbed, 2, sharex=True, height_ratios=(1, 1.3))
    sweep = loss_to_program(trials_of_objective(trials, SWEEP))
    chosen = sweep[sweep["payload_bytes"] == main_payload(sweep)] if len(sweep) else sweep
    count = len(chosen)
    # Imported trials may have either alone.
    chosen = chosen.dropna(subset=["offered_mbps", "loss_percent"])
    count_shown(figure, len(chosen), count)
    if chosen.empty:
        note_empty(shares)
        note_empty(losses)
        return figure
    for configuration, name in LABELS.items():
        own = chosen[chosen["configuration"] == configuration]
        colour, marker = COLOURS[configuration], MARKERS[configuration]
        style = {"color": colour, "marker": marker, "linestyle": "", **fill(configuration)}
        lossy = f"{(own['loss_percent'] > 0).sum()} of {len(own)} lose"
        _share_of_trials(shares, own, style | {"label": f"{name}: {lossy}", "alpha": 0.8})
        mark_trials(losses, configuration, own["offered_mbps"], own["loss_percent"], alpha=0.8)
        value, low, high = thresholds.get(configuration, (None, None, None))
        if value is not None:
            shares.axvline(value, color=colour, linestyle=":", linewidth=0.8, zorder=0)
        if low is not None and high is not None:
            shares.axvspan(low, high, color=colour, alpha=0.12, linewidth=0)
        load, lost = published_sweep(configuration)
        mark_published(shares, load, 100.0 * (lost > 0), colour)
        mark_published(losses, load, lost, colour)
    loss_axis(losses)
    shares.set_ylim(-5, 105)
    shares.set_yticks([0, 50, 100])
    losses.set_xlim(0.95 * chosen["offered_mbps"].min(), 1.03 * chosen["offered_mbps"].max())
    losses.set_xlabel("offered load, payload (Mb/s)")
    shares.set_ylabel("trials that lose (%)")
    losses.set_ylabel("frame loss (%)")
    figure.legend(
        *shares.get_legend_handles_labels(), loc="outside upper left", ncols=3, handletextpad=0.3
    )
    return figure


def _share_of_trials(axes: Axes, trials: pd.DataFrame, style: dict[str, Any]) -> None:
    """Draw the share of trials that lose at each load, with binomial limits."""
    loads = trials.groupby("target_mbps")
    found = [share(int((own["loss_percent"] > 0).sum()), len(own)) for _, own in loads]
    value, low, high = (
        100 * np.array([getattr(each, name) for each in found], float)
        for name in ("value", "low", "high")
    )
    # Control a little to the left, so that no limit hides another.
    aside = 3 if style["marker"] == MARKERS["frer"] else -3
    axes.errorbar(
        loads["offered_mbps"].mean() + aside,
        value,
        yerr=np.nan_to_num([value - low, high - value]),
        elinewidth=0.6,
        **style,
    )


def published_sweep(configuration: str) -> tuple[pd.Series, pd.Series]:
    """Return the loads in Mb/s and losses in percent that the FRER document prints, its table A.2.

    A load that could not be measured is not among them.
    """
    table = load_table("frer-udp", "table-a-2").dropna(subset="loss_percent")
    own = table[table["configuration"].str.startswith("FRER") == (configuration == "frer")]
    return own["rate_mbps"], own["loss_percent"]


def intervention(summary: pd.DataFrame, testbed: str) -> Figure:
    """Draw loss by receive buffer at each load, a panel a priority of the reader.

    Marks are means over trials, filled at the highest load.
    """
    figure, row = side_by_side(2.2, testbed, 2, sharex=True, sharey=True)
    trials = int(summary["trials"].sum())
    count_shown(figure, trials, trials)
    buffers = sorted(summary["buffer_bytes"].unique())
    loads = sorted(summary["target_mbps"].unique())
    for axes, realtime in zip(row, (False, True), strict=True):
        for (number, load), (configuration, name) in product(enumerate(loads), LABELS.items()):
            cells = summary[(summary["realtime"] == realtime) & (summary["target_mbps"] == load)]
            own = cells[cells["configuration"] == configuration]
            aside = 0.3 * (number - (len(loads) - 1) / 2) / max(1, len(loads) - 1)
            colour = COLOURS[configuration]
            place = aside + (0.07 if configuration == "frer" else -0.07)
            mark_trials(
                axes,
                configuration,
                own["buffer_bytes"].map(buffers.index) + place,
                own["loss_percent"],
                markerfacecolor=colour if load == loads[-1] else "white",
                label=f"{name}, {load:g} Mb/s",
            )
        loss_axis(axes)
        names = [f"{size / 1e6:g}" if size else "default" for size in buffers]
        axes.set_xticks(range(len(buffers)), names, rotation=45)
        axes.set_title("real-time reader" if realtime else "ordinary reader")
        axes.set_xlabel("receive buffer (MB)")
    row[0].set_ylabel("frame loss (%)")
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def where_lost(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw where the sweep lost datagrams, one bar a configuration and frame size."""
    figure, axes = new(2.4, testbed)
    trials = trials_of_objective(trials, SWEEP)
    counts = loss_locations(trials).assign(
        frame=trials["payload_bytes"].map(frame_bytes), configuration=trials["configuration"]
    )
    total = counts.groupby(["frame", "configuration"]).sum(min_count=1)
    lost = total.sum(axis=1, min_count=1)
    share = total.div(lost.where(lost > 0), axis=0).fillna(0) * 100
    located = loss_locations(trials).notna().any(axis=1)
    count_shown(figure, int(located.sum()), len(trials))
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
            axes.text(1, row, "places not recorded", va="center", fontsize=SMALL_POINTS, color=GREY)
        else:
            axes.text(101, row, f"{number:,.0f}", va="center", fontsize=SMALL_POINTS)
    names = [f"{frame} B, {LABELS[configuration]}" for frame, configuration in share.index]
    axes.set_yticks(rows, names)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of lost datagrams (%), and their number")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def frame_size(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the sweep's loss at the highest load of each frame size, a point a trial."""
    figure, axes = new(2.2, testbed)
    trials = loss_to_program(trials_of_objective(trials, SWEEP))
    highest = trials.groupby("payload_bytes")["target_mbps"].transform("max")
    chosen = trials[trials["target_mbps"] == highest].copy()
    chosen["frame"] = chosen["payload_bytes"].map(frame_bytes)
    count_shown(figure, int(chosen["loss_percent"].notna().sum()), len(chosen))
    if chosen.empty:
        note_empty(axes)
        return figure
    sizes = sorted(chosen["frame"].unique())
    for configuration, colour in COLOURS.items():
        own = chosen[chosen["configuration"] == configuration]
        aside = 0.12 if configuration == "frer" else -0.12
        places = own["frame"].map(sizes.index) + aside
        mark_trials(axes, configuration, places, own["loss_percent"])
        column = "frer" if configuration == "frer" else "single_path"
        printed = load_table("frer-udp", "table-4-3").set_index("frame_size_bytes")
        printed = printed.loc[printed.index.isin(sizes), f"{column}_loss_percent"]
        mark_published(axes, printed.index.map(sizes.index) + aside, printed, colour)
    loss_axis(axes)
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_xlabel("frame size (bytes with FCS)")
    axes.set_ylabel("frame loss (%)")
    figure.legend(loc="outside upper left", ncols=3)
    return figure
