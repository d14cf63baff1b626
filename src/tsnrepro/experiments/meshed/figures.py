"""The figure of forwarding between all ports."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.experiments.meshed.analysis import expected_fps, pattern_names
from tsnrepro.results.figures import GREY, count_shown, new

_MARKS = ("o", "s", "^", "v", "D")


def _label(trial: Any) -> str:
    """Return a pattern as a legend names it."""
    pattern = trial["pattern"].replace("_", " ").replace("full", "full mesh")
    uplink = trial["uplink_mbps"]
    return pattern if pd.isna(uplink) else f"{pattern}, {uplink / 1000:g} Gb/s"


def forwarding(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the forwarding rate at the largest load over frame size; lines are the closed form.

    Shown is the largest number of ports.
    """
    figure, axes = new(2.9, testbed)
    chosen = trials[trials["ports"] == trials["ports"].max()]
    chosen = chosen[chosen["load_percent"] == chosen["load_percent"].max()]
    chosen = chosen.assign(name=pattern_names(chosen))
    count_shown(figure, len(chosen), len(trials))
    for mark, (_, group) in zip(_MARKS, chosen.groupby("name"), strict=False):
        by_size = group.groupby("frame_bytes")["forwarding_fps"].mean() / 1e6
        label = _label(group.iloc[0])
        axes.plot(by_size.index, by_size, mark, label=label, markerfacecolor="none")
        firsts = group.drop_duplicates("frame_bytes").sort_values("frame_bytes")
        expected = [expected_fps(trial) / 1e6 for _, trial in firsts.iterrows()]
        axes.plot(firsts["frame_bytes"], expected, color=GREY, linewidth=0.6, zorder=0)
    axes.plot([], [], color=GREY, linewidth=0.6, label="arithmetic")
    axes.set_yscale("log")
    axes.set_xlabel("frame size (bytes with FCS)")
    ports, load = int(chosen["ports"].iloc[0]), chosen["load_percent"].iloc[0]
    axes.set_ylabel(f"forwarded (Mframes/s), {ports} ports at {load:g} %", fontsize=7)
    figure.legend(loc="outside lower center", ncols=2)
    return figure
