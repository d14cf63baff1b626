"""sockperf ping-pong: half of each round trip, one request at a time."""

import re
from dataclasses import dataclass
from io import StringIO

from tsnrepro.errors import ToolError

PORT = 11111
LOG_HEADER = "packet, txTime(sec), rxTime(sec), latency(usec)"

COLOUR = re.compile(r"\x1b?\[[0-9;]*m")
TOTAL = re.compile(r"\[Total Run\].*?SentMessages=(\d+); ReceivedMessages=(\d+)")
VALID = re.compile(r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d+); Rec\w+=(\d+)")
AVERAGE = re.compile(r"avg-latency=\s*([\d.]+) \(std-dev=\s*([\d.]+)\)")
DROPPED = re.compile(r"# dropped messages = (\d+); # duplicated messages = (\d+)")
PERCENTILE = re.compile(r"percentile (\d+\.\d+) =\s*([\d.]+)")
EXTREME = re.compile(r"<(MIN|MAX)> observation =\s*([\d.]+)")


@dataclass(frozen=True)
class PingPongResult:
    """One ping-pong test. Latencies are half round trips in microseconds."""

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
    """By percentage as sockperf prints it: ``"99.900"``."""


def server(address: str) -> list[str]:
    """Return the command of the echoing server."""
    return ["sockperf", "server", "-i", address, "-p", str(PORT)]


def ping_pong(address: str, payload_bytes: int, duration_s: int, log: str) -> list[str]:
    """Return the command of a test; every observation goes to the file ``log`` on the talker."""
    return [
        *("sockperf", "ping-pong", "-i", address, "-p", str(PORT)),
        *("-m", str(payload_bytes), "-t", str(duration_s), "--full-log", log),
    ]


def _found(pattern: re.Pattern, text: str, what: str) -> tuple[str, ...]:
    match = pattern.search(text)
    if not match:
        said = " / ".join(text.strip().splitlines()[-2:]) or "nothing"
        raise ToolError(f"sockperf printed no {what}; it ended with: {said[:300]}")
    return match.groups()


def parse(text: str) -> PingPongResult:
    """Read what sockperf prints, with or without colour codes.

    Raises
    ------
    ToolError
        A value is missing: the test failed, or this is another mode of sockperf.
    """
    text = COLOUR.sub("", text)
    sent, received = _found(TOTAL, text, "total run")
    seconds, _, observations = _found(VALID, text, "valid duration")
    mean, sd = _found(AVERAGE, text, "average latency")
    dropped, duplicated = _found(DROPPED, text, "count of dropped messages")
    extremes = dict(EXTREME.findall(text))
    if set(extremes) != {"MIN", "MAX"}:
        raise ToolError("sockperf printed no minimum and maximum")
    return PingPongResult(
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
        percentiles_us={q: float(value) for q, value in PERCENTILE.findall(text)},
    )


def parse_log(text: str):
    """Return every observation as a table of ``sent_s`` and ``half_round_trip_us``.

    Times of sending are seconds on the talker's clock from an arbitrary start.

    Raises
    ------
    ToolError
        The log has no header of sockperf's, or no observation.
    """
    import pandas as pd  # noqa: PLC0415 - the command line starts faster without it

    start = text.find(LOG_HEADER)
    if start < 0:
        raise ToolError("not a full log of sockperf: its header line is missing")
    # A complete log is closed by a rule of dashes.
    end = text.find("\n---", start)
    table = pd.read_csv(
        StringIO(text[start : end + 1 if end >= 0 else None]),
        engine="pyarrow",
        names=["packet", "sent_s", "received_s", "half_round_trip_us"],
        skiprows=1,
    )
    if table.empty:
        raise ToolError("sockperf's full log holds no observation")
    return table[["sent_s", "half_round_trip_us"]]
