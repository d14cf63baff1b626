"""What the Snakefile does before Snakemake schedules: locks, times of files, signals."""

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from tsnrepro.common.processes import AFTER_EXIT
from tsnrepro.runner.control import (
    STOP,
    WORKFLOW_CONTROL,
    WORKFLOW_VARIABLE,
    controlled,
    live_runs,
    request,
)

# A file server's clock may be ahead of ours by this much.
_TOLERATED_NS = 2_000_000_000
# A file's time is that of the kernel's last tick, so it may be this much behind the clock.
_TICK_NS = 20_000_000

# Time for an interrupted run to take its testbed down, before what is left of it is killed. A busy
# machine needs seconds more to end Snakemake itself.
_INTERRUPT_SECONDS = 1.0

_lock: list[IO[str]] = []  # held until this process ends
_control = ExitStack()  # likewise


def release_stale_lock(folder: Path = Path(".snakemake")) -> None:
    """Remove the locks that killed Snakemakes left in a working folder.

    Snakemake locks a folder by files in ``.snakemake/locks``, which remain if it is killed. Each
    Snakemake that calls this holds a kernel lock too, which ends with its process: if nobody holds
    that one, the files are stale. Whether two may run at a time remains Snakemake's decision.
    """
    if _lock:
        return
    try:
        folder.mkdir(exist_ok=True)
        file = (folder / "alive.lock").open("a", encoding="utf-8")
    except OSError:  # another user's folder, which Snakemake reports
        return
    _lock.append(file)
    with suppress(OSError):  # another one runs, or the file system has no such locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stale = list((folder / "locks").glob("*.lock"))
        for path in stale:
            path.unlink(missing_ok=True)
        if stale:
            print("tsnrepro: the last run was killed; resuming it", file=sys.stderr)
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH)


def clamp_future_mtimes(folder: Path) -> None:
    """Set modification times after now to just before now, in their order, with a notice.

    Results bear such times if the clock was set back. Nothing would be newer than they are, and
    Snakemake would ignore edits. Files of other users are left as they are.
    """
    now = time.time_ns()
    future = sorted((ns, path) for ns, path in _mtimes(folder) if ns > now + _TOLERATED_NS)
    if not future:
        return
    print(
        f"tsnrepro: {len(future)} files and folders in {folder} have modification times in the "
        "future, as after the clock was set back; they are set to now",
        file=sys.stderr,
    )
    for left, (_, path) in zip(range(len(future), 0, -1), future, strict=True):
        # One microsecond apart, so that their order remains.
        stamp = now - _TICK_NS - 1000 * left
        with suppress(OSError):
            os.utime(path, ns=(stamp, stamp), follow_symlinks=False)


def _mtimes(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.rglob("*"):
        with suppress(OSError):  # removed meanwhile
            yield path.lstat().st_mtime_ns, path


def disable_rate_limiter(scheduler: Any) -> None:
    """Let Snakemake's scheduler sleep until a job ends.

    To enforce ``--max-jobs-per-timespan``, which has no value for "unlimited", it examines all
    waiting jobs once per second, and again for each finished job: up to two thirds of a processor
    that experiments are measured on.

    Parameters
    ----------
    scheduler
        ``workflow.scheduler`` in a Snakefile, once the workflow has started.
    """
    scheduler.job_rate_limiter = None


def stop_on_signals(
    scheduler: Any, campaigns: Iterable[tuple[str, str]], notify: Callable[[str], None]
) -> None:
    """Let SIGTERM and SIGINT end the workflow after the trial that is measured then.

    Analyses and papers that are being made then are finished. After a second signal all jobs end
    within five seconds; what was measured is recorded in any case.

    Parameters
    ----------
    scheduler
        ``workflow.scheduler`` in a Snakefile, once the workflow has started.
    campaigns
        Testbed and campaign of what is measured, for ``tsnrepro stop``.
    notify
        Called with what happens at a signal.
    """
    path = WORKFLOW_CONTROL.absolute()
    _control.enter_context(controlled(path, {"campaigns": [list(each) for each in campaigns]}))
    os.environ[WORKFLOW_VARIABLE] = str(path)
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) > 1:
            notify("tsnrepro: ending all jobs")
            threading.Thread(target=_end_jobs, daemon=True).start()
            return
        notify("tsnrepro: stopping after what runs now; once more to stop at once")
        request(path, STOP)
        # Not here: this thread may hold the scheduler's lock.
        threading.Thread(target=scheduler.exit_gracefully, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _end_jobs() -> None:
    """Interrupt the runs that jobs measure, end other jobs, and kill what is left."""
    jobs = _descendants(os.getpid())
    runs = {run.pid for run in live_runs(Path("data") / "raw")} & jobs
    for pid in runs or jobs:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT if runs else signal.SIGTERM)
    end = time.monotonic() + _INTERRUPT_SECONDS
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in runs):
        time.sleep(0.05)
    for pid in _descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> set[int]:
    """Return the processes below one, without those that clean up after a killed one."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it ended meanwhile
            for child in map(int, path.read_text().split()):
                if not _cleans_up(child):
                    found |= {child} | _descendants(child)
    return found


def _cleans_up(pid: int) -> bool:
    with suppress(OSError):
        return AFTER_EXIT.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False
