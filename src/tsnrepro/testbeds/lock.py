"""One campaign at a time on a testbed: measurements that share a machine measure each other."""

import fcntl
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import IO

from tsnrepro.common.errors import TestbedError


class TestbedLock:
    """A lock on a testbed of this machine, released by the kernel when its holder ends.

    Raises
    ------
    TestbedError
        Another process holds it, and the message names the process, its purpose and since when;
        or a link, a pipe or another user's file lies where it should be.
    """

    __test__ = False

    def __init__(self, testbed: str, purpose: str = "") -> None:
        self.path = Path(tempfile.gettempdir()) / f"tsnrepro-{testbed}.lock"
        self._purpose = purpose or "no stated purpose"
        self._file: IO[str] | None = None

    def __enter__(self) -> "TestbedLock":
        file = os.fdopen(self._open(), "r+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = file.read().strip() or "a process that has not yet said who it is"
            file.close()
            raise TestbedError(
                f"the testbed is in use by {holder}",
                str(self.path),
                "Wait for it to end, or end it",
            ) from error
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} ({self._purpose}) since {since}\n")
        file.flush()
        self._file = file
        return self

    def _open(self) -> int:
        """Open the lock's file, or make it, and nothing that another user has put in its place."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            try:
                handle = os.open(self.path, flags)
            except FileNotFoundError:
                # Two that come at once both make it: the lock itself decides between them.
                handle = os.open(self.path, flags | os.O_CREAT, 0o600)
        except OSError as error:
            raise TestbedError(
                f"the testbed's lock cannot be opened: {error.strerror}",
                str(self.path),
                "If no campaign runs, remove this file; if another user made it, ask them to",
            ) from error
        found = os.fstat(handle)
        # A link to another file would have that file overwritten.
        owned = found.st_uid == os.geteuid() or os.geteuid() == 0
        if not (stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and owned):
            os.close(handle)
            raise TestbedError(
                "the testbed's lock is not a file of this user's own", str(self.path), "Remove it"
            )
        return handle

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
