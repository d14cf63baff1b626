"""Figures of studies of the threshold: its dependence, the effect of FRER, shares of variance."""

from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tsnrepro.experiments.loss.analysis import frame_bytes
from tsnrepro.experiments.studies.threshold_analysis import (
    CREDITED_RATIO,
    HOSTS,
    PATHS,
    by_combination,
    conditions,
    pairs,
    shares,
)
from tsnrepro.results.figures import (
    GREY,
    LABELS,
    MARKERS,
    SMALL_POINTS,
    STYLES,
    count_shown,
    new,
    style,
)
from tsnrepro.stats.replication import median_over_runs

_PAGE_INCHES = 7.16
_WITHIN_PAYLOAD = ("receive_buffer_bytes", "stall_length_ms", "switch_queue_bytes")
FACTOR_LABELS = {
    "payload_bytes": "datagram size",
    "receive_buffer_bytes": "socket buffer",
    "stall_length_ms": "stall length",
    "switch_queue_bytes": "switch buffer",
    "configuration": "FRER or not",
    "interactions": "interactions",
}
_RESPONSE_LABELS = {"threshold_mbps": "threshold in Mb/s", "threshold_kpps": "in datagrams/s"}


def dependence(table: pd.DataFrame) -> Figure:
    """Draw the threshold over stall length: one panel per payload, one colour per socket buffer.

    A mark is the geometric mean over seeds and switch buffers; its bar spans the seeds' means.
    """
    style()
    hosts = table[table["part"] == HOSTS]
    payloads = sorted(hosts["payload_bytes"].unique())
    figure, panels = plt.subplots(
        1, len(payloads), figsize=(_PAGE_INCHES, 2.7), layout="constrained", squeeze=False
    )
    buffers = sorted(hosts["receive_buffer_bytes"].unique())
    colours = dict(zip(buffers, sns.color_palette("viridis", len(buffers)), strict=True))
    for axes, payload in zip(panels[0], payloads, strict=True):
        _dependence_panel(axes, hosts[hosts["payload_bytes"] == payload], colours)
        axes.set_title(f"{frame_bytes(payload)}-byte frames", fontsize=8)
    found = int(hosts["threshold_mbps"].notna().sum())
    note = f"model, {found} of {len(hosts)} searches"
    panels[0, -1].set_title(note, loc="right", fontsize=SMALL_POINTS, color=GREY, pad=3)
    panels[0, 0].set_ylabel("zero-loss threshold,\npayload (Mb/s)")
    handles = [
        Line2D([], [], color=colour, label=f"{buffer / 1024:,.0f} KiB")
        for buffer, colour in reversed(colours.items())
    ]
    handles += [_handle(name) for name in LABELS]
    handles.append(Line2D([], [], color="0.5", linestyle=":", label="limit of the line"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7)
    sns.despine(figure)
    return figure


def _dependence_panel(axes: Axes, shown: pd.DataFrame, colours: dict) -> None:
    stalls = sorted(shown["stall_length_ms"].unique())
    logs = shown.assign(log=np.log(shown["threshold_mbps"]))
    for key, group in logs.groupby(["configuration", "receive_buffer_bytes"]):
        configuration, buffer = str(key[0]), key[1]  # type: ignore[index]
        by_seed = group.pivot_table("log", "stall_length_ms", "replication", aggfunc="mean")
        middle = np.exp(by_seed.mean(axis=1))
        # If all seeds are at the limit of the link, rounding may give a negative reach.
        lowest, highest = np.exp(by_seed.min(axis=1)), np.exp(by_seed.max(axis=1))
        reach = np.maximum([middle - lowest, highest - middle], 0)
        # Configurations are shifted, so that none hides the other.
        offset = 0.96 if configuration == "control" else 1.04
        axes.errorbar(
            by_seed.index.to_numpy() * offset,
            middle,
            yerr=reach,
            color=colours[buffer],
            marker=MARKERS[configuration],
            linestyle=STYLES[configuration],
            markerfacecolor=colours[buffer] if configuration == "control" else "white",
            elinewidth=0.7,
        )
    axes.axhline(float(shown["line_limit_mbps"].iloc[0]), color="0.5", linestyle=":", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="stall length (ms)")
    axes.xaxis.set_major_locator(FixedLocator(stalls))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.yaxis.set_minor_formatter(FuncFormatter(_half_decades))


def _plain(value: float, _: int | None = None) -> str:
    return f"{value:g}"


def _half_decades(value: float, _: int | None = None) -> str:
    """Label 2 and 5 of each decade."""
    first = round(value / 10 ** np.floor(np.log10(value)))
    return f"{value:g}" if first in (2, 5) else ""


def _handle(configuration: str) -> Line2D:
    options: Any = {"marker": MARKERS[configuration], "linestyle": STYLES[configuration]}
    return Line2D(
        [],
        [],
        color="0.3",
        **options,
        markerfacecolor="0.3" if configuration == "control" else "white",
        label=LABELS[configuration],
    )


def replication(table: pd.DataFrame) -> Figure:
    """Draw FRER's threshold over control's by condition of the paths, one mark per combination."""
    paired = pairs(table).dropna(subset="ratio")
    groups = {"hosts": paired[paired["part"] == HOSTS]}
    groups |= conditions(paired[paired["part"] == PATHS])
    groups.pop("clean", None)
    labels = [_condition(name) for name in groups]
    figure, axes = new(2.5, "model")
    count_shown(figure, 2 * len(paired), len(table), "searches")
    payloads = sorted(paired["payload_bytes"].unique())
    colours = dict(zip(payloads, sns.color_palette("colorblind", len(payloads)), strict=True))
    for position, rows in enumerate(groups.values()):
        for number, payload in enumerate(payloads):
            chosen = rows[rows["payload_bytes"] == payload]
            ratios = by_combination(chosen, _WITHIN_PAYLOAD).to_numpy()
            spread = (
                np.linspace(-0.09, 0.09, len(ratios)) if len(ratios) > 1 else np.zeros(len(ratios))
            )
            axes.scatter(
                position + 0.25 * (number - (len(payloads) - 1) / 2) + spread,
                ratios,
                s=7,
                marker="os^Dv"[number % 5],
                color=colours[payload],
                linewidths=0,
                alpha=0.8,
                label=f"{frame_bytes(payload)} B" if position == 0 else None,
            )
    axes.axhline(1, color="0.3", linewidth=0.7)
    axes.axhline(CREDITED_RATIO, color="0.3", linewidth=0.8, linestyle="--")
    axes.text(-0.45, CREDITED_RATIO * 1.04, "a third more", fontsize=6, va="bottom")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.yaxis.set_minor_formatter(FuncFormatter(_half_decades))
    axes.set_xticks(range(len(labels)), labels, fontsize=6.5)
    axes.set_xlabel("on the member paths")
    axes.set_ylabel("threshold, FRER / control")
    axes.legend(title="frames", title_fontsize=7, loc="upper left")
    return figure


def _condition(name: str) -> str:
    """Return the tick label of one condition of the paths."""
    kind, _, number = name.partition("_")
    if kind == "background":
        return f"others,\n{number} Mb/s"
    if kind == "loss":
        return f"loss\n$10^{{{number.removeprefix('1e').replace('_', '-')}}}$"
    return "nothing"


def effects(table: pd.DataFrame) -> Figure:
    """Draw the share of variance that each factor explains: over seeds median and limits."""
    figure, axes = new(2.2, "model")
    count_shown(figure, int(table["threshold_mbps"].notna().sum()), len(table), "searches")
    height = 0.38
    palette = sns.color_palette("colorblind")
    for number, (response, label) in enumerate(_RESPONSE_LABELS.items()):
        by_seed = shares(table, response)[list(FACTOR_LABELS)]
        found = [median_over_runs(by_seed[name]) for name in FACTOR_LABELS]
        values = np.array([estimate.value for estimate in found])
        low = values - np.array([estimate.low for estimate in found])
        high = np.array([estimate.high for estimate in found]) - values
        rows = np.arange(len(found))[::-1] + (0.5 - number) * height
        axes.barh(
            rows,
            values,
            height,
            xerr=[low, high],
            color=palette[number],
            hatch=("", "////")[number],
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 0.7},
            label=label,
        )
        for row, value, reach in zip(rows, values, high, strict=True):
            text = f"{value:.1f}" if value >= 0.05 else "< 0.1"
            axes.text(value + reach + 1, row, text, va="center", fontsize=6)
    axes.set_yticks(np.arange(len(FACTOR_LABELS))[::-1], list(FACTOR_LABELS.values()))
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the variance of log threshold (%)")
    axes.legend(loc="lower right")
    return figure
