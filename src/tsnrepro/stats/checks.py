"""Checks of the input of estimators."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Spread below this share of the largest magnitude is rounding, not variance.
ROUNDING = 1e-12
# Spread below this vanishes when squared.
_UNDERFLOW = 1e-150


def finite_values(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `values` as a one-dimensional float array, shape (n,), n >= 1.

    Raises
    ------
    ValueError
        The array is empty, not one-dimensional, or holds nan or infinities.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty: at least one value is needed")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(
            f"{name} holds {bad.size} value(s) that are not finite, the first at index {bad[0]}: "
            "leave failed trials out before estimating"
        )
    return array


def check_probability(number: float, name: str) -> None:
    """Check that a confidence level or a quantile's probability is in (0, 1).

    Raises
    ------
    ValueError
        It is not, as a percentage.
    """
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie between 0 and 1 (0.95, not 95), got {number}")


def is_constant(array: NDArray[np.float64]) -> bool:
    """Return whether all values are equal up to floating-point rounding."""
    return bool(np.ptp(array) <= max(ROUNDING * np.max(np.abs(array)), _UNDERFLOW))


def half_step(*groups: NDArray[np.float64]) -> float:
    """Return half of the smallest step between readings, of which some are equal; else 0.

    Readings of a quantity without steps are never equal; of those that all are, the step is
    unknown.
    """
    readings = np.concatenate(groups)
    distinct = np.unique(readings)
    steps = np.diff(distinct)
    steps = steps[steps > ROUNDING * np.max(np.abs(distinct))]
    return float(steps.min()) / 2 if steps.size and distinct.size < readings.size else 0.0
