"""Longer cables: a host between the switches that hands frames on a constant time later.

No queueing discipline with a delay is needed: the program ``delayline`` keeps each frame in the
ring that the kernel received it into, until it is due.
"""

import json
from dataclasses import dataclass

from tsnrepro.errors import TestbedError, ToolError
from tsnrepro.testbed.host import Host, RemoteProcess

DELAY = "delay"


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


class DelayLine:
    """A running delay line between the ports ``aN`` (to sw1) and ``bN`` (to sw2) of its host."""

    def __init__(self, program: str, host: Host, path: int, delay_us: float, deadline_s: float):
        self.towards_sw1, self.towards_sw2 = ports(path)
        nanoseconds = str(round(delay_us * 1000))
        command = [program, self.towards_sw1, self.towards_sw2, nanoseconds]
        self._process: RemoteProcess = host.start(command, deadline_s=deadline_s)
        answer = self._process.read_line()
        if answer != "ready":
            said = self._process.wait().stderr.strip() or answer
            raise TestbedError(f"no delay line for path {path}: {said}", host.name)

    def read(self) -> str:
        """Return what the delay line did so far, as it prints it."""
        return self._process.send_line("")

    def parse(self, text: str) -> dict[str, DelayStatistics]:
        """Return the statistics of both directions: ``forth`` to sw2 and ``back`` to sw1.

        Raises
        ------
        ToolError
            The text is not what a delay line prints.
        """
        try:
            found = json.loads(text)
            ways = {"forth": found[self.towards_sw1], "back": found[self.towards_sw2]}
            return {way: _statistics(found["wanted_us"], item) for way, item in ways.items()}
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ToolError(f"delayline printed: {text.strip()[:300] or 'nothing'}") from error


def ports(path: int) -> tuple[str, str]:
    """Return the ports of a path's delay line: towards sw1 and towards sw2."""
    return f"a{path}", f"b{path}"


def _statistics(wanted_us: float, item: dict) -> DelayStatistics:
    delay = item["delay_us"]
    return DelayStatistics(
        wanted_us=wanted_us,
        frames=item["frames"],
        bytes=item["bytes"],
        ring_drops=item["ring_drops"],
        send_errors=item["send_errors"],
        min_us=delay["min"],
        p50_us=delay["p50"],
        p90_us=delay["p90"],
        p99_us=delay["p99"],
        p999_us=delay["p999"],
        max_us=delay["max"],
    )
