"""CSV with one row per packet: times of sending and receipt, or the latency.

The file is read in blocks, as typed columns if every cell of a block is a number, else cell by
cell. Latencies are exact differences.
"""

import csv as plain_csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MISSING_VALUES, Times
from tsnrepro.imports.plausibility import wrong_latency
from tsnrepro.imports.readers import aligned, isochron
from tsnrepro.imports.readers.row import DECIMAL_COMMA, names_available
from tsnrepro.imports.screening import NoMeasurementError, why_not_table
from tsnrepro.imports.units import factor

# Type checkers do not see its functions, which are created at import.
pc: Any = compute
# Time since 1970 in nanoseconds has 19 digits, and a double only 16.
_EXACT = pa.decimal128(30, 12)
# For numbers with far more decimals than a decimal holds, pyarrow reads beyond its table of powers,
# which can end the process.
_FAR_EXPONENT = r"[eE]-0*([3-9]\d|\d{3})"
_LONG_LINE_BYTES = 1 << 16
# What could be in a cell beside a number and its end, or end a line for pyarrow alone.
_UNUSUAL = (b'"', b"\r")
_MAX_SCALE = 18
_POWERS = 10 ** np.arange(_MAX_SCALE + 1)
# Below the largest integer of 64 bits, so that a product rounded to a double can be compared.
_LARGEST = 9.2e18
_NUMBER = r"^[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?$"
# Of a time since 1970 a spreadsheet keeps 15 digits, and a double 53 bits.
_SINCE_1970_NS = 10**18
_ROUNDED_TO_NS = (256, 10_000)
# A few times may end in such zeros by chance.
_LEAST_ROUNDED, _ROWS_FOR_RESOLUTION = 6, 100
# Light takes a nanosecond for 30 cm.
_SHORTEST_LATENCY_US = 0.001
# Latencies of fewer steps of the resolution are mostly its error.
_LEAST_STEPS = 10
# Clocks begin in 1970 or when their host started.
_YEAR_S, _LONGEST_YEARS = 365.25 * 86400, 280
_DATE = re.compile(r"\d:\d\d:\d\d\b")
_DATES_REMEDY = "Export times as numbers, as tshark's frame.time_epoch is"
_MAX_SHOWN = 20
_MAX_SHOWN_CHARACTERS = 80
_REMEDY = "Correct the columns, their unit or the delimiter under times in the mapping"


@dataclass
class PacketTimes:
    """Latencies of the packets that arrived, in the order of the file, and counts."""

    latencies_us: np.ndarray = field(default_factory=lambda: np.empty(0))
    sent: int = 0
    span_s: float = 0.0
    """From the first to the last time of sending, if the file has these."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """The first invalid rows, with reasons; the header counts as row 1."""
    skipped_rows: int = 0
    resolution_us: float = 0.0
    """To what the times are rounded, if they show that they were."""

    @property
    def received(self) -> int:
        """Number of packets with a time of arrival."""
        return len(self.latencies_us)


@dataclass
class _Block:
    """The columns of a block: its valid rows, and the reasons of the others."""

    columns: list[Any]
    """Numbers; the last column is null for packets that never arrived."""
    rows: int
    numbers: np.ndarray | None = None
    """The number of each valid row, from 1; None if all are valid."""
    invalid: dict[int, str] = field(default_factory=dict)

    def within(self, first: int, last: int) -> "_Block":
        """Return the rows from ``first`` to ``last``, counted from 1 in this block."""
        if first <= 1 and last >= self.rows:
            return self
        numbers = np.arange(1, self.rows + 1) if self.numbers is None else self.numbers
        mask = pa.array((numbers >= first) & (numbers <= last))
        invalid = {n: why for n, why in self.invalid.items() if first <= n <= last}
        return _Block([column.filter(mask) for column in self.columns], self.rows, None, invalid)


@dataclass(frozen=True)
class _Layout:
    """The columns of a file: all of them, and those that are read."""

    names: list[str]
    wanted: list[str]
    times: Times


def read(file: SourceFile, times: Times, row_range: tuple[int, int] | None = None) -> PacketTimes:
    """Return the latency of each packet in microseconds.

    Parameters
    ----------
    file
        The file.
    times
        Which columns, and their unit.
    row_range
        First and last row of data to read, from 1; all rows by default.

    Raises
    ------
    NoMeasurementError
        No row has the times of a packet, or packets arrive before they are sent.
    RecordError
        A column is missing.
    """
    found, parts, edges, passed = PacketTimes(), [], [], 0
    first, last = row_range or (1, 1 << 62)
    for block in blocks_of(file, times):
        chosen = block.within(first - passed, last - passed)
        found.skipped_rows += len(chosen.invalid)
        for number, why in sorted(chosen.invalid.items())[: _MAX_SHOWN - len(found.skipped)]:
            found.skipped.append(
                (f"row {number + passed + times.named}", why[:_MAX_SHOWN_CHARACTERS])
            )
        passed += block.rows
        if not found.sent and times.sent is not None:
            found.resolution_us = resolution_us(chosen.columns, times)
        found.sent += len(chosen.columns[0])
        parts.append(latencies_of(chosen.columns))
        if times.sent is not None:
            edges += [t for t in pc.min_max(chosen.columns[0]).as_py().values() if t is not None]
    found.latencies_us = np.concatenate(parts) if parts else found.latencies_us
    parts.clear()
    if not found.received:
        # What isochron prints may have commas between its numbers.
        commas = times.decimal == "." and times.printf_args is None
        if commas and any(DECIMAL_COMMA.search(why) for _, why in found.skipped):
            remedy = "Set decimal: ',' under times in the mapping, or remove it between thousands"
            raise NoMeasurementError("its numbers have a decimal comma", "", remedy)
        reason = _why_not_table(file)
        reason = reason or "it has no row with the times of a packet that arrived"
        where = ", ".join(f"{place}: {why}" for place, why in found.skipped[:1])
        remedy = _DATES_REMEDY if _DATE.search(where) else ""
        raise NoMeasurementError(f"{reason} ({where})" if where else reason, "", remedy)
    return completed(found, times, edges)


def resolution_us(columns: list[Any], times: Times) -> float:
    """Return to what the first times since 1970 are rounded; 0 if they do not show it."""
    to_ns = factor("time", times.unit, "ns")
    first = [time for one in columns for time in one.slice(0, _ROWS_FOR_RESOLUTION).to_pylist()]
    known = [time for time in first if time is not None and math.isfinite(time)]
    found = {Fraction(time) * to_ns for time in known}
    if len(found) < _LEAST_ROUNDED or min(found) < _SINCE_1970_NS:
        return 0.0
    return max((r for r in _ROUNDED_TO_NS if not any(t % r for t in found)), default=0) / 1000


def completed(found: PacketTimes, times: Times, edges: list[Any]) -> PacketTimes:
    """Return packets with latencies in microseconds, and the span of the times of sending.

    Raises
    ------
    NoMeasurementError
        Packets arrive before they are sent, or at times that no clock shows.
    """
    to_us, to_s = (factor("time", times.unit, target) for target in ("us", "s"))
    found.latencies_us *= to_us.numerator
    found.latencies_us /= to_us.denominator
    shortest_us = found.resolution_us * _LEAST_STEPS
    if shortest_us and np.median(found.latencies_us) < shortest_us:
        raise NoMeasurementError(
            f"its times are rounded to {found.resolution_us:g} us, as by a spreadsheet or as "
            "doubles, and its latencies are not much longer",
            "",
            "Export all digits of the times",
        )
    _check_causality(found.latencies_us)
    if edges:
        found.span_s = float(max(edges) - min(edges)) * to_s.numerator / to_s.denominator
        if (years := float(max(edges)) * float(to_s) / _YEAR_S) > _LONGEST_YEARS:
            what = f"its times are {years:.4g} years in {times.unit}, which no clock has run"
            raise NoMeasurementError(what, "", _REMEDY)
    return found


def latencies_of(columns: list[Any]) -> np.ndarray:
    """Return the latencies of the packets that arrived, from times or as a column."""
    *sent, latency = columns
    if latency.null_count:
        arrived = latency.is_valid()
        sent, latency = [column.filter(arrived) for column in sent], latency.filter(arrived)
    try:
        if sent:
            latency = pc.subtract_checked(latency, sent[0])
    except pa.ArrowInvalid as error:
        raise NoMeasurementError(f"its times are too far apart: {error}") from error
    return latency.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def blocks_of(file: SourceFile, times: Times) -> Iterator[_Block]:
    """Yield the columns of a file block by block."""
    if times.printf_args is not None:
        yield from (_Block(*one) for one in isochron.blocks(file, times))
        return
    layout: _Layout | None = None
    # Integers are read twice as fast as decimals; the first block shows which they are.
    readers = [*_READERS]
    for block in file.blocks():
        # Old programs end lines by a carriage return alone.
        data = block if b"\n" in block else block.replace(b"\r", b"\n")
        if layout is None:
            data = data.lstrip(b"\r\n")
            line, _, rest = data.partition(b"\n")
            if not line:
                continue
            layout = _layout(line.decode("utf-8", "replace"), times, file)
            data = rest if times.named else data
        if not data:
            continue
        for reader in list(readers):
            columns = reader(data, layout)
            if columns is not None:
                yield _Block(columns, len(columns[0]))
                break
            readers.remove(reader)
        else:
            yield _cell_by_cell(data, layout)
            readers = [*_READERS]


def _why_not_table(file: SourceFile) -> str | None:
    return why_not_table(file.head.decode("utf-8", "replace"))


def _layout(line: str, times: Times, file: SourceFile) -> _Layout:
    """Return the layout of the columns, by the names in the first line or by number."""
    try:
        # pyarrow ends lines as the csv module does not: at a lone carriage return too.
        text = line.removeprefix("\ufeff").partition("\r")[0]
        cells = next(plain_csv.reader([text], delimiter=times.delimiter), [])
    except plain_csv.Error as error:
        raise NoMeasurementError(_why_not_table(file) or f"it is not CSV: {error}") from error
    if not times.named:
        cells = [f"f{number}" for number in range(len(cells))]
    names = [cell.strip() for cell in cells]
    wanted = [c if isinstance(c, str) else f"f{c}" for c in times.columns]
    for name, column in zip(wanted, times.columns, strict=True):
        if names.count(name) != 1:
            if reason := _why_not_table(file):
                raise NoMeasurementError(reason)
            what = f"two columns are named '{name}'" if name in names else None
            what = what or f"there is no column '{column}'"
            raise RecordError(what, "line 1", f"{names_available(names)}. {_REMEDY}")
    return _Layout(names, wanted, times)


def _read(data: bytes, layout: _Layout, kind: Any, skip: Any = None) -> Any:
    return csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=layout.names, use_threads=skip is None),
        csv.ParseOptions(delimiter=layout.times.delimiter, invalid_row_handler=skip),
        csv.ConvertOptions(
            include_columns=layout.wanted,
            column_types=dict.fromkeys(layout.wanted, kind),
            null_values=[*MISSING_VALUES, *layout.times.missing],
            decimal_point=layout.times.decimal,
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _typed(data: bytes, layout: _Layout, kind: Any) -> list[Any] | None:
    """Return the columns as numbers; None if a cell is not a number or a row has a wrong length."""
    try:
        table = _read(data, layout, kind)
    except pa.ArrowInvalid:
        return None
    columns = [table[name].combine_chunks() for name in layout.wanted]
    return None if len(columns) > 1 and columns[0].null_count else columns


def _integers(data: bytes, layout: _Layout) -> list[Any] | None:
    if not any(value.isdigit() for value in layout.times.missing):
        wanted = [layout.names.index(name) for name in layout.wanted]
        delimiter = layout.times.delimiter.encode()
        found = aligned.integers(data, delimiter, len(layout.names), wanted)
        if found is not None:
            return found
    # pyarrow takes hexadecimal numbers for integers.
    is_hexadecimal = any(x in data and b"0" + x in data for x in (b"x", b"X"))
    return None if is_hexadecimal else _typed(data, layout, pa.int64())


def _scaled_integers(data: bytes, layout: _Layout) -> list[Any] | None:
    """Return decimals, read as integers after their point was taken out; None if not all can be.

    It takes less than two thirds of the time in which pyarrow reads decimals.
    """
    times, width = layout.times, len(layout.names)
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    data = data if data.endswith(b"\n") else data + b"\n"
    if any(c in data for c in _UNUSUAL) or any(times.decimal in value for value in times.missing):
        return None
    characters = np.frombuffer(data, np.uint8)
    point, delimiter = ord(times.decimal), ord(times.delimiter)
    # All but digits and letters, which are not in a number with decimals.
    marks = np.flatnonzero((characters < ord("0")) | (characters == delimiter))
    kinds = characters[marks]
    ends = (kinds == delimiter) | (kinds == ord("\n"))
    cells = np.cumsum(ends) - ends
    points = np.flatnonzero(kinds[:-1] == point)
    wanted = [layout.names.index(name) for name in layout.wanted]
    points = points[np.isin(cells[points] % width, wanted)] if len(wanted) < width else points
    # From each point to the end of its cell there must be digits alone.
    columns = _integers(data.replace(times.decimal.encode(), b""), layout)
    whole = columns is not None and len(columns[0]) * width == np.count_nonzero(ends)
    if columns is None or not whole or not ends[points + 1].all():
        return None
    decimals = np.full(len(columns[0]) * width, -1)
    decimals[cells[points]] = marks[points + 1] - marks[points] - 1
    decimals = decimals.reshape(-1, width)
    found = [_with_decimals(c, decimals[:, n]) for c, n in zip(columns, wanted, strict=True)]
    return None if any(column is None for column in found) else found


def _with_decimals(column: Any, decimals: np.ndarray) -> Any | None:
    """Return integers with as many decimals as each was printed with, -1 without a point."""
    most = int(decimals.max(initial=0))
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if column.null_count and (decimals[missing] >= 0).any():
        return None
    numbers = column.fill_null(0).to_numpy()
    if (decimals != most).any():
        if most > _MAX_SCALE:
            return None
        factors = _POWERS[most - np.maximum(decimals, 0)]
        if (np.abs(numbers.astype(float)) * factors > _LARGEST).any():
            return None
        numbers = numbers * factors
    # A decimal of 128 bits is an integer, its lower half first.
    halves = np.stack((numbers, numbers >> 63), axis=1)
    buffers = [None, pa.py_buffer(halves)]
    if column.null_count:
        buffers[0] = pc.invert(pa.array(missing)).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(19, most), len(numbers), buffers)


def _decimals(data: bytes, layout: _Layout) -> list[Any] | None:
    return None if _has_too_many_decimals(data) else _typed(data, layout, _EXACT)


_READERS = (_integers, _scaled_integers, _decimals)


def _has_too_many_decimals(data: bytes) -> bool:
    """Return whether a number could have more decimals than pyarrow can bear."""
    if (b"e-" in data or b"E-" in data) and re.search(_FAR_EXPONENT.encode(), data):
        return True
    pieces = range(0, len(data) - _LONG_LINE_BYTES, _LONG_LINE_BYTES)
    return any(data.find(b"\n", first, first + _LONG_LINE_BYTES) < 0 for first in pieces)


def _cell_by_cell(data: bytes, layout: _Layout) -> _Block:
    invalid: dict[int, str] = {}

    def skip(row: Any) -> str:
        invalid[row.number] = f"{row.actual_columns} cells for {row.expected_columns}: {row.text}"
        return "skip"

    # pyarrow decodes the rows that it skips as UTF-8.
    data = data.decode("utf-8", "replace").encode()
    try:
        table = _read(data, layout, pa.string(), skip)
    except pa.ArrowInvalid as error:
        raise RecordError(f"not a CSV file of this kind: {error}"[:300], "", _REMEDY) from error
    cells = [pc.ascii_trim_whitespace(table[name]).combine_chunks() for name in layout.wanted]
    rows = len(cells[0]) + len(invalid)
    numbers = np.setdiff1d(np.arange(1, rows + 1), list(invalid))
    missing = pc.is_in(cells[-1], pa.array([*MISSING_VALUES, *layout.times.missing], pa.string()))
    number = _NUMBER.format(point=re.escape(layout.times.decimal))
    valid = pc.or_(missing, pc.match_substring_regex(cells[-1], number))
    if len(cells) > 1:
        valid = pc.and_(valid, pc.match_substring_regex(cells[0], number))
    for index in np.flatnonzero(~valid.to_numpy(zero_copy_only=False)).tolist():
        texts = [c[index].cast(pa.binary()).as_py().decode("utf-8", "replace") for c in cells]
        if layout.times.named and texts == layout.wanted:
            what = "its header line is repeated: it has several tests"
            raise NoMeasurementError(what, "", "Store one test per file")
        invalid[int(numbers[index])] = (
            f"not the times of a packet: {f'{layout.times.delimiter} '.join(texts)}"
        )
    last = pc.if_else(missing, pa.scalar(None, pa.string()), cells[-1])
    columns = [column.filter(valid) for column in [*cells[:-1], last]]
    columns = _numbers([pc.replace_substring(one, layout.times.decimal, ".") for one in columns])
    return _Block(columns, rows, numbers[valid.to_numpy(zero_copy_only=False)], invalid)


def _numbers(cells: list[Any]) -> list[Any]:
    """Return columns of text as numbers, as exactly as possible."""
    exact = not any(
        pc.any(pc.match_substring_regex(one, _FAR_EXPONENT)).as_py()
        or (pc.max(pc.binary_length(one)).as_py() or 0) > _LONG_LINE_BYTES
        for one in cells
    )
    for kind in (pa.int64(), _EXACT)[: 1 + exact]:
        try:
            return [column.cast(kind) for column in cells]
        except pa.ArrowInvalid:
            continue
    return [column.cast(pa.float64()) for column in cells]


def _check_causality(latencies: np.ndarray) -> None:
    early = len(latencies) - int(np.count_nonzero((latencies > 0) & np.isfinite(latencies)))
    if early:
        raise NoMeasurementError(
            f"{early} of {len(latencies)} packets arrive when or before they are sent",
            "",
            "The clocks disagree, or a time of 0 marks a lost packet: list it under times, missing",
        )
    longest = float(latencies.max())
    if longest < _SHORTEST_LATENCY_US:
        what = f"its latencies are at most {longest * 1000:.3g} ns, shorter than any link takes"
        raise NoMeasurementError(what, "", _REMEDY)
    if wrong := wrong_latency(longest):
        raise NoMeasurementError(wrong, "", _REMEDY)
