"""Commands on a remote host: those that read its state, and those that change it.

A dry run runs the former and prints the latter.
"""

import shlex
from collections.abc import Callable
from typing import Generic, TypeVar

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS, CommandHost, Completed, command_line

_SESSION_SECONDS = 60
# Separates the outputs and exit statuses of the commands of one session.
_SEPARATOR = "\x1e"
_PRINT_STATUS = r"status=$?; printf '\036%d\036' $status"
_EXIT_ON_FAILURE = "; [ $status = 0 ] || exit 0"

CommandSink = Callable[[str, list[str]], None]
"""Takes the host and the arguments of each command that a dry run does not run."""


_Host = TypeVar("_Host", bound=CommandHost)


class Shell(Generic[_Host]):
    """Commands on a host.

    ``host``: the host that runs them. ``sink``: receives the commands that would change the host,
    for a dry run: only commands that read its state are run.
    """

    def __init__(self, host: _Host, sink: CommandSink | None = None) -> None:
        self.host, self.name, self._sink = host, host.name, sink

    @property
    def dry_run(self) -> bool:
        """Whether commands that change the host go to the sink."""
        return self._sink is not None

    def query(self, argv: list[str]) -> Completed:
        """Run a command that changes nothing, whatever its exit status.

        Raises TestbedError if there is no exit status: the connection failed.
        """
        return self._run(argv, COMMAND_SECONDS)

    def _run(self, argv: list[str], deadline_s: float) -> Completed:
        try:
            return self.host.run(argv, deadline_s=deadline_s)
        except CommandError as error:
            raise TestbedError(error.what, error.where, error.remedy) from error

    def read(self, argv: list[str]) -> str:
        """Run a command that changes nothing and return its output.

        Raises TestbedError if the command failed.
        """
        return self._output(self.query(argv))

    def change(self, argv: list[str]) -> str:
        """Run a command that changes the host and return its output, empty on a dry run.

        Raises TestbedError if the command failed.
        """
        if self._sink:
            self._sink(self.name, argv)
            return ""
        return self._output(self.query(argv))

    def query_all(self, commands: list[list[str]]) -> list[tuple[int, str]]:
        """Run commands that change nothing in one session; return exit statuses and outputs."""
        return self._run_all(commands, "")

    def change_all(self, commands: list[list[str]]) -> list[str]:
        """Run commands that change the host in one session and return their outputs.

        Raises TestbedError if a command failed; the later ones were not run.
        """
        if self._sink:
            for argv in commands:
                self._sink(self.name, argv)
            return [""] * len(commands)
        completed = self._run_all(commands, _EXIT_ON_FAILURE)
        if completed and completed[-1][0]:
            status, output = completed[-1]
            raise TestbedError(
                f"command ended with exit status {status}: {output.strip()[-500:]}",
                command_line(self.name, commands[len(completed) - 1]),
            )
        return [output for _, output in completed]

    def _run_all(self, commands: list[list[str]], then: str) -> list[tuple[int, str]]:
        if not commands:
            return []
        lines = [f"{shlex.join(argv)} 2>&1; {_PRINT_STATUS}{then}" for argv in commands]
        completed = self._run(["sh", "-c", "\n".join(lines)], _SESSION_SECONDS)
        parts = self._output(completed).split(_SEPARATOR)
        return [(int(status), text) for text, status in zip(parts[::2], parts[1::2], strict=False)]

    @staticmethod
    def _output(completed: Completed) -> str:
        try:
            return completed.check().stdout
        except CommandError as error:
            raise TestbedError(error.what, error.where, error.remedy) from error


def print_command(host: str, argv: list[str]) -> None:
    """Print a command instead of running it."""
    # A single write, so that concurrent hosts' lines do not mix.
    print(f"{command_line(host, argv)}\n", end="")
