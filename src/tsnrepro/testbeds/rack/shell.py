"""Commands on a host of a rack, told apart by whether they change it."""

import shlex
from collections.abc import Callable

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.host import Completed, RemoteHost

_COMMAND_SECONDS, _SESSION_SECONDS = 20, 60
# Between what commands of one session print and their exit statuses.
_SEPARATOR = "\x1e"
_SAY_STATUS = r"status=$?; printf '\036%d\036' $status"
_OR_END = "; [ $status = 0 ] || exit 0"

CommandSink = Callable[[str, list[str]], None]


class Shell:
    """A host that is asked and changed.

    Parameters
    ----------
    host
        Who runs the commands.
    tell
        Where commands go instead of the host, with the host's role: the host is then only asked,
        and nothing on it is changed.
    """

    def __init__(self, host: RemoteHost, tell: CommandSink | None = None) -> None:
        self.host, self.name, self._tell = host, host.name, tell

    @property
    def dry(self) -> bool:
        """Whether changes are only told."""
        return self._tell is not None

    def ask(self, argv: list[str]) -> Completed:
        """Run a command that changes nothing; its exit status is the caller's to judge.

        Raises
        ------
        TestbedError
            No exit status came: the host or the way to it is gone.
        """
        return self._run(argv, _COMMAND_SECONDS)

    def _run(self, argv: list[str], deadline_s: float) -> Completed:
        try:
            return self.host.run(argv, deadline_s=deadline_s)
        except CommandError as error:
            raise TestbedError(error.what, error.where, error.remedy) from error

    def read(self, argv: list[str]) -> str:
        """Run a command that changes nothing and return what it prints.

        Raises
        ------
        TestbedError
            It failed.
        """
        return self._output(self.ask(argv))

    def change(self, argv: list[str]) -> str:
        """Run a command that changes the host and return what it prints; nothing on a dry run.

        Raises
        ------
        TestbedError
            It failed.
        """
        if self._tell:
            self._tell(self.name, argv)
            return ""
        return self._output(self.ask(argv))

    def ask_all(self, commands: list[list[str]]) -> list[tuple[int, str]]:
        """Run commands that change nothing in one session; return exit statuses and outputs."""
        return self._all(commands, "")

    def change_all(self, commands: list[list[str]]) -> list[str]:
        """Run commands that change the host in one session and return what each prints.

        Raises
        ------
        TestbedError
            One failed; those behind it did not run.
        """
        if self._tell:
            for argv in commands:
                self._tell(self.name, argv)
            return [""] * len(commands)
        ended = self._all(commands, _OR_END)
        if ended and ended[-1][0]:
            status, printed = ended[-1]
            raise TestbedError(
                f"command ended with exit status {status}: {printed.strip()[-500:]}",
                as_line(self.name, commands[len(ended) - 1]),
            )
        return [printed for _, printed in ended]

    def _all(self, commands: list[list[str]], then: str) -> list[tuple[int, str]]:
        if not commands:
            return []
        lines = [f"{shlex.join(argv)} 2>&1; {_SAY_STATUS}{then}" for argv in commands]
        done = self._run(["sh", "-c", "\n".join(lines)], _SESSION_SECONDS)
        parts = self._output(done).split(_SEPARATOR)
        return [(int(status), text) for text, status in zip(parts[::2], parts[1::2], strict=False)]

    @staticmethod
    def _output(done: Completed) -> str:
        try:
            return done.check().stdout
        except CommandError as error:
            raise TestbedError(error.what, error.where, error.remedy) from error


def as_line(role: str, argv: list[str]) -> str:
    """Return a command as the line that a person would type on a host."""
    return f"{role}# {shlex.join(argv)}"


def tell(role: str, argv: list[str]) -> None:
    """Print a command in place of running it."""
    # One write, so that the lines of hosts that are told at once do not mix.
    print(f"{as_line(role, argv)}\n", end="")
