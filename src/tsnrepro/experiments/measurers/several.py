"""Several streams at once: what each kind of testbed returns of them, one row a stream."""

from dataclasses import dataclass
from typing import Any

FIRST_PORT = 5300
BEST_EFFORT_PORT = 5400
BEST_EFFORT_PAYLOAD_BYTES = 1472


def sendings(factors: dict[str, Any]) -> list[tuple[str, int, int, float]]:
    """Return name, port, payload and rate (datagrams/s) of every sending of a trial.

    The streams come first; best effort, where there is any, last.
    """
    streams = [
        (f"stream-{number}", FIRST_PORT + number, factors["payload_bytes"], factors["rate_pps"])
        for number in range(factors["streams"])
    ]
    rate = factors["best_effort_mbps"] * 1e6 / 8 / BEST_EFFORT_PAYLOAD_BYTES
    best_effort = [("best effort", BEST_EFFORT_PORT, BEST_EFFORT_PAYLOAD_BYTES, rate)]
    return [*streams, *(best_effort if rate else [])]


@dataclass(frozen=True)
class Sent:
    """What became of one sending, in datagrams; best effort has no recovery function.

    ``recovery`` counts what happened during the trial (clause 10 of IEEE Std 802.1CB-2017).
    """

    stream: str
    sent: int
    unique: int
    duplicates: int
    reordered: int
    recovery: dict[str, int] | None
