"""A shell that stays on a host and reads its counters there as often as it is asked to.

A command of its own for each reading would take a session each: of the time that short trials took
beside their traffic, that was most.
"""

from tsnrepro.common.errors import CommandError
from tsnrepro.testbeds.ssh import SshHost
from tsnrepro.tools import kernel

# Longer than any campaign's notebook: it ends with its host.
_DEADLINE_SECONDS = 7 * 24 * 3600
# What a broken host is given beyond the deadline of what it was asked.
_GRACE_SECONDS = 10


class CounterReader:
    """The reader of a host, by the port at which ``frerctl`` finds what counts there.

    ``deadline_s`` bounds each answer.
    """

    def __init__(self, host: SshHost, frerctl: str, port: str, deadline_s: float) -> None:
        self._name = host.name
        self._asked: kernel.Asked = "counters"
        self._process = host.start(
            kernel.answering(frerctl, port, deadline_s),
            deadline_s=_DEADLINE_SECONDS,
            answer_s=deadline_s + _GRACE_SECONDS,
        )

    @property
    def running(self) -> bool:
        """Whether it still answers."""
        return self._process.running

    def ask(self, what: kernel.Asked) -> None:
        """Ask, and do not wait: several hosts answer at a time."""
        self._asked = what
        self._process.send(f"{what}\n".encode())

    def answer(self) -> str:
        """Return the answer to what was asked last.

        Raises
        ------
        CommandError
            What was asked failed, or took too long; or the reader has ended.
        """
        said: list[str] = []
        while not (line := self._process.read_whole_line()).startswith(kernel.ENDED):
            if not line:
                raise CommandError(f"it ended: {''.join(said)[-500:].strip()}", self._place())
            said.append(line)
        status = line.removeprefix(kernel.ENDED).split()[0]
        if status != "0":
            ended = f"it failed with exit status {status}: {''.join(said)[-1500:].strip()}"
            raise CommandError(ended, self._place())
        return "".join(said)

    def _place(self) -> str:
        return f"{self._name}: reading {self._asked}"
