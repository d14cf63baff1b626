"""CSV of send and receive times: one packet a row, latencies by exact difference."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.mapping import NOTHING, Times
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint
from tsnrepro.records.foreign.units import factor

# Time since 1970 in nanoseconds has 19 digits, of which a double keeps 16.
_EXACT = pa.decimal128(30, 12)
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
SHOWN = 20


@dataclass(frozen=True)
class Observed:
    """Latencies of the packets that came, in the order of the file, and what was counted."""

    latencies_us: np.ndarray
    sent: int
    span_s: float
    """From the first to the last time of sending."""
    skipped: list[tuple[str, str]]
    """Rows that are none, by place, at most some of them by name."""
    skipped_rows: int

    @property
    def received(self) -> int:
        """How many packets have a time of arrival."""
        return len(self.latencies_us)


def read(data: bytes, times: Times) -> Observed:
    """Return the difference of both times of each row, in microseconds.

    Parameters
    ----------
    data
        The file without NUL bytes.
    times
        Which columns, and their unit.

    Raises
    ------
    NoMeasurementError
        There is no row with two times, or packets arrive before they were sent.
    RecordError
        A column is missing.
    """
    skipped: list[tuple[str, str]] = []
    sent_text, received_text, broken = _columns(data, times, skipped)
    missing = pc.is_in(received_text, pa.array([*NOTHING, *times.missing], pa.string()))
    numbers = pc.and_(
        pc.match_substring_regex(sent_text, _NUMBER),
        pc.or_(missing, pc.match_substring_regex(received_text, _NUMBER)),
    )
    unread = pc.sum(pc.invert(numbers)).as_py() or 0
    for index in np.flatnonzero(~numbers.to_numpy(zero_copy_only=False))[: SHOWN - len(skipped)]:
        words = f"{sent_text[index]}{times.delimiter}{received_text[index]}"
        skipped.append((f"row {index + 1}", f"no two times: {words[:60]}"))
    arrived = pc.and_(numbers, pc.invert(missing))
    if not (pc.sum(arrived).as_py() or 0):
        said = complaint(data[:65536].decode("utf-8", "replace"))
        raise NoMeasurementError(said or "it has no row with a time of sending and of arrival")
    latencies, span = _differences(
        pc.filter(sent_text, numbers), pc.filter(received_text, arrived), pc.filter(arrived, numbers)
    )
    microseconds = float(factor("time", times.unit, "us"))
    latencies = latencies * microseconds
    _check_causality(latencies)
    seconds = span * float(factor("time", times.unit, "s"))
    sent = pc.sum(numbers).as_py()
    return Observed(latencies, sent, seconds, skipped, unread + broken)


def _columns(
    data: bytes, times: Times, skipped: list[tuple[str, str]]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, int]:
    """Return both columns as trimmed text, and the number of rows with too few or many cells."""
    names = [n if isinstance(n, str) else f"f{n}" for n in (times.sent, times.received)]
    broken = 0

    def pass_over(row: Any) -> str:
        nonlocal broken
        broken += 1
        if len(skipped) < SHOWN:
            reason = f"{row.actual_columns} cells for {row.expected_columns}: {row.text[:60]}"
            skipped.append((f"row {row.number or '?'}", reason))
        return "skip"

    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(
                use_threads=False, autogenerate_column_names=not times.named
            ),
            parse_options=csv.ParseOptions(
                delimiter=times.delimiter, invalid_row_handler=pass_over
            ),
            # Text first: numbers as text keep all their digits, and a bad cell spoils one row only.
            convert_options=csv.ConvertOptions(
                include_columns=None if times.named else names,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        said = complaint(data[:65536].decode("utf-8", "replace"))
        if said or "Empty CSV" in str(error):
            raise NoMeasurementError(said or "it has no row") from error
        raise RecordError(f"not such a CSV file: {error}", "", _REMEDY) from error
    if absent := [name for name in names if name not in table.column_names]:
        if said := complaint(data[:65536].decode("utf-8", "replace")):
            raise NoMeasurementError(said)
        there = ", ".join(table.column_names)
        raise RecordError(f"there is no column '{absent[0]}'", "line 1", f"There are: {there}")
    trimmed = [pc.utf8_trim_whitespace(table[name]).combine_chunks() for name in names]
    return trimmed[0], trimmed[1], broken


_REMEDY = "Correct the columns or the delimiter under times in the mapping"


def _differences(sent: Any, received: Any, arrived: Any) -> tuple[np.ndarray, float]:
    """Return received - sent where a packet arrived, and the span of sent, in their unit."""
    for kind in (pa.int64(), _EXACT):
        try:
            begun, ended = sent.cast(kind), received.cast(kind)
            difference = pc.subtract(ended, pc.filter(begun, arrived)).cast(pa.float64())
            span = pc.subtract(pc.max(begun), pc.min(begun)).cast(pa.float64()).as_py()
            return difference.to_numpy(zero_copy_only=False), span
        except pa.ArrowInvalid:
            continue
    begun, ended = sent.cast(pa.float64()).to_numpy(), received.cast(pa.float64()).to_numpy()
    chosen = arrived.to_numpy(zero_copy_only=False)
    return ended - begun[chosen], float(begun.max() - begun.min())


def _check_causality(latencies: np.ndarray) -> None:
    early = int(np.count_nonzero(latencies <= 0))
    if early:
        raise NoMeasurementError(
            f"{early} of {len(latencies)} packets arrive when or before they are sent",
            "",
            "The clocks disagree, or a time of 0 stands for none: name it under times, missing",
        )
