"""Estimates over trials of which some, or all, lack a value, as imported ones may.

A trial that lacks the value takes no part; where none has it, the estimate is unknown. The unit is
the repetition: trials of one repetition share its hour, so of several their mean counts.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pandas as pd

from tsnrepro.records.tables import repetitions
from tsnrepro.results.results import Results
from tsnrepro.stats.comparisons import Comparison, median_difference, relative_difference
from tsnrepro.stats.estimate import (
    DEFAULT_LEVEL,
    MIN_RUNS,
    Estimate,
    Limits,
    without_interval,
)
from tsnrepro.stats.losses import difference_of_shares, loss_over_runs
from tsnrepro.stats.power import Scatter, scatter_of_pairs
from tsnrepro.stats.replication import median_over_runs, range_over_runs

_NO_TRIAL = "no trial gives it"
COUNTS = "counts over few runs"


def groups(trials: pd.DataFrame, column: str) -> Iterator[tuple[float, pd.DataFrame]]:
    """Yield each value of a column of numbers, in order, with its trials."""
    for value in sorted(trials[column].unique()):
        yield float(value), trials[trials[column] == value]


def unknown(unit: str = "", why: str = _NO_TRIAL) -> Estimate:
    """Return an estimate without a value, with the reason."""
    return without_interval(math.nan, why, 1, unit)


def known(trials: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the trials that have a value in all of some columns."""
    return trials[trials[list(columns)].notna().all(axis=1)]


def recorded(trials: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the trials as :func:`known` does, none of a record that lacks a column altogether."""
    lacking = [column for column in columns if column not in trials]
    return known(trials.reindex(columns=[*trials.columns, *lacking]), *columns)


def by_repetition(trials: pd.DataFrame, column: str) -> pd.Series:
    """Return the mean of a column in each repetition that has a value, by its number."""
    # By arrays: thousands of results are means of a handful of trials, and a groupby costs 3 ms.
    values = trials[column].to_numpy(dtype=float, na_value=np.nan)
    there = ~np.isnan(values)
    numbers, place = np.unique(repetitions(trials).to_numpy()[there], return_inverse=True)
    means = np.bincount(place, values[there]) / np.bincount(place)
    return pd.Series(means, index=pd.Index(numbers, name="repetition"), name=column)


def mean(trials: pd.DataFrame, column: str, unit: str, ceiling: float | None = None) -> Estimate:
    """Return the average over repetitions, their median, as ``median_over_runs``."""
    runs = by_repetition(trials, column)
    highest = math.inf if ceiling is None else ceiling
    return median_over_runs(runs, unit=unit, ceiling=highest) if len(runs) else unknown(unit)


def mean_of_all(
    trials: pd.DataFrame,
    column: str,
    unit: str,
    lacking: tuple[pd.Series, str],
    ceiling: float | None = None,
) -> Estimate:
    """Return the average as :func:`mean` does, or a range where some trials have no such value.

    An average of the others would be that of the lucky ones. ``lacking`` tells which trials have no
    value, or only a bound of it, and why, as text that follows their number.
    """
    which, why = lacking
    if not which.any():
        return mean(trials, column, unit, ceiling)
    reason = f"{int(which.sum())} of {len(trials)} {why}"
    runs = by_repetition(trials, column)
    return range_over_runs(runs, reason, unit=unit) if len(runs) else unknown(unit, reason)


def count(trials: pd.DataFrame, column: str, unit: str = "") -> Estimate:
    """Return the mean of a count and its range, as ``range_over_runs``."""
    runs = by_repetition(trials, column)
    return range_over_runs(runs, COUNTS, unit=unit) if len(runs) else unknown(unit)


def loss(trials: pd.DataFrame, column: str) -> Estimate:
    """Return the mean of a loss in percent, as ``loss_over_runs``."""
    runs = by_repetition(trials, column)
    if runs.empty:
        return unknown("%")
    single = len(runs) == int(trials[column].notna().sum())
    return loss_over_runs(runs, runs_are="trials" if single else "repetitions")


def difference(
    a: pd.DataFrame, b: pd.DataFrame, column: str, unit: str, level: float = DEFAULT_LEVEL
) -> Estimate:
    """Return the median difference of two groups over repetitions, as ``median_difference``."""
    return _difference(partial(median_difference, level=level), a, b, column, unit)


def difference_of_share(a: pd.DataFrame, b: pd.DataFrame, column: str, unit: str) -> Estimate:
    """Return the difference of two groups' shares of trials, as ``difference_of_shares``."""
    return _difference(difference_of_shares, a, b, column, unit)


def _difference(
    estimated: Callable[..., Estimate], a: pd.DataFrame, b: pd.DataFrame, column: str, unit: str
) -> Estimate:
    first, second, paired = in_pairs(a, b, column)
    if not (len(first) and len(second)):
        return unknown(unit)
    return estimated(first, second, unit=unit, paired=paired)


def relative(
    a: pd.DataFrame, b: pd.DataFrame, column: str, level: float = DEFAULT_LEVEL
) -> Comparison:
    """Return the relative difference of two groups in percent, as ``relative_difference``."""
    first, second, paired = in_pairs(a, b, column)
    if not (len(first) and len(second)):
        return Comparison(unknown("%"), math.nan)
    if min(first.mean(), second.mean()) <= 0:
        return Comparison(unknown("%", "a configuration has nothing but zeros"), math.nan)
    return relative_difference(first, second, level, paired=paired)


def in_pairs(a: pd.DataFrame, b: pd.DataFrame, column: str) -> tuple[pd.Series, pd.Series, bool]:
    """Return both groups' values by repetition, and whether these are the same repetitions.

    Of groups with several repetitions in common these are what is compared: a trial that failed
    takes its own repetition out, and no other.
    """
    first, second = by_repetition(a, column), by_repetition(b, column)
    common = first.index.intersection(second.index)
    if len(common) >= MIN_RUNS:
        return first[common], second[common], True
    return first, second, len(first) > 0 and first.index.equals(second.index)


def scatter_of_groups(
    change: Estimate, a: pd.DataFrame, b: pd.DataFrame, column: str
) -> Scatter | None:
    """Return the scatter of a change by :func:`relative`, None where there is no change."""
    first, second, paired = in_pairs(a, b, column)
    if not change.decides:
        return None
    return scatter_of_pairs(change, first, second, paired=paired)


def total(trials: pd.DataFrame, column: str) -> int | None:
    """Return the sum of a count over the trials that have it, None where none has."""
    counts = trials[column].dropna()
    return int(counts.sum()) if len(counts) else None


def column_of(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column that imported trials lack."""
    return trials[name] if name in trials else pd.Series(np.nan, trials.index)


def decimals_of(settings: Iterable[float]) -> int:
    """Return how many decimals settings are printed with: as they were set, two at most."""
    numbers = list(settings)
    return next((each for each in range(2) if all(round(n, each) == n for n in numbers)), 2)


def shared(
    results: Results,
    key: str,
    trials: pd.DataFrame,
    column: str,
    unit: str,
    *,
    digits: int | None = None,
) -> None:
    """Add the one number that all trials share; of several there is only the range.

    A setting is printed as it was set, see :func:`decimals_of`, unless ``digits`` are given.
    """
    numbers = trials[column].dropna()
    digits = decimals_of(numbers) if digits is None else digits
    if numbers.nunique() > 1:
        low, high = float(numbers.min()), float(numbers.max())
        method = f"{Limits.RANGE} of a setting that the trials do not share"
        span = Estimate(
            math.nan, low, high, DEFAULT_LEVEL, method, len(numbers), unit, Limits.RANGE
        )
        results.estimate(key, span, digits, trials["trial"])
        return
    value = float(numbers.iloc[0]) if len(numbers) else None
    method = "configuration"
    results.value(key, value, trials["trial"], unit=unit, digits=digits, method=method)


def shared_buffer(results: Results, key: str, trials: pd.DataFrame) -> None:
    """Add the receiving socket's buffer, in megabytes, that all trials share."""
    buffers = trials.assign(buffer_mb=column_of(trials, "receive_buffer_bytes") / 1e6)
    shared(results, key, buffers, "buffer_mb", "MB")
