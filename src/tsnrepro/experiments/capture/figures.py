"""The figure of what the second path takes longer."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tsnrepro.results.figures import count_shown, log_scale, new, note_empty


def path_delay(trials: pd.DataFrame, path_delays: dict[str, np.ndarray], testbed: str) -> Figure:
    """Draw the distribution of the path delay difference, a line a trial, by offered load.

    Where a copy was faster on path 1, the axis is linear around zero and logarithmic beyond a
    microsecond on both sides.
    """
    figure, axes = new(2.4, testbed)
    shown = trials[trials["trial"].isin(list(path_delays))]
    count_shown(figure, len(shown), int((trials["configuration"] == "frer").sum()))
    if shown.empty:
        note_empty(axes, "no trial with FRER")
        return figure
    loads = sorted({(row.payload_bytes, row.target_mbps) for row in shown.itertuples()})
    colours = sns.color_palette("colorblind", len(loads))
    styles = ("-", "--", ":", "-.")
    for index, ((payload, rate), colour) in enumerate(zip(loads, colours, strict=True)):
        its = shown[(shown["payload_bytes"] == payload) & (shown["target_mbps"] == rate)]
        for number, trial in enumerate(its["trial"]):
            values = np.sort(path_delays[trial])
            # A few thousand points draw any distribution; the ends are always among them.
            at = np.unique(np.linspace(0, len(values) - 1, 2000).astype(int))
            axes.plot(
                values[at],
                100 * (at + 1) / len(values),
                styles[index % len(styles)],
                color=colour,
                linewidth=0.9,
                label=f"{payload} B, {rate:g} Mb/s" if number == 0 else None,
            )
    least = min(float(values.min()) for values in path_delays.values())
    if least > 0:
        log_scale(axes.xaxis)
    else:
        axes.axvline(0, color="0.7", linewidth=0.6, zorder=0)
        axes.set_xscale("symlog", linthresh=1)
    axes.set_ylim(0, 100)
    axes.set_xlabel("path 1 behind path 0 (µs)")
    axes.set_ylabel("share of numbers (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
