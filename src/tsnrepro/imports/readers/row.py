"""Rows as every reader returns them: raw cells, and fields that the format itself defines."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import RecordError
from tsnrepro.records.columns import QUANTILES

if TYPE_CHECKING:
    import numpy as np

Known = dict[str, int | float | str]
DECIMAL_COMMA = re.compile(r"[+-]?\d{0,18},\d{1,18}")
"""A number as spreadsheets of many countries save it."""
GROUPED = re.compile(r"[+-]?\d{1,3}(?:[ ,.'\u00a0\u2009\u202f’]\d{3}){1,6}(?:[.,]\d{1,18})?")
"""A number with something between its thousands."""
WITH_UNIT = re.compile(r"[+-]?\d{1,18}(?:[.,]\d{1,18})?\s{0,3}[^\W\d_eE][\w/²]{0,15}")
"""A number with its unit, as ``100 Mb/s``."""
_MAX_SHOWN = 400


@dataclass
class DataRow:
    """One row of a file."""

    location: str
    """Position in the file: ``line 12``, ``results[3]``, or empty for the whole file."""
    cells: Mapping[str, Any] = field(default_factory=dict)
    known: Known = field(default_factory=dict)
    """Fields that the format itself defines, in their units."""
    checks: Known = field(default_factory=dict)
    """Numbers that are no fields, against which the fields are checked."""

    def cell(self, name: str) -> Any:
        """Return a cell by its column, or by the path of keys in nested records.

        Raises
        ------
        RecordError
            There is no such column.
        """
        if name in self.cells:
            return self.cells[name]
        found: Any = self.cells
        for part in name.split("."):
            if not isinstance(found, Mapping) or part not in found:
                where, remedy = self.location, names_available(self.cells)
                raise RecordError(f"there is no column '{name}'", where, remedy)
            found = found[part]
        return found


@dataclass
class FileRows:
    """The rows of a file, and the locations that could not be read as rows, with reasons."""

    rows: list[DataRow]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """The first ones, if there are many."""
    skipped_rows: int = 0
    """Number of all of them."""
    notes: list[str] = field(default_factory=list)
    """What limits the results, for the report."""
    has_observations: bool = False
    """Whether the file has every observation of its one row."""

    def __post_init__(self) -> None:
        self.skipped_rows = max(self.skipped_rows, len(self.skipped))


def one_row(known: Known, **more: Any) -> FileRows:
    """Return the row of a file with one test."""
    return FileRows([DataRow("", dict(known), known)], **more)


def numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that are numbers."""
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def statistics(latencies_us: "np.ndarray") -> Known:
    """Return the fields of the experiment ``latency`` that observations determine.

    A quantile is the smallest observation that at least its share does not exceed. The standard
    deviation is that of the sample (n - 1), and missing for one observation.
    """
    import numpy as np  # noqa: PLC0415 - most imports need none

    found = np.quantile(latencies_us, list(QUANTILES.values()), method="inverted_cdf")
    known: Known = {
        "observations": len(latencies_us),
        "mean_us": float(latencies_us.mean()),
        "min_us": float(latencies_us.min()),
        "max_us": float(latencies_us.max()),
        **{name: float(value) for name, value in zip(QUANTILES, found, strict=True)},
    }
    if len(latencies_us) > 1:
        known["sd_us"] = float(latencies_us.std(ddof=1))
    return known


def names_available(names: Any) -> str:
    """Return a sentence that lists names, truncated if long."""
    listed = ", ".join(map(str, names)) or "none"
    return f"There are: {listed if len(listed) <= _MAX_SHOWN else listed[:_MAX_SHOWN] + ' ...'}"
