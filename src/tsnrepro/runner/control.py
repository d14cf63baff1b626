"""What is being measured, and what other processes ask of it: to stop, or to skip a trial.

Whoever measures keeps a file locked while it lives. Its first line says who it is; requests are
appended to it. A workflow has one, and each of its runs; a run reads both before each attempt at a
trial, the one place where a campaign can be stopped.
"""

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from tsnrepro.common.errors import RecordError, TsnreproError

RUN_CONTROL = ".control"
"""The file's name in the folder of a run's trials."""
WORKFLOW_CONTROL = Path(".snakemake") / "tsnrepro-control"
"""The workflow's file, in the repository."""
WORKFLOW_VARIABLE = "TSNREPRO_WORKFLOW_CONTROL"
"""Environment variable of a workflow's jobs: the path of its file."""

STOP, SKIP = "stop", "skip"
TRIAL, EXPERIMENT = "trial", "experiment"
# Wakes a run that waits for a tool; requests alone are seen when the tool ends.
_WAKE = signal.SIGUSR1
# Another process that looks whether the file is locked holds a lock itself for a moment.
_TRIES, _BETWEEN_SECONDS = 20, 0.05


class StoppedError(TsnreproError):
    """The run was asked to stop; what it measured is recorded."""


class SkippedError(TsnreproError):
    """The trial is not to be measured; ``what`` is the reason that was given."""


@contextmanager
def controlled(path: Path, who: dict[str, Any]) -> Iterator[None]:
    """Keep a control file locked during the block; it is removed at the end.

    Where another process holds it, as two may on the model, that one is controlled and this is not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        held = _locked(file)
        if held:
            file.truncate(0)
            file.write(json.dumps(who | {"pid": os.getpid()}) + "\n")
            file.flush()
        try:
            yield
        finally:
            if held:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # a run without trials leaves no folder
                    os.removedirs(path.parent)


def _locked(file: IO[str]) -> bool:
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_BETWEEN_SECONDS)
    return False


def holder_of(path: Path) -> dict[str, Any] | None:
    """Return what the process that holds a control file said of itself, None if none does."""
    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return json.loads(file.readline() or "null")
    except (OSError, ValueError):
        pass
    return None


def request(path: Path, kind: str, **details: Any) -> None:
    """Append a request to a control file.

    Raises RecordError if it cannot be written, as another user's.
    """
    line = json.dumps({"request": kind, "time": time.time(), **details})
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise RecordError(
            f"the request cannot be written: {error.strerror}",
            str(path),
            "Run this as the user who started the campaign",
        ) from error


def requests_in(path: Path | None) -> list[dict[str, Any]]:
    """Return the requests in a control file, none if it is gone."""
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return []
    return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class LiveRun:
    """A run that is measured now.

    ``testbed``, ``campaign``, ``experiment``: their names; ``pid``: its process; ``control``: its
    control file.
    """

    testbed: str
    campaign: str
    experiment: str
    pid: int
    control: Path

    @property
    def names(self) -> tuple[str, str, str]:
        """Testbed, campaign and experiment."""
        return self.testbed, self.campaign, self.experiment

    def skip(self, what: str, because: str) -> None:
        """Ask it to record as skipped what it measures now: the trial or the whole experiment.

        Raises RecordError if the run is another user's.
        """
        request(self.control, SKIP, what=what, because=because)
        with suppress(ProcessLookupError):
            os.kill(self.pid, _WAKE)


def is_named(wanted: Iterable[str | None], names: Iterable[str]) -> bool:
    """Tell whether a run has these names; None stands for any."""
    return all(name in (None, own) for name, own in zip(wanted, names, strict=True))


def live_runs(raw_root: Path) -> list[LiveRun]:
    """Return the runs of a raw store that are measured now."""
    found = []
    for path in sorted(raw_root.glob(f"*/*/*/{RUN_CONTROL}")):
        if (who := holder_of(path)) is not None:
            found.append(LiveRun(*path.parts[-4:-1], pid=who["pid"], control=path))
    return found


class RunControl:
    """The requests to one run, as its loop over trials reads them.

    ``folder``: the folder of the run's trials; None is a run that nobody can reach.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file = folder / RUN_CONTROL if folder else None
        workflow = os.environ.get(WORKFLOW_VARIABLE)
        self._workflow = Path(workflow) if workflow else None
        self._began: float | None = None

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Take requests during the block."""
        if self._file is None:
            yield
            return
        # Only a process's main thread takes signals.
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(_WAKE, self._wake) if in_main else None
        try:
            with controlled(self._file, {}):
                yield
        finally:
            if in_main:
                signal.signal(_WAKE, before)

    def check(self) -> None:
        """Raise :class:`StoppedError` if the run, or its workflow, was asked to stop."""
        asked = [*requests_in(self._file), *requests_in(self._workflow)]
        if any(each["request"] == STOP for each in asked):
            raise StoppedError(
                "stopped as requested",
                str(self._file.parent) if self._file else "",
                "Measured trials are recorded; run this again to go on",
            )

    @contextmanager
    def skippable(self) -> Iterator[None]:
        """Raise :class:`SkippedError` from the block if what it measures is to be skipped.

        In the main thread that ends what the block waits for; elsewhere it is raised at its end.
        """
        began = time.time()
        if threading.current_thread() is threading.main_thread():
            self._began = began
        try:
            self._raise_skipped(began)
            yield
            self._raise_skipped(began)
        finally:
            self._began = None

    def _raise_skipped(self, began: float) -> None:
        for each in requests_in(self._file):
            if each["request"] == SKIP and (each["what"] == EXPERIMENT or each["time"] >= began):
                raise SkippedError(each["because"])

    def _wake(self, _number: int, _frame: FrameType | None) -> None:
        if self._began is not None:
            self._raise_skipped(self._began)
