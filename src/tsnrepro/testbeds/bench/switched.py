"""A bench with switches that have drivers: a rack some of whose hosts are on this machine.

Talker and listener are namespaces of this machine. A side with a driver has its port as the
station's own; on one without, this machine's ports are those of a switch of our eBPF::

    talker eth0 (a port) === p0 sw1 m0 === m0 (a port) sw2 p0 --- eth0 listener
                                    m1 === m1 (a port)

"""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.topology import HOSTS, LISTENER, SWITCHES
from tsnrepro.config import BenchSettings, RackSettings
from tsnrepro.testbeds.bench.hosts import cards, hosts_here
from tsnrepro.testbeds.bench.ports import give_back, ports_of
from tsnrepro.testbeds.hosts.rollback import Journal, roll_back
from tsnrepro.testbeds.hosts.shell import CommandSink
from tsnrepro.testbeds.hosts.ssh import SshHost
from tsnrepro.testbeds.rack.testbed import RackHosts, RackTestbed


class SwitchedBench(RackTestbed):
    """A bench with switches; see :class:`tsnrepro.testbeds.bench.testbed.BenchTestbed`."""

    kind = "bench"
    machines = (LISTENER,)

    def __init__(
        self,
        settings: BenchSettings,
        name: str,
        purpose: str = "",
        journals: Path | None = None,
    ) -> None:
        self._bench, self._purpose = settings, purpose
        self._ports_journal = Journal(name, journals)
        switches = switches_journal(name, journals)
        super().__init__(settings.rack, switches.testbed, purpose, journals)
        self._here: dict[str, SshHost] = {}

    def __enter__(self) -> "SwitchedBench":
        with ExitStack() as stack:
            roles = [role for role in HOSTS if role not in self._bench.driven]
            self._here = hosts_here(
                *(stack, self._bench, self._ports_journal, self._purpose),
                roles=roles,
                listed=ports_of(self._bench),
            )
            super().__enter__()
            self._around = stack.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        with self._around:
            super().__exit__(*details)

    def _connect(self, stack: ExitStack) -> RackHosts:
        return RackHosts(self.settings, stack, roles=self._bench.driven, here=self._here)

    def _restore(self, name: str, journal: Journal) -> None:
        restore_switches(name, journal)

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed has."""
        described = super().describe()
        settings = described["settings"] | {"kind": self.kind, "device": self._bench.device}
        return described | {
            "settings": settings,
            "cards": cards(self._here, ports_of(self._bench)),
        }


def switches_journal(name: str, folder: Path | None = None) -> Journal:
    """Return the journal of a bench's switches; that of its ports has the bench's own name."""
    return Journal(f"{name}.switches", folder)


def restore_switches(name: str, journal: Journal, sink: CommandSink | None = None) -> bool:
    """Restore the switches from before a killed campaign; see :func:`roll_back`.

    The hosts of this machine have ended with the campaign.
    """

    def connected(settings: RackSettings, *arguments: Any) -> RackHosts:
        roles = tuple(r for r in SWITCHES if getattr(settings.hosts, r).address != r)
        return RackHosts(settings, *arguments, roles=roles)

    return roll_back(journal, RackSettings, connected, f"restoring {name}", sink)


def restore(name: str, journals: Path | None = None, sink: CommandSink | None = None) -> bool:
    """Give back the ports, and restore the switches, of a bench whose campaign was killed."""
    with ExitStack() as both:
        # Called in any case, also if a port is missing.
        found = [False]
        both.callback(
            lambda: found.append(restore_switches(name, switches_journal(name, journals), sink))
        )
        found.append(give_back(Journal(name, journals), sink))
    return any(found)


if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import HostTestbed

    _satisfied: type[HostTestbed] = SwitchedBench
