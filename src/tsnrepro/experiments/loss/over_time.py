"""Loss over the hours of a run: what only shows after some of them.

Trials are looked at in the order in which they were started. A repetition is a block that holds
every load once, so its mean stands for its hour. Only trials of the sweep take part.
"""

import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.loss.analysis import SWEEP, trials_of_objective
from tsnrepro.experiments.loss.path_thresholds import loss_to_program
from tsnrepro.results.estimates import known, unknown
from tsnrepro.results.figures import COLOURS, count_shown, loss_axis, mark_trials, new, note_empty
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.losses import loss_over_runs, trend_over_runs

COLUMNS = ["configuration", "repetition", "hours", "trials", "loss_percent", "largest_percent"]
_NO_HOURS = "the trials have no times of their own"
_PER_HOUR = "%/h"


def over_time(trials: pd.DataFrame, *, timed: bool = True) -> pd.DataFrame:
    """Return one row a configuration and repetition: when it was, and the mean of its losses.

    ``trials``: the run's trials. ``timed``: whether trials have hours: a model's were computed
    whenever it was. Returns columns :data:`COLUMNS`; ``hours`` is the mean of the trials' starts,
    counted from the first, ``largest_percent`` the largest loss of a trial. Empty where nothing has
    a time.
    """
    if not timed:
        return pd.DataFrame(columns=COLUMNS)
    sweep = known(
        loss_to_program(trials_of_objective(trials, SWEEP)), "started", "repetition", "loss_percent"
    )
    if sweep.empty:
        return pd.DataFrame(columns=COLUMNS)
    since = (sweep["started"] - sweep["started"].min()).dt.total_seconds() / 3600
    parts = sweep.assign(hours=since).groupby(["configuration", "repetition"])
    table = parts.agg(
        hours=("hours", "mean"),
        trials=("trial", "size"),
        loss_percent=("loss_percent", "mean"),
        largest_percent=("loss_percent", "max"),
    )
    return table.reset_index().sort_values("hours", ignore_index=True)[COLUMNS]


def add(results: Results, trials: pd.DataFrame, table: pd.DataFrame) -> None:
    """Add what the hours show: losses of both halves, and the trend, by configuration.

    ``results``: those of experiment ``loss``; ``trials``: the run's trials. ``table``: rows of
    :func:`over_time`.
    """
    names = trials_of_objective(trials, SWEEP)["trial"]
    hours = float(table["hours"].max() - table["hours"].min()) if len(table) else None
    results.value(
        "loss.time.span.hours", hours, names, unit="h", digits=2, method="first to last repetition"
    )
    results.value("loss.time.repetitions.count", int(table["repetition"].nunique()), names)
    for configuration in CONFIGURATIONS:
        own = table[table["configuration"] == configuration]
        sweep = trials_of_objective(trials, SWEEP)
        named = sweep.loc[sweep["configuration"] == configuration, "trial"]
        half = len(own) // 2
        key = f"loss.time.{configuration}"
        for part, rows in (("earlier", own.iloc[:half]), ("later", own.iloc[len(own) - half :])):
            results.estimate(f"{key}.{part}.percent", _mean(rows), 4, named)
        results.estimate(f"{key}.trend.percent", _trend(own), 4, named)
        lossy = int((own["largest_percent"] > 0).sum()) if len(own) else None
        results.value(f"{key}.lossy.count", lossy, named, method="repetitions with a loss")


def _mean(rows: pd.DataFrame) -> Estimate:
    if rows.empty:
        return unknown("%", _NO_HOURS)
    return loss_over_runs(rows["loss_percent"], runs_are="repetitions")


def _trend(rows: pd.DataFrame) -> Estimate:
    """Return the trend in percentage points an hour."""
    if len(rows) < 2:
        return unknown(_PER_HOUR, _NO_HOURS if rows.empty else "one repetition")
    return trend_over_runs(rows["loss_percent"], rows["hours"], unit=_PER_HOUR)


def loss_over_time(table: pd.DataFrame, testbed: str) -> Figure:
    """Draw the mean loss of each repetition over time; the lines are the means of both halves.

    A mark on the axis is a repetition without loss.
    """
    figure, axes = new(2.3, testbed)
    count_shown(figure, int(table["loss_percent"].notna().sum()), len(table), "repetitions")
    if table.empty:
        note_empty(axes, _NO_HOURS)
        return figure
    for configuration, colour in COLOURS.items():
        own = table[table["configuration"] == configuration]
        half = len(own) // 2
        mark_trials(axes, configuration, own["hours"], own["loss_percent"])
        for rows in (own.iloc[:half], own.iloc[len(own) - half :]):
            if len(rows) and rows["loss_percent"].any():
                mean = rows["loss_percent"].mean()
                ends = rows["hours"].min(), rows["hours"].max()
                axes.hlines(mean, *ends, color=colour, linewidth=0.8)
    loss_axis(axes)
    axes.set_xlabel("time since the first trial (h)")
    axes.set_ylabel("mean loss of a repetition (%)")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
