"""The planned trials of an experiment as a table, and a first figure of the measured ones.

The measuring notebooks use ``tsnrepro.planned`` and ``tsnrepro.first_look``. The figure shows
single trials as recorded; results with intervals are computed by the analysis.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.config import files as campaigns
from tsnrepro.imports.manifest import is_imported
from tsnrepro.records.store import VARIED, RawStore, is_done, read_trial
from tsnrepro.runner.plan import planned_trials

# The columns of the first figure, by priority.
_Y_COLUMNS = (
    "goodput_mbps",
    "loss_percent",
    "recovery_ms",
    "median_us",
    "mean_us",
    "half_round_trip_us",
    "throughput_mbps",
    "achieved_pps",
    "delivered_mbps",
    "lost",
    "received",
)
_KINDS = ("configuration", "mode")
_SUMMED = ("label", "trials", "recorded", "nominal_s")


def planned(experiment: str, testbed: str, campaign: str) -> pd.DataFrame:
    """Return the planned trials, one row per combination of factors.

    Parameters
    ----------
    experiment, testbed, campaign
        Their names.

    Returns
    -------
    pandas.DataFrame
        By label, in measuring order: ``trials``, ``recorded``, and ``nominal_s``, the nominal
        duration of the remaining trials in seconds; and the factors that vary.

    Raises
    ------
    ConfigurationError
        The campaign has no such experiment for this testbed.

    Examples
    --------
    >>> plan = tsnrepro.planned("tcp", "model", "quick")
    >>> list(plan.columns[:3])
    ['trials', 'recorded', 'nominal_s']
    """
    if is_imported(campaigns.raw_root(), testbed):
        return pd.DataFrame({"trials": [], "recorded": [], "nominal_s": []})
    store = RawStore(campaigns.raw_root(), testbed, campaign, experiment)
    attempts = campaigns.campaign(campaign).attempts
    rows = []
    for item in planned_trials(experiment, testbed, campaign):
        ended = store.attempt_statuses(item.trial)
        if item.stopping_rule and not ended:
            continue  # measured only if the stopping rule requires it
        recorded = is_done(ended, attempts)
        factors = item.trial.factors | item.trial.factors.get(VARIED, {})
        factors = {n: v for n, v in factors.items() if not isinstance(v, dict | list)}
        rows.append(
            {
                "label": item.trial.label,
                "trials": 1,
                "recorded": int(recorded),
                "nominal_s": 0.0 if recorded else item.nominal_s,
                **factors,
            }
        )
    table = pd.DataFrame(rows)
    varied = [c for c in table if c not in _SUMMED and table[c].nunique(dropna=False) > 1]
    sums = table.groupby("label", sort=False)[list(_SUMMED[1:])].sum()
    return sums.join(table.groupby("label", sort=False)[varied].first())


def first_look(run: dict[str, Any]) -> Figure | str:
    """Draw the main result of the trials of a run over the factor with the most values.

    Parameters
    ----------
    run
        The manifest of the run, which measuring returns.

    Returns
    -------
    Figure or str
        A mark for each trial, or a message if the trials have no such result.
    """
    folder = Path(run["folder"])
    trials = pd.DataFrame([_row(read_trial(folder / each["trial"])) for each in run["trials"]])
    y = next((name for name in _Y_COLUMNS if _is_number(trials, name)), None)
    if y is None:
        return "No result of these trials has a first figure; the analysis draws them."
    over = _factors(trials)
    numbers = [name for name in over if _is_number(trials, name)]
    x = max(numbers or over, key=lambda name: trials[name].nunique(), default=None)
    return _drawn(trials, x, y, f"{run['experiment']}, {run['testbed']}, {run['campaign']}")


def main_result(document: dict[str, Any]) -> tuple[str, float] | None:
    """Return name and value of the main result of a trial's document, None where it has none."""
    row = _row(document)
    name = next((name for name in _Y_COLUMNS if name in row), None)
    return None if name is None else (name, float(row[name]))


def _row(document: dict[str, Any]) -> dict[str, Any]:
    """Return the factors and the scalar results of a trial, including the loss in percent."""
    values = document.get("values", {})
    result = values.get("result", values)
    found = {n: v for n, v in result.items() if isinstance(v, int | float)}
    if found.get("sent") and "lost" in found:
        found.setdefault("loss_percent", 100 * found["lost"] / found["sent"])
    factors = {
        f"factor {n}": v
        for n, v in document.get("factors", {}).items()
        if isinstance(v, int | float | str)
    }
    return found | factors


def _factors(trials: pd.DataFrame) -> list[str]:
    return [
        str(name)
        for name in trials
        if str(name).startswith("factor ") and trials[name].nunique(dropna=True) > 1
        if str(name).removeprefix("factor ") not in _KINDS
    ]


def _is_number(trials: pd.DataFrame, name: str) -> bool:
    return (
        name in trials
        and pd.api.types.is_numeric_dtype(trials[name])
        and bool(trials[name].notna().any())
    )


def _drawn(trials: pd.DataFrame, x: str | None, y: str, title: str) -> Figure:
    # It chooses a backend that draws on no screen, and a notebook may want its own.
    from tsnrepro.explore.figures import styles_of  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    plt.close(figure)
    kind = next((f"factor {k}" for k in _KINDS if f"factor {k}" in trials), None)
    groups: list[tuple[Any, pd.DataFrame]] = [*trials.groupby(kind)] if kind else [("", trials)]
    styles = styles_of(trials[kind].dropna()) if kind else {"": {}}
    for name, group in groups:
        over = group[x] if x else pd.Series(range(len(group)), index=group.index)
        known = group[y].notna() & over.notna()
        over = over if _is_number(trials, x or "") or not x else over.astype(str)
        look = {"markersize": 4, "alpha": 0.6, "color": styles[name].get("color")}
        axes.plot(over[known], group[y][known], "o", label=str(name), **look)
    axes.set(xlabel=(x or "trial").removeprefix("factor "), ylabel=y, title=title)
    axes.spines[["top", "right"]].set_visible(False)
    if kind:
        axes.legend()
    return figure
