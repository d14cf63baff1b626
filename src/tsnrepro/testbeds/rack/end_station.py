"""Talker and listener of a rack: what is changed on a PC for a campaign, and its state before."""

import json
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import CARD
from tsnrepro.config.rack import RackStation
from tsnrepro.testbeds.rack import nic_timestamps as card_stamps
from tsnrepro.testbeds.rack import ports
from tsnrepro.testbeds.rack.shell import Shell
from tsnrepro.tools import frerctl, kernel
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

# As on the emulated testbed: a datagram whose second fragment was dropped is given up at once.
_SYSCTLS = {"net.ipv4.ipfrag_time": "1"}
_PREFIX = 24


class Station:
    """A talker or a listener.

    Parameters
    ----------
    shell
        Commands on the host.
    settings
        Its section of the testbed's file.
    peer
        The address of the other one.
    program
        Path of frerctl on the host.
    stamps
        Whether its card stamps what arrives.
    """

    def __init__(
        self,
        shell: Shell,
        settings: RackStation,
        peer: str,
        program: str,
        *,
        stamps: bool = False,
    ) -> None:
        self._shell, self._settings, self._peer = shell, settings, peer
        self._program, self._stamps = program, stamps
        self.devices = {CARD: settings.interface}

    def save(self) -> dict[str, Any]:
        """Return the state of the card, its addresses and neighbours, and kernel settings."""
        card = self._settings.interface
        stamping = {"stamps": card_stamps.policy(self._shell, card)} if self._stamps else {}
        return stamping | {
            "port": ports.save(self._shell, card),
            "addresses": self._addresses(),
            "neighbour": self._pinned(),
            "sysctls": {name: self._sysctl(name) for name in _SYSCTLS},
        }

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse a card with somebody's programs or filters, and one without stamps asked for."""
        if self._stamps:
            card_stamps.refuse_without(self._shell, self._settings.interface)
        ports.refuse_filters(self._shell, self._settings.interface, state["port"])

    def prepare(self) -> None:
        """Set the card up, give it its address, and count what it sends and receives."""
        card = self._settings.interface
        ports.prepare(self._shell, card, None, silent=False)
        self._shell.change(["sysctl", "-qw", *(f"{n}={v}" for n, v in _SYSCTLS.items())])
        if self._address not in self._addresses():
            self._shell.change(["ip", "addr", "add", self._address, "dev", card])
        self._shell.change([self._program, "station", card])
        if self._stamps:
            card_stamps.stamp_every_frame(self._shell, card)

    @property
    def _address(self) -> str:
        return f"{self._settings.ipv4}/{_PREFIX}"

    def count(self, configuration: Any, frer: Any, stream: StreamFilter) -> None:
        """Count a stream."""
        card = self._settings.interface
        self._shell.change(frerctl.configure(self._program, card, configuration, frer, stream))

    def count_streams(self, frer: Any, streams: list[SwitchStream]) -> None:
        """Count several streams."""
        card = self._settings.interface
        self._shell.change(frerctl.configure_streams(self._program, card, frer, streams))

    def pin(self, mac: str) -> None:
        """Keep the other one's MAC address."""
        entry = [self._peer, "lladdr", mac, "dev", self._settings.interface, "nud", "permanent"]
        self._shell.change(["ip", "neigh", "replace", *entry])

    def mac(self) -> str:
        """Return the card's MAC address."""
        return ports.link_of(self._shell, self._settings.interface)["address"]

    def counters(self) -> str:
        """Return the station's counters and the kernel's."""
        return self._shell.read(kernel.snapshot(self._program, self._settings.interface))

    def restore(self, state: dict[str, Any]) -> None:
        """Bring everything back; what is as it was is left alone."""
        card, change = self._settings.interface, self._shell.change
        if self._pinned() and not state["neighbour"]:
            change(["ip", "neigh", "del", self._peer, "dev", card])
        for address in self._addresses():
            if address == self._address and address not in state["addresses"]:
                change(["ip", "addr", "del", address, "dev", card])
        for name, value in state["sysctls"].items():
            if self._sysctl(name) != value:
                change(["sysctl", "-qw", f"{name}={value}"])
        ports.restore(self._shell, card, state["port"])
        if self._stamps and card_stamps.policy(self._shell, card) != state["stamps"]:
            card_stamps.set_policy(self._shell, card, state["stamps"])

    def _sysctl(self, name: str) -> str:
        return self._shell.read(["sysctl", "-n", name]).strip()

    def _addresses(self) -> list[str]:
        return addresses(self._shell, self._settings.interface)

    def _pinned(self) -> bool:
        """Tell whether the other one's MAC address is kept for good."""
        where = ["to", self._peer, "dev", self._settings.interface, "nud", "permanent"]
        return bool(_json(self._shell, ["ip", "-j", "neigh", "show", *where]))


def addresses(shell: Shell, device: str) -> list[str]:
    """Return the IPv4 addresses of a device, with the lengths of their prefixes, in order."""
    shown = _json(shell, ["ip", "-j", "-4", "addr", "show", "dev", device])
    found = [entry for link in shown for entry in link.get("addr_info", [])]
    return sorted(f"{e['local']}/{e['prefixlen']}" for e in found if e["family"] == "inet")


def _json(shell: Shell, argv: list[str]) -> Any:
    text = shell.read(argv)
    try:
        return json.loads(text or "[]")
    except json.JSONDecodeError as error:
        raise TestbedError(
            f"ip printed no JSON: {text.strip()[:200]}", shell.name, "Install iproute2"
        ) from error
