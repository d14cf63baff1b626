"""mausezahn: what the generator reached, what the network delivered, and which of them limited."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.analysis.figures import COLOURS, LABELS, MARKERS, new
from tsnrepro.analysis.missing import mean
from tsnrepro.analysis.results import Results


def analyse(trials: pd.DataFrame) -> Results:
    """Return achieved and delivered rates by frame size at the highest load, and the limits."""
    results = Results("mausezahn", trials)
    # Of the trials' own arithmetic: the target at a known share of the line is that share of it.
    line_pps = 100 * trials["target_pps"] / trials["load_percent"]
    trials = trials.assign(line_pps=line_pps, line_mbps=line_pps * trials["frame_bytes"] * 8 / 1e6)
    full = trials[trials["load_percent"] == trials["load_percent"].max()]
    for (configuration, frame), group in full.groupby(["configuration", "frame_bytes"]):
        key = f"mausezahn.frame_{frame}.{configuration}"
        for name, unit, line in (
            ("achieved_pps", "1/s", "line_pps"),
            ("achieved_frame_mbps", "Mb/s", "line_mbps"),
        ):
            estimate = mean(group, name, unit, float(group[line].max()))
            results.estimate(f"{key}.{name}", estimate, 1, group["trial"])
    counts = trials["limited_by"].value_counts()
    for limit in ("generator", "network", "nothing"):
        count = int(counts.get(limit, 0))
        results.value(f"mausezahn.limited_by.{limit}.count", count, trials["trial"])
    timed_out = int(trials["timed_out"].sum())
    results.value("mausezahn.timed_out.count", timed_out, trials["trial"])
    results.value("mausezahn.trials.count", len(trials), trials["trial"])
    return results


def summary(trials: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return, by configuration and frame size at the highest load, ours beside the documents'.

    Rates are of frames with FCS in Mb/s. ``ended`` tells how many runs sent all they should.
    """
    full = trials[trials["load_percent"] == trials["load_percent"].max()]
    rows = full.groupby(["frame_bytes", "configuration"], as_index=False).agg(
        target_pps=("target_pps", "mean"),
        achieved_pps=("achieved_pps", "mean"),
        delivered_pps=("delivered_pps", "mean"),
        achieved_frame_mbps=("achieved_frame_mbps", "mean"),
        limited_by=("limited_by", lambda words: ", ".join(sorted(set(words)))),
        runs=("trial", "size"),
        ended=("timed_out", lambda flags: int((~flags.astype(bool)).sum())),
    )
    return rows.merge(published, how="left", on="frame_bytes")


def achieved_against_target(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the achieved packet rate at the first switch over the target, a mark a trial."""
    figure, axes = new(2.5, testbed)
    for configuration, group in trials.groupby("configuration"):
        name = str(configuration)
        axes.scatter(
            group["target_pps"],
            group["achieved_pps"],
            s=14,
            color=COLOURS[name],
            marker=MARKERS[name],
            label=LABELS[name],
            alpha=0.8,
            linewidths=0,
        )
    span = np.array([trials["target_pps"].min(), trials["target_pps"].max()])
    axes.plot(span, span, color="0.4", linewidth=0.8, linestyle=":", label="as asked for")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("target (frames/s)")
    axes.set_ylabel("at the first switch (frames/s)")
    axes.legend(loc="upper left")
    return figure
