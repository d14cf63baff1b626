"""The figure of mausezahn's rates: reached rate over target."""

import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.results.figures import COLOURS, GREY, LABELS, MARKERS, count_shown, log_scale, new


def achieved_against_target(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the share of the target packet rate at the first switch, a mark a trial."""
    figure, axes = new(2.5, testbed)
    count_shown(figure, int(trials["achieved_pps"].notna().sum()), len(trials))
    for configuration, group in trials.groupby("configuration"):
        name = str(configuration)
        axes.scatter(
            group["target_pps"] / 1000,
            100 * group["achieved_pps"] / group["target_pps"],
            s=12,
            edgecolors=COLOURS[name],
            facecolors=COLOURS[name] if name == "frer" else "none",
            marker=MARKERS[name],
            label=LABELS[name],
            linewidths=0.8,
        )
    axes.axhline(100, color=GREY, linewidth=0.8, linestyle=":", label="target")
    log_scale(axes.xaxis)
    log_scale(axes.yaxis)
    axes.set_xlabel("target (1000 frames/s)")
    axes.set_ylabel("reached at the first switch (%)")
    figure.legend(loc="outside upper left", ncols=3)
    return figure
