"""Results: named numbers with their interval, method and trials."""

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.records.values import Result, write_values
from tsnrepro.stats.estimate import Estimate


class Results:
    """Collects the results of one analysis and writes them as JSON.

    Parameters
    ----------
    run
        The experiment whose trials the results rest on.
    trials
        Its trials with the columns ``trial`` and ``sha256``.
    """

    def __init__(self, run: str, trials: pd.DataFrame) -> None:
        self._run = run
        self._sums = dict(zip(trials["trial"], trials["sha256"], strict=True))
        self._items: dict[str, Result] = {}

    def estimate(self, key: str, estimate: Estimate, digits: int, trials: Iterable[str]) -> None:
        """Add an estimate, to be printed with ``digits`` decimals."""
        self._add(
            key,
            trials,
            value=_finite(estimate.value),
            low=_finite(estimate.low),
            high=_finite(estimate.high),
            unit=estimate.unit,
            digits=digits,
            method=estimate.method,
        )

    def value(
        self,
        key: str,
        value: float | int | str | None,
        trials: Iterable[str],
        *,
        unit: str = "",
        digits: int = 0,
        method: str = "count",
    ) -> None:
        """Add a value without an interval."""
        if isinstance(value, float):
            value = _finite(value)
        self._add(
            key, trials, value=value, low=None, high=None, unit=unit, digits=digits, method=method
        )

    def _add(self, key: str, trials: Iterable[str], **fields: Any) -> None:
        if key in self._items:
            raise ValueError(f"result '{key}' is there already")
        names = sorted(trials)
        digest = hashlib.sha256("\n".join(self._sums[name] for name in names).encode())
        self._items[key] = Result(
            key=key, **fields, run=self._run, trials=names, sha256=digest.hexdigest()
        )

    def of(self, key: str) -> Result:
        """Return one result as it is written; a ``KeyError`` names a key that is not there."""
        return self._items[key]

    @property
    def keys(self) -> list[str]:
        """The keys of all results so far."""
        return list(self._items)

    def interval(self, key: str) -> tuple[Any, Any, Any]:
        """Return value, lower and upper limit of one result, each ``None`` where unknown."""
        item = self._items[key]
        return item.value, item.low, item.high

    def frame(self) -> pd.DataFrame:
        """Return the results as a table, for looking at."""
        columns = ["key", "value", "low", "high", "unit", "method"]
        rows = [item.model_dump() for item in self._items.values()]
        return pd.DataFrame(rows, columns=columns).assign(
            trials=[len(row["trials"]) for row in rows]
        )

    def write(self, path: str | Path) -> None:
        """Write all results to a JSON file."""
        write_values(Path(path), self._items.values())


def _finite(value: float) -> float | None:
    """Return the number as Python's own, or None where it is unknown or without bound."""
    number = float(value)
    return number if math.isfinite(number) else None


def key_part(factor: str, value: float) -> str:
    """Return a factor's value as a part of keys: ``key_part("rate", 0.5)`` is ``rate_0_5``."""
    return f"{factor}_{value:g}".replace(".", "_")
