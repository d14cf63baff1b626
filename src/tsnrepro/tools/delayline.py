"""delayline, the program that hands frames on a constant time later: what it prints."""

import json
from dataclasses import dataclass
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.plausible import amount, count


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
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise ToolError(f"delayline printed: {text.strip()[:300] or 'nothing'}") from error


def _statistics(wanted_us: float, item: dict) -> DelayStatistics:
    delay = item["delay_us"]
    counts = ("frames", "bytes", "ring_drops", "send_errors")
    times = ("min", "p50", "p90", "p99", "p999", "max")
    counted: dict[str, Any] = {name: count(item[name], f"delayline's {name}") for name in counts}
    timed: dict[str, Any] = {
        f"{name}_us": amount(delay[name], f"delayline's {name}") for name in times
    }
    return DelayStatistics(wanted_us=amount(wanted_us, "delayline's wanted_us"), **counted, **timed)
