"""CSV of single packets: one a row, with times of sending and receipt or the latency itself.

The file is read in blocks: as typed columns where every cell of a block is a number, and cell by
cell where one is not. Latencies are exact differences.
"""

import csv as plain_csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import NOTHING, Times
from tsnrepro.imports.readers.row import there_are
from tsnrepro.imports.refusal import NoMeasurementError, complaint
from tsnrepro.imports.units import factor

# Its functions are made when it is imported, and type checkers do not see them.
pc: Any = compute
# Time since 1970 in nanoseconds has 19 digits, of which a double keeps 16.
_EXACT = pa.decimal128(30, 12)
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_SHOWN = 20
_SHOWN_LETTERS = 80
_REMEDY = "Correct the columns or the delimiter under times in the mapping"


@dataclass
class PacketTimes:
    """Latencies of the packets that came, in the order of the file, and what was counted."""

    latencies_us: np.ndarray = field(default_factory=lambda: np.empty(0))
    sent: int = 0
    span_s: float = 0.0
    """From the first to the last time of sending, where the file has times of sending."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """The first rows that are none, and why; the row of names counts as row 1."""
    skipped_rows: int = 0

    @property
    def received(self) -> int:
        """How many packets have a time of arrival."""
        return len(self.latencies_us)


@dataclass
class _Block:
    """The columns of a block, of the rows that could be read, and the others."""

    columns: list[Any]
    """Numbers; what never arrived is null in the last column."""
    rows: int
    numbers: np.ndarray | None = None
    """The number of each row that could be read, from 1; without it they are all there."""
    unread: dict[int, str] = field(default_factory=dict)

    def within(self, first: int, last: int) -> "_Block":
        """Return the rows from a first to a last one, which count from 1 in this block."""
        if first <= 1 and last >= self.rows:
            return self
        numbers = np.arange(1, self.rows + 1) if self.numbers is None else self.numbers
        mask = pa.array((numbers >= first) & (numbers <= last))
        unread = {n: why for n, why in self.unread.items() if first <= n <= last}
        return _Block([column.filter(mask) for column in self.columns], self.rows, None, unread)


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
        First and last row of data to take, from 1; all of them without it.

    Raises
    ------
    NoMeasurementError
        No row has the times of a packet, or packets arrive before they were sent.
    RecordError
        A column is missing.
    """
    found, parts, edges, passed = PacketTimes(), [], [], 0
    first, last = row_range or (1, 1 << 62)
    for block in _blocks(file, times):
        chosen = block.within(first - passed, last - passed)
        found.skipped_rows += len(chosen.unread)
        for number, why in sorted(chosen.unread.items())[: _SHOWN - len(found.skipped)]:
            found.skipped.append((f"row {number + passed + times.named}", why[:_SHOWN_LETTERS]))
        passed += block.rows
        found.sent += len(chosen.columns[0])
        parts.append(_latencies(chosen.columns))
        if times.sent is not None:
            edges += [t for t in pc.min_max(chosen.columns[0]).as_py().values() if t is not None]
    found.latencies_us = np.concatenate(parts) if parts else found.latencies_us
    parts.clear()
    if not found.received:
        said = complaint(file.head.decode("utf-8", "replace"))
        raise NoMeasurementError(said or "it has no row with the times of a packet that came")
    to_us, to_s = (factor("time", times.unit, own) for own in ("us", "s"))
    found.latencies_us *= to_us.numerator
    found.latencies_us /= to_us.denominator
    _check_causality(found.latencies_us)
    if edges:
        found.span_s = float(max(edges) - min(edges)) * to_s.numerator / to_s.denominator
    return found


def _latencies(columns: list[Any]) -> np.ndarray:
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


def _blocks(file: SourceFile, times: Times) -> Iterator[_Block]:
    layout: _Layout | None = None
    # Whole numbers are read twice as fast as decimal ones; the first block tells which they are.
    kinds = [pa.int64(), _EXACT]
    for block in file.blocks():
        data = block
        if layout is None:
            data = data.lstrip(b"\r\n")
            line, _, rest = data.partition(b"\n")
            if not line:
                continue
            layout = _layout(line.decode("utf-8", "replace"), times)
            data = rest if times.named else data
        if not data:
            continue
        for kind in list(kinds):
            columns = _typed(data, layout, kind)
            if columns is not None:
                yield _Block(columns, len(columns[0]))
                break
            kinds.remove(kind)
        else:
            yield _cell_by_cell(data, layout)
            kinds = [pa.int64(), _EXACT]


def _layout(line: str, times: Times) -> _Layout:
    """Return the names of all columns, from the first line or by number."""
    try:
        # pyarrow ends lines as the csv module does not: at a lone carriage return too.
        text = line.removeprefix("\ufeff").partition("\r")[0]
        cells = next(plain_csv.reader([text], delimiter=times.delimiter), [])
    except plain_csv.Error as error:
        raise NoMeasurementError(complaint(line) or f"it is not CSV: {error}") from error
    if not times.named:
        cells = [f"f{number}" for number in range(len(cells))]
    names = [cell.strip() for cell in cells]
    wanted = [c if isinstance(c, str) else f"f{c}" for c in times.columns]
    for name, column in zip(wanted, times.columns, strict=True):
        if names.count(name) != 1:
            if said := complaint(line):
                raise NoMeasurementError(said)
            what = f"two columns are called '{name}'" if name in names else None
            raise RecordError(
                what or f"there is no column '{column}'", "line 1", f"{there_are(names)}. {_REMEDY}"
            )
    return _Layout(names, wanted, times)


def _read(data: bytes, layout: _Layout, kind: Any, pass_over: Any = None) -> Any:
    return csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=layout.names, use_threads=pass_over is None),
        csv.ParseOptions(delimiter=layout.times.delimiter, invalid_row_handler=pass_over),
        csv.ConvertOptions(
            include_columns=layout.wanted,
            column_types=dict.fromkeys(layout.wanted, kind),
            null_values=[*NOTHING, *layout.times.missing],
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _typed(data: bytes, layout: _Layout, kind: Any) -> list[Any] | None:
    """Return the columns as numbers, None where a cell is none or a row has too few or many."""
    try:
        table = _read(data, layout, kind)
    except pa.ArrowInvalid:
        return None
    columns = [table[name] for name in layout.wanted]
    return None if len(columns) > 1 and columns[0].null_count else columns


def _cell_by_cell(data: bytes, layout: _Layout) -> _Block:
    unread: dict[int, str] = {}

    def pass_over(row: Any) -> str:
        unread[row.number] = f"{row.actual_columns} cells for {row.expected_columns}: {row.text}"
        return "skip"

    # pyarrow shows the rows it passes over as UTF-8, whatever they are.
    data = data.decode("utf-8", "replace").encode()
    try:
        table = _read(data, layout, pa.string(), pass_over)
    except pa.ArrowInvalid as error:
        raise RecordError(f"not such a CSV file: {error}"[:300], "", _REMEDY) from error
    cells = [pc.ascii_trim_whitespace(table[name]).combine_chunks() for name in layout.wanted]
    rows = len(cells[0]) + len(unread)
    numbers = np.setdiff1d(np.arange(1, rows + 1), list(unread))
    missing = pc.is_in(cells[-1], pa.array([*NOTHING, *layout.times.missing], pa.string()))
    good = pc.or_(missing, pc.match_substring_regex(cells[-1], _NUMBER))
    if len(cells) > 1:
        good = pc.and_(good, pc.match_substring_regex(cells[0], _NUMBER))
    for index in np.flatnonzero(~good.to_numpy(zero_copy_only=False)).tolist():
        said = [c[index].cast(pa.binary()).as_py().decode("utf-8", "replace") for c in cells]
        unread[int(numbers[index])] = (
            f"not the times of a packet: {layout.times.delimiter.join(said)}"
        )
    last = pc.if_else(missing, pa.scalar(None, pa.string()), cells[-1])
    columns = _numbers([column.filter(good) for column in [*cells[:-1], last]])
    return _Block(columns, rows, numbers[good.to_numpy(zero_copy_only=False)], unread)


def _numbers(cells: list[Any]) -> list[Any]:
    """Return columns of text as numbers, as exactly as can be."""
    for kind in (pa.int64(), _EXACT):
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
            "The clocks disagree, or a time of 0 stands for none: name it under times, missing",
        )
