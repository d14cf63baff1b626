"""One campaign at a time on a testbed: measurements that share a machine measure each other."""

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import IO

from tsnrepro.errors import TestbedError


class TestbedLock:
    """A lock on a testbed of this machine, released by the kernel when its holder ends.

    Raises
    ------
    TestbedError
        Another process holds it; the message names the process, its purpose and since when.
    """

    __test__ = False

    def __init__(self, testbed: str, purpose: str = "") -> None:
        self.path = Path(tempfile.gettempdir()) / f"tsnrepro-{testbed}.lock"
        self._purpose = purpose or "no stated purpose"
        self._file: IO[str] | None = None

    def __enter__(self) -> "TestbedLock":
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        file = os.fdopen(handle, "r+", encoding="utf-8")
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

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
