"""delayline, the program that hands frames on a constant time later: what it prints."""

import json
from dataclasses import dataclass

from tsnrepro.errors import ToolError


@dataclass(frozen=True)
class DelayStatistics:
    """What one direction of a delay line did since it was started.

    Delays run from the kernel's time of arrival to the return of the call that sent the frame, in
    microseconds; quantiles are rounded down to the microsecond.
    """

    wanted_us: float
    frames: int
    bytes: int
    ring_drops: int
    """Frames that found the ring of waiting frames full."""
    send_errors: int
    min_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float

    @property
    def lost(self) -> int:
        """Frames that came in and did not go out."""
        return self.ring_drops + self.send_errors


def parse(text: str, *, forth: str, back: str) -> dict[str, DelayStatistics]:
    """Return the statistics of both directions: ``forth`` to sw2 and ``back`` to sw1.

    Parameters
    ----------
    text
        What a running delay line printed.
    forth, back
        The ports at which the frames of each direction come in.

    Raises
    ------
    ToolError
        The text is not what a delay line prints.
    """
    try:
        found = json.loads(text)
        ways = {"forth": found[forth], "back": found[back]}
        return {way: _statistics(found["wanted_us"], item) for way, item in ways.items()}
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ToolError(f"delayline printed: {text.strip()[:300] or 'nothing'}") from error


def _statistics(wanted_us: float, item: dict) -> DelayStatistics:
    delay = item["delay_us"]
    return DelayStatistics(
        wanted_us=wanted_us,
        **{name: item[name] for name in ("frames", "bytes", "ring_drops", "send_errors")},
        **{f"{name}_us": delay[name] for name in ("min", "p50", "p90", "p99", "p999", "max")},
    )
