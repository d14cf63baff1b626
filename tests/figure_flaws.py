"""What a reader would dislike in a drawn figure: text that overlaps, data outside, empty panels."""

from itertools import combinations

import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SMALLEST_POINTS = 6.5
LEAST_OF_AXIS = 1 / 3


def flaws(figure):
    """Return the flaws of a figure, in words."""
    figure.canvas.draw()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    empty = [axes for axes in panels if not axes.has_data()]
    found = [f"panel {panels.index(axes)} is empty" for axes in empty if len(empty) < len(panels)]
    for number, axes in enumerate(panels):
        if axes not in empty:
            found += [f"panel {number}: {flaw}" for flaw in _of_data(axes)]
    return found + _of_texts(figure)


def _of_data(axes):
    points = axes.transAxes.inverted().transform(axes.transData.transform(data_of(axes)))
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        yield "no data"
        return
    origin = axes.transAxes.inverted().transform(axes.transData.transform((0, 0)))
    for name, along, zero in zip("xy", points.T, origin, strict=True):
        if along.min() < -0.01 or along.max() > 1.01:
            yield f"data outside of the {name} axis: {along.min():.2f} to {along.max():.2f}"
        elif np.ptp(along) > 1e-6:
            # An axis that begins at zero is read from there.
            begin = min(zero, along.min()) if abs(zero) < 0.1 else along.min()
            if along.max() - begin < LEAST_OF_AXIS:
                yield f"data use {along.max() - begin:.2f} of the {name} axis"


def data_of(axes):
    """Return the places of marks, lines, limits and bars, shape (n, 2)."""
    found = [np.empty((0, 2))]
    for line in axes.lines:
        if line.get_transform() == axes.transData:
            found.append(np.asarray(line.get_xydata(), float))
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            found.append(np.ma.filled(collection.get_offsets(), np.nan))
        elif isinstance(collection, LineCollection):
            found += collection.get_segments()
    for patch in axes.patches:
        if patch.get_data_transform() == axes.transData:
            box = patch.get_path().transformed(patch.get_patch_transform())
            found.append(box.vertices)
    return np.concatenate(found)


def texts_of(figure):
    """Return the texts that are seen."""
    ticks = {}
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for minor in (False, True):
                places = axis.get_ticklocs(minor=minor)
                labels = axis.get_ticklabels(minor=minor)
                for place, label in zip(places, labels, strict=False):
                    ticks[label] = low <= place <= high
    return [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and _is_shown(text, ticks)
    ]


def _is_shown(text, ticks):
    if text.axes is not None and not text.axes.get_visible():
        return False
    return ticks.get(text, not _is_tick(text))


def _is_tick(text):
    return text.axes is not None and any(
        text in (tick.label1, tick.label2)
        for axis in (text.axes.xaxis, text.axes.yaxis)
        for tick in (*axis.majorTicks, *axis.minorTicks)
    )


def _of_texts(figure):
    texts = texts_of(figure)
    boxes = {text: text.get_window_extent() for text in texts}
    page = Bbox.from_bounds(-1, -1, figure.bbox.width + 2, figure.bbox.height + 2)
    found = [
        f"{text.get_text()!r} has {text.get_fontsize():g} points"
        for text in texts
        if text.get_fontsize() < SMALLEST_POINTS
    ]
    for text, box in boxes.items():
        if not (page.contains(*box.min) and page.contains(*box.max)):
            found.append(f"{text.get_text()!r} is cut at the edge")
    for (one, box), (other, beside) in combinations(boxes.items(), 2):
        both = Bbox.intersection(box, beside)
        # The height of a box has room for letters that a text may not have.
        if both is not None and min(both.width, both.height) > 1.5:
            found.append(f"{one.get_text()!r} overlaps {other.get_text()!r}")
    return found
