"""ping(8) of iputils: ICMP echo requests, and their round-trip times."""

import re
from dataclasses import dataclass

import numpy as np

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount

_REPLY = re.compile(r"icmp_seq=\d+ ttl=\d+(?: time=(\d+(?:\.\d+)?) ms)?(.*)")
# Marks of replies that are none: iputils counts a truncated one among the received.
_NOT_COUNTED = ("(DUP!)", "(BAD CHECKSUM!)")
_TRUNCATED = "(truncated)"
_SUMMARY = re.compile(r"\b(\d{1,18}) packets transmitted, (\d{1,18}) received")
_INSTALL = "Install iputils (Debian: iputils-ping) on the talker"
# Outputs that are not a measurement of iputils' ping in English, with reason and remedy.
_UNSUPPORTED = (
    (
        re.compile(r"time of day goes back"),
        "the clock was set back while it ran, so round-trip times are wrong",
        "Stop services that step the talker's clock, and repeat the trial",
    ),
    (re.compile(r": seq=\d+ ttl=|^BusyBox v", re.M), "it is ping of BusyBox", _INSTALL),
    (
        re.compile(
            r" packets transmitted, \d+ packets received|\b[Bb]ytes=\d+ .{1,30}\bTTL=|^Ping ", re.M
        ),
        "it is not ping of iputils",
        _INSTALL,
    ),
    (
        re.compile(
            r"=\d+,\d+|icmp_seq=\d+ ttl=\d+ (?!time\b)\w+=|^--- .* --- *\n\d+ (?!packets)"
            r"|[^\x00-\x7f]",
            re.M,
        ),
        "it printed in another language",
        "Run it with LC_ALL=C",
    ),
    (re.compile(r"time<"), "a round-trip time is below its resolution", _INSTALL),
)


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
    """Parse the output, and the warnings that ping prints to standard error.

    A duplicate reply counts once; one that is truncated or has a wrong checksum does not count.

    Raises ToolError if it is another ping, or in another language; replies have no time, or a clock
    was set back; there is no summary, a time is impossible, or the number of replies differs from
    it.
    """
    for pattern, what, remedy in _UNSUPPORTED:
        if pattern.search(printed):
            raise ToolError(what, "ping", remedy)
    summary = _SUMMARY.search(printed)
    if summary is None:
        last = printed.strip().rpartition("\n")[2][:200]
        what = f"no summary, and it printed at last: {last or 'nothing'}"
        raise ToolError(what, "ping", "Its output is in the record")
    sent, received = map(int, summary.groups())
    replies = [m for m in _REPLY.finditer(printed) if not any(n in m[2] for n in _NOT_COUNTED)]
    whole = [match for match in replies if _TRUNCATED not in match[2]]
    received -= len(replies) - len(whole)
    if any(match[1] is None for match in whole):
        raise ToolError(
            "the payload has no room for a time stamp", "ping", "Use a payload of 16 bytes or more"
        )
    if len(whole) != received or received > sent:
        raise ToolError(f"{len(whole)} replies, {received} counted, {sent} sent", "ping")
    times = [amount(1000 * float(match[1]), "a round trip") for match in whole]
    return PingResult(sent, received, times)


def quantiles_us(result: PingResult) -> dict[str, float | None]:
    """Return minimum, median, P99 and maximum round-trip time, None without replies."""
    shares = {"min_us": 0.0, "median_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
    if not result.round_trips_us:
        return dict.fromkeys(shares)
    found = np.quantile(result.round_trips_us, list(shares.values()), method="inverted_cdf")
    return dict(zip(shares, map(float, found), strict=True))
