"""Logs of listener and talker: 32 bytes per datagram, read completely or refused."""

import base64
import binascii
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tsnrepro.common.errors import RecordError, ToolError

LISTENER_DTYPE = np.dtype(
    [
        ("stream", "<u4"),
        ("sequence", "<u4"),
        ("sent_ns", "<u8"),
        ("received_ns", "<u8"),
        ("stamped_ns", "<u8"),
    ]
)
"""An arrival: UDP port, number, send time, the program's time, time stamp (0: none)."""

TALKER_DTYPE = np.dtype(
    [
        ("stream", "<u4"),
        ("sequence", "<u4"),
        ("slot_ns", "<u8"),
        ("sent_ns", "<u8"),
        ("stamped_ns", "<u8"),
    ]
)
"""A departure: stream, number, slot (0: saturating), the time before the call, stamp (0: none)."""

STREAM_DTYPE = np.dtype([*LISTENER_DTYPE.descr, ("queued_ns", "<u8")])
"""An arrival, and when it entered the queue of the talker's device (0: unknown)."""

Records = npt.NDArray[np.void]


def read_listener_log(log: Path | bytes) -> Records:
    """Return a listener's log, from its file or its bytes, in order of arrival.

    Raises ToolError if the log ends within a record.
    """
    return _read(log, LISTENER_DTYPE, "listener")


def read_talker_log(log: Path | bytes) -> Records:
    """Return a talker's log, from its file or its bytes, in order of sending.

    Raises ToolError if the log ends within a record.
    """
    return _read(log, TALKER_DTYPE, "talker")


def _read(log: Path | bytes, dtype: np.dtype, program: str) -> Records:
    data = log if isinstance(log, bytes) else log.read_bytes()
    whole, rest = divmod(len(data), dtype.itemsize)
    if rest:
        raise ToolError(
            f"a {program}'s log of {len(data)} bytes ends {rest} bytes into record {whole}",
            "" if isinstance(log, bytes) else str(log),
            f"{whole} whole records of {dtype.itemsize} bytes come before; the program "
            "was killed or the disk was full",
        )
    return np.frombuffer(data, dtype)


def with_queue_times(arrivals: Records, departures: Records) -> Records:
    """Return a stream's arrivals with the talker's stamps of type ``queued``, by number.

    ``arrivals``: a listener's log of one stream; ``departures``: the talker's log of it.
    """
    found = np.zeros(len(arrivals), STREAM_DTYPE)
    for name in LISTENER_DTYPE.names or ():
        found[name] = arrivals[name]
    # The talker's records stand by their number.
    known = arrivals["sequence"] < len(departures)
    found["queued_ns"][known] = departures["stamped_ns"][arrivals["sequence"][known]]
    return found


def decode_log(text: str) -> bytes:
    """Decode a log that a host printed as base64 (``command.show_log``).

    Raises ToolError if the text is not base64.
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"a log in base64 cannot be read: {error}") from error


def compress(records: Records) -> bytes:
    """Return records as Parquet: named columns, delta encoding, Zstandard.

    The bytes depend on the records alone, and the compression is lossless.
    """
    names = records.dtype.names or ()
    table = pa.table({name: pa.array(np.ascontiguousarray(records[name])) for name in names})
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="zstd",
        use_dictionary=False,
        column_encoding=dict.fromkeys(names, "DELTA_BINARY_PACKED"),
        write_statistics=False,
    )
    return buffer.getvalue()


def decompress(data: bytes) -> Records:
    """Return the records of :func:`compress`: of a listener's log, or with times of the queue.

    Raises RecordError if the bytes are not a Parquet file, or have other columns.
    """
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RecordError(f"a compressed log cannot be read: {error}") from error
    known = {each.names: each for each in (LISTENER_DTYPE, STREAM_DTYPE)}
    dtype = known.get(tuple(table.column_names))
    if dtype is None:
        raise RecordError(f"a compressed log has the columns {', '.join(table.column_names)}")
    records = np.empty(table.num_rows, dtype)
    for name in table.column_names:
        records[name] = table.column(name).to_numpy()
    return records
