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
    if pc.count_distinct(sent["sequence"]).as_py() < len(sent):
        raise NoMeasurementError(
            "a sequence number is sent twice",
            "",
            "Store one run per file, without numbers that start again",
        )
    first = received.group_by("sequence").aggregate([("time", "min")])
    where = pc.index_in(sent["sequence"], value_set=first["sequence"].combine_chunks())
    arrival = first["time_min"].combine_chunks().take(where.combine_chunks())
    found.sent = len(sent)
    found.latencies_us = np.array(latencies_of([sent["time"].combine_chunks(), arrival]))
    if not found.received:
        raise NoMeasurementError(f"none of its packets is in the listener's {listener.relative}")
    if unsent := len(first) - (len(where) - where.null_count):
        found.skipped.append((listener.relative, f"{unsent} packets that the talker did not send"))
        found.skipped_rows += unsent
    return completed(found, times, list(pc.min_max(sent["time"]).as_py().values()))


def _times_by_sequence(
    file: SourceFile, times: Times, column: str | int | None, found: PacketTimes
) -> pa.Table:
    """Return the rows of one file that have a time, and count the invalid ones."""
    # The number takes the place of the time of sending, and the time that of receipt.
    keys = {"sent": times.sequence, "received": column, "sequence": None, "listener": None}
    layout = times.model_copy(update=keys)
    schema = pa.schema([("sequence", pa.int64()), ("time", _TIME)])
    tables = [schema.empty_table()]
    for block in blocks_of(file, layout):
        found.skipped_rows += len(block.invalid)
        found.skipped += [(file.relative, why[:80]) for why in [*block.invalid.values()][:5]]
        try:
            columns = [
                one.cast(kind) for one, kind in zip(block.columns, schema.types, strict=True)
            ]
        except pa.ArrowInvalid as error:
            reason = str(error)[:200]
            raise NoMeasurementError(
                f"{file.relative}: a sequence number or time that is none: {reason}"
            ) from error
        tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables).drop_null()
