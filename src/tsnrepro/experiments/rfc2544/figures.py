"""Figures of the RFC 2544 benchmarks, for a column of a journal."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tsnrepro.experiments.rfc2544.analysis import ANSWERS, limits_table, published_throughput
from tsnrepro.experiments.rfc2544.loads import (
    LOSS_SIZES,
    Size,
    offered,
    published_loss,
    sizes_of,
)
from tsnrepro.results.figures import (
    COLOURS,
    GREY,
    LABELS,
    MARKERS,
    SMALL_POINTS,
    count_shown,
    fill,
    grid,
    log_scale,
    loss_axis,
    mark_published,
    mark_trials,
    new,
    note_empty,
    stacked,
)

_ANSWER_MARKERS = {
    "binary_search": "v",
    "zero_loss": "o",
    "half_percent": "D",
    "rfc2544": "s",
    "systematic": "^",
}
ACCURACY_ROWS = (
    ("binary-search", "binary_search", "bisection, 10 × 30 s, 0.001 %"),
    ("binary-search-60s", "binary_search", "bisection, 10 × 60 s, no loss"),
    ("mlrsearch", "zero_loss", "MLRsearch, zero loss, 1 s"),
    ("mlrsearch", "half_percent", "MLRsearch, 0.5 %, 1 s"),
    ("mlrsearch-rfc2544", "rfc2544", "MLRsearch, RFC 2544, 60 s"),
    ("systematic", "systematic", "sweep, none lost below"),
    ("systematic", "threshold", "sweep, half lose"),
)
_DOCUMENTS_LINK_MBPS = 1000.0
_HALF_LOSE = "sweep, half of the trials lose"


def throughput(table: pd.DataFrame, testbed: str, link_rate_mbps: float = 1000.0) -> Figure:
    """Draw throughput over size, a mark a search, below the line's limits.

    ``table`` is that of :func:`tsnrepro.experiments.rfc2544.analysis.throughput_table`. The
    upper panel has the frame sizes, the lower one, where there are any, the documents' payloads
    with what they print if the links have the documents' rate.
    """
    framed = table[table["frame_bytes"].notna()].assign(size=lambda t: t["frame_bytes"].astype(int))
    plain = table[table["frame_bytes"].isna()].assign(size=lambda t: t["payload_bytes"])
    panels = 1 if plain.empty else 2
    printed = link_rate_mbps == _DOCUMENTS_LINK_MBPS
    figure, axes = stacked(1.2 + 1.6 * panels, testbed, panels)
    count_shown(figure, int(table["offered_payload_mbps"].notna().sum()), len(table), "searches")
    _throughput_panel(axes[0], framed, link_rate_mbps)
    axes[0].set_xlabel("frame size (bytes with FCS)")
    if panels == 2:
        _throughput_panel(axes[1], plain, link_rate_mbps, printed=printed)
        axes[1].set_xlabel("payload (bytes)")
    figure.legend(
        handles=_throughput_legend(table, printed=printed),
        loc="outside lower center",
        ncols=2,
    )
    return figure


def _throughput_legend(table: pd.DataFrame, *, printed: bool) -> list[Line2D]:
    """Return the marks: lines, colours for configurations, shapes for searches."""
    colours = [
        Line2D([], [], color=colour, linestyle="", marker="o", label=LABELS[name], **fill(name))
        for name, colour in COLOURS.items()
    ]
    shapes = [
        Line2D([], [], color=GREY, linestyle="", marker=marker, label=_search(goal, table))
        for goal, marker in _ANSWER_MARKERS.items()
        if (table["goal"] == goal).any()
    ]
    if table["threshold_pps"].notna().any():
        shapes.append(Line2D([], [], color=GREY, linestyle="", marker="+", label=_HALF_LOSE))
    published = Line2D([], [], color="black", linestyle="", marker="x", label="published")
    return [
        Line2D([], [], color=GREY, linestyle="-", label="line's limit"),
        Line2D([], [], color=GREY, linestyle=":", label="line's limit with R-TAG"),
        *colours,
        *([published] if printed else []),
        *shapes,
    ]


def _search(goal: str, table: pd.DataFrame) -> str:
    """Return the label of a search, with its generator where that is not our talker."""
    senders = sorted(set(table["generator"][table["goal"] == goal]))
    return ANSWERS[goal] + ("" if senders == ["talker"] else f" ({', '.join(senders)})")


def _throughput_panel(
    axes: Axes, table: pd.DataFrame, link_rate_mbps: float, *, printed: bool = False
) -> None:
    if table.empty:
        note_empty(axes)
        return
    sizes = sorted(table["size"].unique())
    place = {size: number for number, size in enumerate(sizes)}
    payload_of = table.groupby("size")["payload_bytes"].first()
    limits = limits_table(payload_of, link_rate_mbps).set_index("payload_bytes").loc[payload_of]
    for name, line in (("plain", "-"), ("tagged", ":")):
        rate = limits[f"{name}_payload_mbps"]
        axes.plot(range(len(sizes)), rate, line, color=GREY, linewidth=0.9)
    table = table.assign(threshold_mbps=table["threshold_pps"] * table["payload_bytes"] * 8 / 1e6)
    marks = [(marker, goal, "offered_payload_mbps") for goal, marker in _ANSWER_MARKERS.items()]
    marks.append(("+", "systematic", "threshold_mbps"))
    shown = [mark for mark in marks if table.loc[table["goal"] == mark[1], mark[2]].notna().any()]
    for number, (marker, goal, column) in enumerate(shown):
        aside = 0.12 * (number - (len(shown) - 1) / 2)
        for configuration, colour in COLOURS.items():
            chosen = table[(table["goal"] == goal) & (table["configuration"] == configuration)]
            axes.plot(
                chosen["size"].map(place) + aside,
                chosen[column],
                marker,
                color=colour,
                markersize=4 if marker == "+" else 3,
                markeredgewidth=0.7,
                **fill(configuration),
            )
    if printed:
        values = published_throughput()
        values = values[values["document"] == "frer-fail-operational"]
        values = values[values["payload_bytes"].isin(sizes)]
        mark_published(axes, values["payload_bytes"].map(place), values["zero_loss_mbps"])
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_ylim(0, 1.03 * link_rate_mbps)
    axes.set_ylabel("throughput\n(Mb/s of payload)")


def frame_loss(table: pd.DataFrame, testbed: str) -> Figure:
    """Draw frame loss over the load that was offered, a panel a size, a mark a load.

    ``table`` is that of :func:`tsnrepro.experiments.rfc2544.analysis.loss_table`; sizes asked for
    as payloads stand beside those of frames. Crosses are what fail-operational prints (tables 9A
    to 9C), its rates relative to the limit of the same payload. Points whose load the generator
    did not reach are left out.
    """
    count, table = len(table), offered(table)
    sizes = [s for s in sizes_of(table) if s.size_bytes in LOSS_SIZES and len(s.of(table))]
    columns = [
        own for kind in ("frame", "payload") if (own := [s for s in sizes if s.kind == kind])
    ]
    rows = max(map(len, columns), default=1)
    figure, panels = grid(
        0.7 + 0.95 * rows, testbed, rows, len(columns) or 1, sharex=True, sharey=True
    )
    count_shown(figure, len(table), count)
    if not sizes:
        note_empty(panels[0, 0])
        return figure
    for column, own in zip(panels.T, columns, strict=True):
        for axes in column[len(own) :]:
            axes.set_axis_off()
        for axes, size in zip(column, own, strict=False):
            _loss_panel(axes, size.of(table), size)
        column[len(own) - 1].tick_params(labelbottom=True)
    panels[0, 0].set_xlim(0, 1.03 * max(100, table["offered_percent"].max()))
    figure.supxlabel("offered load (% of the line's limit)", fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def _loss_panel(axes: Axes, table: pd.DataFrame, size: Size) -> None:
    # Control's open circles above FRER's squares: where nothing is lost, both are at one place.
    for configuration in reversed(LABELS):
        group = table[table["configuration"] == configuration]
        # Loads above the line come out as one offered load: one mark for each target.
        loads = group.groupby(["procedure", "asked_percent"])[["offered_percent", "loss_percent"]]
        points = loads.mean()
        mark_trials(axes, configuration, points["offered_percent"], points["loss_percent"])
    mark_published(axes, *_published_loss(size.size_bytes))
    loss_axis(axes)
    payload = " payload" if size.kind == "payload" else ""
    axes.set_ylabel(f"{size.size_bytes} B{payload}:\nloss (%)")


def _published_loss(size: int) -> tuple[pd.Series, pd.Series]:
    printed = published_loss()
    printed = printed[printed["size_bytes"] == size]
    limit = float(limits_table([size])["plain_payload_mbps"].iloc[0])
    return 100 * printed["published_offered_mbps"] / limit, printed["published_loss_percent"]


def buffer_time(table: pd.DataFrame, testbed: str) -> Figure:
    """Draw the corrected buffer time (RFC 9004) over frame size, and the buffer in datagrams.

    ``table`` is that of :func:`tsnrepro.experiments.rfc2544.analysis.burst_table`. Bars reach
    from the shortest to the longest burst that was found.
    """
    figure, (times, counts) = stacked(3.2, testbed, 2, sharex=True)
    framed = table[table["frame_bytes"].notna()]
    known = framed[framed["corrected_buffer_us"].notna()]
    count_shown(figure, len(known), len(framed))
    if known.empty:
        note_empty(times, "no buffer time")
        note_empty(counts, "no buffer time")
        return figure
    sizes = sorted(known["frame_bytes"].astype(int).unique())
    place = {size: number for number, size in enumerate(sizes)}
    for configuration, name in LABELS.items():
        group = known[known["configuration"] == configuration]
        where = group["frame_bytes"].astype(int).map(place) + (
            0.08 if configuration == "frer" else -0.08
        )
        for axes, column in ((times, "corrected_buffer_us"), (counts, "buffer_datagrams")):
            value = group[column].to_numpy(float)
            low = value * (1 - (group["min_burst"] / group["mean_burst"]).to_numpy(float))
            high = value * ((group["max_burst"] / group["mean_burst"]).to_numpy(float) - 1)
            axes.errorbar(
                where,
                value,
                yerr=[np.maximum(low, 0), np.maximum(high, 0)],
                fmt=MARKERS[configuration],
                color=COLOURS[configuration],
                capsize=1.5,
                elinewidth=0.7,
                label=name,
                **fill(configuration),
            )
    counts.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    counts.set_xlabel("frame size (bytes with FCS)")
    times.set_ylabel("corrected\nbuffer time (µs)")
    counts.set_ylabel("buffer\n(datagrams)")
    for axes in (times, counts):
        log_scale(axes.yaxis)
        axes.set_xlim(-0.5, len(sizes) - 0.5)
    figure.legend(*times.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def accuracy(table: pd.DataFrame, tolerance_percent: float = 1.0) -> Figure:
    """Draw each search's result relative to the truth, a mark a run, with and without stalls.

    ``table`` is :func:`tsnrepro.experiments.rfc2544.accuracy.run_accuracy`'s. At the right stands
    how many runs came within the tolerance, which is shaded.
    """
    figure, axes = new(2.9, "model testbed (simulated)")
    if table.empty:
        note_empty(axes, "no runs")
        return figure
    count_shown(figure, int(table["ratio"].notna().sum()), len(table), "searches")
    calm, stalled = sns.color_palette("colorblind")[:2]
    styles: Mapping[bool, dict] = {
        False: {"color": calm, "marker": "o", "aside": -0.17, "label": "without stalls"},
        True: {"color": stalled, "marker": "x", "aside": 0.17, "label": "with random stalls"},
    }
    rows = [row for row in ACCURACY_ROWS if _has(table, *row[:2])]
    spread = np.random.default_rng(0)
    for number, (method, answer, _) in enumerate(rows):
        of = table[(table["method"] == method) & (table["answer"] == answer)]
        for stalls, style in styles.items():
            group = of[of["stalls"] == stalls]
            height = number + style["aside"] + spread.uniform(-0.08, 0.08, len(group))
            axes.scatter(
                100 * group["ratio"],
                height,
                s=9,
                marker=style["marker"],
                color=style["color"],
                facecolors="none" if style["marker"] == "o" else style["color"],
                linewidths=0.7,
                label=style["label"] if number == 0 else None,
            )
            axes.text(
                1.02,
                number + style["aside"],
                f"{int(group['within'].sum())}/{len(group)}",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=SMALL_POINTS,
                color=style["color"],
            )
    axes.axvspan(
        100 - tolerance_percent, 100 + tolerance_percent, color="0.85", linewidth=0, zorder=0
    )
    axes.set_yticks(range(len(rows)), [label for *_, label in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 108)
    axes.set_xlabel("result (% of the truth)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _has(table: pd.DataFrame, method: str, answer: str) -> bool:
    return bool(((table["method"] == method) & (table["answer"] == answer)).any())
