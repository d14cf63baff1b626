"""Lines, rings and meshes: latency against the sum of its parts, loss against that of the paths.

Counted is what leaves the last switch towards the listener. A load is *low* where it is the
smallest of the run, *full* where it is the largest.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.results.cells import groups, word
from tsnrepro.results.figures import COLOURS, GREY, LABELS, MARKERS, new, say
from tsnrepro.results.missing import difference, loss, mean, relative, shared
from tsnrepro.results.results import Results

_PLACES = ["shape", "size", "cut"]


def with_topology(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a column ``topology``: line_4, ring_5, ring_5_cut, mesh_3."""
    cut = np.where(trials["cut"], "_cut", "")
    names = trials["shape"] + "_" + trials["size"].astype(str) + cut
    return trials.assign(topology=names).sort_values(_PLACES, kind="stable")


def analyse(trials: pd.DataFrame) -> Results:
    """Return loss, latency and carried load by topology, and what follows without simulating."""
    results = Results("topologies", trials)
    shared(results, "topologies.payload_bytes", trials, "payload_bytes", "B")
    shared(results, "topologies.duration_s", trials, "duration_s", "s")
    results.value("topologies.trials.count", len(trials), trials["trial"])
    named = with_topology(trials)
    for name, group in named.groupby("topology", sort=False):
        for configuration, own in group.groupby("configuration"):
            _add_configuration(results, f"topologies.{name}.{configuration}", own)
        _add_comparisons(results, f"topologies.{name}", group)
    return results


def _add_configuration(results: Results, key: str, group: pd.DataFrame) -> None:
    results.estimate(f"{key}.expected.us", mean(group, "expected_us", "us"), 2, group["trial"])
    shared(results, f"{key}.line_limit.mbps", group, "line_limit_mbps", "Mb/s", digits=1)
    shared(results, f"{key}.paths.count", group, "paths", "")
    shared(results, f"{key}.switches.count", group, "switches", "")
    for link_loss, of_loss in groups(group, "link_loss_percent"):
        for rate, cell in groups(of_loss, "rate_mbps"):
            at = f"{key}.{word('link_loss', link_loss)}.{word('rate', rate)}"
            _add_cell(results, at, cell)


def _add_cell(results: Results, key: str, cell: pd.DataFrame) -> None:
    trials = cell["trial"]
    results.estimate(f"{key}.lost.percent", loss(cell, "lost_percent"), 3, trials)
    expected = expected_lost_percent(cell.iloc[0])
    results.value(
        *(f"{key}.expected_lost.percent", expected, trials),
        unit="%",
        digits=3,
        method="closed form; none where the load is above the line's limit",
    )
    for name in ("p50", "p99"):
        results.estimate(f"{key}.{name}.us", mean(cell, f"{name}_us", "us"), 2, trials)
    ceiling = float(cell["line_limit_mbps"].iloc[0])
    carried = mean(cell, "carried_mbps", "Mb/s", ceiling)
    results.estimate(f"{key}.carried.mbps", carried, 1, trials)


def expected_lost_percent(trial: Any) -> float | None:
    """Return the loss of the links alone; None where queues lose too."""
    if trial["rate_mbps"] > trial["line_limit_mbps"]:
        return None
    return float(trial["expected_lost_percent"])


def low(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials at the smallest load of the run over links that lose least."""
    least = trials["link_loss_percent"].min()
    return trials[
        (trials["rate_mbps"] == trials["rate_mbps"].min()) & (trials["link_loss_percent"] == least)
    ]


def full(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials at the largest load of the run over links that lose least."""
    least = trials["link_loss_percent"].min()
    return trials[
        (trials["rate_mbps"] == trials["rate_mbps"].max()) & (trials["link_loss_percent"] == least)
    ]


def _add_comparisons(results: Results, key: str, group: pd.DataFrame) -> None:
    """Add what FRER changes at the low load of latency, at the full load of what is carried."""
    frer, control = (group[group["configuration"] == name] for name in ("frer", "control"))
    if frer.empty or control.empty:
        return
    if not group["cut"].any():
        pair = low(frer), low(control)
        changed = difference(*pair, "p50_us", "us")
        results.estimate(f"{key}.p50.difference.us", changed, 2, pd.concat(pair)["trial"])
    pair = full(frer), full(control)
    percent = relative(*pair, "carried_mbps").estimate
    ratio = 1 + percent.value / 100
    results.value(
        *(f"{key}.carried.ratio", ratio, pd.concat(pair)["trial"]),
        digits=4,
        method="ratio of geometric means over runs",
    )


def cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials by topology, configuration, loss of a link and load."""
    named = with_topology(trials)
    keys = ["topology", "configuration", "link_loss_percent", "rate_mbps"]
    numbers = ["lost_percent", "expected_lost_percent", "p50_us", "p99_us", "expected_us"]
    numbers += ["carried_mbps", "line_limit_mbps", "paths", "switches"]
    ordered = named.sort_values([*_PLACES, *keys[1:]])
    return ordered.groupby(keys, sort=False)[numbers].mean().reset_index()


def latency_by_topology(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the median latency at the low load, a mark a trial; bars are the sum of its parts.

    A ring that is cut half way has two latencies and no median to speak of.
    """
    figure, axes = new(2.7, testbed)
    chosen = low(with_topology(trials[~trials["cut"].astype(bool)]))
    if chosen.empty:
        say(axes)
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
        say(axes, "no links that lose")
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
        axes.plot(
            places,
            own[measured],
            MARKERS[configuration],
            color=COLOURS[configuration],
            markerfacecolor="none",
            clip_on=False,
        )
        axes.hlines(own[expected], places - 0.14, places + 0.14, color=GREY, linewidth=0.9)
    words = [name.replace("_cut", "\ncut").replace("_", " ") for name in names]
    axes.set_xticks(range(len(names)), words)


def _legend(figure: Figure, expected: str) -> None:
    axes = figure.axes[0]
    for configuration, name in LABELS.items():
        look = {"color": COLOURS[configuration], "markerfacecolor": "none"}
        axes.plot([], [], MARKERS[configuration], label=name, **look)
    axes.plot([], [], "-", color=GREY, linewidth=0.9, label=expected)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
