"""sockperf(3), mode ping-pong: half RTTs, one request at a time."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PORT = 11111
# The first versions log only the times.
LOG_HEADER = re.compile(
    rb"packet, txTime\(sec\), rxTime\(sec\), (latency|rtt)\(usec\)\r?\n|txTime, rxTime\r?\n"
)
LOG_RULE = b"\n---"
_NO_OBSERVATION = "sockperf's full log holds no observation"

COLOUR = re.compile(r"\x1b?\[[0-9;]*m")
# Counters have no more digits, and int() refuses thousands of them.
_COUNT = r"(\d{1,20})\b"
_TOTAL = re.compile(rf"\[Total Run\].*?SentMessages={_COUNT}; ReceivedMessages={_COUNT}")
_VALID = re.compile(
    rf"\[Valid Duration\] RunTime=(\d+(?:\.\d+)?) sec; SentMessages={_COUNT}; Rec\w+={_COUNT}"
)
# Version 3.8 and later print more statistics in the same parentheses.
AVERAGE = re.compile(r"avg-(lat(?:ency)?|rtt)=\s*(\d+(?:\.\d+)?) \(std-dev=\s*(\d+(?:\.\d+)?)[,)]")
_DROPPED = re.compile(
    rf"# dropped messages = {_COUNT}; # duplicated messages = {_COUNT}"
    rf"(?:; # out-of-order messages = {_COUNT})?"
)
_THROUGHPUT = re.compile(r"Summary: (?:Message Rate|BandWidth) is ")
# Only mode under-load has a second thread, which ends by a signal of its own behind the timer's.
_END = re.compile(r"Test end \(interrupted by ([^)\n]{1,40})\)(?:\s.*?(signal 2)\))?", re.DOTALL)
_PARAMETERS = re.compile(
    r"--mps=\d+ --burst=(\d{1,9}) --reply-every=(\d{1,9}) --msg-size=(\d{1,9})\b"
)
_BURST = re.compile(r" of burst of (\d+) messages is ")
_PERCENTILE = re.compile(r"percentile +(\d+\.\d+) =\s*(\d+(?:\.\d+)?)")
_RESENT = re.compile(rf"requests sent again: {_COUNT}")
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

    Raises ToolError if a value is missing: the test failed; or sockperf ran in another mode, or
    with several servers.
    """
    text = COLOUR.sub("", text)
    _check_mode(text)
    sent, received = _found(_TOTAL, text, "total run")
    seconds, sent_then, observations = _found(_VALID, text, "valid duration")
    kind, mean, sd = _found(AVERAGE, text, "average latency")
    dropped, duplicated, late = _found(_DROPPED, text, "count of dropped messages")
    _check_each_is_replied(int(sent_then), int(observations) + int(dropped) + int(late or 0))
    half = 0.5 if kind == "rtt" else 1
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
        mean_us=half * float(mean),
        sd_us=half * float(sd),
        min_us=half * float(extremes["MIN"]),
        max_us=half * float(extremes["MAX"]),
        percentiles_us={
            f"{float(q):.3f}": half * float(value) for q, value in _PERCENTILE.findall(text)
        },
    )
    _check(result)
    return result


def payload_bytes(text: str) -> int | None:
    """Return the payload that a full log states among its parameters, None if it does not.

    Raises ToolError if they are those of another mode.
    """
    found = _PARAMETERS.search(text)
    if found is None:
        return None
    burst, every, payload = map(int, found.groups())
    if (burst, every) != (1, 1):
        mode = f"bursts of {burst} messages and a reply to every {every}"
        raise ToolError(f"sockperf ran with {mode}", "", "Use sockperf ping-pong, without --burst")
    return payload


def resent(stderr: str) -> int | None:
    """Return how many requests our library sent again, None where it did not look for losses."""
    found = _RESENT.search(stderr)
    return int(found[1]) if found else None


def with_lost(
    report: SockperfResult, half_us: "npt.NDArray[np.float64]", lost: int
) -> SockperfResult:
    """Return a report in which requests without an answer count as lost.

    Parameters
    ----------
    report
        Counts a request that was sent again as one, with the wait in its latency.
    half_us
        Half RTTs of the requests that were answered at once, in microseconds.
    lost
        Number of requests without an answer.
    """
    latencies = latencies_of(half_us, report.percentiles_us)
    return replace(
        report,
        sent=report.sent + lost,
        dropped=report.dropped + lost,
        observations=len(half_us),
        **latencies,
    )


def latencies_of(half_us: "npt.NDArray[np.float64]", percentages: Iterable[str]) -> dict[str, Any]:
    """Return half RTTs as sockperf reports them: the last fields of :class:`SockperfResult`.

    Raises
    ------
    ToolError
        There is none.
    """
    import numpy as np  # noqa: PLC0415

    if not len(half_us):
        raise ToolError("no request was answered")
    wanted = list(percentages)
    found = np.quantile(half_us, [float(p) / 100 for p in wanted], method="inverted_cdf")
    return {
        "mean_us": float(half_us.mean()),
        "sd_us": float(half_us.std()),
        "min_us": float(half_us.min()),
        "max_us": float(half_us.max()),
        "percentiles_us": dict(zip(wanted, map(float, found), strict=True)),
    }


def _check_mode(text: str) -> None:
    if "[SERVER] listen on" in text:
        raise ToolError("it is the output of sockperf's server, which measures no latency")
    mode = "in mode throughput" if _THROUGHPUT.search(text) else None
    if end := _END.search(text):
        if end[1] != "timer":
            raise ToolError(f"sockperf was interrupted by {end[1]}")
        mode = "in mode under-load" if end[2] else mode
    if burst := _BURST.search(text):
        mode = f"with bursts of {burst[1]} messages"
    if mode:
        raise ToolError(f"sockperf ran {mode}", "", "Use sockperf ping-pong, without --burst")
    if (servers := len(_VALID.findall(text))) > 1:
        raise ToolError(f"sockperf measured {servers} servers", "", "Measure one server")


def _check_each_is_replied(sent: int, replied: int) -> None:
    """Refuse mode under-load, where the server replies to one of N messages, 100 by default."""
    if replied > 1 and sent > 1.5 * replied:
        every = round((sent - 1) / (replied - 1))
        raise ToolError(
            f"sockperf ran in mode under-load, with a reply to every {every} messages",
            "",
            "Use sockperf ping-pong",
        )


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
    start = header.end()
    rule = data.find(LOG_RULE, start - 1) + 1
    body = pa.py_buffer(data)[start : rule or len(data)]
    if not body.size:
        raise ToolError(_NO_OBSERVATION)
    sent, latency = log_columns(body, header, with_times=True)
    return pd.DataFrame({"sent_s": sent, "half_round_trip_us": latency}, copy=False)


def log_pieces(log: BinaryIO, piece_bytes: int = 8 << 20) -> Iterator[Any]:
    """Yield the half RTTs of a log in microseconds, in order, as an array per piece of the file.

    The memory is that of a few pieces, whatever the length of the log.

    Raises ToolError as for :func:`parse_log`.
    """
    head = log.read(piece_bytes)
    header = _log_header(head)
    found = False
    for rows in observed_rows(_whole_lines(log, head[header.end() :], piece_bytes)):
        found = True
        yield log_columns(rows, header)[0]
    if not found:
        raise ToolError(_NO_OBSERVATION)


def _whole_lines(log: BinaryIO, rows: bytes, piece_bytes: int) -> Iterator[bytes]:
    while read := log.read(piece_bytes):
        end = rows.rfind(b"\n") + 1
        yield rows[:end]
        rows = rows[end:] + read
    yield rows


def observed_rows(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the rows of observations of a log, given blocks of whole lines behind its header.

    A line of dashes closes a complete log; the table of ``--histogram`` is behind it.
    """
    for block in blocks:
        rule = 0 if block.startswith(LOG_RULE[1:]) else block.find(LOG_RULE) + 1 or None
        if rows := block[:rule]:
            yield rows
        if rule is not None:
            return


def _log_header(data: bytes) -> re.Match[bytes]:
    header = LOG_HEADER.search(data)
    if not header:
        raise ToolError("not a full log of sockperf: its header line is missing")
    return header


def log_columns(body: Any, header: re.Match[bytes], *, with_times: bool = False) -> tuple[Any, ...]:
    """Return the half RTTs of a log's rows in microseconds, behind their send times if wanted.

    Raises ToolError if a row is invalid.
    """
    import numpy as np  # noqa: PLC0415

    if header[1] is None:  # a lost message has 0 as its time of receipt
        sent, received = _csv_columns(body, ["sent_s", "received_s"], ["sent_s", "received_s"])
        sent, received = sent[received != 0], received[received != 0]
        times, latency = (sent,), (received - sent) * 1e6 / 2
    else:
        names = ["packet", "sent_s", "received_s", "latency_us"]
        kept = ["sent_s", "latency_us"] if with_times else ["latency_us"]
        *times, latency = _csv_columns(body, names, kept)
        latency = latency / 2 if header[1] == b"rtt" else latency
    if not (np.isfinite(latency) & (latency >= 0)).all():
        raise ToolError("sockperf's full log has a latency that is negative or not a number")
    return (*times, latency) if with_times else (latency,)


def _csv_columns(body: Any, names: list[str], kept: list[str]) -> tuple[Any, ...]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

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
