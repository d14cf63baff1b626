"""The list of a run's trials as a page shows it, and which of them each value rests on."""

import math
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.papers.provenance import SHORT_SUM
from tsnrepro.records.runs import open_run
from tsnrepro.records.seal import RUN_FILE
from tsnrepro.records.store import DOCUMENT, read_trial
from tsnrepro.records.values import TABLES_FOLDER, Result
from tsnrepro.results.runs import AnalysedRun

_NOT_SHOWN = ("trial", "sha256", "order")


def table_of(run: AnalysedRun) -> pd.DataFrame | None:
    """Return the table that the analysis wrote of a run's trials, None where there is none."""
    path = run.folder / TABLES_FOLDER / f"{run.experiment.name}.parquet"
    if not path.is_file():
        return None
    table = pd.read_parquet(path)
    return table if "trial" in table and table["trial"].is_unique else None


def trial_rows(run: AnalysedRun, table: pd.DataFrame | None, page: Path) -> list[dict[str, Any]]:
    """Return a row for each trial that a run lists: what it was set to, what came out, where it is.

    Parameters
    ----------
    run, table
        The run, and the table of its trials where there is one.
    page
        Folder of the page, from which addresses count.
    """
    store, manifest = open_run(run.folder / RUN_FILE)
    cells = {} if table is None else {row["trial"]: row for row in table.to_dict("records")}
    rows = []
    for entry in {item["trial"]: item for item in manifest["trials"]}.values():
        folder = store.folder / entry["trial"]
        factors = _factors(folder)
        known = {name: _said(cell) for name, cell in cells.get(entry["trial"], {}).items()}
        known = {name: cell for name, cell in known.items() if cell and name not in _NOT_SHOWN}
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
    """Return the names of what a trial was set to, none where the record is not at hand."""
    path = folder / DOCUMENT
    if not path.is_file():
        return set()
    factors = read_trial(folder).get("factors")
    return {"repetition", *(factors if isinstance(factors, dict) else ())}


def _said(cell: Any) -> str:
    """Return a cell as words; empty for what is missing, zero or no single value."""
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
    """Return the address of a file as a page in a folder names it."""
    return Path(os.path.relpath(path, start)).as_posix()


def trials_behind(
    name: str, rows: Iterable[Mapping[str, Any]], values: Mapping[str, Result]
) -> dict[str, Any]:
    """Return which rows of an experiment's list each value rests on, as ranges, each set once.

    Keys are a tree of their parts, for a long beginning that hundreds have in common stands in the
    page once. A key's set is under the empty part, since a key may begin others.

    Parameters
    ----------
    name
        The experiment's.
    rows
        Of its list of trials.
    values
        Of all experiments: a value may rest on trials of several.
    """
    places = {row["trial"]: place for place, row in enumerate(rows)}
    keys: dict[str, Any] = {}
    sets: dict[tuple[tuple[int, int], ...], int] = {}
    for key, item in values.items():
        own = [_own(trial, name, item) for trial in item.trials]
        found = sorted({places[trial] for trial in own if trial in places})
        if found:
            _put(keys, key, sets.setdefault(_ranges(found), len(sets)))
    return {"keys": keys, "sets": [list(map(list, ranges)) for ranges in sets]}


def _put(tree: dict[str, Any], key: str, number: int) -> None:
    """Put a number into a tree, at the end of the branches that a key's parts are."""
    for part in key.split("."):
        tree = tree.setdefault(part, {})
    tree[""] = number


def _own(trial: str, name: str, item: Result) -> str | None:
    """Return a trial's name without its experiment, None where it is another's."""
    experiment, slash, rest = trial.partition("/")
    if slash:
        return rest if experiment == name else None
    return trial if item.run == name else None


def _ranges(places: list[int]) -> tuple[tuple[int, int], ...]:
    """Return sorted places as first and last of each row of neighbours."""
    runs = groupby(enumerate(places), key=lambda pair: pair[1] - pair[0])
    grouped = [[place for _, place in pairs] for _, pairs in runs]
    return tuple((group[0], group[-1]) for group in grouped)
