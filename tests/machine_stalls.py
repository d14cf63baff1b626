"""How long the machine stood still while a test ran that goes by time.

A virtual machine may be given no processor for a fraction of a second. What such a test then sees
is the machine's and not the program's, as it is in a trial beside the stall meter: it is run again.
Many short waits are as bad as a long one.
What fails on a machine that did not stall is told as it is.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time

_THRESHOLD_MS = 40.0
_SHORTEST_SECONDS = 0.005
_PERIOD_SECONDS = 0.01


class MachineStalls:
    """A process beside the tests that says when a processor did not run it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._told = b""

    def begin(self) -> None:
        """Forget what was; start the process where it does not run yet."""
        if self._process is None:
            self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE)
            os.set_blocking(self._process.stdout.fileno(), False)
        self._read()
        self._told = b""

    def total_ms(self) -> float:
        """Return the sum of the stalls since ``begin``, 0 where it is not beyond the threshold."""
        self._read()
        total = sum(float(line) for line in self._told.splitlines())
        return total if total > _THRESHOLD_MS else 0.0

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _read(self) -> None:
        while self._process is not None and (more := self._process.stdout.read()):
            self._told += more


def _watch(processor: int, parent: int) -> None:
    """Write each wait of some length, in ms, until the parent is another."""
    os.sched_setaffinity(0, {processor})
    with contextlib.suppress(PermissionError):  # then the waits for other programs count too
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while os.getppid() == parent:
        due = time.monotonic() + _PERIOD_SECONDS
        time.sleep(_PERIOD_SECONDS)
        late = time.monotonic() - due
        if late > _SHORTEST_SECONDS:
            os.write(1, f"{1000 * late:.1f}\n".encode())


if __name__ == "__main__":
    for number in os.sched_getaffinity(0):
        threading.Thread(target=_watch, args=(number, os.getppid())).start()
