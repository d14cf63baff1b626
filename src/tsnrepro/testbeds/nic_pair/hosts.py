"""The hosts of a NIC pair, whose network cards are cabled for shaping, and their drivers."""

import re
from contextlib import ExitStack
from typing import Any

from tsnrepro.common.topology import CARD, INLINE_SWITCH, LISTENER, LOADER, STATIONS, TALKER
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import RackStation
from tsnrepro.testbeds.hosts import ports
from tsnrepro.testbeds.hosts.remote import RemoteHosts, Unreachable, connect
from tsnrepro.testbeds.hosts.shell import CommandSink, Shell
from tsnrepro.testbeds.nic_pair.inline_switch import InlineSwitch

_EEE_ON = re.compile(r"EEE status:\s*enabled", re.IGNORECASE)


class CardDriver:
    """Configures a host's card; see :class:`tsnrepro.testbeds.hosts.remote.HostDriver`.

    Jobs set the card up and roll that back; this restores what a kill leaves.

    ``shell``: commands on the host; ``settings``: the host's section in the testbed's file;
    ``link_rate_mbps``: rate of the cable.
    """

    def __init__(self, shell: Shell, settings: RackStation, link_rate_mbps: float) -> None:
        self._shell, self._card, self._rate = shell, settings.interface, link_rate_mbps
        self.devices = {CARD: settings.interface}

    def save(self) -> dict[str, Any]:
        """Return the state of the card, its addresses, its queues, and whether EEE is on."""
        return {
            "port": ports.save(self._shell, self._card),
            "addresses": ports.addresses(self._shell, self._card),
            "queues": ports.configured_qdiscs(self._shell, self._card),
            "eee": self._has_eee(),
        }

    def check(self, state: dict[str, Any]) -> None:
        """Refuse a card with configured queues or filters, or at another speed."""
        ports.check_filters(self._shell, self._card, state["port"])
        ports.check_queues(self._shell, self._card)
        if state["port"]["up"]:
            ports.check_speed(self._shell, self._card, self._rate, card=True)

    def prepare(self) -> None:
        """Disable EEE: leaving low-power idle takes microseconds, and i225's gates need it off."""
        if self._has_eee():
            self._shell.change(["ethtool", "--set-eee", self._card, "eee", "off"])

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, changing only what differs."""
        change, card = self._shell.change, self._card
        if ports.configured_qdiscs(self._shell, card) and not state["queues"]:
            change(["tc", "qdisc", "del", "dev", card, "root"])
        for address in ports.addresses(self._shell, card):
            if address not in state["addresses"]:
                change(["ip", "addr", "del", address, "dev", card])
        ports.restore(self._shell, card, state["port"])
        present = ports.addresses(self._shell, card)
        for address in state["addresses"]:
            if address not in present:
                change(["ip", "addr", "add", address, "dev", card])
        if state["eee"] and not self._has_eee():
            change(["ethtool", "--set-eee", card, "eee", "on"])

    def _has_eee(self) -> bool:
        completed = self._shell.query(["ethtool", "--show-eee", self._card])
        return bool(_EEE_ON.search(completed.stdout))


class NicPairHosts(RemoteHosts):
    """The connected talker and listener, and with a switch between them the switch and the loader.

    ``settings``: settings of the testbed; ``stack``: closes the connections; ``sink``: receives the
    commands that change hosts, for a dry run. ``unreachable``: gets the hosts that cannot be
    reached; None is to raise.
    """

    def __init__(
        self,
        settings: NicPairSettings,
        stack: ExitStack,
        sink: CommandSink | None = None,
        unreachable: Unreachable | None = None,
    ) -> None:
        roles = roles_of(settings)
        super().__init__(connect(settings, roles, stack, unreachable), sink, unreachable)
        self.settings = settings
        self._drivers: dict[str, CardDriver | InlineSwitch] = {
            role: CardDriver(
                self.shells[role], getattr(settings.hosts, role), settings.link_rate_mbps
            )
            for role in self.program_hosts
        }
        if settings.hosts.sw is not None and INLINE_SWITCH in self.shells:
            self._drivers[INLINE_SWITCH] = InlineSwitch(
                self.shells[INLINE_SWITCH], settings.hosts.sw
            )

    @property
    def drivers(self) -> dict[str, CardDriver | InlineSwitch]:
        """Driver of each host, by role."""
        return self._drivers

    @property
    def program_hosts(self) -> list[str]:
        """The hosts that run our programs."""
        return [role for role in self.shells if role != INLINE_SWITCH]


def roles_of(settings: NicPairSettings) -> tuple[str, ...]:
    """Return the roles of a NIC pair's hosts."""
    return (*STATIONS, LOADER, INLINE_SWITCH) if settings.hosts.sw else STATIONS


def ptp_ports(settings: NicPairSettings) -> dict[str, list[str]]:
    """Return the PTP ports of each host whose clock is synchronized, by role.

    The clock of a switch between follows the talker's, and the listener's follows the switch's.
    """
    hosts = settings.hosts
    cards = {TALKER: [hosts.talker.interface], LISTENER: [hosts.listener.interface]}
    if hosts.sw is not None:
        cards[INLINE_SWITCH] = [hosts.sw.talker_port, hosts.sw.listener_port]
    return cards
