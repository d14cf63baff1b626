"""delayline, our program that forwards frames after a delay: its output."""

import json
from dataclasses import dataclass
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount, count


@dataclass(frozen=True)
class DelayStatistics:
    """Statistics of one direction of a delay line since its start.

    Delays are from the kernel's receive time to the return of the call that sent the frame, in
    microseconds; quantiles are rounded down to the microsecond.
    """

    wanted_us: float
    jitter_us: float
    """What a frame may take longer, uniformly distributed."""
    frames: int
    bytes: int
    ring_drops: int
    """Frames dropped because the ring was full."""
    send_errors: int
    min_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float

    @property
    def lost(self) -> int:
        """Frames that were received and not sent."""
        return self.ring_drops + self.send_errors


def parse(text: str, *, forth: str, back: str) -> dict[str, DelayStatistics]:
    """Return the statistics by direction: ``forth`` to sw2 and ``back`` to sw1.

    ``text``: output of a running delay line; ``forth`` and ``back``: ports that receive the frames
    of each direction. Raises ToolError if it is not the output of a delay line.
    """
    try:
        found = json.loads(text)
        ways = {"forth": found[forth], "back": found[back]}
        return {way: _statistics(found, item) for way, item in ways.items()}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise ToolError(f"delayline printed: {text.strip()[:300] or 'nothing'}") from error


def _statistics(found: dict, item: dict) -> DelayStatistics:
    delay = item["delay_us"]
    counts = ("frames", "bytes", "ring_drops", "send_errors")
    times = ("min", "p50", "p90", "p99", "p999", "max")
    counted: dict[str, Any] = {name: count(item[name], f"delayline's {name}") for name in counts}
    timed: dict[str, Any] = {
        f"{name}_us": amount(delay[name], f"delayline's {name}") for name in times
    }
    timed |= {
        name: amount(found[name], f"delayline's {name}") for name in ("wanted_us", "jitter_us")
    }
    return DelayStatistics(**counted, **timed)
