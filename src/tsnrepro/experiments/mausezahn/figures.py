"""The figure of mausezahn's rates: reached rate over target."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.results.figures import COLOURS, LABELS, MARKERS, new


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
