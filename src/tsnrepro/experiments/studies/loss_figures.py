"""Figure of a study of loss: loss over each factor, for control and FRER."""

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.studies.loss_analysis import by_level, varied
from tsnrepro.results.figures import GREY, LABELS, MARKERS, SMALL_POINTS, STYLES, style

_PAGE_INCHES = 7.16
_PANELS_PER_ROW = 4


def effects(table: pd.DataFrame) -> Figure:
    """Draw the loss over each factor's values, averaged over all others.

    A mark is the mean over seeds; its bar spans the seeds' means.
    """
    style()
    factors = varied(table)
    columns = max(1, min(len(factors), _PANELS_PER_ROW))
    rows = max(1, -(-len(factors) // columns))
    figure, grid = plt.subplots(
        *(rows, columns),
        figsize=(_PAGE_INCHES, 2.2 * rows),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for axes, factor in zip(grid.flat, factors, strict=False):
        levels = by_level(table, factor)
        values = sorted(levels["value"].unique())
        for shift, configuration in zip((-0.06, 0.06), CONFIGURATIONS, strict=True):
            chosen = levels[levels["configuration"] == configuration]
            losses = chosen.groupby("value")["loss_percent"]
            mean = losses.mean()
            spread = [mean - losses.min(), losses.max() - mean]
            axes.errorbar(
                [values.index(value) + shift for value in mean.index],
                mean,
                yerr=spread,
                marker=MARKERS[configuration],
                linestyle=STYLES[configuration],
                label=LABELS[configuration],
            )
        axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        axes.set_xlabel(factor.replace("_", " "))
        axes.set_ylim(bottom=0)
    for axes in list(grid.flat)[len(factors) :]:
        axes.set_visible(False)
    grid[0, 0].set_ylabel("loss (%)")
    if factors:
        grid[0, 0].legend()
    note = f"model, {int(table['loss_percent'].notna().sum())} of {len(table)} trials"
    grid[0, columns - 1].set_title(note, loc="right", fontsize=SMALL_POINTS, color=GREY, pad=3)
    return figure
