"""Snakemake's lock on the working folder, released when its owner is dead.

Snakemake locks a folder by files in ``.snakemake/locks``. One that is killed leaves them behind,
and every later run would stop there. So each Snakemake that reads this repository's rules holds a
kernel lock too, which ends with its process: where nobody holds that one, Snakemake's is stale.
"""

import fcntl
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

_held: list[IO[str]] = []  # until this process ends


def release_stale_lock(folder: Path = Path(".snakemake")) -> None:
    """Remove what dead Snakemakes left locked in a working folder, and count as a living one.

    While another one lives, nothing is removed: whether two may run is then Snakemake's to say.
    """
    if _held:
        return
    try:
        folder.mkdir(exist_ok=True)
        file = (folder / "alive.lock").open("a", encoding="utf-8")
    except OSError:  # another user's folder: Snakemake says so itself
        return
    _held.append(file)
    with suppress(OSError):  # another one lives, or the file system has no such locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(list((folder / "locks").glob("*.lock")))
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH)


def _remove(locks: list[Path]) -> None:
    for path in locks:
        path.unlink(missing_ok=True)
    if locks:
        print("tsnrepro: an earlier run was killed; going on where it stopped", file=sys.stderr)
