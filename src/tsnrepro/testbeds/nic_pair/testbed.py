"""The NIC pair testbed: a talker and a listener whose network cards are cabled for shaping."""

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.topology import INLINE_SWITCH, LISTENER, LOADER, STATIONS, TALKER
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import RackStation
from tsnrepro.native import streams
from tsnrepro.testbeds.hosts import facts, programs
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.hosts.clock_sync import ClockSynchronizer
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.hosts.rollback import Journal, LeasedHosts, roll_back
from tsnrepro.testbeds.hosts.shell import CommandSink
from tsnrepro.testbeds.jobs.job import Acceleration, Cable, CabledSwitch, Job, JobResult, LinkEnd
from tsnrepro.testbeds.jobs.sessions import SessionJobs
from tsnrepro.testbeds.nic_pair.hosts import NicPairHosts, ptp_ports, roles_of

_PREFIX = 24


class NicPairTestbed:
    """The NIC pair testbed, leased and configured for a ``with`` block and restored at its end.

    The state that a killed campaign left is rolled back first.

    ``name``: name of the testbed, for the journal; ``purpose``: purpose of the campaign, for others
    who find the hosts leased. ``journals``: folder of the journal; by default that of the
    repository. Raises TestbedError if a host cannot be reached or configured or is leased by
    another, or its card is in use or runs at another speed.
    """

    kind = "nic-pair"
    machines = ()
    max_parallel = 1
    acceleration: Acceleration = "none"

    def __init__(
        self, settings: NicPairSettings, name: str, purpose: str = "", journals: Path | None = None
    ) -> None:
        self.settings = settings
        journal = Journal(name, journals)
        self._lease = LeasedHosts(
            *(settings, journal, purpose),
            connect=partial(NicPairHosts, settings),
            rollback=partial(restore, name, journal),
        )
        self._stack = ExitStack()

    def __enter__(self) -> "NicPairTestbed":
        with ExitStack() as stack:
            pair = stack.enter_context(self._lease)
            pair.prepare()
            self._stack = stack.pop_all()
        on_host = programs.on_host()
        hosts = {
            role: AliasedHost(pair.connections[role], {}, on_host)
            for role in roles_of(self.settings)
        }
        cards, program = ptp_ports(self.settings), str(streams.listener())
        ptp_hosts = {role: hosts[role] for role in cards}
        self._clocks = ClockSynchronizer(ptp_hosts, cards, program, self.settings.ptp)
        self._jobs = SessionJobs(hosts, self.kind, self._synchronized)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def cable(self) -> Cable:
        """The cable between the two cards, or the cables to the switch between them."""
        hosts, ptp = self.settings.hosts, self.settings.ptp
        by_card = ptp is not None and ptp.time_stamping == "hardware"
        return Cable(
            _end(TALKER, hosts.talker),
            _end(LISTENER, hosts.listener),
            hosts.talker.chip,
            stamps="hardware" if by_card else "software",
            switch=CabledSwitch(INLINE_SWITCH, hosts.sw.ports, hosts.sw.vlan) if hosts.sw else None,
            loader=_end(LOADER, hosts.loader) if hosts.loader else None,
        )

    @property
    def concealed(self) -> dict[str, str] | None:
        """Replacements in records of the addresses of the measured network."""
        return self.settings.concealed

    def run(self, job: Job) -> JobResult:
        """Run a job on the hosts and return its result; see ``JobTestbed``."""
        self._lease.renew()
        return self._jobs.run(job)

    def _synchronized(self, job: Job) -> AbstractContextManager[list[ClockSync | ClockSyncFailure]]:
        return self._clocks.synchronized(job.deadline_s)

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed has; hosts are named by roles."""
        kept = {"link_rate_mbps", "ptp"}
        cards = {role: getattr(self.settings.hosts, role).chip for role in STATIONS}
        settings = self.settings.recorded(include=kept)
        hosts = {
            role: facts.anonymous_host(host, [], role) for role, host in self._jobs.hosts.items()
        }
        switch = self.settings.hosts.sw
        between = {"switch": switch.driver} if switch else {}
        described = {"settings": settings, "cards": cards, "hosts": hosts}
        return self._jobs.describe() | described | between


def _end(role: str, host: RackStation) -> LinkEnd:
    return LinkEnd(role, host.interface, (f"{host.ipv4}/{_PREFIX}",))


def restore(name: str, journal: Journal, sink: CommandSink | None = None) -> bool:
    """Restore the hosts' state from before a killed campaign; see :func:`roll_back`."""
    return roll_back(journal, NicPairSettings, NicPairHosts, f"restoring {name}", sink)


if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import JobTestbed

    _satisfied: type[JobTestbed] = NicPairTestbed
