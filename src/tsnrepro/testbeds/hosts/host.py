"""Hosts of a testbed: commands in, output and exit status out."""

import shlex
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tsnrepro.common.errors import CommandError, TestbedError

COMMAND_SECONDS = 20
"""Deadline of a command that reads or changes a host's configuration."""
DEADLINE_PASSED, ENDED_BY_KILL, ENDED_BY_TERM = 124, 137, 143
"""Exit statuses: of ``timeout(1)`` whose TERM ended the command, and of a shell by the signal."""


@dataclass(frozen=True)
class Completed:
    """A completed command.

    ``started_s`` is in seconds since the epoch on the machine that runs the campaign; ``seconds``
    is the wall time there until the exit status was known.
    """

    host: str
    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str
    started_s: float
    seconds: float

    def as_record(self) -> dict[str, Any]:
        """Return the fields that a record keeps; its output is recorded separately."""
        values = asdict(self) | {"argv": list(self.argv)}
        del values["stdout"], values["stderr"]
        return values

    @property
    def timed_out(self) -> bool:
        """Whether ``timeout(1)`` ended the command, by TERM or by KILL."""
        return self.exit_status in (DEADLINE_PASSED, ENDED_BY_KILL)

    def check(self) -> "Completed":
        """Return this command, or raise if its exit status is not zero.

        CommandError has the command, the host and the end of its output.
        """
        if self.exit_status == 0:
            return self
        output = (self.stderr.strip() or self.stdout.strip())[-1500:]
        if self.timed_out:
            output = f"deadline exceeded. {output}".strip()
        raise CommandError(
            f"command ended with exit status {self.exit_status}: {output}",
            f"{self.host}: {' '.join(self.argv)}",
        )


class RemoteProcess(Protocol):
    """A running command."""

    @property
    def running(self) -> bool:
        """Whether the command is still running."""
        ...

    def stop(self) -> None:
        """Terminate the command; :meth:`wait` still returns its output."""
        ...

    def send_line(self, line: str) -> str:
        """Write one line to standard input and return the next line of standard output."""
        ...

    def read_line(self) -> str:
        """Return the next line of standard output."""
        ...

    def wait(self) -> Completed:
        """Wait for the command to end, at its deadline at the latest.

        The exit status is -1 if the signal of :meth:`stop` ended it.
        """
        ...


class CommandHost(Protocol):
    """Where commands run."""

    name: str

    def run(self, argv: list[str], *, deadline_s: float, limit_bytes: int = ...) -> Completed:
        """Run a command to its end; the host terminates it at the deadline.

        ``limit_bytes`` bounds its output.
        """
        ...


class RemoteHost(CommandHost, Protocol):
    """A host of a testbed."""

    def start(self, argv: list[str], *, deadline_s: float) -> RemoteProcess:
        """Start a command without waiting for it."""
        ...

    def write(self, path: str, content: bytes, *, deadline_s: float) -> None:
        """Create or replace an executable file in an existing folder."""
        ...


def command_line(host: str, argv: list[str]) -> str:
    """Format a command as typed at a host's root prompt."""
    return f"{host}# {shlex.join(argv)}"


def run_checked(host: CommandHost, argv: list[str], limit_bytes: int | None = None) -> str:
    """Run a command that configures a testbed and return its output.

    Raises TestbedError if the command failed.
    """
    limit = {} if limit_bytes is None else {"limit_bytes": limit_bytes}
    try:
        return host.run(argv, deadline_s=COMMAND_SECONDS, **limit).check().stdout
    except CommandError as error:
        raise TestbedError(error.what, error.where, error.remedy) from error
