"""mausezahn: what the generator reached, what the network delivered, and which of them limited."""

from itertools import product
from pathlib import Path

import pandas as pd

from tsnrepro.common.ethernet import wire_bytes
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.published.documents import load_table
from tsnrepro.results.estimates import mean, shared
from tsnrepro.results.results import Results, key_part

FRAMES_BYTES = (64, 128, 256, 512, 1024, 1518)
"""Frame sizes of the documents' 42 tests."""
LOADS_PERCENT = (50, 70, 80, 90, 95, 98, 100)
"""Their loads, in percent of the line."""
_FULL_PERCENT = 100.0
_ACHIEVED = (("achieved_pps", "1/s", "line_pps"), ("achieved_frame_mbps", "Mb/s", "line_mbps"))


def analyse(trials: pd.DataFrame) -> Results:
    """Return achieved rates by frame size and load, at the highest load, and the limits.

    The documents' sizes and loads have their results whether measured or not.
    """
    results = Results("mausezahn", trials)
    trials = _with_line(trials)
    highest = trials["load_percent"].max()
    for frame in sorted({*FRAMES_BYTES, *map(int, trials["frame_bytes"])}):
        for configuration in CONFIGURATIONS:
            own = _of(trials, frame, configuration)
            key = f"mausezahn.frame_{frame}.{configuration}"
            _rates(results, key, own[own["load_percent"] == highest])
            for load in sorted({*map(float, LOADS_PERCENT), *map(float, own["load_percent"])}):
                at = own[own["load_percent"] == load]
                _rates(results, f"{key}.{key_part('load', load)}", at)
    counts = trials["limited_by"].value_counts()
    for limit in ("generator", "network", "nothing"):
        count = int(counts.get(limit, 0))
        results.value(f"mausezahn.limited_by.{limit}.count", count, trials["trial"])
    timed_out = int(trials["timed_out"].sum())
    results.value("mausezahn.timed_out.count", timed_out, trials["trial"])
    results.value("mausezahn.trials.count", len(trials), trials["trial"])
    for name, unit in (("duration_s", "s"), ("deadline_s", "s")):
        shared(results, f"mausezahn.{name}", trials, name, unit)
    shared(results, "mausezahn.link_rate.mbps", trials, "link_mbps", "Mb/s")
    return results


def _with_line(trials: pd.DataFrame) -> pd.DataFrame:
    """Add the line's rate and what it carries, and the share of the target that was achieved."""
    # Of the trials' own arithmetic: the target at a known share of the line is that share of it.
    line_pps = 100 * trials["target_pps"] / trials["load_percent"]
    return trials.assign(
        line_pps=line_pps,
        link_mbps=(line_pps * trials["frame_bytes"].map(wire_bytes) * 8 / 1e6).round(6),
        line_mbps=line_pps * trials["frame_bytes"] * 8 / 1e6,
        achieved_percent=100 * trials["achieved_pps"] / trials["target_pps"],
    )


def _of(trials: pd.DataFrame, frame: int, configuration: str) -> pd.DataFrame:
    chosen = (trials["frame_bytes"] == frame) & (trials["configuration"] == configuration)
    return trials[chosen]


def _rates(results: Results, key: str, trials: pd.DataFrame) -> None:
    """Add what was achieved at one load, as rates and as a share of the target."""
    own = trials["trial"]
    for name, unit, line in _ACHIEVED:
        ceiling = float(trials[line].max()) if len(trials) else None
        results.estimate(f"{key}.{name}", mean(trials, name, unit, ceiling), 1, own)
    share = mean(trials, "achieved_percent", "%")
    results.estimate(f"{key}.efficiency_percent", share, 1, own)


def published_rates(root: Path | None = None) -> pd.DataFrame:
    """Return what the documents print at full load (Table 10 of fail-operational), by frame size.

    Columns: ``frame_bytes``, ``load_percent``, ``published_frame_mbps``, ``published_percent``. The
    rate is the theoretical one times planned over needed time, and nearly every run was ended by
    its script.
    """
    table = load_table("frer-fail-operational", "table-10", root).rename(
        columns={
            "frame_size_bytes": "frame_bytes",
            "measured_mbps": "published_frame_mbps",
            "efficiency_percent": "published_percent",
        }
    )
    names = ["frame_bytes", "published_frame_mbps", "published_percent"]
    return table[names].assign(load_percent=_FULL_PERCENT)


def by_load(trials: pd.DataFrame, root: Path | None = None) -> pd.DataFrame:
    """Return one row a frame size, load and configuration, ours beside the documents'.

    Of the documents' 42 combinations those that were not measured have empty cells of ours.
    Columns: ``frame_bytes``, ``load_percent``, ``configuration``, ``runs``, ``timed_out`` (runs
    that their deadline ended), ``limited_by``; ``achieved_pps``, ``achieved_frame_mbps`` and
    ``achieved_percent`` (of the target), each with ``_low`` and ``_high``; and those of
    :func:`published_rates`.
    """
    trials = _with_line(trials)
    places = ["frame_bytes", "load_percent", "configuration"]
    rows = [
        dict(zip(places, where, strict=True)) | _cells(group)
        for where, group in trials.groupby(places)
    ]
    grid = product(FRAMES_BYTES, map(float, LOADS_PERCENT), CONFIGURATIONS)
    planned = pd.DataFrame(grid, columns=places)
    ours = pd.DataFrame(rows).astype({"load_percent": float})
    table = planned.merge(ours, how="outer", on=places)
    return table.merge(published_rates(root), how="left", on=["frame_bytes", "load_percent"])


def _cells(group: pd.DataFrame) -> dict[str, float | int | str]:
    cells: dict[str, float | int | str] = {
        "runs": len(group),
        "timed_out": int(group["timed_out"].sum()),
        "limited_by": ", ".join(sorted(set(group["limited_by"]))),
    }
    ceilings = {name: float(group[line].max()) for name, _, line in _ACHIEVED}
    for name in (*ceilings, "achieved_percent"):
        found = mean(group, name, "", ceilings.get(name))
        cells |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return cells


def summary(trials: pd.DataFrame, root: Path | None = None) -> pd.DataFrame:
    """Return :func:`by_load` at the line's rate, one row a frame size and configuration."""
    table = by_load(trials, root)
    return table[table["load_percent"] == _FULL_PERCENT].reset_index(drop=True)
