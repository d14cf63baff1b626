"""Figures of the manuscripts: column width, colour-blind safe, readable in black and white."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.records.values import KOREAN_FOLDER
from tsnrepro.results import fonts
from tsnrepro.results.language import in_korean

COLUMN_INCHES = 3.4
COLOURS: dict[str, tuple] = dict(
    zip(CONFIGURATIONS, sns.color_palette("colorblind")[:2], strict=True)
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
_TESTBED = "testbed"
SMALL_POINTS = 7.0
"""Of ticks, legends and notes: the least that is readable in a column."""
# Ticks, in points.
_MAJOR, _MINOR = {"width": 0.6, "size": 3}, {"width": 0.4, "size": 1.5}


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
    families = fonts.families()
    settings: dict[Any, Any] = {
        "font.family": families,
        # Powers of ten on logarithmic axes.
        "mathtext.fontset": "custom",
        **{f"mathtext.{shape}": families[0] for shape in ("rm", "it", "bf", "sf", "cal")},
        "mathtext.default": "rm",
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": SMALL_POINTS,
        "xtick.labelsize": SMALL_POINTS,
        "ytick.labelsize": SMALL_POINTS,
        "legend.fontsize": SMALL_POINTS,
        "legend.title_fontsize": SMALL_POINTS,
        "legend.columnspacing": 1.2,
        "legend.handletextpad": 0.5,
        "legend.frameon": False,
        "lines.linewidth": 1,
        "lines.markersize": 3.5,
        **{"axes.linewidth": 0.6, "hatch.linewidth": 0.5},
        **{f"{axis}tick.major.{name}": size for axis in "xy" for name, size in _MAJOR.items()},
        **{f"{axis}tick.minor.{name}": size for axis in "xy" for name, size in _MINOR.items()},
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "tsnrepro",
    }
    mpl.rcParams.update(settings)


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
    figure, axes = grid(height_inches, testbed, rows, 1, **options)
    return figure, axes[:, 0]


def grid(
    height_inches: float, testbed: str, rows: int, columns: int, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return an empty figure that names its testbed, and its panels, shape (rows, columns)."""
    figure, axes = panels(rows, columns, height_inches, **options)
    axes[0, -1].set_title(testbed, loc="right", color=GREY, pad=3).set_gid(_TESTBED)
    return figure, axes


def side_by_side(
    height_inches: float, testbed: str, columns: int, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return an empty figure of panels beside each other that names its testbed."""
    figure, axes = panels(1, columns, height_inches, **options)
    title = figure.suptitle(testbed, x=0.99, ha="right", fontsize=SMALL_POINTS, color=GREY)
    title.set_gid(_TESTBED)
    return figure, axes[0]


def count_shown(figure: Figure | SubFigure, shown: int, count: int, of: str = "trials") -> None:
    """Note beside the testbed how many of the trials, or what else it is of, a figure shows."""
    (title,) = figure.findobj(lambda artist: artist.get_gid() == _TESTBED)
    cast(Text, title).set_text(f"{cast(Text, title).get_text()}, {shown:,} of {count:,} {of}")


def new(height_inches: float, testbed: str) -> tuple[Figure, Axes]:
    """Return an empty figure of a column's width that names its testbed."""
    figure, (axes,) = stacked(height_inches, testbed, 1)
    return figure, axes


def save(figure: Figure, folder: str | Path, name: str) -> None:
    """Write a figure as PDF for papers, in English and in Korean, and as PNG for the report."""
    save_pdf(figure, folder, name)
    # It is laid out now: to find the same places again took a sixth of the time of an analysis.
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    figure.savefig(Path(folder) / f"{name}.png", dpi=200)
    figure.set_layout_engine(layout)
    with _translated(figure):
        save_pdf(figure, Path(folder) / KOREAN_FOLDER, name)
    plt.close(figure)


@contextmanager
def _translated(figure: Figure) -> Iterator[None]:
    """Let the texts of a figure be Korean for a while."""
    axes = [axis for each in figure.axes for axis in (each.xaxis, each.yaxis)]
    # Ticks that are given with their labels have such a formatter.
    ticks = {axis.get_major_formatter() for axis in axes}
    labels = {each: each.func for each in ticks if isinstance(each, FuncFormatter)}
    texts = {text: text.get_text() for text in figure.findobj(Text)}
    try:
        for artist, text in texts.items():
            artist.set_text(in_korean(text))
        for formatter, label in labels.items():
            formatter.func = _translating(label)
        yield
    finally:
        for artist, text in texts.items():
            artist.set_text(text)
        for formatter, label in labels.items():
            formatter.func = label


def _translating(label: Callable[..., str]) -> Callable[..., str]:
    return lambda value, place=None: in_korean(label(value, place))


def save_pdf(figure: Figure, folder: str | Path, name: str) -> Path:
    """Write a figure as PDF, the same bytes for the same data, and return the file."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{name}.pdf"
    figure.savefig(path, metadata={"CreationDate": None})
    return path


def mark_published(
    axes: Axes,
    x: Any,
    y: Any,
    colour: Any = "black",
    *,
    marker: str = "x",
    label: str = "published",
) -> None:
    """Mark what a document prints with crosses, in the colour of what they stand for.

    The first of a label are in the legend of the panel, in black.
    """
    style: dict[str, Any] = {"marker": marker, "linestyle": "", "markersize": 4.5, "zorder": 4}
    axes.plot(x, y, color=colour, markeredgewidth=1.1, **style)
    if label not in axes.get_legend_handles_labels()[1]:
        axes.plot([], [], color="black", markeredgewidth=1.1, label=label, **style)


def fill(configuration: str) -> dict[str, Any]:
    """Return the fill of marks: control is open, so that they differ in grey."""
    return {"markerfacecolor": COLOURS[configuration] if configuration == "frer" else "white"}


def mark_trials(axes: Axes, configuration: str, x: Any, y: Any, **style: Any) -> None:
    """Draw a mark a trial in the form of its configuration; one on an axis is drawn whole."""
    form = {"color": COLOURS[configuration], "label": LABELS[configuration], **fill(configuration)}
    # Without any mark it would have a place at the origin of the figure.
    axes.plot(x, y, MARKERS[configuration], clip_on=len(x) == 0, **form | style)


def log_scale(axis: Axis) -> None:
    """Make an axis logarithmic with plain numbers; one that spans less than four times stays.

    Within two decades also ticks at 2 and 5 have numbers.
    """
    low, high = axis.get_view_interval()
    if low > 0 and high < 4 * low:
        return
    set_scale = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
    set_scale("log")
    low, high = axis.get_view_interval()
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(FuncFormatter(_two_and_five) if high < 100 * low else NullFormatter())
    axis.set_tick_params(which="minor", labelsize=SMALL_POINTS)


def _two_and_five(value: float, _: int | None = None) -> str:
    first = round(value / 10 ** np.floor(np.log10(value)))
    return f"{value:g}" if first in (2, 5) else ""


def loss_axis(axes: Axes, along: str = "y") -> None:
    """Give a panel an axis of losses in percent, from none to all."""
    axis = getattr(axes, f"{along}axis")
    getattr(axes, f"set_{along}scale")("symlog", linthresh=0.01, linscale=0.5)
    getattr(axes, f"set_{along}lim")(-0.003, 100)
    axis.set_ticks([0, 0.01, 1, 100], labels=["0", "0.01", "1", "100"])
    axis.set_minor_locator(NullLocator())


def note_empty(axes: Axes, note: str = "no trials") -> None:
    """Write into a panel why it shows nothing."""
    axes.text(0.5, 0.5, note, ha="center", va="center", transform=axes.transAxes, color=GREY)
    axes.set(xticks=[], yticks=[])
