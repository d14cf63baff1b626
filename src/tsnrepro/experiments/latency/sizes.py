"""Latency by size of the message: every payload of a campaign, FRER and control.

A size is that of sockperf's message, the payload of its datagram, as in the documents: not that of
a frame. Half round trips, as sockperf prints them; of imported trials one-way latencies. The run is
the unit throughout, as in :mod:`tsnrepro.experiments.latency.analysis`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.latency.analysis import HALF_RTT, QUANTILES, quantity
from tsnrepro.experiments.loss.analysis import frame_bytes
from tsnrepro.published.documents import load_table
from tsnrepro.results.estimates import known, mean, recorded, relative, shared, total, unknown
from tsnrepro.results.figures import (
    COLOURS,
    LABELS,
    MARKERS,
    count_shown,
    fill,
    log_scale,
    mark_published,
    note_empty,
    stacked,
)
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import Estimate, Limits
from tsnrepro.stats.long_series import LongSeries, Series
from tsnrepro.stats.quantiles import (
    MIN_SAMPLES_BEYOND,
    replicated_quantile,
    sample_quantile,
    samples_beyond,
)
from tsnrepro.stats.replication import median_over_runs

PAYLOADS_BYTES = (64, 128, 256, 512, 1024, 1518)
"""Sizes of the documents' messages (fail-operational, 4.3); the largest goes in two fragments."""
BOUND_US = 300.0
"""What the documents ask the 99.9th percentile of the round trip to stay below."""
STATISTICS = ("mean", "min", "max", "p50", "p90", "p99", "p99_9", "p99_99", "jitter")
COMPARED = ("mean", "p50", "p99", "p99_9")

_MOMENTS = ("mean", "min", "max")
_QUANTILES = {**QUANTILES, "p99_99": 0.9999}
_NO_ROUND_TRIP = unknown("%", "one-way latencies, without round trips")
_PANELS = {"p50": "median (µs)", "p99_9": "P99.9 (µs)"}

# One row a run in `trials`; samples by trial, empty where the record has statistics only.
Samples = Mapping[str, Series]


class _Group(NamedTuple):
    """The runs of one payload and configuration, and their samples in the same order."""

    trials: pd.DataFrame
    runs: list[Series]

    @property
    def observed(self) -> bool:
        return len(self.runs) > 0 and all(len(run) > 1 for run in self.runs)

    @property
    def fewest(self) -> int:
        return min((len(run) for run in self.runs), default=0)


def payloads(trials: pd.DataFrame) -> list[int]:
    """Return the payloads of the documents and those that were tried, in order."""
    return sorted({*PAYLOADS_BYTES, *map(int, trials["payload_bytes"])})


def add(results: Results, trials: pd.DataFrame, samples: Samples) -> None:
    """Add the results by payload; those of the documents' sizes whether tried or not."""
    for payload in payloads(trials):
        of_size = trials[trials["payload_bytes"] == payload]
        name = f"latency.payload_{payload}"
        groups = {c: _group(of_size, c, samples) for c in CONFIGURATIONS}
        for configuration, group in groups.items():
            own = group.trials["trial"]
            for key, estimate in _estimates(group):
                unit = "us" if estimate.unit == "us" else "percent"
                digits = 2 if unit == "us" else 1
                results.estimate(f"{name}.{key}.{configuration}.{unit}", estimate, digits, own)
            counted = known(group.trials, "observations")
            count = total(counted, "observations")
            key = f"{name}.observations.{configuration}.count"
            results.value(key, count, counted["trial"])
            results.value(f"{name}.runs.{configuration}.count", len(own), own)
        for statistic in COMPARED:
            found = relative(groups["frer"].trials, groups["control"].trials, f"{statistic}_us")
            key = f"{name}.{statistic}.difference.percent"
            results.estimate(key, found.estimate, 1, of_size["trial"])
        shared(results, f"{name}.duration_s", of_size, "duration_s", "s")
        method = "headers and check sequence added, of all fragments"
        results.value(f"{name}.frame_bytes", frame_bytes(payload), [], unit="bytes", method=method)


def _group(trials: pd.DataFrame, configuration: str, samples: Samples) -> _Group:
    own = trials[trials["configuration"] == configuration]
    return _Group(own, [samples[trial] for trial in own["trial"]])


def _estimates(group: _Group) -> Iterator[tuple[str, Estimate]]:
    """Yield each statistic, and the margins of P99.9 to the bound.

    The bound is one of the round trip; ``margin`` holds the half against it nevertheless, as who
    takes what sockperf prints for round trips does. One-way latencies have neither.
    """
    one_way = quantity(group.trials) != HALF_RTT
    for name in _MOMENTS:
        yield name, mean(group.trials, f"{name}_us", "us")
    for name, q in _QUANTILES.items():
        if name in STATISTICS:
            found = _quantile(group, name, q)
            yield name, found
            if name == "p99_9":
                yield "margin", _NO_ROUND_TRIP if one_way else _margin(found)
                twice = found.scaled(2, "us")
                yield "round_trip_margin", _NO_ROUND_TRIP if one_way else _margin(twice)
    yield "jitter", _jitter(group)
    yield "waiting", _NO_ROUND_TRIP if one_way else _waiting(group)


def _quantile(group: _Group, name: str, q: float) -> Estimate:
    column = f"{name}_us"
    if not group.observed:
        return mean(recorded(group.trials, column), column, "us")
    few = samples_beyond(group.fewest, q)
    if few < MIN_SAMPLES_BEYOND:
        why = f"{few} samples of a run lie beyond it, fewer than {MIN_SAMPLES_BEYOND}"
        return unknown("us", why)
    return replicated_quantile(group.runs, q, unit="us")


def _waiting(group: _Group) -> Estimate:
    """Return the share of the time that all latencies together make, in percent.

    One request follows the answer to the one before, so whole round trips fill the time nearly, and
    half ones half of it: it shows which of them a tool prints.
    """
    complete = recorded(group.trials, "mean_us", "observations", "valid_seconds")
    seconds = complete["mean_us"].astype(float) * complete["observations"].astype(float) / 1e6
    share = 100 * seconds / complete["valid_seconds"].astype(float)
    return mean(complete.assign(share=share), "share", "%")


def _jitter(group: _Group) -> Estimate:
    """Return P99 above the smallest latency of the run (RFC 5481)."""
    if group.observed:
        highest = [sample_quantile(run, _QUANTILES["p99"]) for run in group.runs]
        lowest = [
            float(run.min if isinstance(run, LongSeries) else run.min()) for run in group.runs
        ]
    else:
        complete = recorded(group.trials, "p99_us", "min_us")
        highest, lowest = complete["p99_us"].to_list(), complete["min_us"].to_list()
    if not highest:
        return unknown("us")
    return median_over_runs(np.asarray(highest, float) - np.asarray(lowest, float), unit="us")


def _margin(latency: Estimate) -> Estimate:
    """Return what a latency leaves of the bound in percent: a falling function, so limits swap."""
    low, high = (100 * (1 - limit / BOUND_US) for limit in (latency.high, latency.low))
    value = 100 * (1 - latency.value / BOUND_US)
    return replace(latency, value=value, low=low, high=high, unit="%")


def published_latency(root: Path | None = None) -> pd.DataFrame:
    """Return what the documents print, one row a size and statistic.

    Columns: ``payload_bytes``, ``statistic``, ``published_us``. Fail-operational's Table 8 has the
    methodology's numbers and more. It calls the sizes those of frames; both documents note_empty
    elsewhere that they were given to sockperf, as those of messages.
    """
    table = load_table("frer-fail-operational", "table-8", root)
    rows = [
        {
            "payload_bytes": int(row["frame_size_bytes"]),
            "statistic": statistic,
            "published_us": row[f"{statistic}_latency_us"],
        }
        for row in table.to_dict("records")
        for statistic in STATISTICS
        if f"{statistic}_latency_us" in row
    ]
    return pd.DataFrame(rows)


def table(trials: pd.DataFrame, samples: Samples, root: Path | None = None) -> pd.DataFrame:
    """Return one row a payload, configuration and statistic, ours beside the documents'.

    Columns: ``payload_bytes``, ``frame_bytes``, ``configuration``, ``statistic``, ``value``,
    ``low``, ``high`` (µs, and percent of the margins), ``runs``, ``limits`` (what these are),
    ``method``, ``published_us``. Where there are no limits they are nan, and ``method`` has why.
    Beside one-way latencies ``published_us`` is nan.
    """
    rows = []
    for payload in payloads(trials):
        of_size = trials[trials["payload_bytes"] == payload]
        for configuration in CONFIGURATIONS:
            group = _group(of_size, configuration, samples)
            rows += [
                {
                    "payload_bytes": payload,
                    "frame_bytes": frame_bytes(payload),
                    "configuration": configuration,
                    "statistic": name,
                    "value": found.value,
                    "low": found.low,
                    "high": found.high,
                    "runs": len(group.trials),
                    "limits": str(found.limits),
                    "method": found.method,
                }
                for name, found in _estimates(group)
            ]
    published = published_latency(root)
    if quantity(trials) != HALF_RTT:  # as those of the documents are
        published["published_us"] = np.nan
    return pd.DataFrame(rows).merge(published, how="left", on=["payload_bytes", "statistic"])


def latency_by_size(table: pd.DataFrame, testbed: str) -> Figure:
    """Draw the median and P99.9 over the message size, with what the documents print.

    ``table`` is :func:`table`'s. Bars are limits where these are an interval; the line is half of
    the documents' bound, for that is one of the round trip. One-way latencies have neither bound
    nor published values beside them.
    """
    figure, panels = stacked(3.4, testbed, len(_PANELS), sharex=True)
    shown = table[table["value"].notna()]
    count_shown(figure, _trials(shown), _trials(table))
    sizes = sorted(shown["payload_bytes"].unique())
    place = {size: number for number, size in enumerate(sizes)}
    for axes, (statistic, label) in zip(panels, _PANELS.items(), strict=True):
        of = shown[shown["statistic"] == statistic]
        if of.empty:
            note_empty(axes, "too few samples" if len(shown) else "no trials")
            continue
        _panel(axes, of, place)
        axes.set_ylabel(label)
        log_scale(axes.yaxis)
    handles, labels = panels[0].get_legend_handles_labels()
    if table["published_us"].notna().any():
        label = f"half of {BOUND_US:g} µs round trip"
        bound = panels[-1].axhline(BOUND_US / 2, color="0.4", lw=0.8, linestyle=":", label=label)
        handles, labels = [*handles, bound], [*labels, label]
    panels[-1].set_xticks(range(len(sizes)), [str(size) for size in sizes])
    panels[-1].set_xlabel("message size (bytes)")
    figure.legend(handles, labels, loc="outside upper left", ncols=2)
    return figure


def _trials(table: pd.DataFrame) -> int:
    return int(table.drop_duplicates(["payload_bytes", "configuration"])["runs"].sum())


def _panel(axes: Axes, table: pd.DataFrame, place: dict[int, int]) -> None:
    printed = table.drop_duplicates("payload_bytes").dropna(subset="published_us")
    for configuration, name in LABELS.items():
        group = table[table["configuration"] == configuration]
        sure = group["limits"] == str(Limits.INTERVAL)
        low = (group["value"] - group["low"]).where(sure, 0)
        high = (group["high"] - group["value"]).where(sure, 0)
        axes.errorbar(
            group["payload_bytes"].map(place) + (0.08 if configuration == "frer" else -0.08),
            group["value"],
            yerr=[low, high],
            fmt=MARKERS[configuration],
            color=COLOURS[configuration],
            capsize=1.5,
            elinewidth=0.7,
            label=name,
            **fill(configuration),
        )
    if len(printed):
        mark_published(axes, printed["payload_bytes"].map(place), printed["published_us"])
