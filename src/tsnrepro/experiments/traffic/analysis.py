"""Traffic of a car: loss and latency by source, FRER against control.

Streams of one source in a trial are pooled: they share its minute and its machine. The trial is the
unit of every interval.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.native.streams.delivery import one_way
from tsnrepro.native.streams.log import decompress
from tsnrepro.records.store import arrivals_file, open_run, recorded_trials
from tsnrepro.results.estimates import (
    by_repetition,
    difference,
    loss,
    mean,
    relative,
    shared,
    shared_buffer,
    unknown,
)
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.replication import range_over_runs

# Not in a record of trains of one length.
_TRAINS = {"smallest_train": None, "group": 1, "trains_per_s": None}
_SUMS = ("sent", "unique", "late")
_SHAPE = ("kind", "payload_bytes", "train", *_TRAINS)
_TIMES = ("p50_us", "p99_us", "max_us")
_COMPARED = ("p50", "p99")


def by_stream(manifest_path: str | Path) -> pd.DataFrame:
    """Return one row a stream of every trial: counts, quantiles of latency, pictures."""
    rows = []
    for document in recorded_trials(manifest_path):
        of = {name: document[name] for name in ("trial", "sha256", "repetition")}
        factors = {name: document["factors"][name] for name in ("mix", "configuration")}
        for stream in document["values"]["streams"]:
            plain = _TRAINS | {k: v for k, v in stream.items() if not isinstance(v, dict)}
            pictures = stream.get("pictures") or {}
            named = {f"pictures_{name}": value for name, value in pictures.items()}
            rows.append(of | factors | plain | named)
    return pd.DataFrame(rows)


def by_source(streams: pd.DataFrame) -> pd.DataFrame:
    """Return one row a source of every trial, from rows of :func:`by_stream`.

    Counts are sums over its streams; of quantiles it is the mean, of maxima the largest.
    """
    keys = ["trial", "sha256", "repetition", "mix", "configuration", "source"]
    rows = []
    for names, group in streams.groupby(keys, sort=False):
        row: dict[str, Any] = dict(zip(keys, names, strict=True)) | {"streams": len(group)}
        row |= {name: int(group[name].sum()) for name in _SUMS}
        row |= {name: group[name].iloc[0] for name in _SHAPE}
        row["offered_mbps"] = float(group["offered_mbps"].sum())
        row["lost_percent"] = 100 * (1 - row["unique"] / row["sent"])
        # Late are slots: trains, of one length unless they are pictures.
        row["late_percent"] = 100 * row["late"] * row["train"] / row["sent"]
        row |= _times(group, "")
        if "pictures_sent" in group and group["pictures_sent"].notna().all():
            sent, whole = (int(group[f"pictures_{name}"].sum()) for name in ("sent", "whole"))
            row |= {"pictures_sent": sent, "incomplete_percent": 100 * (1 - whole / sent)}
            row["late_percent"] = 100 * row["late"] / sent
            row |= _times(group, "pictures_")
        rows.append(row)
    return pd.DataFrame(rows)


def _times(group: pd.DataFrame, prefix: str) -> dict[str, float]:
    """Return the latencies of a source's streams as one."""
    values = {name: group[f"{prefix}{name}"].astype(float) for name in _TIMES}
    return {
        f"{prefix}{name}": float(v.max() if name == "max_us" else v.mean(skipna=False))
        for name, v in values.items()
    }


def analyse(trials: pd.DataFrame, sources: pd.DataFrame) -> Results:
    """Return loss and latency of each source of each mix, and what FRER changes.

    ``trials``: the run's trials. ``sources``: rows of :func:`by_source`.
    """
    results = Results("traffic", trials)
    shared(results, "traffic.duration_s", trials, "duration_s", "s")
    shared_buffer(results, "traffic.receive_buffer.mb", trials)
    results.value("traffic.trials.count", len(trials), trials["trial"])
    for (mix, source), group in sources.groupby(["mix", "source"], sort=False):
        key = f"traffic.{_word(mix)}.{_word(source)}"
        shared(results, f"{key}.payload_bytes", group, "payload_bytes", "B")
        shared(results, f"{key}.streams.count", group, "streams", "")
        for name in ("train", "smallest_train", "group"):
            shared(results, f"{key}.{name}.count", group, name, "")
        shared(results, f"{key}.trains_per_s", group, "trains_per_s", "1/s")
        for configuration, own in group.groupby("configuration"):
            _add_source(results, f"{key}.{configuration}", own)
        _add_differences(results, key, group)
    return results


def _word(name: Any) -> str:
    return str(name).replace("-", "_")


def _add_source(results: Results, key: str, group: pd.DataFrame) -> None:
    trials = group["trial"]
    results.estimate(f"{key}.lost.percent", loss(group, "lost_percent"), 4, trials)
    results.estimate(f"{key}.offered.mbps", mean(group, "offered_mbps", "Mb/s"), 2, trials)
    late = float(group["late_percent"].max())
    method = "largest over trials"
    results.value(f"{key}.late.percent", late, trials, unit="%", digits=2, method=method)
    results.value(f"{key}.sent.count", int(group["sent"].sum()), trials)
    for name in _COMPARED:
        results.estimate(f"{key}.{name}.us", mean(group, f"{name}_us", "us"), 1, trials)
    results.estimate(f"{key}.max.us", _largest(group), 1, trials)
    if not _has_pictures(group):
        return
    results.value(f"{key}.pictures.sent.count", int(group["pictures_sent"].sum()), trials)
    incomplete = loss(group, "incomplete_percent")
    results.estimate(f"{key}.pictures.incomplete.percent", incomplete, 2, trials)
    for name in _COMPARED:
        found = mean(group, f"pictures_{name}_us", "us")
        results.estimate(f"{key}.pictures.{name}.us", found, 0, trials)


def _largest(group: pd.DataFrame) -> Estimate:
    """Return the largest latency of all trials with the range of the trials' own.

    A maximum grows with what is sent, so there is no interval for that of a further trial.
    """
    runs = by_repetition(group, "max_us")
    if runs.empty:
        return unknown("us")
    return replace(range_over_runs(runs, "maxima", unit="us"), value=float(runs.max()))


def _has_pictures(group: pd.DataFrame) -> bool:
    return "pictures_sent" in group and bool(group["pictures_sent"].notna().all())


def _add_differences(results: Results, key: str, group: pd.DataFrame) -> None:
    """Add what FRER changes of the quantiles; nothing where one configuration was not measured."""
    frer, control = (group[group["configuration"] == name] for name in ("frer", "control"))
    if frer.empty or control.empty:
        return
    for name in _COMPARED:
        found = relative(frer, control, f"{name}_us").estimate
        results.estimate(f"{key}.{name}.difference.percent", found, 1, group["trial"])
        shift = difference(frer, control, f"{name}_us", "us")
        results.estimate(f"{key}.{name}.difference.us", shift, 2, group["trial"])
    if _has_pictures(group):
        found = relative(frer, control, "pictures_p50_us").estimate
        results.estimate(f"{key}.pictures.p50.difference.percent", found, 2, group["trial"])


def latencies(manifest_path: str | Path, mix: str) -> dict[tuple[str, str], np.ndarray]:
    """Return every one-way latency of a mix in microseconds, by source and configuration.

    Streams whose clocks did not agree have none.
    """
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for key, delays_us in _delays(manifest_path, mix):
        found.setdefault(key, []).append(delays_us)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _delays(manifest_path: str | Path, mix: str) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    store, manifest = open_run(manifest_path)
    for entry in manifest["trials"]:
        document = store.read(store.folder / entry["trial"])
        if document["factors"]["mix"] != mix:
            continue
        for number, stream in enumerate(document["values"]["streams"]):
            if stream["no_latency_because"] is None:
                saved = store.output_bytes(entry["trial"], arrivals_file(number))
                delays_us = one_way(decompress(saved), "kernel").latency_ns / 1e3
                yield (stream["source"], document["factors"]["configuration"]), delays_us


def summary(sources: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials by mix, source and configuration."""
    numbers = ["offered_mbps", "lost_percent", "late_percent", *_TIMES]
    more = ["incomplete_percent", "pictures_p50_us"]
    numbers += [name for name in more if name in sources]
    keys = ["mix", "source", "configuration"]
    return sources.groupby(keys, sort=False)[numbers].mean().reset_index()
