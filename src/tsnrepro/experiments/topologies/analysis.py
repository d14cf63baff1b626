"""Lines, rings and meshes: latency against the sum of its parts, loss against that of the paths.

Counted is what leaves the last switch towards the listener. A load is *low* where it is the
smallest of the run, *full* where it is the largest.
"""

from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.results.estimates import difference, groups, loss, mean, relative, shared
from tsnrepro.results.results import Results, key_part

_PLACES = ["shape", "size", "cut"]


def with_topology(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a column ``topology``: line_4, ring_5, ring_5_cut, mesh_3."""
    cut = np.where(trials["cut"], "_cut", "")
    names = trials["shape"] + "_" + trials["size"].astype(str) + cut
    return trials.assign(topology=names).sort_values(_PLACES, kind="stable")


def analyse(trials: pd.DataFrame) -> Results:
    """Return loss, latency and carried load by topology, and what follows without simulating."""
    results = Results("topologies", trials)
    shared(results, "topologies.payload_bytes", trials, "payload_bytes", "B")
    shared(results, "topologies.duration_s", trials, "duration_s", "s")
    results.value("topologies.trials.count", len(trials), trials["trial"])
    named = with_topology(trials)
    for name, group in named.groupby("topology", sort=False):
        for configuration, own in group.groupby("configuration"):
            _add_configuration(results, f"topologies.{name}.{configuration}", own)
        _add_comparisons(results, f"topologies.{name}", group)
    return results


def _add_configuration(results: Results, key: str, group: pd.DataFrame) -> None:
    results.estimate(f"{key}.expected.us", mean(group, "expected_us", "us"), 2, group["trial"])
    shared(results, f"{key}.line_limit.mbps", group, "line_limit_mbps", "Mb/s", digits=1)
    shared(results, f"{key}.paths.count", group, "paths", "")
    shared(results, f"{key}.switches.count", group, "switches", "")
    for link_loss, of_loss in groups(group, "link_loss_percent"):
        for rate, cell in groups(of_loss, "rate_mbps"):
            at = f"{key}.{key_part('link_loss', link_loss)}.{key_part('rate', rate)}"
            _add_cell(results, at, cell)


def _add_cell(results: Results, key: str, cell: pd.DataFrame) -> None:
    trials = cell["trial"]
    results.estimate(f"{key}.lost.percent", loss(cell, "lost_percent"), 3, trials)
    expected = expected_lost_percent(cell.iloc[0])
    results.value(
        *(f"{key}.expected_lost.percent", expected, trials),
        unit="%",
        digits=3,
        method="closed form; none where the load is above the line's limit",
    )
    for name in ("p50", "p99"):
        results.estimate(f"{key}.{name}.us", mean(cell, f"{name}_us", "us"), 2, trials)
    ceiling = float(cell["line_limit_mbps"].iloc[0])
    carried = mean(cell, "carried_mbps", "Mb/s", ceiling)
    results.estimate(f"{key}.carried.mbps", carried, 1, trials)


def expected_lost_percent(trial: Any) -> float | None:
    """Return the loss of the links alone; None where queues lose too."""
    if trial["rate_mbps"] > trial["line_limit_mbps"]:
        return None
    return float(trial["expected_lost_percent"])


def low(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials at the smallest load of the run over links that lose least."""
    return _at_load(trials, trials["rate_mbps"].min())


def full(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials at the largest load of the run over links that lose least."""
    return _at_load(trials, trials["rate_mbps"].max())


def _at_load(trials: pd.DataFrame, rate_mbps: float) -> pd.DataFrame:
    least = trials["link_loss_percent"].min()
    return trials[(trials["rate_mbps"] == rate_mbps) & (trials["link_loss_percent"] == least)]


def _add_comparisons(results: Results, key: str, group: pd.DataFrame) -> None:
    """Add what FRER changes at the low load of latency, at the full load of what is carried."""
    frer, control = (group[group["configuration"] == name] for name in ("frer", "control"))
    if frer.empty or control.empty:
        return
    if not group["cut"].any():
        pair = low(frer), low(control)
        changed = difference(*pair, "p50_us", "us")
        results.estimate(f"{key}.p50.difference.us", changed, 2, pd.concat(pair)["trial"])
    pair = full(frer), full(control)
    percent = relative(*pair, "carried_mbps").estimate
    ratio = 1 + percent.value / 100
    results.value(
        *(f"{key}.carried.ratio", ratio, pd.concat(pair)["trial"]),
        digits=4,
        method="ratio of geometric means over runs",
    )


def cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials by topology, configuration, loss of a link and load."""
    named = with_topology(trials)
    keys = ["topology", "configuration", "link_loss_percent", "rate_mbps"]
    numbers = ["lost_percent", "expected_lost_percent", "p50_us", "p99_us", "expected_us"]
    numbers += ["carried_mbps", "line_limit_mbps", "paths", "switches"]
    ordered = named.sort_values([*_PLACES, *keys[1:]])
    return ordered.groupby(keys, sort=False)[numbers].mean().reset_index()
