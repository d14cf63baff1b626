"""Hosts of somebody's whose network cards are cabled for shaping, and what is changed on each."""

import re
from contextlib import ExitStack
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import CARD, LISTENER, TALKER
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import RackStation
from tsnrepro.testbeds.nic_pair.inline_switch import InlineSwitch
from tsnrepro.testbeds.rack import ports
from tsnrepro.testbeds.rack.access import connect
from tsnrepro.testbeds.rack.connections import Connected
from tsnrepro.testbeds.rack.end_station import addresses
from tsnrepro.testbeds.rack.shell import CommandSink, Shell

STATIONS = (TALKER, LISTENER)
BOARD, LOADER = "sw", "loader"
_EEE_ON = re.compile(r"EEE status:\s*enabled", re.IGNORECASE)


class CardOfHost:
    """A host's card: jobs set it up and take that back; here is what a kill would leave.

    Parameters
    ----------
    shell
        Commands on the host.
    settings
        Its section of the testbed's file.
    link_rate_mbps
        What the cable is to carry.
    """

    def __init__(self, shell: Shell, settings: RackStation, link_rate_mbps: float) -> None:
        self._shell, self._card, self._rate = shell, settings.interface, link_rate_mbps
        self.devices = {CARD: settings.interface}

    def save(self) -> dict[str, Any]:
        """Return the state of the card, its addresses, its queues and whether it saves energy."""
        return {
            "port": ports.save(self._shell, self._card),
            "addresses": addresses(self._shell, self._card),
            "queues": ports.own_queues(self._shell, self._card),
            "eee": self._saves_energy(),
        }

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse a card with somebody's queues or filters, and one at another speed.

        Raises
        ------
        TestbedError
            It names what is there, and what to do.
        """
        ports.refuse_filters(self._shell, self._card, state["port"])
        if state["queues"]:
            raise TestbedError(
                f"{self._card} has queues of somebody's: {', '.join(state['queues'])}",
                self._shell.name,
                f"`tc qdisc del dev {self._card} root` on the host, or take another card",
            )
        speed = self._shell.ask(["cat", f"/sys/class/net/{self._card}/speed"]).stdout.strip()
        if state["port"]["up"] and speed.isdigit() and float(speed) != self._rate:
            raise TestbedError(
                f"{self._card} runs at {speed} Mb/s, and link_rate_mbps is {self._rate:g}",
                self._shell.name,
                f"`ethtool -s {self._card} speed {self._rate:g} duplex full` on the host",
            )

    def prepare(self) -> None:
        """Keep the card awake: waking up takes microseconds, and i225's gates do without."""
        if self._saves_energy():
            self._shell.change(["ethtool", "--set-eee", self._card, "eee", "off"])

    def restore(self, state: dict[str, Any]) -> None:
        """Bring everything back; what is as it was is left alone."""
        change, card = self._shell.change, self._card
        if ports.own_queues(self._shell, card) and not state["queues"]:
            change(["tc", "qdisc", "del", "dev", card, "root"])
        for address in addresses(self._shell, card):
            if address not in state["addresses"]:
                change(["ip", "addr", "del", address, "dev", card])
        ports.restore(self._shell, card, state["port"])
        there = addresses(self._shell, card)
        for address in state["addresses"]:
            if address not in there:
                change(["ip", "addr", "add", address, "dev", card])
        if state["eee"] and not self._saves_energy():
            change(["ethtool", "--set-eee", card, "eee", "on"])

    def _saves_energy(self) -> bool:
        done = self._shell.ask(["ethtool", "--show-eee", self._card])
        return bool(_EEE_ON.search(done.stdout))


class Pair(Connected):
    """Talker and listener, connected, and with a switch between them the switch and the loader.

    Parameters
    ----------
    settings
        Of the testbed.
    stack
        Closes the connections.
    tell
        Where changes are told instead of made, see :class:`Shell`.
    """

    def __init__(
        self, settings: NicPairSettings, stack: ExitStack, tell: CommandSink | None = None
    ) -> None:
        super().__init__(connect(settings, roles_of(settings), stack), tell)
        self.settings = settings
        self._parts: dict[str, CardOfHost | InlineSwitch] = {
            role: CardOfHost(
                self.shells[role], getattr(settings.hosts, role), settings.link_rate_mbps
            )
            for role in self.with_programs
        }
        if settings.hosts.sw is not None:
            self._parts[BOARD] = InlineSwitch(self.shells[BOARD], settings.hosts.sw)

    @property
    def parts(self) -> dict[str, CardOfHost | InlineSwitch]:
        """Each host's card, or the board's ports, by role."""
        return self._parts

    @property
    def with_programs(self) -> list[str]:
        """The hosts that our programs are needed on."""
        return [role for role in roles_of(self.settings) if role != BOARD]


def roles_of(settings: NicPairSettings) -> tuple[str, ...]:
    """Return the roles of a testbed's hosts."""
    return (*STATIONS, LOADER, BOARD) if settings.hosts.sw else STATIONS


def clocks_of(settings: NicPairSettings) -> dict[str, list[str]]:
    """Return the ports that linuxptp speaks over, by the roles of the hosts whose clocks it keeps.

    A board is between: its clock follows the talker's, and the listener's follows it.
    """
    hosts = settings.hosts
    cards = {TALKER: [hosts.talker.interface], LISTENER: [hosts.listener.interface]}
    if hosts.sw is not None:
        cards[BOARD] = [hosts.sw.talker_port, hosts.sw.listener_port]
    return cards
