"""The table of an experiment over a grid of settings of the testbed (``vary`` in a campaign)."""

from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.config.registry import GRID_KEYS, Experiment
from tsnrepro.records.files import canonical_json
from tsnrepro.records.store import VARIED, recorded_trials
from tsnrepro.results.estimates import mean
from tsnrepro.results.results import Results


def by_point(run: str | Path, trials: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Return one row for each combination of varied settings and factors, with its outcomes.

    ``run``: the list of the trials, ``run.json``. ``trials``: their table, one row a trial.
    ``experiment``: declares the outcomes; where it does not, they are all numbers of a trial's
    result. Returns the settings and the factors; ``trials``, their number; and of each outcome its
    average over repetitions, with ``_low`` and ``_high``, and ``_limits``, what these are: an
    interval, or the range of a few repetitions, from which nothing is concluded.
    """
    documents = list(recorded_trials(run))
    outcomes = experiment.outcomes or _numbers(documents[0], trials)
    alike: dict[bytes, list[dict[str, Any]]] = {}
    for document in documents:
        alike.setdefault(canonical_json(document["factors"]), []).append(document)
    rows = []
    for group in alike.values():
        chosen = trials[trials["trial"].isin([each["trial"] for each in group])]
        row = _asked(group[0]["factors"]) | {"trials": len(chosen)}
        for name in outcomes:
            found = mean(chosen, name, "")
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
            row[f"{name}_limits"] = str(found.limits)
        rows.append(row)
    table = pd.DataFrame(rows)
    asked = _asked(documents[0]["factors"])
    unused = [name for name in asked if table[name].isna().all()]
    return table.drop(columns=unused).sort_values(
        [name for name in asked if name not in unused], ignore_index=True
    )


def counts(table: pd.DataFrame, trials: pd.DataFrame, experiment: Experiment) -> Results:
    """Return the results of a grid: how many combinations it has, and how many trials."""
    results = Results(experiment.name, trials)
    for key, count in zip(GRID_KEYS, (len(table), len(trials)), strict=True):
        results.value(f"{experiment.name}.{key}", count, trials["trial"])
    return results


def _asked(factors: dict[str, Any]) -> dict[str, Any]:
    """Return varied settings, then factors; lists as text."""
    flat = factors.get(VARIED, {}) | {name: v for name, v in factors.items() if name != VARIED}
    return {
        name: _text(value) if isinstance(value, list) else value for name, value in flat.items()
    }


def _text(values: list[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, Real) else str(value) for value in values)


def _numbers(document: dict[str, Any], trials: pd.DataFrame) -> tuple[str, ...]:
    result = document["values"].get("result", {})
    return tuple(
        name
        for name, value in result.items()
        if isinstance(value, Real) and not isinstance(value, bool) and name in trials
    )
