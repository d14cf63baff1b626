"""The comparison of reproduced results with the original ones, in four grades.

A reproduced file has the same bytes; or all its numbers are equal within a tolerance, as on another
processor or with another release of a library; or the intervals of its numbers overlap, as with
other random numbers. Otherwise it is different.
"""

import filecmp
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import RecordError
from tsnrepro.records.values import Result, load_file

# Sums of millions lose some digits of double precision; fewer are printed.
RELATIVE_TOLERANCE = 1e-6
_ABSOLUTE_TOLERANCE = 1e-12


class MatchGrade(IntEnum):
    """How well a file was reproduced, from best to worst."""

    SAME_BYTES = 0
    WITHIN_TOLERANCE = 1
    INTERVALS_OVERLAP = 2
    DIFFERENT = 3

    @property
    def label(self) -> str:
        """Return the grade as text."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class FileComparison:
    """The comparison of a reproduced file.

    Attributes
    ----------
    name
        Path of the file in the folder of its run.
    grade
        The worst grade of its contents.
    reason
        The first difference of that grade, empty where the bytes are the same.
    """

    name: str
    grade: MatchGrade
    reason: str = ""


def compare_files(name: str, original: Path, reproduced: Path) -> FileComparison:
    """Compare a file with its reproduction.

    Parameters
    ----------
    name
        Name of the file in the comparison.
    original, reproduced
        Lists of results (``.json``) or tables (``.csv``, ``.parquet``).

    Raises
    ------
    RecordError
        One is neither.
    """
    if not reproduced.is_file():
        return FileComparison(name, MatchGrade.DIFFERENT, "it was not reproduced")
    if not original.is_file():
        return FileComparison(name, MatchGrade.DIFFERENT, "there is no original")
    if filecmp.cmp(original, reproduced, shallow=False):
        return FileComparison(name, MatchGrade.SAME_BYTES)
    if original.suffix == ".json":
        found = _results(load_file(original), load_file(reproduced))
    else:
        found = _tables(_table(original), _table(reproduced))
    return FileComparison(name, *_worst(found))


def _worst(found: Iterable[tuple[MatchGrade, str]]) -> tuple[MatchGrade, str]:
    """Return the worst grade with its first reason."""
    same = (MatchGrade.WITHIN_TOLERANCE, "the same content in other bytes")
    return max(found, key=lambda pair: pair[0], default=same)


# --- results --------------------------------------------------------------------------------------


def _results(
    original: dict[str, Result], reproduced: dict[str, Result]
) -> Iterator[tuple[MatchGrade, str]]:
    for key in sorted(original.keys() ^ reproduced.keys()):
        where = "original" if key in original else "reproduced results"
        yield MatchGrade.DIFFERENT, f"{key} is only in the {where}"
    for key in original.keys() & reproduced.keys():
        one, other = original[key], reproduced[key]
        if one == other:
            continue
        grade = _numbers(_limits(one), _limits(other))
        if (one.unit, one.run) != (other.unit, other.run):
            grade = MatchGrade.DIFFERENT
        yield grade, f"{key} was {_text(one)} and is {_text(other)}"


def _limits(item: Result) -> tuple[Any, Any, Any]:
    return item.value, item.low, item.high


def _text(item: Result) -> str:
    value, low, high = _limits(item)
    return f"{value} [{low}, {high}]" if item.is_number else str(value)


def _numbers(one: tuple[Any, Any, Any], other: tuple[Any, Any, Any]) -> MatchGrade:
    """Return the grade of two numbers or texts with their limits."""
    if all(_close(left, right) for left, right in zip(one, other, strict=True)):
        return MatchGrade.WITHIN_TOLERANCE
    # Texts and numbers without an interval are equal or different.
    limits = (*one[1:], *other[1:])
    if not all(map(_is_number, limits)):
        return MatchGrade.DIFFERENT
    disjoint = one[1] > other[2] or other[1] > one[2]
    return MatchGrade.DIFFERENT if disjoint else MatchGrade.INTERVALS_OVERLAP


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not np.isnan(value)


def _close(left: Any, right: Any) -> bool:
    if not (_is_number(left) and _is_number(right)):
        return _equal(left, right)
    return bool(np.isclose(left, right, rtol=RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE))


def _equal(left: Any, right: Any) -> bool:
    # A comparison with pandas.NA is neither true nor false.
    if _is_missing(left) or _is_missing(right):
        return _is_missing(left) and _is_missing(right)
    return bool(left == right)


def _is_missing(value: Any) -> bool:
    return value is None or bool(np.all(pd.isna(value)))


# --- tables ---------------------------------------------------------------------------------------


def _table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()  # not measured
    except (OSError, ValueError) as error:
        raise RecordError(f"not a table: {error}"[:300].strip(), str(path)) from error


def _tables(original: pd.DataFrame, reproduced: pd.DataFrame) -> Iterator[tuple[MatchGrade, str]]:
    """Yield the grade of each cell that is not equal; the order of rows is the same."""
    if list(original.columns) != list(reproduced.columns):
        odd = sorted({*original.columns} ^ {*reproduced.columns})
        yield MatchGrade.DIFFERENT, f"other columns: {', '.join(odd) or 'their order'}"
        return
    if len(original) != len(reproduced):
        yield MatchGrade.DIFFERENT, f"{plural(len(original), 'row')} before, {len(reproduced)} now"
        return
    limits = _limit_columns(list(original.columns))
    for column in original.columns:
        pairs = zip(original[column], reproduced[column], strict=True)
        for row, (one, other) in enumerate(pairs):
            if _same_cell(one, other):
                continue
            names = limits.get(column, ())
            numbers = [
                (cell, *(table[name].iloc[row] for name in names))
                for cell, table in ((one, original), (other, reproduced))
            ]
            grade = _numbers(*numbers) if names else _cells(one, other)
            yield grade, f"row {row + 1}, {column}: was {one} and is {other}"


def _same_cell(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | list) or isinstance(other, np.ndarray | list):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return _equal(one, other)


def _cells(one: Any, other: Any) -> MatchGrade:
    if isinstance(one, np.ndarray | list):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape or one.dtype.kind not in "iuf":
            return MatchGrade.DIFFERENT
        tolerances = {"rtol": RELATIVE_TOLERANCE, "atol": _ABSOLUTE_TOLERANCE}
        close = np.allclose(one, other, **tolerances, equal_nan=True)
        return MatchGrade.WITHIN_TOLERANCE if close else MatchGrade.DIFFERENT
    return MatchGrade.WITHIN_TOLERANCE if _close(one, other) else MatchGrade.DIFFERENT


def _limit_columns(columns: list[str]) -> dict[str, tuple[str, str]]:
    """Return the columns of the limits by the column of the number and by each of the limits.

    ``loss_low_percent`` and ``loss_high_percent`` are the limits of ``loss_percent``.
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
