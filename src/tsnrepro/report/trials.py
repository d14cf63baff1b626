"""The list of the trials of a run on its page, and the trials of each value."""

import math
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.records.store import DOCUMENT, RUN_FILE, open_run
from tsnrepro.records.values import TABLES_FOLDER, Result
from tsnrepro.report.figures import COLOUR_COLUMNS, X_COLUMNS, varying
from tsnrepro.results.runs import AnalysedRun

_MOST_COLUMNS = 9
_OUTCOMES = (
    *("offered_mbps", "delivered_mbps", "sent", "lost", "loss_percent", "goodput_mbps"),
    *("p50_us", "half_round_trip_p50_us", "p99_us", "outage_ms", "throughput_mbps"),
)


def table_of(run: AnalysedRun) -> pd.DataFrame | None:
    """Return the analysis's table of the trials of a run, None where there is none."""
    path = run.folder / TABLES_FOLDER / f"{run.experiment.name}.parquet"
    if not path.is_file():
        return None
    table = pd.read_parquet(path)
    return table if "trial" in table and table["trial"].is_unique else None


def list_columns(table: pd.DataFrame | None, declared: tuple[str, ...] = ()) -> list[str]:
    """Return the columns of the list of trials: those that vary, what was asked first.

    ``declared`` are the experiment's outcomes.
    """
    if table is None:
        return []
    there = [str(name) for name in varying(table).columns]
    outcomes = [name for name in dict.fromkeys((*declared, *_OUTCOMES)) if name in there]
    asked = [*COLOUR_COLUMNS, *X_COLUMNS]
    others = sorted(
        (name for name in there if name not in outcomes),
        key=lambda name: asked.index(name) if name in asked else len(asked),
    )
    return [*others[: _MOST_COLUMNS - len(outcomes)], *outcomes]


def trial_rows(
    run: AnalysedRun, table: pd.DataFrame | None, columns: Iterable[str]
) -> list[dict[str, Any]]:
    """Return a row for each trial of a run: its cells in these columns, its record and its page.

    ``folder`` is None, and there is no page, where the record is not available.
    """
    store, manifest = open_run(run.folder / RUN_FILE)
    cells = {} if table is None else {row["trial"]: row for row in table.to_dict("records")}
    rows = []
    for entry in {item["trial"]: item for item in manifest["trials"]}.values():
        trial, found = entry["trial"], cells.get(entry["trial"], {})
        folder = store.folder / trial
        rows.append(
            {
                "trial": trial,
                "folder": folder if (folder / DOCUMENT).is_file() else None,
                "page": f"{run.experiment.name}/{trial}.html",
                "sha256": entry["sha256"],
                "cells": [_cell_text(found.get(name)) for name in columns],
            }
        )
    return rows


def _cell_text(cell: Any) -> str:
    """Return a cell as text; empty for a missing value or anything but a scalar."""
    if isinstance(cell, bool | str):
        return str(cell)
    if cell is None or hasattr(cell, "__len__") or pd.isna(cell):
        return ""
    if isinstance(cell, datetime):
        return f"{cell:%Y-%m-%d %H:%M:%S}"
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return str(cell)
    return "" if math.isnan(number) else f"{number:.7g}"


def relative(path: Path, start: Path) -> str:
    """Return the link to a file from a page in a folder."""
    return Path(os.path.relpath(path, start)).as_posix()


def trials_of_values(
    name: str, rows: Iterable[Mapping[str, Any]], values: Mapping[str, Result]
) -> dict[str, Any]:
    """Return the rows of each value in the list of trials of an experiment, as ranges.

    Keys are a tree of their parts, so that common prefixes are on the page once. The number of the
    set of a key is under the empty part, since a key may be a prefix of others.

    Parameters
    ----------
    name
        The experiment.
    rows
        The rows of its list of trials.
    values
        The values of all experiments: a value may use trials of several.
    """
    indices = {row["trial"]: index for index, row in enumerate(rows)}
    keys: dict[str, Any] = {}
    sets: dict[tuple[tuple[int, int], ...], int] = {}
    for key, item in values.items():
        trials = [_without_experiment(trial, name, item) for trial in item.trials]
        found = sorted({indices[trial] for trial in trials if trial in indices})
        if found:
            _insert(keys, key, sets.setdefault(_ranges(found), len(sets)))
    return {"keys": keys, "sets": [list(map(list, ranges)) for ranges in sets]}


def _insert(tree: dict[str, Any], key: str, number: int) -> None:
    """Insert a number into a tree by the parts of a key."""
    for part in key.split("."):
        tree = tree.setdefault(part, {})
    tree[""] = number


def _without_experiment(trial: str, name: str, item: Result) -> str | None:
    """Return the name of a trial of an experiment, None for a trial of another."""
    experiment, slash, rest = trial.partition("/")
    if slash:
        return rest if experiment == name else None
    return trial if item.run == name else None


def _ranges(indices: list[int]) -> tuple[tuple[int, int], ...]:
    """Return sorted indices as the first and last of each consecutive range."""
    runs = groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0])
    grouped = [[index for _, index in pairs] for _, pairs in runs]
    return tuple((group[0], group[-1]) for group in grouped)
