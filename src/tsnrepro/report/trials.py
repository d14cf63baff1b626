"""The list of the trials of a run on its page, and the trials of each value."""

import math
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.papers.provenance import SHORT_SUM
from tsnrepro.records.store import DOCUMENT, RUN_FILE, open_run, read_trial
from tsnrepro.records.values import TABLES_FOLDER, Result
from tsnrepro.results.runs import AnalysedRun

_HIDDEN = ("trial", "sha256", "order")


def table_of(run: AnalysedRun) -> pd.DataFrame | None:
    """Return the analysis's table of the trials of a run, None where there is none."""
    path = run.folder / TABLES_FOLDER / f"{run.experiment.name}.parquet"
    if not path.is_file():
        return None
    table = pd.read_parquet(path)
    return table if "trial" in table and table["trial"].is_unique else None


def trial_rows(run: AnalysedRun, table: pd.DataFrame | None, page: Path) -> list[dict[str, Any]]:
    """Return a row for each trial of a run: its factors, results and record.

    Parameters
    ----------
    run, table
        The run, and the table of its trials, if any.
    page
        Folder of the page, to which links are relative.
    """
    store, manifest = open_run(run.folder / RUN_FILE)
    cells = {} if table is None else {row["trial"]: row for row in table.to_dict("records")}
    rows = []
    for entry in {item["trial"]: item for item in manifest["trials"]}.values():
        folder = store.folder / entry["trial"]
        factors = _factors(folder)
        known = {name: _cell_text(cell) for name, cell in cells.get(entry["trial"], {}).items()}
        known = {name: cell for name, cell in known.items() if cell and name not in _HIDDEN}
        rows.append(
            {
                "trial": entry["trial"],
                "address": f"{relative(folder, page)}/{DOCUMENT}" if factors else "",
                "sha256": entry["sha256"][:SHORT_SUM],
                "factors": {name: cell for name, cell in known.items() if name in factors},
                "more": {name: cell for name, cell in known.items() if name not in factors},
            }
        )
    return rows


def _factors(folder: Path) -> set[str]:
    """Return the names of the factors of a trial, none where its record is not available."""
    path = folder / DOCUMENT
    if not path.is_file():
        return set()
    factors = read_trial(folder).get("factors")
    return {"repetition", *(factors if isinstance(factors, dict) else ())}


def _cell_text(cell: Any) -> str:
    """Return a cell as text; empty for a missing value, zero or anything but a scalar."""
    if isinstance(cell, bool | str):
        return str(cell)
    if hasattr(cell, "__len__") or pd.isna(cell):
        return ""
    if isinstance(cell, datetime):
        return f"{cell:%Y-%m-%d %H:%M:%S}"
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return str(cell)
    return "" if math.isnan(number) or number == 0 else f"{number:.7g}"


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
