"""Figures of a vehicle's traffic: latencies and losses by source."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.results.figures import (
    COLOURS,
    LABELS,
    STYLES,
    log_scale,
    loss_axis,
    mark_trials,
    new,
    note_empty,
    stacked,
)


def latency(found: dict[tuple[str, str], np.ndarray], testbed: str, points: int = 300) -> Figure:
    """Draw the share of datagrams above each one-way latency, a panel a source, all trials."""
    sources = list(dict.fromkeys(source for source, _ in found)) or [""]
    figure, axes = stacked(0.7 + 1.0 * len(sources), testbed, len(sources), sharex=True)
    for panel, source in zip(axes, sources, strict=True):
        drawn = {c: found[source, c] for c in LABELS if (source, c) in found}
        if not drawn:
            note_empty(panel, "no latencies")
        for configuration, delays_us in drawn.items():
            above = np.geomspace(1, 1 / len(delays_us), points)
            panel.plot(
                np.quantile(delays_us, 1 - above, method="inverted_cdf"),
                100 * above,
                STYLES[configuration],
                color=COLOURS[configuration],
                label=LABELS[configuration],
            )
        panel.set_yscale("log")
        log_scale(panel.xaxis)
        panel.text(0.02, 0.08, source, transform=panel.transAxes)
    axes[-1].set_xlabel("one-way latency (µs)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.supylabel("share above (%)", fontsize=8)
    return figure


def lost_by_source(sources: pd.DataFrame, testbed: str) -> Figure:
    """Draw the share of lost datagrams of each source, a mark a trial."""
    figure, axes = new(0.9 + 0.28 * sources.groupby(["mix", "source"]).ngroups, testbed)
    names = [f"{m}: {s}" for m, s in sources[["mix", "source"]].drop_duplicates().to_numpy()]
    places = {name: -row for row, name in enumerate(names)}
    for configuration in LABELS:
        group = sources[sources["configuration"] == configuration]
        rows = [places[f"{m}: {s}"] for m, s in group[["mix", "source"]].to_numpy()]
        shift = 0.15 if configuration == "control" else -0.15
        mark_trials(axes, configuration, group["lost_percent"], np.array(rows) + shift)
    axes.set_yticks(list(places.values()), names)
    loss_axis(axes, along="x")
    axes.set_xlabel("lost datagrams (%)")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
