"""Estimates over trials of which some, or all, lack a value, as imported ones may.

A trial that lacks the value takes no part; where none has it, the estimate is unknown.
"""

import math

import pandas as pd

from tsnrepro.analysis.results import Results
from tsnrepro.stats.comparisons import (
    TOO_FEW,
    Comparison,
    difference_of_means,
    relative_difference,
)
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate
from tsnrepro.stats.replication import mean_over_runs

NO_TRIAL = "no trial gives it"


def unknown(unit: str = "", method: str = NO_TRIAL) -> Estimate:
    """Return the estimate that says nothing but why."""
    return Estimate(math.nan, math.nan, math.nan, DEFAULT_LEVEL, method, 1, unit)


def known(trials: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the trials that have a value in all of some columns."""
    return trials[trials[list(columns)].notna().all(axis=1)]


def mean(trials: pd.DataFrame, column: str, unit: str) -> Estimate:
    """Return the mean over the trials that have a value, as ``mean_over_runs``."""
    values = trials[column].dropna()
    return mean_over_runs(values, unit=unit) if len(values) else unknown(unit)


def difference(a: pd.DataFrame, b: pd.DataFrame, column: str, unit: str) -> Estimate:
    """Return the difference of two groups' means, as ``difference_of_means``."""
    first, second = a[column].dropna(), b[column].dropna()
    if not (len(first) and len(second)):
        return unknown(unit, TOO_FEW)
    return difference_of_means(first, second, unit=unit).estimate


def relative(a: pd.DataFrame, b: pd.DataFrame, column: str) -> Comparison:
    """Return the relative difference of two groups in percent, as ``relative_difference``."""
    first, second = a[column].dropna(), b[column].dropna()
    if not (len(first) and len(second)):
        return Comparison(unknown("%", TOO_FEW), math.nan)
    return relative_difference(first, second)


def total(trials: pd.DataFrame, column: str) -> int | None:
    """Return the sum of a count over the trials that have it, None where none has."""
    counts = trials[column].dropna()
    return int(counts.sum()) if len(counts) else None


def shared(results: Results, key: str, trials: pd.DataFrame, column: str, unit: str) -> None:
    """Add the one number that all trials share; of several there is only the range."""
    numbers = trials[column].dropna()
    if numbers.nunique() > 1:
        low, high = float(numbers.min()), float(numbers.max())
        method = "configuration: the trials differ, their range"
        span = Estimate(math.nan, low, high, DEFAULT_LEVEL, method, len(numbers), unit)
        results.estimate(key, span, 0, trials["trial"])
        return
    value = float(numbers.iloc[0]) if len(numbers) else None
    results.value(key, value, trials["trial"], unit=unit, method="configuration")
