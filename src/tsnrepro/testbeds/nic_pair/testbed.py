"""The testbed of kind ``nic-pair``: a talker and a listener whose cards are cabled for shaping."""

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import RackStation
from tsnrepro.native import streams
from tsnrepro.testbeds.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.jobs.job import Acceleration, Cable, CabledSwitch, Job, JobResult, LinkEnd
from tsnrepro.testbeds.jobs.sessions import SessionJobs
from tsnrepro.testbeds.nic_pair.hosts import BOARD, LOADER, STATIONS, Pair, clocks_of, roles_of
from tsnrepro.testbeds.rack import programs
from tsnrepro.testbeds.rack.host import RackHost, facts_by_role
from tsnrepro.testbeds.rack.host_lease import HostLease, rollback
from tsnrepro.testbeds.rack.journal import Journal
from tsnrepro.testbeds.rack.shell import CommandSink
from tsnrepro.testbeds.rack.time_service import ClockKeeper

_PREFIX = 24


class CardsTestbed:
    """Two hosts that do jobs, up from ``with`` to its end; they are then as they were before.

    What a campaign that was killed has left is put back first.

    Parameters
    ----------
    settings
        Of the testbed.
    name
        Its name, for the journal.
    purpose
        What for, as others are told who want the hosts meanwhile.
    journals
        Folder of the journal; by default that of the repository.

    Raises
    ------
    TestbedError
        A host cannot be reached or set up, somebody else has reserved it, or its card is in use or
        runs at another speed.
    """

    kind = "nic-pair"
    machines = ()
    max_parallel = 1
    acceleration: Acceleration = "none"

    def __init__(
        self,
        settings: NicPairSettings,
        name: str,
        purpose: str = "",
        journals: Path | None = None,
    ) -> None:
        self.settings = settings
        journal = Journal(name, journals)
        self._held = HostLease(
            *(settings, journal, purpose),
            connect=partial(Pair, settings),
            rollback=partial(restore, name, journal),
        )
        self._stack = ExitStack()

    def __enter__(self) -> "CardsTestbed":
        with ExitStack() as stack:
            pair = stack.enter_context(self._held)
            pair.prepare()
            self._stack = stack.pop_all()
        on_host = programs.on_host()
        hosts = {
            role: RackHost(pair.connections[role], {}, on_host) for role in roles_of(self.settings)
        }
        cards, program = clocks_of(self.settings), str(streams.listener())
        clocks = {role: hosts[role] for role in cards}
        self._clocks = ClockKeeper(clocks, cards, program, self.settings.ptp)
        self._jobs = SessionJobs(hosts, self.kind, self._together)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def cable(self) -> Cable:
        """The cable between the two cards, or those to the switch between them."""
        hosts, ptp = self.settings.hosts, self.settings.ptp
        by_card = ptp is not None and ptp.time_stamping == "hardware"
        return Cable(
            _end(TALKER, hosts.talker),
            _end(LISTENER, hosts.listener),
            hosts.talker.chip,
            stamps="hardware" if by_card else "software",
            switch=CabledSwitch(BOARD, hosts.sw.ports, hosts.sw.vlan) if hosts.sw else None,
            loader=_end(LOADER, hosts.loader) if hosts.loader else None,
        )

    @property
    def concealed(self) -> dict[str, str] | None:
        """What stands in records for the addresses of the measured network."""
        return self.settings.concealed

    def run(self, job: Job) -> JobResult:
        """Let the hosts do the job and return what it brought back; see ``JobTestbed``."""
        self._held.renew()
        return self._jobs.run(job)

    def _together(self, job: Job) -> AbstractContextManager[list[ClockSync | ClockSyncFailure]]:
        return self._clocks.together(job.deadline_s)

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed carries; hosts go by their roles."""
        kept = {"link_rate_mbps", "ptp"}
        cards = {role: getattr(self.settings.hosts, role).chip for role in STATIONS}
        settings = self.settings.recorded(include=kept)
        hosts = {role: facts_by_role(host, [], role) for role, host in self._jobs.hosts.items()}
        switch = self.settings.hosts.sw
        between = {"switch": switch.driver} if switch else {}
        described = {"settings": settings, "cards": cards, "hosts": hosts}
        return self._jobs.describe() | described | between


def _end(role: str, host: RackStation) -> LinkEnd:
    return LinkEnd(role, host.interface, (f"{host.ipv4}/{_PREFIX}",))


def restore(name: str, journal: Journal, tell: CommandSink | None = None) -> bool:
    """Bring the hosts back to what they were before a campaign that did not end."""
    return rollback(journal, NicPairSettings, Pair, f"restoring {name}", tell)


if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import JobTestbed

    _satisfied: type[JobTestbed] = CardsTestbed
