"""Buffer occupancy: when a buffer is full, and whether the equation of the time to fill holds.

The equation is buffer / (arrival - departure). Counted in what lies in the buffer, frames with FCS,
it can be compared with the model. The published one puts the payload rate against the wire rate and
lets each of two paths carry half of the stream: it is shown beside, as it stands.
"""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.common.ethernet import udp_frames, wire_bytes
from tsnrepro.records.store import QUEUE_DEPTH, open_run
from tsnrepro.results.estimates import groups, loss, mean, shared, unknown
from tsnrepro.results.results import Results, key_part
from tsnrepro.stats.estimate import Estimate

CELL = ["buffer_bytes", "rate_mbps", "configuration", "memory"]
_NOT_FULL = "the buffer was not full in every trial"


def excess_mbytes(factors: Any) -> float:
    """Return how fast one member port's queue grows, in MB/s of frames; below zero it does not.

    ``factors``: ``rate_mbps`` of payload, ``payload_bytes``, ``member_link_rate_mbps``,
    ``configuration``.
    """
    frame = udp_frames(factors["payload_bytes"], tagged=factors["configuration"] == "frer")[0]
    arrival = factors["rate_mbps"] / 8 * frame / factors["payload_bytes"]
    departure = factors["member_link_rate_mbps"] / 8 * frame / wire_bytes(frame)
    return arrival - departure


def equation_ms(factors: Any) -> float | None:
    """Return the time in which the buffer fills, by frames; None where the link keeps up.

    Every path carries the whole stream, so a member port has the same time with FRER as without,
    but for the tag, and half of it where two ports share the buffer (``member_ports``).
    """
    excess = excess_mbytes(factors)
    sharing = factors["member_ports"] if factors["memory"] == "shared" else 1
    return factors["buffer_bytes"] / sharing / excess / 1e3 if excess > 0 else None


def published_ms(factors: Any) -> float | None:
    """Return what the published equation gives (section 5.1 of the document on FRER and UDP).

    Arrival is the payload rate, departure the wire rate; with FRER each is halved.
    """
    excess = (factors["rate_mbps"] - factors["member_link_rate_mbps"]) / 8
    return (
        factors["buffer_bytes"] / (excess / factors["member_ports"]) / 1e3 if excess > 0 else None
    )


def analyse(trials: pd.DataFrame) -> Results:
    """Return times to fill and to the first loss by cell, and the errors of both equations."""
    results = Results("occupancy", trials)
    for key, name, unit in (
        ("link.mbps", "member_link_rate_mbps", "Mb/s"),
        ("payload_bytes", "payload_bytes", "B"),
        ("duration_s", "duration_s", "s"),
    ):
        shared(results, f"occupancy.{key}", trials, name, unit)
    results.value("occupancy.trials.count", len(trials), trials["trial"])
    for size, group in groups(trials, "buffer_bytes"):
        key = f"occupancy.{size_part(size)}"
        results.value(f"{key}.bytes", int(size), group["trial"], method="configuration")
        results.value(
            f"{key}.mb", size / 1e6, group["trial"], unit="MB", digits=1, method="configuration"
        )
    for rate, group in groups(trials, "rate_mbps"):
        results.value(
            *(f"occupancy.{key_part('rate', rate)}.mbps", rate, group["trial"]),
            unit="Mb/s",
            method="configuration",
        )
    errors = [_add_cell(results, cell, group) for cell, group in trials.groupby(CELL)]
    known = [abs(error) for error in errors if error is not None]
    results.value(
        *("occupancy.equation.worst_error.percent", max(known, default=None), trials["trial"]),
        unit="%",
        digits=2,
        method="largest distance of a cell's mean from the equation",
    )
    return results


def size_part(buffer_bytes: float) -> str:
    """Return the word of a buffer in keys, such as ``size_2mb``."""
    return f"{key_part('size', buffer_bytes / 1e6)}mb"


def _add_cell(results: Results, cell: Any, group: pd.DataFrame) -> float | None:
    """Add what one cell gives; return the equation's error in percent, if there is one."""
    size, rate, configuration, memory = cell
    key = f"occupancy.{size_part(size)}.{key_part('rate', rate)}.{configuration}.{memory}"
    factors, trials = group.iloc[0], group["trial"]
    filled = _time(group, "filled_ms")
    results.estimate(f"{key}.filled.ms", filled, 1, trials)
    results.estimate(f"{key}.first_loss.ms", _time(group, "first_loss_ms"), 1, trials)
    error = unknown("%", _NOT_FULL)
    for name, expected in (
        ("published", published_ms(factors)),
        ("equation", equation_ms(factors)),
    ):
        results.value(
            f"{key}.{name}.ms", expected, trials, unit="ms", digits=1, method="closed form"
        )
        error = _error(filled, expected)
        results.estimate(f"{key}.{name}.error.percent", error, 2, trials)
    ceiling = factors["member_link_rate_mbps"]
    results.estimate(f"{key}.carried.mbps", mean(group, "carried_mbps", "Mb/s", ceiling), 1, trials)
    results.estimate(f"{key}.lost.percent", loss(group, "network_lost_percent"), 2, trials)
    results.value(
        *(f"{key}.peak.percent", float(group["peak_percent"].max()), trials),
        unit="%",
        digits=1,
        method="largest over trials",
    )
    return error.value if np.isfinite(error.value) else None


def _time(group: pd.DataFrame, column: str) -> Estimate:
    """Return the mean of a time that every trial must have."""
    if group[column].isna().any():
        return unknown("ms", _NOT_FULL)
    return mean(group, column, "ms")


def _error(filled: Estimate, expected: float | None) -> Estimate:
    """Return how far an equation is from the time that it took, in percent of that time.

    The equation has no scatter, so the limits of the time are those of the error, the other way
    round.
    """
    if expected is None or not np.isfinite(filled.value):
        return unknown("%", _NOT_FULL)
    value, high, low = (100 * (expected / t - 1) for t in (filled.value, filled.low, filled.high))
    return replace(filled, value=value, low=low, high=high, unit="%")


def times(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cell: means over trials of the times, what the equations give, loss."""
    rows = []
    for cell, group in trials.groupby(CELL):
        factors = group.iloc[0]
        rows.append(
            dict(zip(CELL, cell, strict=True))
            | {name: group[name].astype(float).mean(skipna=False) for name in _MEANS}
            | {"equation_ms": equation_ms(factors), "published_ms": published_ms(factors)}
        )
    return pd.DataFrame(rows)


_MEANS = ("filled_ms", "first_loss_ms", "carried_mbps", "network_lost_percent", "peak_percent")


def courses(manifest_path: str | Path) -> pd.DataFrame:
    """Return the course of each member port's queue in the first repetition's trials.

    Columns: factors of the trial, ``member_ports``, ``port``, ``from_ms`` and ``held_bytes``, the
    largest depth of the span that begins then.
    """
    store, manifest = open_run(manifest_path)
    tables = []
    for entry in manifest["trials"]:
        document = store.read(store.folder / entry["trial"])
        if document["repetition"] == 1:
            table = pd.read_csv(io.BytesIO(store.output_bytes(entry["trial"], QUEUE_DEPTH)))
            ports = document["values"]["result"]["member_ports"]
            tables.append(table.assign(**document["factors"], member_ports=ports))
    return pd.concat(tables, ignore_index=True)
