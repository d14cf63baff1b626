"""What is running and how long is left, on the terminal and in the notebook."""

import os
import sys
import threading
import time
from collections.abc import Iterable
from html import escape
from typing import Any, TextIO

from tsnrepro.common.counts import plural
from tsnrepro.common.durations import duration

# Where lines cannot be written over one another, as in a file, one is written so often.
_LINE_EVERY_SECONDS = 60
_CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Shows the experiment, trial i of n, and the time that remains.

    The estimate is the time that the trials left take by their nominal seconds, if each takes as
    many times longer, and as many seconds besides, as the finished ones did; where several run at
    a time, as much shorter as these were together.

    A notebook shows a bar, anything else prints one line a trial. Where a campaign was started from
    a terminal it is shown there too: in one line that is written over, or, where the terminal is a
    file or a pipe, in a line every minute, also during a trial that takes longer.
    """

    def __init__(
        self, experiment: str, nominal_s: Iterable[float] = (), *, testbed: str = ""
    ) -> None:
        self._experiment, self._nominal = experiment, list(nominal_s)
        self._testbed = f"{testbed} " if testbed else ""
        self._label = ""
        self._closed = threading.Event()
        self._begun: dict[int, float] = {}
        self._took: dict[int, float] = {}
        self._began: float | None = None
        self._spent = 0.0
        self._terminal = _terminal()
        self._bar = _notebook_bar()
        if self._terminal is not None and not self._terminal.isatty():
            threading.Thread(target=self._write_lines, daemon=True).start()

    def close(self) -> None:
        """Write no more lines."""
        self._closed.set()

    def further(self, nominal_s: list[float]) -> int:
        """Count further trials in, and return the index of the first of them."""
        first = len(self._nominal)
        self._nominal += nominal_s
        return first

    def begin(self, index: int, label: str) -> None:
        """Say that trial ``index`` (from 0) starts."""
        self._begun[index] = time.monotonic()
        if self._began is None:
            self._began = self._begun[index]
        total = len(self._nominal)
        left = duration(self.remaining_s())
        self._label = f"trial {index + 1} of {total} ({label})"
        self._show(f"{self._experiment}: {self._label}, {left} left")

    def end(self, index: int) -> None:
        """Say that trial ``index`` is recorded."""
        now = time.monotonic()
        self._took[index] = now - self._begun[index]
        self._spent = now - (self._began or 0.0)
        if len(self._took) == len(self._nominal):
            self._finish()

    def remaining_s(self) -> float:
        """Return the estimate of the seconds until the last trial is recorded."""
        ended = dict(self._took)  # a copy: other threads add to it meanwhile
        left = [seconds for n, seconds in enumerate(self._nominal) if n not in ended]
        pairs = [(self._nominal[n], took) for n, took in ended.items()]
        return remaining_s(left, pairs, self._spent)

    def _show(self, line: str) -> None:
        if self._bar:
            self._bar.update(_Bar(line, len(self._took), len(self._nominal)))
        else:
            print(line, flush=True)
        if self._terminal is None:
            return
        if self._terminal.isatty():
            columns = os.get_terminal_size(self._terminal.fileno()).columns or 80
            # Shorter than the line, so that nothing wraps and all of it can be written over.
            self._terminal.write(f"{_CLEAR_LINE}{line[: columns - 1]}")
            self._terminal.flush()
        elif len(self._begun) == 1 and not self._took:
            self._write_line(self._terminal)  # the others by the minute

    def _write_lines(self) -> None:
        """Write a line every minute, whatever a trial takes."""
        while not self._closed.wait(_LINE_EVERY_SECONDS):
            if self._terminal is not None and self._begun:
                self._write_line(self._terminal)

    def _write_line(self, log: TextIO) -> None:
        done = f"{len(self._took)} done, {duration(self.remaining_s())} left"
        log.write(f"{self._testbed}{self._experiment}: {self._label}, {done}\n")
        log.flush()

    def _finish(self) -> None:
        total = len(self._nominal)
        done = f"{self._experiment}: {plural(total, 'trial')} recorded in {duration(self._spent)}"
        if self._bar:
            self._bar.update(_Bar(done, total, total))
        if self._terminal is not None and self._terminal.isatty():
            self._terminal.write(_CLEAR_LINE)
            self._terminal.flush()


def remaining_s(left: list[float], ended: list[tuple[float, float]], spent_s: float) -> float:
    """Return the estimate of the seconds that trials take, from those that ended.

    ``left``: nominal seconds of each trial that is left; ``ended``: nominal seconds, and those it
    took, of each that ended. ``spent_s``: seconds in which these ended: fewer than their sum where
    several ran at a time.
    """
    apart = sum(took for _, took in ended)
    if not apart:
        return sum(left)
    times, besides = _line(ended)
    return spent_s / apart * (times * sum(left) + besides * len(left))


def _line(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and intercept of durations over nominal seconds, neither of them negative.

    It is the line of least squares; through the origin where that one's intercept is negative or
    all trials are alike.
    """
    count = len(pairs)
    nominal, took = (sum(values) / count for values in zip(*pairs, strict=True))
    spread = sum((n - nominal) ** 2 for n, _ in pairs)
    through_origin = (took / nominal, 0.0) if nominal else (0.0, took)
    if not spread:
        return through_origin
    times = sum((n - nominal) * (t - took) for n, t in pairs) / spread
    besides = took - times * nominal
    if times < 0:
        return 0.0, took
    return through_origin if besides < 0 else (times, besides)


class _Bar:
    """A bar with a line beside it: as HTML where a notebook shows it, else as text."""

    def __init__(self, line: str, done: int, total: int) -> None:
        self._line, self._done, self._total = line, done, total

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        line = escape(self._line)
        bar = f'<progress value="{self._done}" max="{self._total}" aria-label="{line}"></progress>'
        return f"{bar} {line}"


def _notebook_bar() -> Any:
    """Return the handle of an output of this notebook's cell, None where this is no notebook."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython  # noqa: PLC0415
    from IPython.display import DisplayHandle  # noqa: PLC0415

    if not hasattr(get_ipython(), "kernel"):
        return None
    handle = DisplayHandle()
    handle.display(_Bar("nothing is missing", 1, 1))
    return handle


def _terminal() -> TextIO | None:
    # Snakemake and papermill both keep a job's output from the terminal.
    path = os.environ.get("TSNREPRO_PROGRESS")
    if not path:
        return None
    try:
        return open(path, "a", encoding="utf-8")
    except OSError as error:
        print(f"no progress on {path}: {error}", file=sys.stderr)
        return None
