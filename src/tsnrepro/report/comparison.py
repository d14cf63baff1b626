"""Results made again beside the first ones, in three grades.

A file made again has the same bytes; or all its numbers are equal within a tolerance, as on another
processor or with another release of a library; or it has numbers whose intervals overlap, as after
another draw of random numbers. What is none of these is different.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.records.values import Result, load_file

# Of double precision some digits are lost in a sum of millions; results print fewer.
RELATIVE_TOLERANCE = 1e-6
_ABSOLUTE_TOLERANCE = 1e-12


class MatchGrade(IntEnum):
    """How well a file was made again, the best first."""

    SAME_BYTES = 0
    WITHIN_TOLERANCE = 1
    INTERVALS_OVERLAP = 2
    DIFFERENT = 3

    @property
    def words(self) -> str:
        """Return the grade as a report says it."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Compared:
    """A file that was made again.

    Attributes
    ----------
    name
        Where it lies in its run's folder.
    grade
        The worst of what is in it.
    reason
        The first thing of that grade, empty where the bytes are the same.
    """

    name: str
    grade: MatchGrade
    reason: str = ""


def compare_files(name: str, first: Path, again: Path) -> Compared:
    """Compare a file with what was made in its place.

    Parameters
    ----------
    name
        Of the file, for the report.
    first, again
        The two: lists of results (``.json``) or tables (``.csv``, ``.parquet``).
    """
    if not again.is_file():
        return Compared(name, MatchGrade.DIFFERENT, "it was not made again")
    if not first.is_file():
        return Compared(name, MatchGrade.DIFFERENT, "it was not there before")
    if first.read_bytes() == again.read_bytes():
        return Compared(name, MatchGrade.SAME_BYTES)
    if first.suffix == ".json":
        found = _results(load_file(first), load_file(again))
    else:
        found = _tables(*(_table(path) for path in (first, again)))
    grade, reason = _worst(found)
    return Compared(name, grade, reason)


def _worst(found: Iterable[tuple[MatchGrade, str]]) -> tuple[MatchGrade, str]:
    """Return the worst grade with its first reason; the same content in other bytes is within."""
    worst = (MatchGrade.WITHIN_TOLERANCE, "the same content in other bytes")
    for grade, reason in found:
        if grade > worst[0] or (grade == worst[0] and worst[1].startswith("the same content")):
            worst = (grade, reason)
    return worst


# --- results --------------------------------------------------------------------------------------


def _results(
    first: dict[str, Result], again: dict[str, Result]
) -> Iterator[tuple[MatchGrade, str]]:
    for key in sorted(first.keys() ^ again.keys()):
        where = "before" if key in first else "now"
        yield MatchGrade.DIFFERENT, f"{key} is there only {where}"
    for key in first.keys() & again.keys():
        one, other = first[key], again[key]
        if one == other:
            continue
        grade = _numbers(_limits(one), _limits(other))
        if (one.unit, one.run) != (other.unit, other.run):
            grade = MatchGrade.DIFFERENT
        yield grade, f"{key} was {_said(one)} and is {_said(other)}"


def _limits(item: Result) -> tuple[Any, Any, Any]:
    return item.value, item.low, item.high


def _said(item: Result) -> str:
    value, low, high = _limits(item)
    return f"{value} [{low}, {high}]" if item.is_number else str(value)


def _numbers(one: tuple[Any, Any, Any], other: tuple[Any, Any, Any]) -> MatchGrade:
    """Return the grade of two numbers (or words) with their limits."""
    if all(_close(left, right) for left, right in zip(one, other, strict=True)):
        return MatchGrade.WITHIN_TOLERANCE
    # Words decide like numbers without an interval: they are equal or not.
    limits = (*one[1:], *other[1:])
    if not all(map(_is_number, limits)):
        return MatchGrade.DIFFERENT
    apart = one[1] > other[2] or other[1] > one[2]
    return MatchGrade.DIFFERENT if apart else MatchGrade.INTERVALS_OVERLAP


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not np.isnan(value)


def _close(left: Any, right: Any) -> bool:
    if not (_is_number(left) and _is_number(right)):
        return left == right or (_is_missing(left) and _is_missing(right))
    return bool(np.isclose(left, right, rtol=RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE))


def _is_missing(value: Any) -> bool:
    return value is None or bool(np.all(pd.isna(value)))


# --- tables ---------------------------------------------------------------------------------------


def _table(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    try:
        return pd.read_csv(path)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()  # of a part that was not measured


def _tables(first: pd.DataFrame, again: pd.DataFrame) -> Iterator[tuple[MatchGrade, str]]:
    """Yield the grade of each cell that is not equal; rows keep their order."""
    if list(first.columns) != list(again.columns):
        odd = sorted({*first.columns} ^ {*again.columns})
        yield MatchGrade.DIFFERENT, f"other columns: {', '.join(odd) or 'their order'}"
        return
    if len(first) != len(again):
        yield MatchGrade.DIFFERENT, f"{len(first)} rows before, {len(again)} now"
        return
    limits = _limit_columns(list(first.columns))
    for column in first.columns:
        for row, (one, other) in enumerate(zip(first[column], again[column], strict=True)):
            if _same_cell(one, other):
                continue
            names = limits.get(column, ())
            sides = [
                (cell, *(table[name].iloc[row] for name in names))
                for cell, table in ((one, first), (other, again))
            ]
            grade = _numbers(*sides) if names else _cells(one, other)
            yield grade, f"row {row + 1}, {column}: was {one} and is {other}"


def _same_cell(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | list) or isinstance(other, np.ndarray | list):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return bool(one == other) or (_is_missing(one) and _is_missing(other))


def _cells(one: Any, other: Any) -> MatchGrade:
    if isinstance(one, np.ndarray | list):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape or one.dtype.kind not in "iuf":
            return MatchGrade.DIFFERENT
        close = np.allclose(one, other, rtol=RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE)
        return MatchGrade.WITHIN_TOLERANCE if close else MatchGrade.DIFFERENT
    return MatchGrade.WITHIN_TOLERANCE if _close(one, other) else MatchGrade.DIFFERENT


def _limit_columns(columns: list[str]) -> dict[str, tuple[str, str]]:
    """Return the columns of the limits by that of their number, and by each of themselves.

    ``loss_low_percent`` and ``loss_high_percent`` limit ``loss_percent``.
    """
    found = {}
    for low in columns:
        parts = low.split("_")
        for position in [place for place, part in enumerate(parts) if part == "low"]:
            high = "_".join([*parts[:position], "high", *parts[position + 1 :]])
            value = "_".join([*parts[:position], *parts[position + 1 :]])
            if high in columns and value in columns:
                found |= dict.fromkeys((value, low, high), (low, high))
    return found
