"""Commands on a host of a rack, told apart by whether they change it."""

import shlex
from collections.abc import Callable

from tsnrepro.errors import CommandError, TestbedError
from tsnrepro.testbed.host import Completed, RemoteHost

_COMMAND_SECONDS = 20

Tell = Callable[[str, list[str]], None]


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

    def __init__(self, host: RemoteHost, tell: Tell | None = None) -> None:
        self.host, self.name, self._tell = host, host.name, tell

    @property
    def dry(self) -> bool:
        """Whether changes are only told."""
        return self._tell is not None

    def ask(self, argv: list[str]) -> Completed:
        """Run a command that changes nothing; its exit status is the caller's to judge."""
        return self.host.run(argv, deadline_s=_COMMAND_SECONDS)

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

    def attempt(self, argv: list[str]) -> None:
        """Run a command whose failure says that there was nothing to change."""
        if self._tell:
            self._tell(self.name, argv)
        else:
            self.ask(argv)

    @staticmethod
    def _output(done: Completed) -> str:
        try:
            return done.check().stdout
        except CommandError as error:
            raise TestbedError(error.what, error.where, error.remedy) from error


def as_line(role: str, argv: list[str]) -> str:
    """Return a command as the line that a person would type on a host."""
    return f"{role}# {shlex.join(argv)}"
