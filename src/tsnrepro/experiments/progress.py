"""What is running and how long is left, on the terminal and in the notebook."""

import os
import sys
import time
from collections.abc import Iterable
from html import escape
from typing import Any, TextIO

# Where lines cannot be written over one another, as in a file, so much time lies between them.
_LINE_EVERY_SECONDS = 120
_CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Shows the experiment, trial i of n, and the time that remains.

    The estimate is the time that the trials left take by their nominal seconds, scaled by how
    much longer, or shorter where several run at a time, the finished ones took.

    A notebook shows a bar, anything else prints one line a trial. Where a campaign was started from
    a terminal it is told there too: in one line that is written over, or, where the terminal is a
    file or a pipe, in a line every two minutes.
    """

    def __init__(self, experiment: str, nominal_s: Iterable[float] = ()) -> None:
        self._experiment, self._nominal = experiment, list(nominal_s)
        self._done: set[int] = set()
        self._began: float | None = None
        self._spent = 0.0
        self._terminal = _terminal()
        self._told_s: float | None = None
        self._bar = _notebook_bar()

    def further(self, nominal_s: list[float]) -> int:
        """Count further trials in, and return the index of the first of them."""
        first = len(self._nominal)
        self._nominal += nominal_s
        return first

    def begin(self, index: int, label: str) -> None:
        """Say that trial ``index`` (from 0) starts."""
        if self._began is None:
            self._began = time.monotonic()
        total = len(self._nominal)
        left = duration(self.remaining_s())
        self._show(f"{self._experiment}: trial {index + 1} of {total} ({label}), {left} left")

    def end(self, index: int) -> None:
        """Say that trial ``index`` is recorded."""
        self._done.add(index)
        self._spent = time.monotonic() - (self._began or 0.0)
        if len(self._done) == len(self._nominal):
            self._finish()

    def remaining_s(self) -> float:
        """Return the estimate of the seconds until the last trial is recorded."""
        done = sum(self._nominal[index] for index in self._done)
        ratio = self._spent / done if done else 1.0
        return ratio * (sum(self._nominal) - done)

    def _show(self, line: str) -> None:
        if self._bar:
            self._bar.update(_Bar(line, len(self._done), len(self._nominal)))
        else:
            print(line, flush=True)
        if self._terminal is None:
            return
        if self._terminal.isatty():
            columns = os.get_terminal_size(self._terminal.fileno()).columns or 80
            # Shorter than the line, so that nothing wraps and all of it can be written over.
            self._terminal.write(f"{_CLEAR_LINE}{line[: columns - 1]}")
        elif self._told_s is None or time.monotonic() - self._told_s >= _LINE_EVERY_SECONDS:
            self._told_s = time.monotonic()
            self._terminal.write(f"{line}\n")
        self._terminal.flush()

    def _finish(self) -> None:
        total = len(self._nominal)
        said = f"{self._experiment}: {total} trials recorded in {duration(self._spent)}"
        if self._bar:
            self._bar.update(_Bar(said, total, total))
        if self._terminal is not None and self._terminal.isatty():
            self._terminal.write(_CLEAR_LINE)
            self._terminal.flush()


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


def duration(seconds: float) -> str:
    """Return a duration as people say it: ``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
