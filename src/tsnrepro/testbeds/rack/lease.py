"""A rack is one campaign's at a time, whoever's machine that runs on: the lock lies on its hosts.

A reservation is a folder on each host, because making a folder either succeeds or finds it there.
It says whose it is, since when, and until when it holds by the host's own clock. It outlives the
death of whoever made it and ends by itself; each sign of life moves its end. Signs of life come
before trials, and during those that are so long that it would end meanwhile.
"""

import getpass
import platform
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import ceil
from threading import Event, Lock, Thread

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.rack.shell import Shell

_FOLDER = "/run/tsnrepro-reservation"
_REFUSED = 75

# Who looks and changes is alone with that, by a lock of the folder around: it is the kernel's, and
# ends with the shell that has it. A board without flock goes without.
_ALONE = 'exec 9<"${1%/*}"; if command -v flock >/dev/null 2>&1; then flock 9 || exit 1; fi'
# Arguments: folder, token, seconds, text. That of the same token is made anew; one that has ended,
# or that nobody finished making, goes.
_RESERVE = f"""\
{_ALONE}
now=$(date +%s)
if ! mkdir "$1" 2>/dev/null && [ "$(cat "$1/token" 2>/dev/null)" != "$2" ]; then
    held=$(cat "$1/until" 2>/dev/null || echo 0)
    if [ "$now" -lt "$held" ]; then
        echo "$((held - now))"; cat "$1/holder"; exit {_REFUSED}
    fi
    rm -rf "$1" && mkdir "$1" || exit 1
fi
echo "$2" >"$1/token" && echo "$4" >"$1/holder" && echo "$((now + $3))" >"$1/ends" &&
    mv "$1/ends" "$1/until"
"""
_RELEASE = f'{_ALONE}; [ "$(cat "$1/token" 2>/dev/null)" != "$2" ] || rm -rf "$1"'


class Reservation:
    """A reservation of all hosts of a rack.

    Parameters
    ----------
    shells
        Commands on the hosts, by role.
    minutes
        How long it holds after the last sign of life.
    purpose
        What for, as others are told.
    token
        What tells it from others': by default new.
    """

    def __init__(
        self, shells: dict[str, Shell], minutes: int, purpose: str, token: str = ""
    ) -> None:
        self._shells, self._seconds = shells, 60 * minutes
        self.token = token or secrets.token_hex(16)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        who = f"{getpass.getuser()} on {platform.node()}"
        self._text = f"{who} ({purpose or 'no stated purpose'}) since {since}"
        self._renewed, self._renewing = 0.0, Lock()

    def take(self) -> None:
        """Reserve all hosts, or none.

        Raises
        ------
        TestbedError
            Somebody else has one; the message says who, what for, since when and for how long.
        """
        taken: list[str] = []
        try:
            for role in self._shells:
                self._take(role)
                taken.append(role)
        except BaseException:
            self._release(taken)
            raise
        self._renewed = time.monotonic()

    def renew(self) -> None:
        """Give a sign of life, now and then.

        Raises
        ------
        TestbedError
            Somebody else has a host meanwhile, or one cannot be reached. The others stay reserved:
            they are still to be put back.
        """
        self._renew_after(self._seconds / 10)

    def _renew_after(self, seconds: float) -> None:
        with self._renewing:
            if time.monotonic() - self._renewed > seconds:
                for role in self._shells:
                    self._take(role)
                self._renewed = time.monotonic()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Give signs of life during a block by itself, where nobody else does for long.

        They are as rare as can be: each is a command on hosts that measure.
        """
        over = Event()

        def keep() -> None:
            while not over.wait(self._seconds / 20):
                # Whoever renews next is told why it failed.
                with suppress(TestbedError):
                    self._renew_after(self._seconds / 2)

        keeper = Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()

    def release(self) -> None:
        """Let the hosts go."""
        self._release(list(self._shells))

    def _take(self, role: str) -> None:
        shell = self._shells[role]
        words = [_FOLDER, self.token, str(self._seconds), self._text]
        done = shell.ask(["sh", "-c", _RESERVE, "sh", *words])
        if done.exit_status == _REFUSED:
            left, _, holder = done.stdout.strip().partition("\n")
            minutes = f"another {ceil(int(left) / 60)} min" if left.isdigit() else "some time"
            raise TestbedError(
                f"the rack is reserved by {holder or 'somebody else'}, for {minutes}",
                role,
                "Wait until it is free or ends; each host forgets it when it is restarted",
            )
        if done.exit_status:
            raise TestbedError(f"no reservation: {done.stderr.strip()[-300:]}", role)

    def _release(self, roles: list[str]) -> None:
        for role in roles:
            self._shells[role].ask(["sh", "-c", _RELEASE, "sh", _FOLDER, self.token])
