"""Commands that set a host up, and those that take back what they did."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tsnrepro.common.errors import CommandError, TestbedError, TsnreproError
from tsnrepro.testbeds.host import RemoteHost

COMMAND_SECONDS = 20


def run_checked(host: RemoteHost, argv: list[str], limit_bytes: int | None = None) -> str:
    """Run a command of the set-up and return what it printed.

    Raises
    ------
    TestbedError
        It failed.
    """
    limit = {} if limit_bytes is None else {"limit_bytes": limit_bytes}
    try:
        return host.run(argv, deadline_s=COMMAND_SECONDS, **limit).check().stdout
    except CommandError as error:
        raise TestbedError(error.what, error.where, error.remedy) from error


class Undo(ExitStack):
    """What a job takes back at its end, however it ends: the last first, and all of it.

    One failure keeps nothing else from being taken back, and hides no error that came before it.

    Attributes
    ----------
    failures
        What could not be taken back, once it ended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[TsnreproError] = []

    def defer(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Call ``action`` at the end."""

        def take_back(_kind: object, error: object, _trace: object) -> None:
            try:
                action(*arguments)
            except TsnreproError as failure:
                self.failures.append(failure)
                if error is None:
                    raise

        self.push(take_back)
