"""Figures of latency: complementary distributions, a line a run."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from tsnrepro.published.documents import load_table
from tsnrepro.results.figures import (
    COLOURS,
    LABELS,
    STYLES,
    count_shown,
    log_scale,
    mark_published,
    new,
    note_empty,
)
from tsnrepro.stats.long_series import LongSeries, Series


def tail(series: Series, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return values of a series and the share above each, shape (points,).

    The tail matters: points are spaced evenly in the logarithm of the share above. Those of a long
    series are right to a 32768th of an octave.
    """
    above = np.geomspace(1, 1 / len(series), points)
    if isinstance(series, LongSeries):
        return series.approximate_quantiles(1 - above), above
    return np.quantile(series, 1 - above, method="inverted_cdf"), above


def latency_distribution(
    samples: Mapping[str, list[Series]],
    testbed: str,
    points: int = 400,
    *,
    quantity: str = "half round trip",
) -> Figure:
    """Draw the share of latencies above each latency, a line a run.

    ``samples`` maps the configuration to its runs, each the latencies in microseconds; a run
    without observations has no line. ``quantity`` says what they are.
    """
    figure, axes = new(2.4, testbed)
    every = [run for runs in samples.values() for run in runs]
    count_shown(figure, sum(len(run) > 0 for run in every), len(every))
    if not any(len(run) for run in every):
        note_empty(axes, "statistics only, no observations")
        return figure
    for configuration, runs in samples.items():
        for index, run in enumerate(run for run in runs if len(run)):
            latency, above = tail(run, points)
            axes.plot(
                latency,
                100 * above,
                STYLES[configuration],
                color=COLOURS[configuration],
                alpha=0.8,
                linewidth=0.9,
                label=LABELS[configuration] if index == 0 else None,
            )
        if quantity == "half round trip":
            mark_published(axes, *published_tail(configuration), COLOURS[configuration])
    log_scale(axes.xaxis)
    axes.set_yscale("log")
    axes.set_xlabel(f"{quantity} (µs)")
    axes.set_ylabel("share above (%)")
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def published_tail(configuration: str) -> tuple[np.ndarray, np.ndarray]:
    """Return percentiles in us that the FRER document prints, its table A.3, and percent above."""
    table = load_table("frer-udp", "table-a-3").set_index("row")
    prefix = "frer" if configuration == "frer" else "single_path"
    printed = table[f"{prefix}_latency_us"].dropna()
    printed = printed[printed.index.str.startswith("p")]
    above = [100 - float(name.removeprefix("p").replace("-", ".")) for name in printed.index]
    return printed.to_numpy(float), np.array(above)
