"""Frame loss by load, saturation by size, and what the searches for throughput converged to.

The documents tried 11 loads at three sizes, thrice. Sizes are keyed as the documents give them:
``frame_64`` is a frame with FCS, ``payload_64`` a payload, which the documents' counts show theirs
to be.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.rfc2544.settings import DOCUMENT_LOADS_PERCENT
from tsnrepro.published.documents import load_table
from tsnrepro.results.estimates import count, loss, mean, relative, unknown
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import Estimate

LOSS_SIZES = (64, 512, 1518)
"""Sizes of the documents' loss test."""
GIVEN_LOADS = "at_loads"
NARROW_SHARE = 0.001
"""Width of the last bracket, in payload rate over the links' rate, from which on a search counts as
converged: the documents' search ends there, at 1 Mb/s on links of 1 Gb/s."""
_SEARCH = "binary_search"
_LINE_PERCENT = 100.0
# By the payload that their counts show.
_PUBLISHED = {64: "table-9a", 512: "table-9b", 1518: "table-9c"}


class Size(NamedTuple):
    """A size as a document gives it: frame or payload, and the number of bytes."""

    kind: str
    size_bytes: int

    @property
    def word(self) -> str:
        """The size as a word of a key."""
        return f"{self.kind}_{self.size_bytes}"

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of this size."""
        frames = table["frame_bytes"]
        if self.kind == "frame":
            return table[frames.eq(self.size_bytes).fillna(False).astype(bool)]
        return table[frames.isna() & (table["payload_bytes"] == self.size_bytes)]


def sizes_of(table: pd.DataFrame) -> list[Size]:
    """Return the documents' sizes and those that were tried, by frame and by payload."""
    frames = {int(frame) for frame in table["frame_bytes"].dropna()}
    payloads = {int(size) for size in table[table["frame_bytes"].isna()]["payload_bytes"]}
    return [
        Size(kind, size)
        for kind, tried in (("frame", frames), ("payload", payloads))
        for size in sorted({*LOSS_SIZES, *tried})
    ]


def given_loads(losses: pd.DataFrame) -> pd.DataFrame:
    """Return the points at given loads of the loss table, with what was delivered.

    The downward procedure stops where nothing is lost, so its points are chosen by their results
    and are not pooled with these. Adds ``load_percent``, the target load, and
    ``delivered_payload_mbps``.
    """
    points = losses[losses["procedure"] == GIVEN_LOADS]
    kept = 1 - points["loss_percent"].astype(float) / 100
    return points.assign(
        load_percent=points["asked_percent"].astype(float).round(6),
        delivered_payload_mbps=points["offered_payload_mbps"].astype(float) * kept,
    )


def offered(losses: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the loss table whose load was offered.

    Where the generator fell behind, the loss is not one at the load.
    """
    return losses[~losses["generator_limited"].astype(bool)]


def add_loads(results: Results, losses: pd.DataFrame, throughput: pd.DataFrame) -> None:
    """Add loss by load and saturation of every size, those of the documents tried or not.

    Loss is that of the loads that were offered; the other points are counted. A saturation is what
    was delivered, whatever was offered.
    """
    limited = losses[losses["generator_limited"].astype(bool)]
    left_out = len(limited) if len(losses) else None
    method = "load trials whose load the generator did not reach; no loss is given for them"
    key = "rfc2544.frame_loss.left_out.count"
    results.value(key, left_out, limited["trial"].unique(), method=method)
    points = given_loads(losses)
    for size in sizes_of(points):
        chosen, found = size.of(points), size.of(throughput)
        for configuration in CONFIGURATIONS:
            own = chosen[chosen["configuration"] == configuration]
            _loads(results, f"rfc2544.frame_loss.{size.word}.{configuration}", own)
            searched = found[found["configuration"] == configuration]
            _saturation(results, f"rfc2544.saturation.{size.word}.{configuration}", own, searched)


def _loads(results: Results, name: str, points: pd.DataFrame) -> None:
    tried = {float(load) for load in points["load_percent"]}
    for load in sorted({*map(float, DOCUMENT_LOADS_PERCENT), *tried}):
        at = points[points["load_percent"] == load]
        key = f"{name}.{_word(load)}"
        own = at["trial"].unique()
        for quantity, estimate, digits in _at_load(at):
            results.estimate(f"{key}.{quantity}", estimate, digits, own)


def _word(load_percent: float) -> str:
    return f"load_{load_percent:g}".replace(".", "_")


def _at_load(points: pd.DataFrame) -> Iterator[tuple[str, Estimate, int]]:
    """Yield the loss and the rates at one load, over the repetitions that offered it."""
    kept = offered(points)
    yield "percent", loss_of_offered(points), 3
    for name in ("offered_payload_mbps", "delivered_payload_mbps"):
        yield name, mean(kept, name, "Mb/s", _line_mbps(kept)), 1
    yield "offered_percent", mean(kept, "offered_percent", "%", 100.0), 1


def loss_of_offered(points: pd.DataFrame) -> Estimate:
    """Return the mean loss of the points of one load that was offered, or why there is none."""
    kept = offered(points)
    if kept.empty and len(points):
        return unknown("%", "the generator did not reach the load")
    return loss(kept, "loss_percent")


def _line_mbps(points: pd.DataFrame) -> float | None:
    """Return the payload rate that the talker's line carries, from the points."""
    if points.empty:
        return None
    shares = points["offered_payload_mbps"] / points["offered_percent"]
    return float(100 * shares.max())


def highest_delivered(points: pd.DataFrame) -> pd.DataFrame:
    """Return the highest rate that each repetition delivered at any load, one row a trial.

    A highest mean over loads would be too high by the luck of the load that has it; of each
    repetition's own highest the repetitions are a sample like any other.
    """
    best = points.groupby("trial")["delivered_payload_mbps"].transform("max")
    chosen = points[points["delivered_payload_mbps"] == best]
    return chosen.drop_duplicates("trial")


def highest_clean(points: pd.DataFrame) -> pd.DataFrame:
    """Return the highest load up to the line's that each repetition offered without a loss.

    That is the throughput (RFC 2544, 26.1) among the given loads. One row a trial, none of trials
    that lost something at every load.
    """
    kept = offered(points)
    clean = kept[(kept["lost"].astype(int) == 0) & (kept["load_percent"] <= _LINE_PERCENT)]
    return clean.sort_values("load_percent").drop_duplicates("trial", keep="last")


def _saturation(
    results: Results, name: str, points: pd.DataFrame, throughput: pd.DataFrame
) -> None:
    best = highest_delivered(points)
    own = best["trial"]
    line = _line_mbps(points)
    rate = mean(best, "delivered_payload_mbps", "Mb/s", line)
    results.estimate(f"{name}.payload_mbps", rate, 1, own)
    results.estimate(f"{name}.line_percent", efficiency(rate, line), 1, own)
    clean = highest_clean(points)
    percent = mean(clean, "load_percent", "%", _LINE_PERCENT)
    results.estimate(f"{name}.clean_percent", percent, 0, clean["trial"])
    searched = throughput[throughput["goal"] == _SEARCH].dropna(subset="offered_payload_mbps")
    ratio = unknown(why="no throughput by bisection to hold it against")
    if len(best) and len(searched) and not _same_line(line, searched):
        ratio = unknown(why="searched on links of another rate")
    elif len(best) and len(searched):
        # One name for both, in which they are compared.
        rates = best.assign(mbps=best["delivered_payload_mbps"])
        found = relative(rates, searched.assign(mbps=searched["offered_payload_mbps"]), "mbps")
        ratio = _as_ratio(found.estimate)
    both = [*own, *searched["trial"].unique()] if len(best) and len(searched) else []
    results.estimate(f"{name}.ratio", ratio, 2, both)


def _same_line(line_mbps: float | None, searched: pd.DataFrame) -> bool:
    """Tell whether searches ran on links that carry this payload rate."""
    rates = searched["line_pps"] * searched["payload_bytes"] * 8 / 1e6
    return line_mbps is not None and bool(np.isclose(rates, line_mbps, rtol=0.01).all())


def _as_ratio(percent: Estimate) -> Estimate:
    """Return a relative difference in percent as the ratio that it stands for."""
    ends = {name: 1 + getattr(percent, name) / 100 for name in ("value", "low", "high")}
    return replace(percent, **ends, unit="")


def loss_by_load(losses: pd.DataFrame, root: Path | None = None) -> pd.DataFrame:
    """Return one row a size, configuration and given load, with the documents' rows beside.

    Columns: ``asked_as`` (``frame`` or ``payload``), ``size_bytes``, ``configuration``,
    ``load_percent``, ``repetitions``, and ``left_out``, those of them whose load the generator did
    not reach; of the others ``offered_payload_mbps``, ``delivered_payload_mbps`` and
    ``loss_percent``, each with ``_low`` and ``_high``; ``loss_limits``; and beside payloads of
    the documents' sizes ``published_offered_mbps`` and ``published_loss_percent``.
    """
    points = given_loads(losses)
    rows = []
    for size in sizes_of(points):
        for (configuration, load), at in size.of(points).groupby(["configuration", "load_percent"]):
            rows.append(
                {
                    "asked_as": size.kind,
                    "size_bytes": size.size_bytes,
                    "configuration": configuration,
                    "load_percent": load,
                    "repetitions": at["trial"].nunique(),
                    "left_out": int(at["generator_limited"].sum()),
                    **_columns(at),
                }
            )
    columns = ["asked_as", "size_bytes", "configuration", "load_percent", *_OUTCOME]
    ours = pd.DataFrame(rows, columns=columns).astype({"load_percent": float, "size_bytes": int})
    return ours.merge(
        published_loss(root), how="left", on=["asked_as", "size_bytes", "load_percent"]
    )


_RATES = ("offered_payload_mbps", "delivered_payload_mbps")
_OUTCOME = [
    *("repetitions", "left_out"),
    *(f"{name}{end}" for name in (*_RATES, "loss_percent") for end in ("", "_low", "_high")),
    "loss_limits",
]


def _columns(at: pd.DataFrame) -> dict[str, float | str]:
    kept = offered(at)
    found = {name: mean(kept, name, "Mb/s", _line_mbps(kept)) for name in _RATES}
    found["loss_percent"] = loss_of_offered(at)
    columns: dict[str, float | str] = {}
    for name, estimate in found.items():
        columns |= {
            name: estimate.value,
            f"{name}_low": estimate.low,
            f"{name}_high": estimate.high,
        }
    return columns | {"loss_limits": str(found["loss_percent"].limits)}


def published_loss(root: Path | None = None) -> pd.DataFrame:
    """Return fail-operational's loss by load, by the payload that its counts show."""
    parts = [
        load_table("frer-fail-operational", table, root)
        .rename(
            columns={
                "actual_mbps": "published_offered_mbps",
                "loss_percent": "published_loss_percent",
            }
        )
        .assign(asked_as="payload", size_bytes=size)
        for size, table in _PUBLISHED.items()
    ]
    names = ["asked_as", "size_bytes", "load_percent", "published_offered_mbps"]
    table = pd.concat(parts, ignore_index=True)[[*names, "published_loss_percent"]]
    return table.astype({"load_percent": float})


def add_search(results: Results, name: str, table: pd.DataFrame) -> None:
    """Add how a search went: its load trials, the width it ended with, whether it converged."""
    own = table["trial"].unique()
    results.estimate(f"{name}.iterations.count", count(table, "iterations"), 0, own)
    results.estimate(f"{name}.bracket_mbps", mean(table, "bracket_mbps", "Mb/s"), 2, own)
    known = table["converged"].dropna()
    word = ("yes" if known.astype(bool).all() else "no") if len(known) else None
    share = f"{100 * NARROW_SHARE:g} % of the links' rate"
    method = f"all searches ended within {share} above a load that passed"
    results.value(f"{name}.converged", word, own, method=method)


def efficiency(rate: Estimate, line_mbps: float | None) -> Estimate:
    """Return a payload rate in percent of what the line carries of that payload."""
    return rate.scaled(100 / line_mbps, "%") if line_mbps else unknown("%")


def bracket_mbps(
    payload_bytes: int, lower_pps: float | None, upper_pps: float | None, ceiling_pps: float
) -> float:
    """Return the payload rate between the load that passed and the next one that did not.

    A search that never failed ends at its ceiling: what is above it was not tried. nan where no
    load passed.
    """
    if lower_pps is None:
        return float("nan")
    above = ceiling_pps if upper_pps is None else upper_pps
    return max(above - lower_pps, 0.0) * payload_bytes * 8 / 1e6
