"""A host as experiments see it: commands in, output and exit status out."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tsnrepro.common.errors import CommandError

DEADLINE_PASSED, ENDED_BY_KILL, ENDED_BY_TERM = 124, 137, 143
"""Exit statuses: of timeout(1) whose TERM ended the command, and of a shell by the signal."""


@dataclass(frozen=True)
class Completed:
    """A command that ran to its end on a host.

    ``started_s`` is seconds since the epoch on the machine that runs the campaign;
    ``seconds`` is the wall time there until the exit status was known.
    """

    host: str
    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str
    started_s: float
    seconds: float

    def as_record(self) -> dict[str, Any]:
        """Return what a record keeps of the command; what it printed is kept beside."""
        values = asdict(self) | {"argv": list(self.argv)}
        del values["stdout"], values["stderr"]
        return values

    @property
    def timed_out(self) -> bool:
        """Whether timeout(1) ended the command, by TERM or by KILL."""
        return self.exit_status in (DEADLINE_PASSED, ENDED_BY_KILL)

    def check(self) -> "Completed":
        """Return this command, or raise when its exit status is not zero.

        Raises
        ------
        CommandError
            With the command, the host and the end of what it printed.
        """
        if self.exit_status == 0:
            return self
        said = (self.stderr.strip() or self.stdout.strip())[-1500:]
        if self.timed_out:
            said = f"its deadline passed. {said}"
        raise CommandError(
            f"command ended with exit status {self.exit_status}: {said}",
            f"{self.host}: {' '.join(self.argv)}",
        )


class RemoteProcess(Protocol):
    """A command that goes on while others run on the same host."""

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        ...

    def stop(self) -> None:
        """End the command now; its output can still be read with :meth:`wait`."""
        ...

    def send_line(self, line: str) -> str:
        """Write one line to its standard input and return the next line it prints."""
        ...

    def read_line(self) -> str:
        """Return the next line that the command prints."""
        ...

    def wait(self) -> Completed:
        """Wait for the command's end (its deadline bounds this).

        The exit status is -1 where :meth:`stop` ended it by the signal, which leaves none.
        """
        ...


class RemoteHost(Protocol):
    """A machine of the testbed."""

    name: str

    def run(self, argv: list[str], *, deadline_s: float, limit_bytes: int = ...) -> Completed:
        """Run a command to its end; the host itself ends it when the deadline passes.

        ``limit_bytes`` is what it may print at most.
        """
        ...

    def start(self, argv: list[str], *, deadline_s: float) -> RemoteProcess:
        """Start a command and return at once."""
        ...

    def write(self, path: str, content: bytes, *, deadline_s: float) -> None:
        """Write an executable file in place of what is there; its folder has to exist."""
        ...
