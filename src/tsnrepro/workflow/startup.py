"""What the Snakefile does before Snakemake schedules: locks, modification times, the scheduler."""

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

# A file server's clock may be ahead of ours by this much.
_TOLERATED_NS = 2_000_000_000
# A file's time is that of the kernel's last tick, so it may be this much behind the clock.
_TICK_NS = 20_000_000

_lock: list[IO[str]] = []  # held until this process ends


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
