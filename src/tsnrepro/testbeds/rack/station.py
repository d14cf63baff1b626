"""Driver of a rack's talker or listener: its configuration for a campaign, and its saved state."""

from typing import Any

from tsnrepro.common.topology import CARD
from tsnrepro.config.rack import RackStation
from tsnrepro.testbeds.hosts import nic_timestamps, ports
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.tools import frerctl, host_counters
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

# As on the emulated testbed: reassembly of a datagram whose second fragment was dropped times out
# within its trial.
_SYSCTLS = {"net.ipv4.ipfrag_time": "1"}
_PREFIX = 24


class StationDriver:
    """Configures a talker or a listener; see :class:`tsnrepro.testbeds.hosts.remote.HostDriver`.

    Parameters
    ----------
    shell
        Commands on the host.
    settings
        The host's section in the testbed's file.
    peer
        Address of the other station.
    program
        Path of frerctl on the host.
    stamps
        Whether its card stamps received frames.
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
        stamping = {"stamps": nic_timestamps.policy(self._shell, card)} if self._stamps else {}
        return stamping | {
            "port": ports.save(self._shell, card),
            "addresses": ports.addresses(self._shell, card),
            "neighbour": self._has_static_neighbour(),
            "sysctls": {name: self._sysctl(name) for name in _SYSCTLS},
        }

    def check(self, state: dict[str, Any]) -> None:
        """Refuse a card that is in use, has a small MTU or lacks time stamping."""
        if self._stamps:
            nic_timestamps.check_support(self._shell, self._settings.interface)
        ports.check_filters(self._shell, self._settings.interface, state["port"])
        ports.check_queues(self._shell, self._settings.interface)
        ports.check_mtu(self._shell, self._settings.interface, state["port"])

    def prepare(self) -> None:
        """Set the card up, assign its address, and count sent and received frames."""
        card = self._settings.interface
        ports.prepare(self._shell, card, None, silent=False)
        self._shell.change(["sysctl", "-qw", *(f"{n}={v}" for n, v in _SYSCTLS.items())])
        if self._address not in ports.addresses(self._shell, card):
            self._shell.change(["ip", "addr", "add", self._address, "dev", card])
        self._shell.change([self._program, "station", card])
        if self._stamps:
            nic_timestamps.stamp_every_frame(self._shell, card)

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
        """Set a static neighbour entry of the other station."""
        entry = [self._peer, "lladdr", mac, "dev", self._settings.interface, "nud", "permanent"]
        self._shell.change(["ip", "neigh", "replace", *entry])

    def mac(self) -> str:
        """Return the card's MAC address."""
        return ports.link_of(self._shell, self._settings.interface)["address"]

    def counters(self) -> str:
        """Return the station's counters and the kernel's."""
        card = self._settings.interface
        return self._shell.read(host_counters.snapshot(self._program, card, [card]))

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, changing only what differs."""
        card, change = self._settings.interface, self._shell.change
        if self._has_static_neighbour() and not state["neighbour"]:
            change(["ip", "neigh", "del", self._peer, "dev", card])
        for address in ports.addresses(self._shell, card):
            if address == self._address and address not in state["addresses"]:
                change(["ip", "addr", "del", address, "dev", card])
        for name, value in state["sysctls"].items():
            if self._sysctl(name) != value:
                change(["sysctl", "-qw", f"{name}={value}"])
        ports.restore(self._shell, card, state["port"])
        if self._stamps and nic_timestamps.policy(self._shell, card) != state["stamps"]:
            nic_timestamps.set_policy(self._shell, card, state["stamps"])

    def _sysctl(self, name: str) -> str:
        return self._shell.read(["sysctl", "-n", name]).strip()

    def _has_static_neighbour(self) -> bool:
        where = ["to", self._peer, "dev", self._settings.interface, "nud", "permanent"]
        return bool(ports.read_json(self._shell, ["ip", "-j", "neigh", "show", *where]))
