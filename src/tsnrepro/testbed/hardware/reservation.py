"""A rack is one campaign's at a time, whoever's machine that runs on: the lock lies on its hosts.

A reservation is a folder on each host, because making a folder either succeeds or finds it there.
It says whose it is, since when, and until when it holds by the host's own clock. It outlives the
death of whoever made it and ends by itself; each sign of life moves its end.
"""

import getpass
import platform
import secrets
import time

from tsnrepro.errors import TestbedError
from tsnrepro.testbed.hardware.shell import Shell

_FOLDER = "/run/tsnrepro-reservation"
_REFUSED = 75

# Arguments: folder, token, seconds, text. A reservation that has ended is moved away first: of two
# that find it, the move succeeds for one. That of the same token is made anew.
_RESERVE = f"""\
now=$(date +%s)
if ! mkdir "$1" 2>/dev/null; then
    held=$(cat "$1/until" 2>/dev/null || echo 0)
    if [ "$(cat "$1/token" 2>/dev/null)" != "$2" ]; then
        if [ "$now" -lt "$held" ]; then
            echo "$((held - now))"; cat "$1/holder"; exit {_REFUSED}
        fi
        mv "$1" "$1.ended.$$" && rm -rf "$1.ended.$$"
        mkdir "$1" || exit {_REFUSED}
    fi
fi
echo "$2" >"$1/token"; echo "$4" >"$1/holder"; echo "$((now + $3))" >"$1/until"
"""
_RELEASE = '[ "$(cat "$1/token" 2>/dev/null)" != "$2" ] || rm -rf "$1"'


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
        self._renewed = 0.0

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
        """Give a sign of life, now and then."""
        if time.monotonic() - self._renewed > self._seconds / 10:
            self.take()

    def release(self) -> None:
        """Let the hosts go."""
        self._release(list(self._shells))

    def _take(self, role: str) -> None:
        shell = self._shells[role]
        words = [_FOLDER, self.token, str(self._seconds), self._text]
        done = shell.ask(["sh", "-c", _RESERVE, "sh", *words])
        if done.exit_status == _REFUSED:
            left, _, holder = done.stdout.strip().partition("\n")
            minutes = f"another {int(left) // 60 + 1} minutes" if left.isdigit() else "some time"
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
