"""Figures to look around with: wide as a notebook, from the tables that ``tsnrepro.load`` gives."""

import io
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
from tsnrepro.experiments.loss.analysis import SWEEP, asked, places
from tsnrepro.explore.load import RawTrial
from tsnrepro.records.outputs import ARRIVALS, HALF_ROUND_TRIPS, SOCKPERF_LOG
from tsnrepro.results.figures import COLOURS, GREY, LABELS, MARKERS, STYLES, say, style
from tsnrepro.stats.long_series import Series

WIDTH_INCHES = 8.0
_MOST_PANELS = 6
_MOST_LOADS = 14
# Loss of nothing has no logarithm: below this the axis is linear and ends at zero.
_LINEAR_BELOW_PERCENT = 1e-3
_MOST_ROWS = 30
_SLICE_MS = 20
_MOST_DOTS, _SLICE_SAMPLES = 400_000, 4096
_PLACE_NAMES = {
    "listener_socket": "listener's socket buffer",
    "talker": "talker",
    "switches": "switch queues",
    "other": "elsewhere",
}


def _panels(
    count: int, height_inches: float, *, layout: Any = "constrained", **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure and so many panels beside and below each other."""
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
    plt.close(figure)  # shown by whoever gets it, not once more by pyplot
    sns.despine(figure)
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.set_visible(False)
    return figure, flat[: max(1, count)]


def _name(configuration: object) -> str:
    return LABELS.get(str(configuration), str(configuration))


def _look(configuration: object) -> dict[str, Any]:
    """Return how a configuration is drawn in all figures; unknown ones take what comes next."""
    key = str(configuration)
    if key not in COLOURS:
        return {"marker": "^"}
    return {"color": COLOURS[key], "marker": MARKERS[key], "linestyle": STYLES[key]}


def loss_curves(trials: pd.DataFrame) -> Figure:
    """Draw loss over offered load, a panel for each payload, a mark for each trial of a sweep."""
    told = asked(trials, SWEEP).dropna(subset=["offered_mbps", "loss_percent"])
    payloads = sorted(told["payload_bytes"].unique(), reverse=True)[:_MOST_PANELS]
    figure, axes = _panels(len(payloads), 2.3, sharey=True)
    if not payloads:
        say(axes[0])
    for panel, payload in zip(axes, payloads, strict=False):
        of_size = told[told["payload_bytes"] == payload]
        for configuration, group in of_size.groupby("configuration"):
            by_load = group.groupby("target_mbps", dropna=False)[["offered_mbps", "loss_percent"]]
            middle = by_load.median().sort_values("offered_mbps")
            look = _look(configuration)
            marks = {k: v for k, v in look.items() if k != "linestyle"}
            without_marks: dict[str, Any] = look | {"marker": ""}
            panel.scatter(
                group["offered_mbps"], group["loss_percent"], s=9, alpha=0.45, linewidths=0, **marks
            )
            panel.plot(
                middle["offered_mbps"],
                middle["loss_percent"],
                **without_marks,
                label=_name(configuration),
            )
        _percent_axis(panel)
        panel.set(title=f"{payload} bytes of payload", xlim=(0, None))
        panel.set_xlabel("offered load (Mb/s of payload)")
    axes[0].set_ylabel("loss (%)")
    axes[0].legend(loc="upper left")
    return figure


def where_lost(trials: pd.DataFrame) -> Figure:
    """Draw the share of datagrams lost at each place, a bar for each load and configuration."""
    swept = asked(trials, SWEEP)
    told = pd.concat([swept, places(swept).fillna(0)], axis=1)
    largest = told["payload_bytes"].max()
    told = told[(told["payload_bytes"] == largest) & (told["lost"] > 0)]
    loads = sorted(told["target_mbps"].dropna().unique())[-_MOST_LOADS:]
    configurations = sorted(told["configuration"].unique())
    figure, axes = _panels(max(1, len(configurations)), 2.6, sharey=True, sharex=True)
    if not loads:
        say(axes[0], "nothing was lost")
        return figure
    for panel, configuration in zip(axes, configurations, strict=False):
        group = told[told["configuration"] == configuration]
        sums = group.groupby("target_mbps")[[*_PLACE_NAMES, "sent"]].sum().reindex(loads)
        left = np.zeros(len(loads))
        for colour, (column, name) in zip(
            sns.color_palette("colorblind")[2:], _PLACE_NAMES.items(), strict=False
        ):
            share = (100 * sums[column] / sums["sent"]).fillna(0).to_numpy()
            panel.barh(range(len(loads)), share, left=left, color=colour, label=name, height=0.75)
            left += share
        panel.set_yticks(range(len(loads)), [f"{load:g}" for load in loads])
        panel.set(
            title=f"{_name(configuration)}, {largest} bytes", xlabel="lost (% of what was sent)"
        )
    axes[0].set_ylabel("load asked for (Mb/s)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


def latency_distributions(
    trials: pd.DataFrame, series: Mapping[str, Series], column: str
) -> Figure:
    """Draw, for each payload, the share of latencies that are above a value, a line a trial.

    Parameters
    ----------
    trials
        What ``trials`` of a campaign gives.
    series
        What its ``series`` gives: the latencies in microseconds by trial.
    column
        What they are called.
    """
    key = "payload_bytes" if "payload_bytes" in trials else "part"
    kinds = "configuration" if "configuration" in trials else "mode"
    chosen = sorted(trials[key].unique(), reverse=key == "payload_bytes")[:_MOST_PANELS]
    figure, axes = _panels(len(chosen), 2.3, sharey=True)
    for panel, value in zip(axes, chosen, strict=False):
        for kind, group in trials[trials[key] == value].groupby(kinds):
            _tails(panel, [series[trial] for trial in group["trial"]], kind)
        panel.set(xscale="log", yscale="log")
        _plain_ticks(panel.xaxis, panel.yaxis)
        panel.set_title(f"{value} bytes of payload" if key == "payload_bytes" else str(value))
        panel.set_xlabel(f"{column.removesuffix('_us').replace('_', ' ')} (µs)")
    axes[0].set_ylabel("share of datagrams above")
    axes[0].legend()
    return figure


def _tails(panel: Axes, runs: list[Series], kind: object) -> None:
    """Draw the runs of one kind in its colour."""
    look = {k: v for k, v in _look(kind).items() if k != "marker"}
    look.setdefault("color", panel.plot([], [])[0].get_color())  # the next one of the cycle
    for index, run in enumerate(run for run in runs if len(run)):
        label = None if index else _name(kind)
        panel.plot(*tail(run), label=label, alpha=0.8, linewidth=0.9, **look)


def _above(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and the share that is at or above each, thinned to what an eye can tell."""
    ordered = np.sort(values[np.isfinite(values)])
    share = 1 - np.arange(len(ordered)) / max(1, len(ordered))
    if len(ordered) > 4000:
        # Every one of the largest, fewer of the others.
        spread = np.geomspace(1, len(ordered), 4000)
        kept = np.unique((len(ordered) - spread).astype(int))
        ordered, share = ordered[kept], share[kept]
    return ordered, share


def any_factor(trials: pd.DataFrame, x: str, y: str, colour: str | None = None) -> Figure:
    """Draw one column of trials over another, where wanted by the values of a third."""
    figure, (panel,) = _panels(1, 3.2)
    told = trials.dropna(subset=[x, y])
    if told.empty:
        say(panel)
        return figure
    if colour and told[colour].isna().all():
        colour = None  # what has both has nothing in the third
    numbers = pd.api.types.is_numeric_dtype(told[x])
    draw = sns.scatterplot if numbers else sns.stripplot
    draw(data=told, x=x, y=y, hue=colour, ax=panel, palette="colorblind" if colour else None)
    if colour:
        panel.legend(title=colour, loc="best")
    return figure


def datagrams_of(record: dict[str, Any]) -> Figure:
    """Draw where the datagrams of one trial went, as counts on a logarithmic axis."""
    accounting = record["values"].get("accounting")
    figure, (panel,) = _panels(1, 2.4)
    if not accounting:
        say(panel, "this experiment does not account for its datagrams")
        return figure
    went = {name: accounting[name] for name in ("sent", "copies", "received", "eliminated")}
    dropped = {place: count for place, count in accounting["drops"].items() if count}
    rows = [*went.items(), *dropped.items(), ("unaccounted", abs(accounting["unaccounted"]))]
    names, counts = zip(*rows, strict=True)
    colours = [GREY] * len(went) + [sns.color_palette("colorblind")[3]] * (len(rows) - len(went))
    bars = panel.barh(range(len(rows)), counts, color=colours)
    panel.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=3, fontsize=7)
    panel.set_yticks(range(len(rows)), names)
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xlim(0, 10 * max(1, *counts))
    panel.invert_yaxis()
    panel.set_xlabel("datagrams")
    return figure


def over_time(trial: RawTrial) -> Figure:
    """Draw what one trial kept of single datagrams over its time."""
    figure, (panel,) = _panels(1, 2.4)
    if ARRIVALS in trial.outputs:
        _arrivals(panel, pd.read_parquet(io.BytesIO(trial.output(ARRIVALS))))
    elif {HALF_ROUND_TRIPS, SOCKPERF_LOG} & {*trial.outputs}:
        _half_round_trips(panel, latency.pieces(trial.store, trial.record["trial"]))
    else:
        say(panel, "this trial kept no single datagrams")
    return figure


def _half_round_trips(panel: Axes, pieces: Iterable[np.ndarray]) -> None:
    """Draw a dot a round trip, and of so many that dots run together, the ends of each slice."""
    least, greatest, plain, count = [], [], [], 0
    for piece in pieces:
        if count + len(piece) <= _MOST_DOTS:
            plain.append(piece)
        starts = np.arange(0, len(piece), _SLICE_SAMPLES)
        least.append(np.minimum.reduceat(piece, starts))
        greatest.append(np.maximum.reduceat(piece, starts))
        count += len(piece)
    if count <= _MOST_DOTS:
        values = np.concatenate(plain) if plain else np.empty(0)
        panel.plot(np.arange(len(values)), values, ",")
    else:
        low, high = np.concatenate(least), np.concatenate(greatest)
        panel.fill_between(np.linspace(0, count, len(low)), low, high, linewidth=0.3)
    panel.set(xlabel="observation", ylabel="half round trip (µs)", yscale="log")


def _arrivals(panel: Axes, arrivals: pd.DataFrame) -> None:
    """Draw how many datagrams came in each slice of time."""
    since_ms = (arrivals["received_ns"] - arrivals["received_ns"].min()) / 1e6
    counts = np.bincount((since_ms // _SLICE_MS).astype(int))
    panel.step(np.arange(len(counts)) * _SLICE_MS / 1000, counts, where="post")
    panel.set(xlabel="time (s)", ylabel=f"datagrams in {_SLICE_MS} ms", ylim=(0, None))


def compared(table: pd.DataFrame, of: str = "") -> Figure:
    """Draw the results that two campaigns share, as ratios of the second to the first.

    Parameters
    ----------
    table
        What :func:`tsnrepro.compare` gives.
    of
        The beginning of the keys to draw; the largest changes come first.
    """
    chosen = table[table.index.str.startswith(of) & (table["ratio"] > 0)]
    order = chosen["ratio"].transform(np.log).abs().sort_values(ascending=False).index[:_MOST_ROWS]
    chosen = chosen.loc[order]
    figure, (panel,) = _panels(1, 0.6 + 0.19 * max(4, len(chosen)))
    if chosen.empty:
        say(panel, "no number that both have")
        return figure
    y = np.arange(len(chosen))
    red, grey = sns.color_palette("colorblind")[3], GREY
    colours = [red if apart else grey for apart in chosen["apart"]]
    first = chosen["value_one"].to_numpy(float)
    limits = chosen[["low_other", "high_other"]].to_numpy(float) / first[:, None]
    panel.hlines(y, limits.min(axis=1), limits.max(axis=1), colors=colours, linewidth=1)
    panel.scatter(chosen["ratio"], y, c=colours, s=14, zorder=3)
    panel.axvline(1, color=GREY, linewidth=0.6)
    panel.set_yticks(y, chosen.index)
    panel.invert_yaxis()
    panel.set(xscale="log", xlabel="second / first; red: their intervals lie apart")
    return figure


def _side_by_side() -> tuple[Figure, list[Axes]]:
    """Return two panels in fixed places: to look for better ones takes as long as to draw them."""
    figure, axes = _panels(2, 2.6, layout=None)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.95, bottom=0.19, wspace=0.25)
    return figure, axes


def _percent_axis(panel: Axes) -> None:
    """Give loss a logarithmic axis that has a place for nothing lost."""
    panel.set_yscale("symlog", linthresh=_LINEAR_BELOW_PERCENT)
    ticks = [0, 0.001, 0.1, 10, 100]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylim(0, 100)


def _plain_ticks(*axes: Axis) -> None:
    """Write numbers of logarithmic axes plainly: powers of ten take most of the time to draw."""
    for axis in axes:
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def what_if_loss(found: pd.DataFrame) -> Figure:
    """Draw loss and its places, as :func:`tsnrepro.explore.what_if.loss_over_load` gives them."""
    figure, (curve, where) = _side_by_side()
    for configuration, group in found.groupby("configuration"):
        curve.plot(
            group["rate_mbps"],
            group["loss_percent"],
            label="one path" if configuration == "control" else "FRER",
            **_look(configuration),
        )
    _percent_axis(curve)
    curve.set_xticks([0, 300, 600, 900])
    curve.set(xlabel="offered load (Mb/s of payload)", ylabel="loss (%), simulated")
    curve.legend(loc="upper left")
    places_of = found.groupby("configuration")[["at_the_listener", "in_the_network"]].sum()
    share = 100 * places_of.div(found.groupby("configuration")["sent"].sum(), axis=0)
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
    where.set(ylabel="lost at all loads together (%)", ylim=(0, 1.35 * most))
    where.legend(loc="upper center", ncols=2)
    return figure


def what_if_gates(latencies: pd.DataFrame) -> Figure:
    """Draw what :func:`tsnrepro.explore.what_if.gated_latency` gives: latencies by mode."""
    figure, (over, above) = _side_by_side()
    for mode, group in latencies.groupby("mode", sort=False):
        over.plot(group["datagram"], group["latency_us"], ".", markersize=2, label=str(mode))
        above.plot(*_above(group["latency_us"].to_numpy()), label=str(mode))
    over.set(xlabel="datagram", ylabel="one-way latency (µs), simulated", yscale="log")
    above.set(xlabel="one-way latency (µs)", ylabel="share above", xscale="log", yscale="log")
    _plain_ticks(over.yaxis, above.xaxis, above.yaxis)
    above.legend()
    return figure
