"""Protocols of testbeds: all of them, those whose hosts take commands, and those that run jobs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from tsnrepro.config import BenchSettings, Configuration, EmulatedSettings, RackSettings
from tsnrepro.testbeds.faults import Faults
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.hosts.host import RemoteHost
from tsnrepro.testbeds.jobs.job import Cable, Job, JobResult
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream
from tsnrepro.tools.snapshot import Snapshot


class Testbed(Protocol):
    """A testbed, up for a ``with`` block."""

    @property
    def kind(self) -> str:
        """Kind, as in its settings: ``emulated``, ``guest``, ``model`` ..."""
        ...

    @property
    def machines(self) -> tuple[str, ...]:
        """One host of each machine whose stalls matter: none if nothing runs in real time."""
        ...

    @property
    def max_parallel(self) -> int:
        """Number of trials at a time: 1, unless trials cannot interfere."""
        ...

    def __enter__(self) -> "Testbed": ...

    def __exit__(self, *_: object) -> None: ...

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed has."""
        ...


@runtime_checkable
class SharedTestbed(Testbed, Protocol):
    """A testbed of shared machines, whose addresses are confidential."""

    @property
    def concealed(self) -> Mapping[str, str] | None:
        """Replacements in records of the addresses of the measured network; None replaces none."""
        ...


@runtime_checkable
class HostTestbed(Testbed, Protocol):
    """A talker, two FRER switches and a listener that take commands, by the topology's names."""

    @property
    def settings(self) -> EmulatedSettings | RackSettings | BenchSettings:
        """Settings of the testbed."""
        ...

    faults: Faults
    """Fault injection."""

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
        """Set both switches and every station to distinguish several streams."""
        ...

    def pin_neighbours(self) -> None:
        """Give talker and listener static neighbour entries of each other."""
        ...

    @property
    def transit_seconds(self) -> float:
        """The longest time of a frame in transit."""
        ...

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts, after all traffic has ended."""
        ...

    def quiescent_snapshot(self) -> Snapshot:
        """Read the counters of all hosts once no station counts frames any more."""
        ...

    def synchronized_clocks(
        self, max_s: float
    ) -> AbstractContextManager[Sequence[ClockSync | ClockSyncFailure]]:
        """Synchronize the clocks of talker and listener during a block, if that is configured.

        The block receives their synchronization before it and, once it has ended, after it.
        ``max_s`` bounds its duration.

        Raises TestbedError if the clocks cannot be synchronized before the block.
        """
        ...

    def epoch_ns(self, host: str) -> int:
        """Return a host's CLOCK_REALTIME, which dates its captures."""
        ...

    def host_of(self, netns: int) -> str | None:
        """Return the host whose network namespace has an inode number."""
        ...


@runtime_checkable
class JobTestbed(Testbed, Protocol):
    """A testbed that runs jobs: in a guest, on this machine's own kernel, or on remote hosts."""

    @property
    def cable(self) -> Cable | None:
        """The cable that all jobs use; None if jobs create their own links."""
        ...

    def run(self, job: Job) -> JobResult:
        """Run a job and return its result, with the exit status of each step.

        Raises TestbedError if the job could not be started or set up. Raises JobDeadlineError if
        the job exceeded its deadline; the testbed can run another.
        """
        ...
