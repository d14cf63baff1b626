"""The bench testbed: ports of this machine, and a cable or any device between them.

It is the emulated testbed with ports in place of the veth pairs between its switches::

    talker eth0 --- p0 sw1 m0 (a port) === device === m0 (a port) sw2 p0 --- eth0 listener
                           m1 (a port) === device === m1 (a port)

The switches are the talker's and the listener's ends of FRER, our eBPF; with one port each they
only count.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import SWITCHES
from tsnrepro.config import BenchSettings
from tsnrepro.testbeds.bench.hosts import cards, recorded, reserve
from tsnrepro.testbeds.bench.ports import ROLES, Port, local_shell, moved, ports_of
from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed
from tsnrepro.testbeds.faults import CabledFaults
from tsnrepro.testbeds.hosts import ports
from tsnrepro.testbeds.hosts.remote import wait_for_links
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.tools.snapshot import Snapshot


class BenchTestbed(EmulatedTestbed):
    """The bench testbed, up for a ``with`` block, as are its other kinds of this folder.

    What a killed campaign left in namespaces, or on switches, is given back first.

    Parameters
    ----------
    settings
        Settings of the testbed.
    name
        Name of the testbed, for its journals.
    purpose
        Purpose of the campaign, for others who find the bench in use.
    journals
        Folder of the journals; by default that of the repository.

    Raises
    ------
    TestbedError
        The machine does not meet a requirement, the bench, a port or a switch is in use, a port has
        no link or runs at another speed, or a switch cannot be reached or configured. What was up
        by then has been taken down.
    """

    kind = "bench"
    settings: BenchSettings
    _faults = CabledFaults

    def __init__(
        self,
        settings: BenchSettings,
        name: str,
        purpose: str = "",
        journals: Path | None = None,
    ) -> None:
        super().__init__(settings, purpose)
        self._journal = Journal(name, journals)

    def _bring_up(self) -> None:
        super()._bring_up()
        self._wait_for_ports()

    def _reserve(self) -> None:
        reserve(self._stack, self._journal, self._purpose)

    def _cable(self) -> None:
        """Move the ports to their hosts, and connect these to talker and listener."""
        super()._cable()
        pids = {host: self._spaces[host].pid for host in SWITCHES}
        self._stack.enter_context(moved(local_shell(), self.settings, self._journal, pids))

    def _member_cables(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield none: the bench has its own."""
        return iter(())

    @property
    def _tagged_ports(self) -> set[tuple[str, str]]:
        """The ports that receive frames with an R-TAG: none of a single path."""
        return super()._tagged_ports if self.settings.paths > 1 else set()

    def _set_up_ports(self, name: str) -> None:
        super()._set_up_ports(name)
        for port in self._own_ports(name):
            # A card's frames are addressed to the listener's own port behind it.
            self._run(name, ["ip", "link", "set", "dev", port.name, "promisc", "on"])

    def _own_ports(self, host: str) -> list[Port]:
        return [port for port in ports_of(self.settings) if port.host == host]

    def _wait_for_ports(self) -> None:
        """Wait for the links, since cards negotiate again after a change, and check their speed."""
        shells = {role: Shell(self.hosts[host]) for role, host in ROLES.items()}
        names = {
            role: {port.device: port.name for port in self._own_ports(host)}
            for role, host in ROLES.items()
        }
        wait_for_links(shells, names)
        rate = self.settings.link_rate_mbps
        for port in ports_of(self.settings):
            shown, good = ports.speed_and_duplex(shells[port.role], port.name, rate)
            if good is False:
                raise TestbedError(
                    f"{port.device} runs at {shown}, and link_rate_mbps is {rate}",
                    port.role,
                    f"`ethtool -s {port.device} speed {rate} duplex full`, or set link_rate_mbps",
                )

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts, after all traffic has ended.

        No counter shows the losses of cards and device: frames missing between two counters are
        named after both.
        """
        return replace(super().snapshot(), apart=True)

    def describe(self) -> dict:
        """Return the facts that every record of this testbed has."""
        of_ports = cards(self.hosts, ports_of(self.settings))
        return super().describe() | {"settings": recorded(self.settings), "cards": of_ports}


if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import HostTestbed

    _satisfied: type[HostTestbed] = BenchTestbed
