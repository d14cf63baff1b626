"""Results that bear times after now, because the clock was set back since they were made.

Snakemake makes a file again that is older than what it was made from. Against a result of tomorrow
nothing is newer, not even a campaign that is edited now: it would be passed over without a word.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TOLERATED_NS = 2_000_000_000
"""A file server's clock may be ahead of ours by so much."""
_TICK_NS = 20_000_000
"""More than a file's time may be behind the clock: the kernel takes the one of its last tick."""


def clamp_future_mtimes(folder: Path) -> None:
    """Let all below a folder that bears a time after now bear one just before now; say so.

    Their order stays. What belongs to somebody else is left to whoever writes there.
    """
    now = time.time_ns()
    latest = now - _TICK_NS
    future = sorted((stamp, path) for stamp, path in _stamps(folder) if stamp > now + _TOLERATED_NS)
    if not future:
        return
    print(
        f"tsnrepro: {len(future)} files and folders in {folder} bear times after now, so the clock "
        "was set back since; they count as made now, and some may be made again",
        file=sys.stderr,
    )
    for left, (_, path) in zip(range(len(future), 0, -1), future, strict=True):
        # A microsecond apart: what was made from another stays the newer one.
        stamp = latest - 1000 * left
        with suppress(OSError):
            os.utime(path, ns=(stamp, stamp), follow_symlinks=False)


def _stamps(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.rglob("*"):
        try:
            yield path.lstat().st_mtime_ns, path
        except OSError:
            continue  # gone meanwhile
