"""A shell that keeps running on a host and reads its counters on request.

A session for each reading took most of the time that short trials spent besides their traffic.
"""

from tsnrepro.common.errors import CommandError
from tsnrepro.testbeds.hosts.ssh import SshHost
from tsnrepro.tools import host_counters

# Longer than any campaign: the reader ends with its host.
_DEADLINE_SECONDS = 7 * 24 * 3600
# How long to wait for a broken host beyond the deadline of a request.
_GRACE_SECONDS = 10


class CounterReader:
    """Counter reader of a host; ``frerctl`` finds its station or switch by a port.

    ``deadline_s`` bounds each response.
    """

    def __init__(self, host: SshHost, frerctl: str, port: str, deadline_s: float) -> None:
        self._name = host.name
        self._request: host_counters.Request = "counters"
        self._process = host.start(
            host_counters.serve(frerctl, port, deadline_s),
            deadline_s=_DEADLINE_SECONDS,
            read_timeout_s=deadline_s + _GRACE_SECONDS,
        )

    @property
    def running(self) -> bool:
        """Whether the shell is running."""
        return self._process.running

    def send(self, request: host_counters.Request) -> None:
        """Send a request without waiting, so that several hosts respond in parallel."""
        self._request = request
        self._process.send(f"{request}\n".encode())

    def receive(self) -> str:
        """Return the response to the last request.

        Raises CommandError if the request failed or took too long, or the reader has ended.
        """
        lines: list[str] = []
        while not (line := self._process.read_whole_line()).startswith(host_counters.END):
            if not line:
                reason = "".join(lines)[-500:].strip()
                raise CommandError(f"the counter reader ended: {reason}", self._place())
            lines.append(line)
        status = line.removeprefix(host_counters.END).split()[0]
        if status != "0":
            output = "".join(lines)[-1500:].strip()
            raise CommandError(f"failed with exit status {status}: {output}", self._place())
        return "".join(lines)

    def _place(self) -> str:
        return f"{self._name}: reading {self._request}"
