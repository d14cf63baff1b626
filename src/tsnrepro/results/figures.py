"""Figures of the manuscripts: column width, colour-blind safe, readable in black and white."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMN_INCHES = 3.4
COLOURS: dict[str, tuple] = dict(
    zip(("control", "frer"), sns.color_palette("colorblind")[:2], strict=True)
)
LABELS = {"control": "control", "frer": "FRER"}
PLACE_LABELS = {
    "listener_socket": "listener's socket",
    "talker": "talker",
    "switches": "switches",
    "other": "listener's stack, or not located",
}
"""Where datagrams were lost."""
MARKERS = {"control": "o", "frer": "s"}
STYLES = {"control": "-", "frer": "--"}
GREY = "0.35"


def _show_in_notebooks() -> None:
    """Let a notebook show a figure that a cell ends with, although nothing is drawn on a screen."""
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - only where there is one

    if (shell := get_ipython()) is not None:
        from IPython.core.pylabtools import select_figure_formats  # noqa: PLC0415

        select_figure_formats(shell, {"png"}, dpi=150)


_show_in_notebooks()


def style() -> None:
    """Set fonts and lines for a column of a journal."""
    sns.set_theme(style="ticks", palette="colorblind")
    mpl.rcParams.update(
        {
            "font.size": 8,
            "axes.labelsize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "legend.frameon": False,
            "lines.linewidth": 1,
            "lines.markersize": 3.5,
            "axes.linewidth": 0.6,
            "pdf.fonttype": 42,
            "svg.fonttype": "none",
            "svg.hashsalt": "tsnrepro",
        }
    )


def panels(
    rows: int, columns: int, height_inches: float, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return an empty figure of a column's width and its panels, shape (rows, columns)."""
    style()
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(COLUMN_INCHES, height_inches),
        layout="constrained",
        squeeze=False,
        **options,
    )
    sns.despine(figure)
    return figure, axes


def stacked(
    height_inches: float, testbed: str, rows: int, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return an empty figure of panels above each other that names its testbed."""
    figure, axes = panels(rows, 1, height_inches, **options)
    axes[0, 0].set_title(testbed, loc="right", fontsize=6, color=GREY, pad=3)
    return figure, axes[:, 0]


def new(height_inches: float, testbed: str) -> tuple[Figure, Axes]:
    """Return an empty figure of a column's width that names its testbed."""
    figure, (axes,) = stacked(height_inches, testbed, 1)
    return figure, axes


def save(figure: Figure, folder: str | Path, name: str) -> None:
    """Write a figure as PDF for the paper and as PNG for the report."""
    save_pdf(figure, folder, name)
    # It is laid out now: to find the same places again took a sixth of the time of an analysis.
    figure.set_layout_engine("none")
    figure.savefig(Path(folder) / f"{name}.png", dpi=200)
    plt.close(figure)


def save_pdf(figure: Figure, folder: str | Path, name: str) -> Path:
    """Write a figure as PDF, the same bytes for the same data, and return the file."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{name}.pdf"
    figure.savefig(path, metadata={"CreationDate": None})
    return path


def loss_axis(axes: Axes) -> None:
    """Give a panel an axis of losses in percent, from none to all."""
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set_ylim(-0.003, 100)
    axes.set_yticks([0, 0.01, 1, 100], ["0", "0.01", "1", "100"])
    axes.minorticks_off()


def note_empty(axes: Axes, note: str = "no trials") -> None:
    """Write into a panel why it shows nothing."""
    axes.text(0.5, 0.5, note, ha="center", va="center", transform=axes.transAxes, color=GREY)
    axes.set(xticks=[], yticks=[])
