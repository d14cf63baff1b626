"""Latency: moments and quantiles of half round trips, and FRER against control."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.common.errors import RecordError
from tsnrepro.common.ethernet import main_payload_bytes
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.imports.readers import recorded_observations
from tsnrepro.records.store import HALF_ROUND_TRIPS, SOCKPERF_LOG, RawStore, open_run
from tsnrepro.results.estimates import (
    difference,
    in_pairs,
    known,
    mean,
    relative,
    scatter_of_groups,
    shared,
    total,
)
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import SIGNIFICANCE, add_power, add_test
from tsnrepro.stats.comparisons import holm
from tsnrepro.stats.equivalence import Verdict, equivalence
from tsnrepro.stats.estimate import DEFAULT_LEVEL, LEVEL_OF_EACH_LOOK, Estimate
from tsnrepro.stats.long_series import LongSeries, Series
from tsnrepro.stats.power import scatter_of_pairs
from tsnrepro.stats.quantiles import replicated_quantile
from tsnrepro.tools.sockperf import log_pieces

QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
TOGETHER = (*QUANTILES.values(), 0.9999)
"""Quantiles that one reading of a long series answers for: also those of ``latency_sizes``."""
COMPARED = ("mean", "p50", "p90", "p99", "p99_9")
# Repetitions may end once the ratio of medians is known, see stopping.py; limits allow for it,
# and p values by the same factor.
_LOOKS = (1 - DEFAULT_LEVEL) / (1 - LEVEL_OF_EACH_LOOK)
# Chosen before measuring: medians of equal runs on one day differ by several percent.
MARGIN_PERCENT = 10.0
# Of all trials together, 128 MiB.
_HELD_SAMPLES = 1 << 24
_PIECE_SAMPLES = 1 << 20
_PICOSECONDS = 1_000_000
"""In a microsecond; no tool records latencies more finely."""


def series(manifest_path: str | Path) -> dict[str, Series]:
    """Return every half round trip in microseconds, in order, by trial.

    The first 16 million are arrays; trials beyond that are series that are read in pieces
    whenever they are used, so that memory does not grow with them. An imported trial is always
    an array, and one that has statistics only has no observations, an empty array.
    """
    store, manifest = open_run(manifest_path)
    names = [entry["trial"] for entry in manifest["trials"]]
    if manifest.get("imported"):
        return {name: _imported(store, name) for name in names}
    found: dict[str, Series] = {}
    room = _HELD_SAMPLES
    for name in names:
        read = partial(pieces, store, name)
        array = _in_memory(read(), room)
        found[name] = LongSeries(read, quantiles=TOGETHER) if array is None else array
        room -= 0 if array is None else len(array)
    return found


def _in_memory(series: Iterable[np.ndarray], most: int) -> np.ndarray | None:
    """Return a series as an array, None where it is longer than fits."""
    parts, count = [], 0
    for piece in series:
        count += len(piece)
        if count > most:
            return None
        parts.append(piece)
    return np.concatenate(parts) if parts else np.empty(0)


def pieces(store: RawStore, trial: str) -> Iterator[np.ndarray]:
    """Yield the half round trips of a trial in microseconds, in order."""
    if not (store.folder / trial / HALF_ROUND_TRIPS).is_file():
        with store.open_output(trial, SOCKPERF_LOG) as log:
            yield from log_pieces(log)
        return
    with store.open_output(trial, HALF_ROUND_TRIPS) as saved:
        np.lib.format.read_magic(saved)
        _, _, dtype = np.lib.format.read_array_header_1_0(saved)
        while block := saved.read(_PIECE_SAMPLES * dtype.itemsize):
            yield np.frombuffer(block, dtype) / 1e6


def _imported(store: RawStore, trial: str) -> np.ndarray:
    return recorded_observations(store.root / store.testbed, store.read(store.folder / trial))


def main_payload(trials: pd.DataFrame) -> int | None:
    """Return the main one of the payloads that both configurations have, or else of all.

    It is 1472 bytes, a full frame, or else the largest. Latencies of different payloads are no
    repetitions of each other.
    """
    payloads = [set(group) for _, group in trials.groupby("configuration")["payload_bytes"]]
    common = set.intersection(*payloads) if payloads else set()
    tried = [int(payload) for payload in common or set.union(set(), *payloads)]
    return main_payload_bytes(tried) if tried else None


HALF_RTT, ONE_WAY = "half round trip", "one way"
LATENCIES = {HALF_RTT: "half round trips", ONE_WAY: "one-way latencies"}
"""The quantities of a latency, in the plural."""


def quantity(trials: pd.DataFrame) -> str:
    """Return what the latencies are: ``half round trip``, or of imported trials ``one way``.

    Raises RecordError if the trials are of both kinds, which cannot be compared.
    """
    kinds = sorted(set(trials["quantity"])) if "quantity" in trials else []
    if len(kinds) > 1:
        raise RecordError(
            f"latencies of different kinds: {' and '.join(kinds)}",
            "experiment latency",
            "Import them under different names",
        )
    return kinds[0] if kinds else HALF_RTT


def analyse(trials: pd.DataFrame, half_round_trips: Mapping[str, Series]) -> Results:
    """Return all results of the experiment ``latency``, from the trials of one payload.

    The run is the unit: every statistic is taken of each run, and its median over runs.

    Raises RecordError if half round trips and one-way latencies are mixed.
    """
    results = Results("latency", trials)
    trials = trials[trials["payload_bytes"] == main_payload(trials)]
    of = {c: trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for configuration, group in of.items():
        runs = [half_round_trips[trial] for trial in group["trial"]]
        for name, estimate in _estimates(group, runs):
            key = f"latency.{name}.{configuration}.us"
            results.estimate(key, estimate, 2, group["trial"])
        counted = known(group, "observations")
        observations = total(counted, "observations")
        key = f"latency.observations.{configuration}.count"
        results.value(key, observations, counted["trial"])
    add_comparisons(results, of["frer"], of["control"], trials)
    _add_resolution(results, trials, half_round_trips)
    method = "configuration"
    payload = main_payload(trials)
    shared(results, "latency.duration_s", trials, "duration_s", "s")
    results.value("latency.quantity", quantity(trials), trials["trial"], method=method)
    results.value("latency.payload_bytes", payload, trials["trial"], unit="bytes", method=method)
    return results


def _estimates(group: pd.DataFrame, runs: list[Series]) -> Iterator[tuple[str, Estimate]]:
    for name in ("mean", "sd", "min", "max"):
        yield name, mean(group, f"{name}_us", "us")
    observed = len(runs) > 0 and all(len(run) > 1 for run in runs)
    for name, q in QUANTILES.items():
        if observed:
            yield name, replicated_quantile(runs, q, unit="us")
        else:
            yield name, mean(group, f"{name}_us", "us")


def _add_resolution(
    results: Results, trials: pd.DataFrame, half_round_trips: Mapping[str, Series]
) -> None:
    """Add the smallest step between distinct latencies: what the tool resolves."""
    steps = [_step_ps(half_round_trips[trial]) for trial in trials["trial"]]
    positive = [step for step in steps if step]
    step = min(positive, default=0) / _PICOSECONDS
    results.value(
        "latency.precision.resolution.us",
        step or None,
        trials["trial"],
        unit="us",
        digits=_digits_of(step),
        method=f"the smallest step between distinct latencies of {len(positive)} trials"
        if positive
        else "unknown: no trial has two distinct latencies on record",
    )


def _step_ps(series: Series) -> int | None:
    """Return the smallest step between the distinct values of a series, in picoseconds.

    Of a long series those of its first piece tell: a tool's step does not change.
    """
    first = next(series.pieces(), np.empty(0)) if isinstance(series, LongSeries) else series
    distinct = np.unique(np.rint(first * _PICOSECONDS).astype(np.int64))
    return int(np.diff(distinct).min()) if len(distinct) > 1 else None


def _digits_of(microseconds: float) -> int:
    """Return the decimals that a whole number of picoseconds needs."""
    return len(f"{microseconds:.6f}".rstrip("0").partition(".")[2])


def add_comparisons(
    results: Results, frer: pd.DataFrame, control: pd.DataFrame, trials: pd.DataFrame
) -> None:
    """Add the changes of :data:`COMPARED` as one family, and the equivalence of medians."""
    level = LEVEL_OF_EACH_LOOK
    changes = {name: relative(frer, control, f"{name}_us", level) for name in COMPARED}
    for name, change in changes.items():
        key = f"latency.{name}.difference.percent"
        results.estimate(key, change.estimate, 1, trials["trial"])
        shift = difference(frer, control, f"{name}_us", "us", level)
        results.estimate(f"latency.{name}.difference.us", shift, 2, trials["trial"])
    _equivalent(results, frer, control, trials)
    # A statistic without a p value counts in the family, and takes none of the others with it.
    p_values = np.nan_to_num([change.p_value for change in changes.values()], nan=1.0)
    p_values = np.minimum(1.0, _LOOKS * p_values)
    adjusted = holm(p_values)
    method = f"relative difference, Holm over {len(COMPARED)} statistics at {SIGNIFICANCE:g}"
    names = trials["trial"]
    for (name, change), alone, p_value in zip(changes.items(), p_values, adjusted, strict=True):
        direction = "lower" if change.estimate.value < 0 else "higher"
        beside = float(p_value), method
        add_test(results, f"latency.{name}", float(alone), direction, names, beside=beside)
        found = scatter_of_groups(change.estimate, frer, control, f"{name}_us")
        tests = len(changes) * _LOOKS
        add_power(results, f"latency.{name}", found, names, percent=MARGIN_PERCENT, tests=tests)


def _equivalent(
    results: Results, frer: pd.DataFrame, control: pd.DataFrame, trials: pd.DataFrame
) -> None:
    """Add whether the medians are equivalent within the margin."""
    verdict, p_value, scatter = Verdict.CANNOT_TELL, math.nan, None
    values, against, paired = in_pairs(frer, control, "p50_us")
    if len(values) and len(against):
        found = equivalence(values, against, MARGIN_PERCENT, LEVEL_OF_EACH_LOOK, paired=paired)
        verdict, p_value = found.verdict, min(1.0, _LOOKS * found.p_verdict)
        scatter = scatter_of_pairs(found.difference, values, against, paired=paired)
    key = "latency.p50.equivalence"
    add_test(results, key, p_value, str(verdict), trials["trial"])
    how: dict[str, Any] = {"percent": MARGIN_PERCENT, "tests": _LOOKS, "equivalence": True}
    add_power(results, key, scatter, trials["trial"], **how)
    method = "chosen before measuring"
    results.value(f"{key}.margin.percent", MARGIN_PERCENT, [], unit="%", method=method)
