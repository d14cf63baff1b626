"""Analysis of studies of loss: the effect of each factor, for control and FRER.

All points of a replication have the same seed, so levels of a factor are compared with the same
random numbers. Seeds are few and losses come in bursts, so results are means over seeds with their
range, without interval.
"""

from pathlib import Path

import pandas as pd

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.studies.study import FACTORS
from tsnrepro.experiments.studies.tables import results_of
from tsnrepro.results.results import Results
from tsnrepro.stats.replication import range_over_runs

MEASURED = ("loss_percent", "configuration")
_WHY = "mean over seeds, with their range"


def varied(table: pd.DataFrame) -> list[str]:
    """Return the factors with more than one value, except the configuration."""
    names = [name for name in FACTORS if name in table and name != "configuration"]
    return [name for name in names if table[name].nunique() > 1]


def by_level(table: pd.DataFrame, factor: str) -> pd.DataFrame:
    """Return the loss in percent by value of a factor, averaged over all others.

    One row per value, configuration and seed: ``value``, ``configuration``, ``replication``,
    ``loss_percent``.
    """
    keys = [factor, "configuration", "replication"]
    found = table.groupby(keys)["loss_percent"].mean().reset_index()
    return found.rename(columns={factor: "value"})


def effects(table: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the loss from the first to the last value of each factor.

    Shape (factors x configurations x seeds, 4): ``factor``, ``configuration``, ``replication`` and
    ``change``, in percentage points.
    """
    rows = []
    for factor in varied(table):
        levels = by_level(table, factor)
        wide = levels.pivot(
            index=["configuration", "replication"], columns="value", values="loss_percent"
        )
        change = wide[max(wide.columns)] - wide[min(wide.columns)]
        rows.append(change.rename("change").reset_index().assign(factor=factor))
    columns = ["factor", "configuration", "replication", "change"]
    return pd.concat(rows)[columns] if rows else pd.DataFrame(columns=columns)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean loss in percent by factor, value and configuration."""
    rows = [
        by_level(table, factor)
        .groupby(["value", "configuration"])["loss_percent"]
        .mean()
        .unstack()
        .assign(factor=factor)
        .reset_index()
        for factor in varied(table)
    ]
    columns = ["factor", "value", *CONFIGURATIONS]
    frame = pd.concat(rows) if rows else pd.DataFrame(columns=columns)
    return frame.reindex(columns=columns).set_index(["factor", "value"]).rename_axis(columns=None)


def analyse(table: pd.DataFrame, source: str | Path) -> Results:
    """Return the results of the study; ``source`` is the file of its table."""
    results, source_names = results_of(source)
    results.value("study.points.count", len(table), source_names)
    for (factor, configuration), rows in effects(table).groupby(["factor", "configuration"]):
        found = range_over_runs(rows["change"], _WHY, unit="%")
        key = f"study.effect.{factor}.{configuration}.percent"
        results.estimate(key, found, 4, source_names)
    return results
