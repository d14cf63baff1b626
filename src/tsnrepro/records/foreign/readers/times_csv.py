"""CSV of send and receive times: one packet a row, latencies by exact difference."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.mapping import NOTHING, Times
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint
from tsnrepro.records.foreign.units import factor

# Its functions are made when it is imported, and type checkers do not see them.
pc: Any = compute
# Time since 1970 in nanoseconds has 19 digits, of which a double keeps 16.
_EXACT = pa.decimal128(30, 12)
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
SHOWN = 20
SHOWN_LETTERS = 80


@dataclass(frozen=True)
class Observed:
    """Latencies of the packets that came, in the order of the file, and what was counted."""

    latencies_us: np.ndarray
    sent: int
    span_s: float
    """From the first to the last time of sending."""
    skipped: list[tuple[str, str]]
    """The first rows that are none, and why; the row of names counts as row 1."""
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
    sent_text, received_text, broken = _columns(data, times)
    missing = pc.is_in(received_text, pa.array([*NOTHING, *times.missing], pa.string()))
    numbers = pc.and_(
        pc.match_substring_regex(sent_text, _NUMBER),
        pc.or_(missing, pc.match_substring_regex(received_text, _NUMBER)),
    )
    unread = {
        number: f"no two times: {sent_text[index]}{times.delimiter}{received_text[index]}"
        for index, number in _numbered(numbers, broken, times.named)
    }
    arrived = pc.and_(numbers, pc.invert(missing))
    if not (pc.sum(arrived).as_py() or 0):
        said = complaint(data[:65536].decode("utf-8", "replace"))
        raise NoMeasurementError(said or "it has no row with a time of sending and of arrival")
    latencies, span = _differences(
        pc.filter(sent_text, numbers),
        pc.filter(received_text, arrived),
        pc.filter(arrived, numbers),
    )
    to_us, to_s = (factor("time", times.unit, own) for own in ("us", "s"))
    latencies = latencies * to_us.numerator / to_us.denominator
    _check_causality(latencies)
    seconds = span * to_s.numerator / to_s.denominator
    sent = pc.sum(numbers).as_py()
    wrong = sorted((broken | unread).items())
    skipped = [(f"row {number}", reason[:SHOWN_LETTERS]) for number, reason in wrong[:SHOWN]]
    return Observed(latencies, sent, seconds, skipped, len(wrong))


def _numbered(numbers: Any, broken: dict[int, str], named: bool) -> Iterator[tuple[int, int]]:
    """Yield the index and the row of each entry that is no number."""
    others = sorted(broken)
    passed = 0
    for index in np.flatnonzero(~numbers.to_numpy(zero_copy_only=False)).tolist():
        row = index + 1 + named + passed
        while passed < len(others) and others[passed] <= row:
            passed, row = passed + 1, row + 1
        yield index, row


def _columns(data: bytes, times: Times) -> tuple[Any, Any, dict[int, str]]:
    """Return both columns as trimmed text, and the rows with too few or many cells."""
    names = [n if isinstance(n, str) else f"f{n}" for n in (times.sent, times.received)]
    broken: dict[int, str] = {}

    def pass_over(row: Any) -> str:
        reason = f"{row.actual_columns} cells for {row.expected_columns}: {row.text}"
        broken[row.number] = reason[:SHOWN_LETTERS]
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
        except pa.ArrowInvalid:
            continue
        difference = pc.subtract(ended, pc.filter(begun, arrived)).cast(pa.float64(), safe=False)
        span = pc.max(begun).as_py() - pc.min(begun).as_py()
        return difference.to_numpy(zero_copy_only=False), float(span)
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
