"""Times of sending in the talker's CSV and of receipt in the listener's, joined by sequence number.

Of a packet that arrives several times, as without elimination, the first arrival counts.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from tsnrepro.common.counts import plural
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers.packet_times import (
    PacketTimes,
    blocks_of,
    completed,
    latencies_of,
    resolution_us,
)
from tsnrepro.imports.screening import NoMeasurementError

# Type checkers do not see its functions, which are created at import.
pc: Any = compute
# 64-bit integers with 12 decimals, and room for a difference.
_TIME = pa.decimal128(37, 12)
# Packets that are joined at a time, which bounds the memory.
_PIECE_ROWS = 1 << 18


def read(talker: SourceFile, listener: SourceFile, times: Times) -> PacketTimes:
    """Return the latency of each packet in microseconds, in the order of the talker's file.

    Packets that were received but not sent are skipped: the listener may have started before.

    Raises
    ------
    NoMeasurementError
        A sequence number is sent twice, no packet was received, or packets arrive before they are
        sent.
    RecordError
        A column is missing.
    """
    found = PacketTimes()
    sent = _times_by_sequence(talker, times, times.sent, found)
    received = _times_by_sequence(listener, times, times.received, found)
    numbers = sent["sequence"].to_numpy()
    if not _increases(numbers) and len(np.unique(numbers)) < len(numbers):
        raise NoMeasurementError(
            "a sequence number is sent twice",
            "",
            "Store one run per file, without numbers that start again",
        )
    if not _increases(received["sequence"].to_numpy()):
        keys = [("sequence", "ascending"), ("time", "ascending")]
        order, columns = pc.sort_indices(received, sort_keys=keys), received.columns
        del received
        # One column after the other, which is less memory.
        received = pa.table([columns.pop(0).take(order) for _ in keys], [name for name, _ in keys])
        del order
    kind = pa.int64() if sent["time"].type == received["time"].type == pa.int64() else _TIME
    found.sent, parts = len(sent), []
    for first in range(0, len(sent), _PIECE_ROWS):
        arrival = _first_arrivals(numbers[first : first + _PIECE_ROWS], received)
        departure = sent["time"].slice(first, _PIECE_ROWS)
        parts.append(latencies_of([departure.cast(kind), arrival.cast(kind)]))
    found.latencies_us = np.concatenate([np.empty(0), *parts])
    if not found.received:
        why = "".join(f" ({where}: {reason})" for where, reason in found.skipped[:1])
        what = f"none of its packets is in the listener's {listener.relative}{why}"
        raise NoMeasurementError(what)
    found.resolution_us = resolution_us([sent["time"], received["time"]], times)
    if unsent := _distinct(received["sequence"].to_numpy()) - found.received:
        found.skipped.append(
            (listener.relative, f"{plural(unsent, 'packet')} that the talker did not send")
        )
        found.skipped_rows += unsent
    return completed(found, times, list(pc.min_max(sent["time"]).as_py().values()))


def _increases(numbers: np.ndarray) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _distinct(known: np.ndarray) -> int:
    """Return how many different numbers there are, which are sorted."""
    return int(np.count_nonzero(known[1:] != known[:-1])) + bool(len(known))


def _first_arrivals(numbers: np.ndarray, received: pa.Table) -> Any:
    """Return the first arrival of each packet, null of a lost one; the received ones are sorted."""
    known = received["sequence"].to_numpy()
    where = np.searchsorted(known, numbers)
    lost = np.ones(len(numbers), bool)
    if len(known):
        np.minimum(where, len(known) - 1, out=where)
        lost = known[where] != numbers
    return received["time"].take(pa.array(where, mask=lost))


def _times_by_sequence(
    file: SourceFile, times: Times, column: str | int | None, found: PacketTimes
) -> pa.Table:
    """Return the rows of one file that have a time, and count the invalid ones."""
    # The number takes the place of the time of sending, and the time that of receipt.
    keys = {"sent": times.sequence, "received": column, "sequence": None, "listener": None}
    layout = times.model_copy(update=keys)
    numbers, taken = [], []
    for block in blocks_of(file, layout):
        found.skipped_rows += len(block.invalid)
        found.skipped += [(file.relative, why[:80]) for why in [*block.invalid.values()][:5]]
        number, time = block.columns
        if time.null_count:
            arrived = time.is_valid()
            number, time = number.filter(arrived), time.filter(arrived)
        try:
            numbers.append(number.cast(pa.int64()))
            taken.append(time if time.type == pa.int64() else time.cast(_TIME))
        except pa.ArrowInvalid as error:
            reason = str(error)[:200]
            raise NoMeasurementError(
                f"{file.relative}: a sequence number or time that is none: {reason}"
            ) from error
    kind = _TIME if any(time.type == _TIME for time in taken) else pa.int64()
    columns = [_chunked(numbers, pa.int64()), _chunked(taken, kind)]
    return pa.table(columns, names=["sequence", "time"])


def _chunked(parts: list[Any], kind: Any) -> Any:
    """Return the parts of a column as one, and give their memory back."""
    chunks = [c.cast(kind) for part in parts for c in getattr(part, "chunks", [part])]
    parts.clear()
    whole = pa.chunked_array(chunks, kind).combine_chunks()
    chunks.clear()
    pa.default_memory_pool().release_unused()
    return whole
