"""ping(8) of iputils: ICMP echo requests, and their round-trip times."""

import re
from dataclasses import dataclass

import numpy as np

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount

_REPLY = re.compile(r"icmp_seq=(\d+) ttl=\d+ time=(\d+(?:\.\d+)?) ms( \(DUP!\))?")
_SUMMARY = re.compile(r"\b(\d{1,18}) packets transmitted, (\d{1,18}) received")


@dataclass(frozen=True)
class PingResult:
    """Counts of requests and replies, and each reply's round-trip time in microseconds."""

    sent: int
    received: int
    round_trips_us: list[float]


def ping(address: str, payload_bytes: int, requests: int, interval_ms: int) -> list[str]:
    """Return the command that sends requests at an interval, and waits 1 s for the last reply."""
    return [
        *("ping", "-n", "-c", str(requests), "-i", f"{interval_ms / 1000:g}"),
        *("-s", str(payload_bytes), "-W", "1", address),
    ]


def parse(printed: str) -> PingResult:
    """Parse the output; a duplicate reply counts once.

    Raises
    ------
    ToolError
        There is no summary, a time is impossible, or the number of replies differs from it.
    """
    summary = _SUMMARY.search(printed)
    if summary is None:
        raise ToolError("no summary", "ping", "Its output is in the record")
    sent, received = map(int, summary.groups())
    replies = [match for match in _REPLY.finditer(printed) if not match[3]]
    if len(replies) != received or received > sent:
        raise ToolError(f"{len(replies)} replies, {received} counted, {sent} sent", "ping")
    times = [amount(1000 * float(match[2]), "a round trip") for match in replies]
    return PingResult(sent, received, times)


def quantiles_us(result: PingResult) -> dict[str, float | None]:
    """Return minimum, median, P99 and maximum round-trip time, None without replies."""
    shares = {"min_us": 0.0, "median_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
    if not result.round_trips_us:
        return dict.fromkeys(shares)
    found = np.quantile(result.round_trips_us, list(shares.values()), method="inverted_cdf")
    return dict(zip(shares, map(float, found), strict=True))
