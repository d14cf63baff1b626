"""Exclusive use of a testbed: a lock on this machine, and a lease stored on the remote hosts.

Campaigns that run at the same time on one testbed would interfere. :class:`TestbedLock` excludes
other processes of this machine; :class:`HostLease` excludes other machines too.

A lease is a folder on each host, since creating a folder is atomic. It names its holder, the time
it was acquired, and when it expires by the host's own clock. It survives the death of its holder
and expires unless renewed: before each trial, and by a thread during long ones.
"""

import fcntl
import getpass
import os
import platform
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.shell import Shell

_FOLDER = "/run/tsnrepro-reservation"
_TAKEN = 75

# Reading and changing a lease is atomic under a lock on the parent folder, which the kernel
# releases with the shell. Boards without flock(1) have no lock.
_LOCKED = 'exec 9<"${1%/*}"; if command -v flock >/dev/null 2>&1; then flock 9 || exit 1; fi'
# Arguments: folder, token, seconds, holder. Renews a lease of the same token and replaces one that
# has expired or is incomplete.
_ACQUIRE = f"""\
{_LOCKED}
now=$(date +%s)
if ! mkdir "$1" 2>/dev/null && [ "$(cat "$1/token" 2>/dev/null)" != "$2" ]; then
    held=$(cat "$1/until" 2>/dev/null || echo 0)
    if [ "$now" -lt "$held" ]; then
        echo "$((held - now))"; cat "$1/holder"; exit {_TAKEN}
    fi
    rm -rf "$1" && mkdir "$1" || exit 1
fi
echo "$2" >"$1/token" && echo "$4" >"$1/holder" && echo "$((now + $3))" >"$1/ends" &&
    mv "$1/ends" "$1/until"
"""
_RELEASE = f'{_LOCKED}; [ "$(cat "$1/token" 2>/dev/null)" != "$2" ] || rm -rf "$1"'


def _timestamp() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


class TestbedLock:
    """Lock on a testbed, which the kernel releases when its holder ends.

    Raises TestbedError if another process holds the lock; the message names the process, its
    purpose and since when; or if the lock file is a link, a pipe or another user's file.
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
            holder = file.read().strip() or "an unidentified process"
            file.close()
            raise TestbedError(
                f"the testbed is in use by {holder}",
                str(self.path),
                "Wait for it to end, or end it",
            ) from error
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} ({self._purpose}) since {_timestamp()}\n")
        file.flush()
        self._file = file
        return self

    def _open(self) -> int:
        """Open or create the lock file, refusing anything that another user put in its place."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            try:
                descriptor = os.open(self.path, flags)
            except FileNotFoundError:
                # Two processes may both create it: the lock itself decides between them.
                descriptor = os.open(self.path, flags | os.O_CREAT, 0o600)
        except OSError as error:
            raise TestbedError(
                f"the lock file cannot be opened: {error.strerror}",
                str(self.path),
                "If no campaign is running, remove it; if it is another user's, ask them to",
            ) from error
        status = os.fstat(descriptor)
        # Through a link, another file would be overwritten.
        owned = status.st_uid == os.geteuid() or os.geteuid() == 0
        if not (stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and owned):
            os.close(descriptor)
            raise TestbedError(
                "the lock file is not a regular file of this user", str(self.path), "Remove it"
            )
        return descriptor

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


class HostLease:
    """Lease on all hosts of a testbed.

    ``shells``: commands on the hosts, by role; ``minutes``: time until it expires after the last
    renewal; ``purpose``: purpose of the campaign, for others who find the hosts leased. ``token``:
    identifies the holder; a new one by default.
    """

    def __init__(
        self, shells: Mapping[str, Shell], minutes: int, purpose: str, token: str = ""
    ) -> None:
        self._shells, self._seconds = shells, 60 * minutes
        self.token = token or secrets.token_hex(16)
        user = f"{getpass.getuser()} on {platform.node()}"
        self._holder = f"{user} ({purpose or 'no stated purpose'}) since {_timestamp()}"
        self._renewed_s, self._renewing = 0.0, Lock()

    def acquire(self) -> None:
        """Acquire the lease on all hosts, or on none.

        Raises TestbedError if a host is leased by another; the message names the holder, its
        purpose, since when and for how long.
        """
        acquired: list[str] = []
        try:
            for role in self._shells:
                self._acquire(role)
                acquired.append(role)
        except BaseException:
            self._release(acquired)
            raise
        self._renewed_s = time.monotonic()

    def renew(self) -> None:
        """Renew the lease if the last renewal is a tenth of its duration ago.

        Raises TestbedError if another has leased a host meanwhile, or a host cannot be reached. The
        others stay leased: they are still to be rolled back.
        """
        self._renew_after(self._seconds / 10)

    def _renew_after(self, seconds: float) -> None:
        with self._renewing:
            if time.monotonic() - self._renewed_s > seconds:
                for role in self._shells:
                    self._acquire(role)
                self._renewed_s = time.monotonic()

    @contextmanager
    def renewed_in_background(self) -> Iterator[None]:
        """Renew the lease during a block that may last longer than it.

        Rarely, since each renewal is a command on hosts that measure.
        """
        ended = Event()

        def renew() -> None:
            while not ended.wait(self._seconds / 20):
                # The next call of `renew` raises the reason.
                with suppress(TestbedError):
                    self._renew_after(self._seconds / 2)

        thread = Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def release(self) -> None:
        """Release all hosts.

        Raises TestbedError if a host cannot be reached. All others are released.
        """
        self._release(list(self._shells))

    def _acquire(self, role: str) -> None:
        shell = self._shells[role]
        arguments = [_FOLDER, self.token, str(self._seconds), self._holder]
        completed = shell.query(["sh", "-c", _ACQUIRE, "sh", *arguments])
        if completed.exit_status == _TAKEN:
            left, _, holder = completed.stdout.strip().partition("\n")
            duration = f"another {ceil(int(left) / 60)} min" if left.isdigit() else "some time"
            raise TestbedError(
                f"the rack is leased by {holder or 'an unknown holder'}, for {duration}",
                role,
                "Wait until it is released or expires; rebooting a host removes its lease",
            )
        if completed.exit_status:
            raise TestbedError(f"cannot create a lease: {completed.stderr.strip()[-300:]}", role)

    def _release(self, roles: list[str]) -> None:
        errors = []
        for role in roles:
            try:
                self._shells[role].query(["sh", "-c", _RELEASE, "sh", _FOLDER, self.token])
            except TestbedError as error:
                errors.append(error)
        if errors:
            raise errors[0]
