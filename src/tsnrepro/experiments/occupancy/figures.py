"""Figures of a queue that fills: its depth over time, and the time to fill it."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.experiments.occupancy.analysis import equation_ms, excess_mbytes, published_ms, times
from tsnrepro.results.figures import COLOURS, GREY, LABELS, MARKERS, count_shown, new, stacked

_MEMORIES = {"per_port": "a buffer each port", "shared": "one buffer for both"}


def depth(course: pd.DataFrame, rate_mbps: float, testbed: str) -> Figure:
    """Draw the depth of the fullest member port over time at one load, a panel a buffer.

    Thin lines are the equation. Depths are of one repetition.
    """
    chosen = course[course["rate_mbps"] == rate_mbps]
    sizes = sorted(chosen["buffer_bytes"].unique())
    figure, panels = stacked(0.7 + 1.35 * len(sizes), testbed, len(sizes), sharex=True)
    for axes, size in zip(panels, sizes, strict=True):
        _draw_panel(axes, chosen[chosen["buffer_bytes"] == size])
        axes.set_ylabel("queue (MB)")
        axes.set_title(f"buffer {size / 1e6:g} MB", loc="left", pad=3)
    panels[-1].set_xlabel(f"time at {rate_mbps:g} Mb/s offered (ms)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _draw_panel(axes: Axes, course: pd.DataFrame) -> None:
    styles = {("frer", "shared"): ":", ("frer", "per_port"): "--"}
    for cell, group in course.groupby(["configuration", "memory"]):
        configuration, memory = str(cell[0]), str(cell[1])
        if (configuration, memory) == ("control", "shared"):
            continue  # one port in use has the whole buffer either way
        fullest = group.groupby("from_ms")["held_bytes"].max() / 1e6
        suffix = f", {_MEMORIES[memory]}" if configuration == "frer" else ""
        axes.plot(
            fullest.index,
            fullest,
            styles.get((configuration, memory), "-"),
            color=COLOURS[configuration],
            linewidth=1.3,
            label=f"{LABELS[configuration]}{suffix}",
        )
        _draw_equation(axes, group.iloc[0], float(fullest.index.max()))
    axes.plot([], [], color=GREY, linewidth=0.7, label="equation")
    buffer, deepest = (course[name].max() / 1e6 for name in ("buffer_bytes", "held_bytes"))
    # The whole buffer, unless it stays nearly empty.
    axes.set_ylim(0, 1.08 * (buffer if deepest > buffer / 2 else deepest or buffer))


def _draw_equation(axes: Axes, factors: pd.Series, until_ms: float) -> None:
    """Draw the growth of the queue at the equation's rate, up to the port's limit."""
    full_ms = equation_ms(factors)
    if full_ms is None:
        return
    full_mb = full_ms * excess_mbytes(factors) / 1e3
    axes.plot(
        [0, min(full_ms, until_ms), until_ms],
        [0, min(1.0, until_ms / full_ms) * full_mb, min(1.0, until_ms / full_ms) * full_mb],
        color=GREY,
        linewidth=0.7,
        zorder=3,
    )


def time_to_fill(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the time to fill over offered load for the smallest buffer, with both equations.

    Marks are means over trials; a load without a mark did not fill the buffer in every trial.
    """
    figure, axes = new(2.6, testbed)
    smallest = trials[trials["buffer_bytes"] == trials["buffer_bytes"].min()]
    table = times(smallest)
    count_shown(figure, int(smallest["filled_ms"].notna().sum()), len(smallest))
    loads = np.linspace(table["rate_mbps"].min(), table["rate_mbps"].max(), 400)
    for cell, group in table.groupby(["configuration", "memory"]):
        configuration, memory = str(cell[0]), str(cell[1])
        if (configuration, memory) == ("control", "shared"):
            continue
        suffix = f", {_MEMORIES[memory]}" if configuration == "frer" else ""
        colour = COLOURS[configuration]
        axes.plot(
            group["rate_mbps"],
            group["filled_ms"],
            MARKERS[configuration],
            color=colour,
            markerfacecolor="none" if memory == "shared" else colour,
            label=f"{LABELS[configuration]}{suffix}",
        )
        cells = smallest[["configuration", "memory"]].agg(tuple, axis=1)
        factors = smallest[cells == cell].iloc[0].to_dict()
        axes.plot(loads, _curve(equation_ms, factors, loads), "-", color=colour, linewidth=0.8)
        if memory == "per_port":
            published = _curve(published_ms, factors, loads)
            axes.plot(loads, published, ":", color=colour, linewidth=0.9)
    axes.plot([], [], "-", color=GREY, linewidth=0.8, label="equation")
    axes.plot([], [], ":", color=GREY, linewidth=0.9, label="published equation")
    axes.set_yscale("log")
    axes.set_xlabel("offered load, payload (Mb/s)")
    size = smallest["buffer_bytes"].iloc[0] / 1e6
    axes.set_ylabel(f"time to fill {size:g} MB (ms)")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _curve(equation: Any, factors: dict[str, Any], loads: np.ndarray) -> list[float]:
    values = [equation(factors | {"rate_mbps": float(load)}) for load in loads]
    return [np.nan if value is None else value for value in values]
