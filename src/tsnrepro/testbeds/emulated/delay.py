"""Longer cables: a host between the switches that forwards frames after a delay.

It needs no queueing discipline: the program ``delayline`` keeps each frame in the kernel's receive
ring until it is due.
"""

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.host import RemoteHost, RemoteProcess
from tsnrepro.tools import delayline
from tsnrepro.tools.delayline import DelayStatistics

DELAY = "delay"


class DelayLine:
    """A running delay line between the ports ``aN`` (to sw1) and ``bN`` (to sw2) of its host.

    ``times_us`` are the path's delay and jitter.
    """

    def __init__(
        self,
        program: str,
        host: RemoteHost,
        path: int,
        times_us: tuple[float, float],
        deadline_s: float,
    ):
        self.towards_sw1, self.towards_sw2 = ports(path)
        delay, jitter = (str(round(time * 1000)) for time in times_us)
        command = [program, "--jitter", jitter, self.towards_sw1, self.towards_sw2, delay]
        self._process: RemoteProcess = host.start(command, deadline_s=deadline_s)
        line = self._process.read_line()
        if line != "ready":
            reason = self._process.wait().stderr.strip() or line
            raise TestbedError(f"cannot start the delay line of path {path}: {reason}", host.name)

    def read(self) -> str:
        """Return the statistics that the delay line prints."""
        return self._process.send_line("")

    def parse(self, text: str) -> dict[str, DelayStatistics]:
        """Return the statistics by direction: ``forth`` to sw2 and ``back`` to sw1."""
        return delayline.parse(text, forth=self.towards_sw1, back=self.towards_sw2)

    @property
    def running(self) -> bool:
        """Whether the program is running."""
        return self._process.running


def ports(path: int) -> tuple[str, str]:
    """Return the ports of a path's delay line: towards sw1 and towards sw2."""
    return f"a{path}", f"b{path}"
