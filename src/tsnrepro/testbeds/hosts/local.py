"""Commands on this machine, as on any host."""

import os
import subprocess
import time
from collections.abc import Callable

from tsnrepro.common.errors import CommandError
from tsnrepro.testbeds.hosts.host import DEADLINE_PASSED, Completed
from tsnrepro.testbeds.requirements import SEARCH_PATH

_NOT_FOUND = 127


class LocalHost:
    """Commands on this machine itself, for a :class:`tsnrepro.testbeds.hosts.shell.Shell`.

    ``name``: name for messages; ``enter``: returns the command that runs another in namespaces of
    this machine.
    """

    def __init__(self, name: str, enter: Callable[[list[str]], list[str]] = list) -> None:
        self.name, self._enter = name, enter

    def run(self, argv: list[str], *, deadline_s: float, limit_bytes: int = 16 << 20) -> Completed:
        """Run a command to its end; it is killed at the deadline.

        Raises CommandError if its output is longer than ``limit_bytes``.
        """
        environment = {**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C"}
        started, began = time.time(), time.monotonic()
        try:
            done = subprocess.run(
                self._enter(argv),
                capture_output=True,
                env=environment,
                stdin=subprocess.DEVNULL,
                timeout=deadline_s,
                check=False,
            )
            status, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            status, output, errors = DEADLINE_PASSED, error.stdout or b"", error.stderr or b""
        except OSError as error:
            status, output, errors = _NOT_FOUND, b"", f"{argv[0]}: {error.strerror}".encode()
        if len(output) > limit_bytes:
            raise CommandError(f"more than {limit_bytes} bytes of output", " ".join(argv))
        return Completed(
            self.name,
            tuple(argv),
            status,
            output.decode(errors="replace"),
            errors.decode(errors="replace"),
            started,
            time.monotonic() - began,
        )
