"""Packets as ``isochron report`` printed them, by its ``--printf-format`` and ``--printf-args``.

The options are documented in isochron-report(1), https://github.com/NXP/isochron. A packet that
did not arrive is printed with times of receipt of 0, and one without a timestamp with a time of
sending of 0.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from tsnrepro.common.counts import plural
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import PRINTF_CODE, Times
from tsnrepro.imports.readers import aligned
from tsnrepro.imports.screening import ISOCHRON_SUMMARY, NoMeasurementError

# Type checkers do not see its functions, which are created at import.
pc: Any = compute
# Times are 64-bit integers in nanoseconds: up to 2255 they begin with 0 to 8.
_CODES = {
    "d": "-?[0-8]?[0-9]{1,18}",
    "u": "[0-8]?[0-9]{1,18}",
    "T": r"-?[0-8]?[0-9]{1,9}\.[0-9]{9}",
    "x": "[0-9a-f]{1,16}",
}
_UNSYNCHRONIZED = re.compile(rb"[^\n]*not synchronized[^\n]*")
# isochron's own limit of the mean path delay, in nanoseconds.
_SYNCHRONIZED_NS = 10**9
_NO_TIMESTAMP = "it has no timestamp of sending"
_REMEDY = "Print all packets of one test to one file"


def blocks(
    file: SourceFile, times: Times
) -> Iterator[tuple[list[Any], int, np.ndarray, dict[int, str]]]:
    """Yield the times of sending and receipt in nanoseconds, block by block.

    Yields
    ------
    tuple
        Both columns, null where a packet has no time; the number of rows; the number of each valid
        row, from 1; and the reasons of the others.

    Raises
    ------
    NoMeasurementError
        Packets are printed twice or missing, or the clocks were not synchronized.
    """
    pattern, last, missing = _pattern(times), None, 0
    for block in file.blocks():
        found = _UNSYNCHRONIZED.search(block) if b"not synchronized" in block else None
        if found:
            raise NoMeasurementError(f"isochron reports: {found[0].decode('utf-8', 'replace')}")
        end = block.rfind(b"\n") + 1
        whole, cut = block[:end], block[end:]
        columns = _separated(whole, times)
        if columns is not None:
            rows, valid, invalid = len(columns[0]), np.arange(1, len(columns[0]) + 1), {}
        else:
            lines = [line for line in whole.splitlines() if line.strip()]
            rows = len(lines)
            columns, valid, invalid = _matched(lines, pattern, times)
        packets, numbers = _packets(columns, valid, invalid)
        if cut.strip():
            invalid[rows + 1] = "its end is missing: the file is truncated"
        sequence = packets.pop(0).to_numpy(zero_copy_only=False)
        steps = np.diff(sequence, prepend=sequence[:0] if last is None else last)
        if (steps < 1).any():
            what = "a packet is printed twice, or after a later one"
            raise NoMeasurementError(what, "", _REMEDY)
        last = sequence[-1] if sequence.size else last
        unread = sum(reason != _NO_TIMESTAMP for reason in invalid.values())
        missing += int((steps - 1).sum()) - unread
        yield packets, rows + bool(cut.strip()), numbers, invalid
    if missing > 0:
        raise NoMeasurementError(f"it lacks {plural(missing, 'packet')}", "", _REMEDY)


def _pattern(times: Times) -> str:
    """Return the regular expression of a packet's line, with a group per column that is read."""
    codes = iter(times.printf_args or "")
    wanted = {"q", *times.columns}

    def group(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        name = next(codes)
        return f"(?P<{name}>{_CODES[match[1]]})" if name in wanted else f"(?:{_CODES[match[1]]})"

    parts = PRINTF_CODE.split(times.printf_line)
    # Literal text and codes take turns.
    texts = [re.escape(part) for part in parts[::2]]
    found = [group(match) for match in PRINTF_CODE.finditer(times.printf_line)]
    pieces = [piece for pair in zip(texts, [*found, ""], strict=True) for piece in pair]
    return f"^{''.join(pieces)}$"


def _separated(lines: bytes, times: Times) -> list[Any] | None:
    """Return number and times of lines that are integers between separators, as CSV is.

    It takes a fifth of the time of the regular expression, which reads all others: None for these.
    """
    names, wanted = list(times.printf_args or ""), ["q", *map(str, times.columns)]
    parts = PRINTF_CODE.split(times.printf_line)
    first, *separators, last = parts[::2]
    delimiter = separators[0]
    codes = {code for name, code in zip(names, parts[1::2], strict=False) if name in wanted}
    alike = {*separators} == {delimiter} and len(delimiter) == 1
    if first or last or not alike or "%" in parts or not codes <= {"d", "u"}:
        return None
    numbers = [names.index(name) for name in wanted]
    found = aligned.integers(lines, delimiter.encode(), len(names), numbers)
    if found is not None:
        return found
    try:
        table = csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(column_names=names),
            csv.ParseOptions(delimiter=delimiter, quote_char=False),
            csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.int64()),
                null_values=[],
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return [table[name].combine_chunks() for name in wanted]


def _matched(
    lines: list[bytes], pattern: str, times: Times
) -> tuple[list[Any], np.ndarray, dict[int, str]]:
    """Return number and times of the lines that are packets, their rows, and the other lines."""
    found = pc.extract_regex(pa.array(lines, pa.binary()), pattern)
    valid = found.is_valid()
    invalid = {
        index + 1: f"not a packet: {lines[index].decode('utf-8', 'replace')}"
        for index in np.flatnonzero(~valid.to_numpy(zero_copy_only=False)).tolist()
        if not ISOCHRON_SUMMARY.match(lines[index].decode("utf-8", "replace"))
    }
    numbers = np.flatnonzero(valid.to_numpy(zero_copy_only=False)) + 1
    found = found.filter(valid)
    return [_nanoseconds(found.field(n)) for n in ("q", *times.columns)], numbers, invalid


def _packets(
    columns: list[Any], numbers: np.ndarray, invalid: dict[int, str]
) -> tuple[list[Any], np.ndarray]:
    """Return number and times of the packets with a timestamp, and their rows; tell the others."""
    sequence, sent, received = columns
    unknown = pc.and_(pc.equal(sent, 0), pc.not_equal(received, 0))
    if pc.any(unknown).as_py():
        known = pc.invert(unknown)
        invalid |= dict.fromkeys(
            numbers[unknown.to_numpy(zero_copy_only=False)].tolist(), _NO_TIMESTAMP
        )
        numbers = numbers[known.to_numpy(zero_copy_only=False)]
        sent, received = sent.filter(known), received.filter(known)
    sent, received = _null_for_zero(sent), _null_for_zero(received)
    _check_clocks(pc.mean(pc.subtract(received, sent)).as_py())
    return [sequence, sent, received], numbers


def _nanoseconds(cells: Any) -> Any:
    # A time in seconds always has nine decimals.
    return pc.replace_substring(cells.cast(pa.string()), ".", "").cast(pa.int64())


def _null_for_zero(numbers: Any) -> Any:
    return pc.if_else(pc.equal(numbers, 0), pa.scalar(None, pa.int64()), numbers)


def _check_clocks(mean_ns: float | None) -> None:
    if mean_ns is not None and abs(mean_ns) > _SYNCHRONIZED_NS:
        raise NoMeasurementError(
            f"its clocks were not synchronized: the mean latency is {mean_ns / 1e9:.4g} s"
        )
