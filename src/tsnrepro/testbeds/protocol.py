"""What every testbed offers, and what those offer whose hosts take commands, or jobs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from tsnrepro.config import Configuration, EmulatedSettings, RackSettings
from tsnrepro.testbeds.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.faults import Faults
from tsnrepro.testbeds.host import RemoteHost
from tsnrepro.testbeds.jobs.job import Cable, Job, JobResult
from tsnrepro.tools.counters import Snapshot
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream


class Testbed(Protocol):
    """A testbed: up from ``with`` to its end."""

    @property
    def kind(self) -> str:
        """As in its settings: ``emulated``, ``guest``, ``model`` ..."""
        ...

    @property
    def machines(self) -> tuple[str, ...]:
        """A host of each machine whose steadiness matters: none where nothing is waited for."""
        ...

    @property
    def max_parallel(self) -> int:
        """How many trials it takes at a time: one, unless none can show in another's results."""
        ...

    def __enter__(self) -> "Testbed": ...

    def __exit__(self, *_: object) -> None: ...

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed carries."""
        ...


@runtime_checkable
class SharedTestbed(Testbed, Protocol):
    """A testbed of machines whose addresses are nobody else's business."""

    @property
    def concealed(self) -> Mapping[str, str] | None:
        """What stands in records for the addresses of the measured network; None conceals none."""
        ...


@runtime_checkable
class HostTestbed(Testbed, Protocol):
    """A talker, two FRER switches and a listener that take commands, by the names of topology."""

    @property
    def settings(self) -> EmulatedSettings | RackSettings:
        """Of the testbed."""
        ...

    faults: Faults
    """What may go wrong on the way."""

    @property
    def hosts(self) -> Mapping[str, RemoteHost]:
        """The hosts by name."""
        ...

    def address(self, name: str) -> str:
        """Return the IPv4 address of the talker or the listener."""
        ...

    def member_ports(self) -> list[str]:
        """Return the names of a switch's member ports; both switches use the same."""
        ...

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches to ``frer`` or ``control`` and every station to count ``stream``."""
        ...

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to tell several streams apart."""
        ...

    def pin_neighbours(self) -> None:
        """Let talker and listener keep each other's MAC address without asking for it again."""
        ...

    @property
    def transit_seconds(self) -> float:
        """The longest that a frame may be on its way."""
        ...

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts; the caller has ended all traffic before."""
        ...

    def quiescent_snapshot(self) -> Snapshot:
        """Read the counters of all hosts when no station counts a frame any more."""
        ...

    def clocks_together(
        self, longest_s: float
    ) -> AbstractContextManager[Sequence[ClockSync | ClockSyncFailure]]:
        """Keep the clocks of talker and listener together during a block, where that is set up.

        The block gets how well they agreed before it and, once it has ended, after it too.
        ``longest_s`` is how long it may last.

        Raises
        ------
        TestbedError
            They are to be kept together, and do not agree before the block.
        """
        ...

    def epoch_ns(self, host: str) -> int:
        """Return what a host's CLOCK_REALTIME shows, which dates its captures."""
        ...

    def host_of(self, netns: int) -> str | None:
        """Return the host whose network namespace has this inode number."""
        ...


@runtime_checkable
class JobTestbed(Testbed, Protocol):
    """A testbed that does jobs: a guest, this machine's own kernel, or hosts of a rack."""

    @property
    def cable(self) -> Cable | None:
        """The cable that all jobs use; None where each makes links of its own."""
        ...

    def run(self, job: Job) -> JobResult:
        """Do a job and return what it brought back; a step's failure is in its exit status.

        Raises
        ------
        TestbedError
            The job could not be started or set up.
        JobDeadlineError
            It did not end within its deadline; another can be run.
        """
        ...
