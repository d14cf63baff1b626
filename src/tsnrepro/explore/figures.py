"""Interactive figures of the tables of ``tsnrepro.load``, as wide as a notebook."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from tsnrepro.experiments.latency import analysis as latency
from tsnrepro.experiments.latency.figures import tail
from tsnrepro.experiments.loss.analysis import SWEEP, loss_locations, trials_of_objective
from tsnrepro.explore.load import RawTrial
from tsnrepro.records.store import ARRIVALS, HALF_ROUND_TRIPS, SOCKPERF_LOG
from tsnrepro.results.figures import (
    COLOURS,
    GREY,
    LABELS,
    MARKERS,
    PLACE_LABELS,
    STYLES,
    note_empty,
    style,
)
from tsnrepro.stats.long_series import Series

WIDTH_INCHES = 8.0
_MAX_LOADS = 14
# The axis is linear below this loss, since zero has no logarithm.
_LINEAR_BELOW_PERCENT = 1e-3
_MAX_ROWS = 30
_SLICE_MS = 20
_MAX_DOTS, _SLICE_SAMPLES = 400_000, 4096


def _panels(
    count: int, height_inches: float, *, layout: Any = "constrained", **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` panels in up to three columns."""
    style()
    plt.rcParams["axes.titlesize"] = 8
    columns = max(1, min(3, count))
    rows = -(-max(1, count) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(WIDTH_INCHES, height_inches * rows),
        layout=layout,
        squeeze=False,
        **options,
    )
    plt.close(figure)  # pyplot would show it again
    sns.despine(figure)
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.set_visible(False)
    return figure, flat[: max(1, count)]


def _name(configuration: object) -> str:
    return LABELS.get(str(configuration), str(configuration))


def styles_of(kinds: Iterable[Any]) -> dict[Any, dict[str, Any]]:
    """Return the style of each kind of trials: configurations have the same in all figures.

    Others have further colours in their order, whatever a panel shows of them.
    """
    names = sorted({*kinds}, key=lambda kind: (isinstance(kind, str), kind))
    others = [name for name in names if name not in COLOURS]
    used = len(COLOURS)
    further = sns.color_palette("colorblind")[used:]
    if len(others) > len(further):
        further = sns.color_palette("husl", len(others))
    found: dict[Any, dict[str, Any]] = {
        name: {"color": COLOURS[name], "marker": MARKERS[name], "linestyle": STYLES[name]}
        for name in names
        if name in COLOURS
    }
    marked = zip(others, further, strict=False)
    return found | {name: {"color": colour, "marker": "^"} for name, colour in marked}


def _note(figure: Figure, *notes: str) -> None:
    """Write above a figure what it leaves out, if anything."""
    if said := "; ".join(filter(None, notes)):
        figure.suptitle(said, fontsize=7, color=GREY)


def _left_out(trials: pd.DataFrame, drawn: pd.DataFrame, why: str) -> str:
    count = len(trials) - len(drawn)
    return f"{count} of {len(trials)} trials are not drawn: {why}" if count else ""


def loss_curves(trials: pd.DataFrame) -> Figure:
    """Draw loss over offered load, one panel per payload, one mark per trial of the sweep."""
    known = trials_of_objective(trials, SWEEP).dropna(subset=["offered_mbps", "loss_percent"])
    payloads = sorted(known["payload_bytes"].unique(), reverse=True)
    figure, axes = _panels(len(payloads), 2.3, sharey=True)
    styles = styles_of(known["configuration"])
    _note(figure, _left_out(trials, known, "of other questions, or without load or loss"))
    if not payloads:
        note_empty(axes[0])
    for panel, payload in zip(axes, payloads, strict=False):
        of_size = known[known["payload_bytes"] == payload]
        for configuration, group in of_size.groupby("configuration"):
            by_load = group.groupby("target_mbps", dropna=False)[["offered_mbps", "loss_percent"]]
            middle = by_load.median().sort_values("offered_mbps")
            line = styles[configuration]
            marks = {k: v for k, v in line.items() if k != "linestyle"}
            line = {**line, "marker": ""}
            panel.scatter(
                group["offered_mbps"], group["loss_percent"], s=9, alpha=0.45, linewidths=0, **marks
            )
            panel.plot(
                middle["offered_mbps"],
                middle["loss_percent"],
                **line,
                label=_name(configuration),
            )
        _percent_axis(panel)
        panel.set(title=f"{payload} bytes of payload", xlim=(0, None))
        panel.set_xlabel("offered load (Mb/s of payload)")
    axes[0].set_ylabel("loss (%)")
    axes[0].legend(loc="upper left")
    return figure


def where_lost(trials: pd.DataFrame) -> Figure:
    """Draw the share of datagrams lost at each place, one bar per load and configuration."""
    swept = trials_of_objective(trials, SWEEP)
    lossy = pd.concat([swept, loss_locations(swept).fillna(0)], axis=1)
    lossy = lossy[lossy["lost"] > 0]
    largest, *others = sorted(lossy["payload_bytes"].unique(), reverse=True) or [0]
    lossy = lossy[lossy["payload_bytes"] == largest]
    tried = sorted(lossy["target_mbps"].dropna().unique())
    loads = tried[-_MAX_LOADS:]
    configurations = sorted(lossy["configuration"].unique())
    figure, axes = _panels(max(1, len(configurations)), 2.6, sharey=True, sharex=True)
    if not loads:
        note_empty(axes[0], "nothing was lost")
        return figure
    sizes = ", ".join(f"{size}" for size in others)
    _note(
        figure,
        f"losses of {sizes} bytes are not drawn" if others else "",
        f"the highest {len(loads)} of {len(tried)} loads" if len(tried) > len(loads) else "",
    )
    for panel, configuration in zip(axes, configurations, strict=False):
        group = lossy[lossy["configuration"] == configuration]
        sums = group.groupby("target_mbps")[[*PLACE_LABELS, "sent"]].sum().reindex(loads)
        left = np.zeros(len(loads))
        for colour, (column, name) in zip(
            sns.color_palette("colorblind")[2:], PLACE_LABELS.items(), strict=False
        ):
            share = (100 * sums[column] / sums["sent"]).fillna(0).to_numpy()
            panel.barh(range(len(loads)), share, left=left, color=colour, label=name, height=0.75)
            left += share
        panel.set_yticks(range(len(loads)), [f"{load:g}" for load in loads])
        panel.set(
            title=f"{_name(configuration)}, {largest} bytes", xlabel="loss (% of sent datagrams)"
        )
    axes[0].set_ylabel("target load (Mb/s)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


def latency_distributions(
    trials: pd.DataFrame, series: Mapping[str, Series], column: str
) -> Figure:
    """Draw the share of latencies above a value, one panel per payload and one line per trial.

    Parameters
    ----------
    trials
        The trials of a campaign.
    series
        Their latencies in microseconds by trial.
    column
        Name of the latency.
    """
    key = "payload_bytes" if "payload_bytes" in trials else "part"
    kinds = "configuration" if "configuration" in trials else "mode"
    chosen = sorted(trials[key].unique(), reverse=key == "payload_bytes")
    figure, axes = _panels(len(chosen), 2.3, sharey=True)
    styles = styles_of(trials[kinds])
    known = trials[[len(series[trial]) > 0 for trial in trials["trial"]]]
    _note(figure, _left_out(trials, known, "they have no single latencies"))
    for panel, value in zip(axes, chosen, strict=False):
        for kind, group in trials[trials[key] == value].groupby(kinds):
            _tails(panel, [series[trial] for trial in group["trial"]], kind, styles[kind])
        panel.set(xscale="log", yscale="log")
        _plain_ticks(panel.xaxis, panel.yaxis)
        panel.set_title(f"{value} bytes of payload" if key == "payload_bytes" else str(value))
        panel.set_xlabel(f"{column.removesuffix('_us').replace('_', ' ')} (µs)")
    axes[0].set_ylabel("share of datagrams above")
    axes[0].legend()
    return figure


def _tails(panel: Axes, runs: list[Series], kind: object, styled: dict[str, Any]) -> None:
    """Draw the runs of one kind in its colour."""
    line = {k: v for k, v in styled.items() if k != "marker"}
    for index, run in enumerate(run for run in runs if len(run)):
        label = None if index else _name(kind)
        panel.plot(*tail(run), label=label, alpha=0.8, linewidth=0.9, **line)


def _above(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and the share at or above each, thinned to 4000 points."""
    ordered = np.sort(values[np.isfinite(values)])
    share = 1 - np.arange(len(ordered)) / max(1, len(ordered))
    if len(ordered) > 4000:
        # All of the largest, fewer of the others.
        ranks = np.geomspace(1, len(ordered), 4000)
        kept = np.unique((len(ordered) - ranks).astype(int))
        ordered, share = ordered[kept], share[kept]
    return ordered, share


def any_factor(trials: pd.DataFrame, x: str, y: str, colour: str | None = None) -> Figure:
    """Draw one column of trials over another, optionally coloured by a third."""
    figure, (panel,) = _panels(1, 3.2)
    known = trials.dropna(subset=[x, y])
    if known.empty:
        note_empty(panel)
        return figure
    if colour and known[colour].isna().all():
        colour = None
    _note(figure, _left_out(trials, known, f"without {x} or {y}"))
    numbers = pd.api.types.is_numeric_dtype(known[x])
    draw = sns.scatterplot if numbers else sns.stripplot
    colours: dict[str, Any] = {}
    if colour:
        # Of all trials, so that a kind has its colour in every figure of them.
        styles = styles_of(trials[colour].dropna())
        palette = {kind: each["color"] for kind, each in styles.items()}
        colours = {"hue": colour, "hue_order": [*palette], "palette": palette}
    draw(data=known, x=x, y=y, ax=panel, **colours)
    if colour:
        panel.legend(title=colour, loc="best")
    return figure


def datagrams_of(record: dict[str, Any]) -> Figure:
    """Draw the accounting of the datagrams of a trial on a logarithmic axis."""
    accounting = record["values"].get("accounting")
    figure, (panel,) = _panels(1, 2.4)
    if not accounting:
        note_empty(panel, "this experiment does not account for its datagrams")
        return figure
    counted = {name: accounting[name] for name in ("sent", "copies", "received", "eliminated")}
    dropped = {place: count for place, count in accounting["drops"].items() if count}
    rows = [*counted.items(), *dropped.items(), ("unaccounted", abs(accounting["unaccounted"]))]
    names, counts = zip(*rows, strict=True)
    colours = [GREY] * len(counted) + [sns.color_palette("colorblind")[3]] * (
        len(rows) - len(counted)
    )
    bars = panel.barh(range(len(rows)), counts, color=colours)
    panel.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=3, fontsize=7)
    panel.set_yticks(range(len(rows)), names)
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xlim(0, 10 * max(1, *counts))
    panel.invert_yaxis()
    panel.set_xlabel("datagrams")
    return figure


def over_time(trial: RawTrial) -> Figure:
    """Draw the recorded single datagrams of a trial over time."""
    figure, (panel,) = _panels(1, 2.4)
    if ARRIVALS in trial.outputs:
        _arrivals(panel, trial.table("arrivals"))
    elif {HALF_ROUND_TRIPS, SOCKPERF_LOG} & {*trial.outputs}:
        _half_round_trips(panel, latency.pieces(trial.store, trial.record["trial"]))
    else:
        note_empty(panel, "this trial has no record of single datagrams")
    return figure


def _half_round_trips(panel: Axes, pieces: Iterable[np.ndarray]) -> None:
    """Draw one dot per round trip, or the extremes of each slice if there are too many."""
    least, greatest, plain, count = [], [], [], 0
    for piece in pieces:
        if count + len(piece) <= _MAX_DOTS:
            plain.append(piece)
        starts = np.arange(0, len(piece), _SLICE_SAMPLES)
        least.append(np.minimum.reduceat(piece, starts))
        greatest.append(np.maximum.reduceat(piece, starts))
        count += len(piece)
    if count <= _MAX_DOTS:
        values = np.concatenate(plain) if plain else np.empty(0)
        panel.plot(np.arange(len(values)), values, ",")
    else:
        low, high = np.concatenate(least), np.concatenate(greatest)
        panel.fill_between(np.linspace(0, count, len(low)), low, high, linewidth=0.3)
    panel.set(xlabel="observation", ylabel="half round trip (µs)", yscale="log")


def _arrivals(panel: Axes, arrivals: pd.DataFrame) -> None:
    """Draw the number of received datagrams per slice of time."""
    since_ms = (arrivals["received_ns"] - arrivals["received_ns"].min()) / 1e6
    counts = np.bincount((since_ms // _SLICE_MS).astype(int))
    panel.step(np.arange(len(counts)) * _SLICE_MS / 1000, counts, where="post")
    panel.set(xlabel="time (s)", ylabel=f"datagrams in {_SLICE_MS} ms", ylim=(0, None))


def compared(table: pd.DataFrame, of: str = "") -> Figure:
    """Draw the common results of two campaigns, as ratios of the second to the first.

    Limits that are no interval are dashed, and their values grey.

    Parameters
    ----------
    table
        The table of :func:`tsnrepro.compare`.
    of
        Prefix of the keys to draw; the largest changes are drawn first.
    """
    named = table[table.index.str.startswith(of)]
    chosen = named[named["ratio"] > 0]
    order = chosen["ratio"].transform(np.log).abs().sort_values(ascending=False).index[:_MAX_ROWS]
    without, more = len(named) - len(chosen), len(chosen) - len(order)
    chosen = chosen.loc[order]
    figure, (panel,) = _panels(1, 0.6 + 0.19 * max(4, len(chosen)))
    _note(
        figure,
        f"not drawn: {more} smaller changes" if more else "",
        f"not drawn: {without} without a ratio above 0" if without else "",
    )
    if chosen.empty:
        note_empty(panel, "no common results")
        return figure
    y = np.arange(len(chosen))
    red, grey = sns.color_palette("colorblind")[3], GREY
    colours = [red if apart else grey for apart in chosen["apart"].fillna(False)]
    dashes: Any = ["--" if unknown else "-" for unknown in chosen["apart"].isna()]
    first = chosen["value_one"].to_numpy(float)
    limits = chosen[["low_other", "high_other"]].to_numpy(float) / first[:, None]
    ends = limits.min(axis=1), limits.max(axis=1)
    panel.hlines(y, *ends, colors=colours, linewidth=1, linestyles=dashes)
    panel.scatter(chosen["ratio"], y, c=colours, s=14, zorder=3)
    panel.axvline(1, color=GREY, linewidth=0.6)
    panel.set_yticks(y, chosen.index)
    panel.invert_yaxis()
    panel.set(
        xscale="log",
        xlabel="second / first; red: their intervals do not overlap; dashed: no interval",
    )
    return figure


def _side_by_side() -> tuple[Figure, list[Axes]]:
    """Return two panels at fixed positions, since a layout takes as long as drawing them."""
    figure, axes = _panels(2, 2.6, layout=None)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.95, bottom=0.19, wspace=0.25)
    return figure, axes


def _percent_axis(panel: Axes) -> None:
    """Set a logarithmic axis of loss that includes zero."""
    panel.set_yscale("symlog", linthresh=_LINEAR_BELOW_PERCENT)
    ticks = [0, 0.001, 0.1, 10, 100]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylim(0, 100)


def _plain_ticks(*axes: Axis) -> None:
    """Use plain numbers on logarithmic axes, since powers of ten are slow to draw."""
    for axis in axes:
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def what_if_loss(found: pd.DataFrame) -> Figure:
    """Draw the loss and its places by :func:`tsnrepro.explore.what_if.loss_over_load`."""
    figure, (curve, where) = _side_by_side()
    styles = styles_of(found["configuration"])
    for configuration, group in found.groupby("configuration"):
        curve.plot(
            group["rate_mbps"],
            group["loss_percent"],
            label="one path" if configuration == "control" else "FRER",
            **styles[configuration],
        )
    _percent_axis(curve)
    curve.set_xticks([0, 300, 600, 900])
    curve.set(xlabel="offered load (Mb/s of payload)", ylabel="loss (%), simulated")
    curve.legend(loc="upper left")
    lost = found.groupby("configuration")[["at_the_listener", "in_the_network"]].sum()
    share = 100 * lost.div(found.groupby("configuration")["sent"].sum(), axis=0)
    listener, network = share["at_the_listener"], share["in_the_network"]
    names = [_name(name) for name in share.index]
    where.bar(names, listener, label="at the listener", color=sns.color_palette("colorblind")[2])
    where.bar(
        names,
        network,
        bottom=listener,
        label="in the network",
        color=sns.color_palette("colorblind")[4],
    )
    most = max(0.1, float(share.sum(axis=1).max()))
    where.set(ylabel="loss over all loads (%)", ylim=(0, 1.35 * most))
    where.legend(loc="upper center", ncols=2)
    return figure


def what_if_gates(latencies: pd.DataFrame) -> Figure:
    """Draw the latencies by mode of :func:`tsnrepro.explore.what_if.gated_latency`."""
    figure, (over, above) = _side_by_side()
    for mode, group in latencies.groupby("mode", sort=False):
        over.plot(group["datagram"], group["latency_us"], ".", markersize=2, label=str(mode))
        above.plot(*_above(group["latency_us"].to_numpy()), label=str(mode))
    over.set(xlabel="datagram", ylabel="one-way latency (µs), simulated", yscale="log")
    above.set(xlabel="one-way latency (µs)", ylabel="share above", xscale="log", yscale="log")
    _plain_ticks(over.yaxis, above.xaxis, above.yaxis)
    above.legend()
    return figure
