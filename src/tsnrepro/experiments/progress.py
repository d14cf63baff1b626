"""What is running and how long is left, on the terminal and in the notebook."""

import os
import sys
import time
from typing import TextIO


class Progress:
    """Prints one line a trial: experiment, trial i of n, and the time that remains.

    The estimate is the time that the trials left take by their nominal seconds, scaled by how
    much longer, or shorter where several run at a time, the finished ones took. Lines go to the
    terminal that started the campaign where there is one (a notebook's own output is kept with the
    notebook), else to standard output.
    """

    def __init__(self, experiment: str, nominal_s: list[float]) -> None:
        self._experiment, self._nominal = experiment, nominal_s
        self._done: set[int] = set()
        self._began: float | None = None
        self._spent = 0.0
        self._terminal = _terminal()

    def begin(self, index: int, label: str) -> None:
        """Say that trial ``index`` (from 0) starts."""
        if self._began is None:
            self._began = time.monotonic()
        total = len(self._nominal)
        left = duration(self.remaining_s())
        line = f"{self._experiment}: trial {index + 1} of {total} ({label}), {left} left"
        print(line, flush=True)
        if self._terminal:
            print(line, file=self._terminal, flush=True)

    def end(self, index: int) -> None:
        """Say that trial ``index`` is recorded."""
        self._done.add(index)
        self._spent = time.monotonic() - (self._began or 0.0)

    def remaining_s(self) -> float:
        """Return the estimate of the seconds until the last trial is recorded."""
        done = sum(self._nominal[index] for index in self._done)
        ratio = self._spent / done if done else 1.0
        return ratio * (sum(self._nominal) - done)


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
