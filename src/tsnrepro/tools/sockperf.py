"""sockperf(3), mode ping-pong: half RTTs, one request at a time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount

PORT = 11111
LOG_HEADER = re.compile(rb"packet, txTime\(sec\), rxTime\(sec\), (latency|rtt)\(usec\)\r?\n")
LOG_RULE = b"\n---"
LOG_TAIL_BYTES = 4096
_NO_OBSERVATION = "sockperf's full log holds no observation"

COLOUR = re.compile(r"\x1b?\[[0-9;]*m")
# Counters have no more digits, and int() refuses thousands of them.
_COUNT = r"(\d{1,20})\b"
_TOTAL = re.compile(rf"\[Total Run\].*?SentMessages={_COUNT}; ReceivedMessages={_COUNT}")
_VALID = re.compile(
    rf"\[Valid Duration\] RunTime=(\d+(?:\.\d+)?) sec; SentMessages={_COUNT}; Rec\w+={_COUNT}"
)
AVERAGE = re.compile(r"avg-latency=\s*(\d+(?:\.\d+)?) \(std-dev=\s*(\d+(?:\.\d+)?)\)")
_DROPPED = re.compile(rf"# dropped messages = {_COUNT}; # duplicated messages = {_COUNT}")
_PERCENTILE = re.compile(r"percentile (\d+\.\d+) =\s*(\d+(?:\.\d+)?)")
_EXTREME = re.compile(r"<(MIN|MAX)> observation =\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class SockperfResult:
    """Result of a ping-pong test. Latencies are half RTTs in microseconds."""

    sent: int
    received: int
    observations: int
    valid_seconds: float
    dropped: int
    duplicated: int
    mean_us: float
    sd_us: float
    min_us: float
    max_us: float
    percentiles_us: dict[str, float]
    """By percentage, as sockperf prints it: ``"99.900"``."""


def server(address: str) -> list[str]:
    """Return the command of the server, which replies to requests."""
    return ["sockperf", "server", "-i", address, "-p", str(PORT)]


def ping_pong(address: str, payload_bytes: int, duration_s: int, log: str) -> list[str]:
    """Return the command of a test, with all observations in the file ``log`` on the talker."""
    return [
        *("sockperf", "ping-pong", "-i", address, "-p", str(PORT)),
        *("-m", str(payload_bytes), "-t", str(duration_s), "--full-log", log),
    ]


def _found(pattern: re.Pattern, text: str, what: str) -> tuple[str, ...]:
    match = pattern.search(text)
    if not match:
        end = " / ".join(text.strip().splitlines()[-2:]) or "nothing"
        raise ToolError(f"sockperf printed no {what}; its output ends: {end[:300]}")
    return match.groups()


def parse(text: str) -> SockperfResult:
    """Parse sockperf's output, with or without colour codes.

    Raises
    ------
    ToolError
        A value is missing: the test failed, or sockperf ran in another mode.
    """
    text = COLOUR.sub("", text)
    sent, received = _found(_TOTAL, text, "total run")
    seconds, _, observations = _found(_VALID, text, "valid duration")
    mean, sd = _found(AVERAGE, text, "average latency")
    dropped, duplicated = _found(_DROPPED, text, "count of dropped messages")
    extremes = dict(_EXTREME.findall(text))
    if set(extremes) != {"MIN", "MAX"}:
        raise ToolError("sockperf printed no minimum and maximum")
    result = SockperfResult(
        sent=int(sent),
        received=int(received),
        observations=int(observations),
        valid_seconds=float(seconds),
        dropped=int(dropped),
        duplicated=int(duplicated),
        mean_us=float(mean),
        sd_us=float(sd),
        min_us=float(extremes["MIN"]),
        max_us=float(extremes["MAX"]),
        percentiles_us={q: float(value) for q, value in _PERCENTILE.findall(text)},
    )
    _check(result)
    return result


def _check(result: SockperfResult) -> None:
    """Refuse inconsistent values; the patterns have no sign, so no number is negative."""
    amount(result.valid_seconds, "sockperf's valid duration", positive=True)
    if not 0 < result.observations <= result.received + result.duplicated:
        raise ToolError(
            f"sockperf counts {result.observations} observations of {result.received} replies"
        )
    if result.received > result.sent + result.duplicated:
        raise ToolError(f"sockperf counts {result.received} replies to {result.sent} requests")
    in_order = [result.percentiles_us[q] for q in sorted(result.percentiles_us, key=float)]
    printed = [result.min_us, *in_order, result.max_us]
    if printed != sorted(printed) or not result.min_us <= result.mean_us <= result.max_us:
        raise ToolError(
            f"sockperf's latencies are not in order: {printed} with the mean {result.mean_us}"
        )


def parse_log(log: str | bytes):
    """Return all observations as a table of ``sent_s`` and ``half_round_trip_us``.

    Send times are in seconds on the talker's clock from an arbitrary start. Round-trip times, of
    ``--full-rtt``, are halved.

    Parameters
    ----------
    log
        Content of the ``--full-log`` file. Bytes are not copied.

    Raises
    ------
    ToolError
        The log has no header of sockperf, no observation, or an invalid row.
    """
    import pandas as pd  # noqa: PLC0415 - the command line starts faster without it
    import pyarrow as pa  # noqa: PLC0415

    data = log.encode() if isinstance(log, str) else log
    header = _log_header(data)
    body = pa.py_buffer(data)[header.end() : _log_end(data, header.end())]
    if not body.size:
        raise ToolError(_NO_OBSERVATION)
    sent, latency = _log_columns(body, ["sent_s", "latency_us"])
    latency = _half_round_trips(latency, header)
    return pd.DataFrame({"sent_s": sent, "half_round_trip_us": latency}, copy=False)


def log_pieces(log: BinaryIO, piece_bytes: int = 8 << 20) -> Iterator[Any]:
    """Yield the half RTTs of a log in microseconds, in order, as an array per piece of the file.

    The memory is that of a few pieces, whatever the length of the log.

    Raises
    ------
    ToolError
        As for :func:`parse_log`.
    """
    head = log.read(piece_bytes)
    header = _log_header(head)
    rows, more, found = head[header.end() :], True, False
    while more:
        read = log.read(piece_bytes)
        rows, more = rows + read, bool(read)
        # A log is closed within its last bytes, so these are kept until more are read.
        end = rows.rfind(b"\n", 0, max(0, len(rows) - LOG_TAIL_BYTES)) + 1 if more else _end(rows)
        if end:
            found = True
            (latency,) = _log_columns(rows[:end], ["latency_us"])
            yield _half_round_trips(latency, header)
        rows = rows[end:]
    if not found:
        raise ToolError(_NO_OBSERVATION)


def _end(rows: bytes) -> int:
    """Return the end of the observations in the last rows of a log."""
    return 0 if rows.startswith(LOG_RULE[1:]) else _log_end(rows, 1)


def _log_header(data: bytes) -> re.Match[bytes]:
    header = LOG_HEADER.search(data)
    if not header:
        raise ToolError("not a full log of sockperf: its header line is missing")
    return header


def _half_round_trips(latency: Any, header: re.Match[bytes]) -> Any:
    """Return a log's latencies as half RTTs."""
    import numpy as np  # noqa: PLC0415

    if not (np.isfinite(latency) & (latency >= 0)).all():
        raise ToolError("sockperf's full log has a latency that is negative or not a number")
    return latency / 2 if header[1] == b"rtt" else latency


def _log_columns(body: Any, kept: list[str]) -> tuple[Any, ...]:
    """Return columns of a log as arrays."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    names = ["packet", "sent_s", "received_s", "latency_us"]

    def read(threads: bool):
        return csv.read_csv(
            pa.BufferReader(body),
            csv.ReadOptions(column_names=names, use_threads=threads),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(
                include_columns=kept,
                column_types=dict.fromkeys(kept, pa.float64()),
                null_values=[],
                check_utf8=False,
            ),
        )

    try:
        table = read(threads=True)
    except pa.ArrowInvalid:
        try:
            table = read(threads=False)  # slower, and its error names the row
        except pa.ArrowInvalid as error:
            reason = str(error)[:300]
            raise ToolError(f"sockperf's full log has an invalid row: {reason}") from error
    return tuple(table[name].to_numpy() for name in kept)


def _log_end(data: bytes, start: int) -> int:
    """Return the end of the observations: a complete log is closed by a line of dashes."""
    # Searched from the end, since a log is long.
    end = data.rfind(LOG_RULE, max(start - 1, len(data) - LOG_TAIL_BYTES))
    return end + 1 if end >= 0 else len(data)
