"""Times of sending in the talker's CSV and of receipt in the listener's, joined by sequence number.

Of a packet that arrives several times, as without elimination, the first arrival counts.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers.packet_times import (
    PacketTimes,
    blocks_of,
    completed,
    latencies_of,
)
from tsnrepro.imports.screening import NoMeasurementError

# Type checkers do not see its functions, which are created at import.
pc: Any = compute
# 64-bit integers with 12 decimals, and room for a difference.
_TIME = pa.decimal128(37, 12)


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
        received = received.sort_by([("sequence", "ascending"), ("time", "ascending")])
    unsent, arrival = _first_arrivals(numbers, received)
    del received
    kind = pa.int64() if sent["time"].type == arrival.type == pa.int64() else _TIME
    departure = sent["time"].cast(kind)
    found.sent = len(sent)
    found.latencies_us = np.array(latencies_of([departure, arrival.cast(kind)]))
    if not found.received:
        raise NoMeasurementError(f"none of its packets is in the listener's {listener.relative}")
    if unsent:
        found.skipped.append((listener.relative, f"{unsent} packets that the talker did not send"))
        found.skipped_rows += unsent
    return completed(found, times, list(pc.min_max(departure).as_py().values()))


def _increases(numbers: np.ndarray) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _first_arrivals(numbers: np.ndarray, received: pa.Table) -> tuple[int, Any]:
    """Return how many packets were not sent, and the first arrival of each one that was.

    The received ones are sorted; the arrival of a lost packet is null.
    """
    known = received["sequence"].to_numpy()
    distinct = np.count_nonzero(known[1:] != known[:-1]) + bool(len(known))
    where = np.searchsorted(known, numbers)
    lost = np.ones(len(numbers), bool)
    if len(known):
        np.minimum(where, len(known) - 1, out=where)
        lost = known[where] != numbers
    arrived = len(lost) - int(np.count_nonzero(lost))
    return int(distinct) - arrived, received["time"].take(pa.array(where, mask=lost))


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
    return pa.table(columns, names=["sequence", "time"]).drop_null()


def _chunked(parts: list[Any], kind: Any) -> Any:
    chunks = [c for part in parts for c in getattr(part, "chunks", [part])]
    parts.clear()
    return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind).combine_chunks()
