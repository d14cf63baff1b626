"""The rack testbed: a talker, two FRER switches and a listener, reached over SSH."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.common.topology import HOSTS, LISTENER, STATIONS, SWITCHES, TALKER, member_names
from tsnrepro.config import Configuration, RackSettings
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.config.rack import EbpfSwitch, KernelSwitch, Lan966xSwitch
from tsnrepro.native import frer, streams
from tsnrepro.testbeds.faults import Faults
from tsnrepro.testbeds.hosts import facts, ports, programs
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.hosts.clock_sync import ClockSynchronizer
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure, check_clocks, read_clocks
from tsnrepro.testbeds.hosts.remote import (
    RemoteHosts,
    Unreachable,
    connect,
    in_parallel,
    wait_for_links,
)
from tsnrepro.testbeds.hosts.rollback import Journal, LeasedHosts, roll_back
from tsnrepro.testbeds.hosts.shell import CommandSink, Shell
from tsnrepro.testbeds.hosts.ssh import SshHost
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.testbeds.rack.ebpf import EbpfDriver
from tsnrepro.testbeds.rack.faults import RackFaults
from tsnrepro.testbeds.rack.lan966x import Lan966xDriver
from tsnrepro.testbeds.rack.station import StationDriver
from tsnrepro.testbeds.rack.switch import SwitchDriver
from tsnrepro.testbeds.rack.traffic_control import KernelDriver
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream
from tsnrepro.tools.host_counters import read_host
from tsnrepro.tools.snapshot import Snapshot

# How long a frame may stay in a switch's buffers, or on its way to a program.
_LATENESS_SECONDS = 0.1
# More than other traffic ever lasts.
_MAX_READINGS = 20


class RackHosts(RemoteHosts):
    """The connected hosts of a rack.

    Parameters
    ----------
    settings
        Settings of the testbed.
    stack
        Closes the connections.
    sink
        Receives the commands that change hosts, for a dry run.
    unreachable
        Gets the hosts that cannot be reached; None is to raise.
    roles
        Hosts to connect to; by default all.
    here
        Connections to the others, which are on this machine.
    """

    def __init__(
        self,
        settings: RackSettings,
        stack: ExitStack,
        sink: CommandSink | None = None,
        unreachable: Unreachable | None = None,
        *,
        roles: tuple[str, ...] = HOSTS,
        here: Mapping[str, SshHost] = MappingProxyType({}),
    ) -> None:
        connections = connect(settings, roles, stack, unreachable)
        super().__init__({**connections, **here}, sink, unreachable)
        self.settings = settings
        program, hosts = programs.frerctl(), settings.hosts
        # Between two boards, which agree on the tag.
        trunk = all(isinstance(getattr(hosts, name), Lan966xSwitch) for name in SWITCHES)
        self.switches: dict[str, SwitchDriver] = {
            name: _switch_driver(self.shells[name], getattr(hosts, name), program, trunk=trunk)
            for name in SWITCHES
            if name in self.shells
        }
        peers = {TALKER: hosts.listener, LISTENER: hosts.talker}
        self.stations = {
            name: StationDriver(
                self.shells[name],
                getattr(hosts, name),
                peer.ipv4,
                program,
                stamps=name == LISTENER and LISTENER in settings.stamping,
            )
            for name, peer in peers.items()
            if name in self.shells
        }

    @property
    def drivers(self) -> dict[str, SwitchDriver | StationDriver]:
        """Driver of each host, by role."""
        return {**self.switches, **self.stations}

    @property
    def program_hosts(self) -> list[str]:
        """The hosts that run our programs."""
        return [*self.stations, *(n for n, d in self.switches.items() if d.needs_programs)]

    def check_speeds(self) -> None:
        """Refuse ports that are up at another speed than records would have.

        Raises
        ------
        TestbedError
            A card runs at another speed, or at half duplex.
        """
        for role, driver in self.drivers.items():
            for device in driver.devices.values():
                ports.check_speed(self.shells[role], device, self.settings.link_rate_mbps)

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches and every station to one stream."""
        frer = self.settings.frer

        def configure(role: str) -> None:
            if role in self.switches:
                self.switches[role].configure(configuration, frer, stream)
            else:
                self.stations[role].count(configuration, frer, stream)

        in_parallel(configure, HOSTS)
        self._reset_recovery()

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to several streams.

        Raises
        ------
        TestbedError
            A switch does not support several streams.
        """
        frer = self.settings.frer

        def configure(role: str) -> None:
            driver = self.drivers[role]
            if isinstance(driver, StationDriver):
                driver.count_streams(frer, streams)
            elif isinstance(driver, EbpfDriver):
                driver.configure_streams(frer, streams)
            else:
                raise TestbedError(
                    "the switch's driver does not support several streams",
                    role,
                    "Use switches of driver ebpf",
                )

        in_parallel(configure, HOSTS)
        self._reset_recovery()

    def _reset_recovery(self) -> None:
        """Reset recovery once frames with old sequence numbers are off the paths."""
        time.sleep(0 if self.shells[TALKER].dry_run else _LATENESS_SECONDS)
        in_parallel(lambda role: self.switches[role].reset_recovery(self.settings.frer), SWITCHES)


def _switch_driver(
    shell: Shell,
    settings: EbpfSwitch | KernelSwitch | Lan966xSwitch,
    frerctl: str,
    *,
    trunk: bool,
) -> SwitchDriver:
    """Return the driver of a switch; ``frerctl`` is that program's path on it."""
    if isinstance(settings, Lan966xSwitch):
        return Lan966xDriver(shell, settings, trunk=trunk)
    if isinstance(settings, KernelSwitch):
        return KernelDriver(shell, settings, frerctl)
    return EbpfDriver(shell, settings, frerctl)


class RackTestbed:
    """The rack testbed, leased and configured for a ``with`` block and restored at its end.

    The state that a killed campaign left is rolled back first.

    Parameters
    ----------
    settings
        Settings of the testbed.
    name
        Name of the testbed, for the journal.
    purpose
        Purpose of the campaign, for others who find the rack leased.
    journals
        Folder of the journal; by default that of the repository.

    Raises
    ------
    TestbedError
        A host cannot be reached or configured, or the rack is leased by another.
    """

    kind = "rack"
    machines = STATIONS
    max_parallel = 1
    faults: Faults

    def __init__(
        self,
        settings: RackSettings,
        name: str,
        purpose: str = "",
        journals: Path | None = None,
    ) -> None:
        self.settings = settings
        journal = Journal(name, journals)
        self._lease = LeasedHosts(
            *(settings, journal, purpose),
            connect=self._connect,
            rollback=partial(self._restore, name, journal),
        )
        self._stack = ExitStack()
        self.hosts: dict[str, AliasedHost] = {}

    def __enter__(self) -> "RackTestbed":
        with ExitStack() as stack:
            self._rack = stack.enter_context(self._lease)
            self._rack.prepare()
            devices = {role: driver.devices for role, driver in self._rack.drivers.items()}
            wait_for_links(self._rack.shells, devices)
            self._rack.check_speeds()
            self._stack = stack.pop_all()
        on_host = programs.on_host()
        for role, driver in self._rack.drivers.items():
            self.hosts[role] = AliasedHost(self._rack.connections[role], driver.devices, on_host)
        self._clocks = self._clock_synchronizer()
        self.faults = RackFaults(self.hosts, self.settings, str(frer.frerctl()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _connect(self, stack: ExitStack) -> RackHosts:
        return RackHosts(self.settings, stack)

    def _restore(self, name: str, journal: Journal) -> None:
        restore(name, journal)

    def _clock_synchronizer(self) -> ClockSynchronizer | None:
        ptp = self.settings.ptp
        if ptp is None:
            return None
        # Without aliases: a card of linuxptp may have a name that the topology uses.
        on_host = programs.on_host()
        hosts = {role: AliasedHost(self._rack.connections[role], {}, on_host) for role in STATIONS}
        cards = {role: [getattr(ptp.interfaces, role)] for role in STATIONS}
        program = str(streams.listener())
        return ClockSynchronizer(hosts, cards, program, ptp, self.settings.stamping)

    # --- for experiments -----------------------------------------------------------------

    def member_ports(self) -> list[str]:
        """Return the names of a switch's member ports; both switches use the same."""
        return member_names(self.settings.paths)

    @property
    def concealed(self) -> dict[str, str] | None:
        """Replacements in records of the addresses of the measured network."""
        return self.settings.concealed

    def address(self, name: str) -> str:
        """Return the IPv4 address of the talker or the listener on the measured network."""
        return getattr(self.settings.hosts, name).ipv4

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches to ``frer`` or ``control`` and every station to count ``stream``."""
        self._lease.renew()
        self._rack.configure(configuration, stream)

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to distinguish several streams."""
        self._lease.renew()
        self._rack.configure_streams(streams)
        self.pin_neighbours()

    def set_member_link(self, port: str, *, up: bool) -> None:
        """Set a member path's link up or down at the first switch."""
        self._rack.switches[SWITCHES[0]].set_link(port, up=up)

    def keep_configured(self) -> None:
        """Leave the rack configured and leased at the end; the journal keeps its state."""
        self._lease.keep_configured()

    def pin_neighbours(self) -> None:
        """Give talker and listener static neighbour entries of each other."""
        stations = self._rack.stations
        stations[TALKER].pin(stations[LISTENER].mac())
        stations[LISTENER].pin(stations[TALKER].mac())

    @property
    def transit_seconds(self) -> float:
        """The longest time of a frame in transit."""
        return _LATENESS_SECONDS

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts; the caller has ended all traffic before."""

        def read(role: str) -> str:
            if role in self._rack.switches:
                return self._rack.switches[role].counters()
            return self.hosts[role].rename_in_json(self._rack.stations[role].counters())

        raw = in_parallel(read, HOSTS)
        counted = {role: read_host(raw[role]) for role in HOSTS}
        return Snapshot(counted, raw, None, apart=True)

    def quiescent_snapshot(self) -> Snapshot:
        """Read the counters of all hosts until no port counts a frame between two readings."""
        last = self.snapshot()
        for _ in range(_MAX_READINGS):
            before, last = last, self.snapshot()
            if all(_frames(last, role) == _frames(before, role) for role in HOSTS):
                break
        return last

    def synchronized_clocks(
        self, max_s: float
    ) -> AbstractContextManager[Sequence[ClockSync | ClockSyncFailure]]:
        """Synchronize the clocks during a block by linuxptp; without it, compare them."""
        if self._clocks:
            return self._clocks.synchronized(max_s)
        return check_clocks(self.hosts[TALKER], self.hosts[LISTENER])

    def epoch_ns(self, host: str) -> int:
        """Return a host's CLOCK_REALTIME, read over SSH."""
        return read_clocks(self.hosts[host], str(streams.talker())).epoch_ns

    def host_of(self, netns: int) -> str | None:
        """Return None: drops are not traced on separate machines."""
        del netns

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed has.

        Hosts are named by their roles: there are no addresses, host names or logins.
        """
        hosts = in_parallel(self._describe_host, HOSTS)
        measured = (
            "link_rate_mbps",
            "rx_timestamping",
            "receive_buffer_bytes",
            "listener_sched_fifo",
            "frer",
        )
        # Without the names of linuxptp's cards.
        kept = dict.fromkeys(measured, True) | {"ptp": {*PtpSettings.model_fields}}
        settings = self.settings.recorded(include=kept)
        controller = facts.controller()
        return {
            "testbed": self.kind,
            "settings": settings | {"paths": self.settings.paths, "queue_bytes": None},
            "dataplane_sources": frer.source_digest(),
            "controller": controller,
            "ran_on": self._listener_machine(),
            "drivers": {n: getattr(self.settings.hosts, n).driver for n in SWITCHES},
            "ports": {role: sorted(driver.devices) for role, driver in self._rack.drivers.items()},
            "hosts": hosts,
        }

    def _describe_host(self, role: str) -> dict[str, Any]:
        ports = list(self._rack.drivers[role].devices)
        found = facts.anonymous_host(self.hosts[role], ports, role)
        # tc prints devices without quotes.
        names = {device: name for name, device in self._rack.drivers[role].devices.items()}
        queues = [" ".join(names.get(w) or w for w in line.split()) for line in found["queues"]]
        return found | {"queues": queues}

    def _listener_machine(self) -> dict[str, Any]:
        shell = self._rack.shells[LISTENER]
        processors = shell.read(["nproc"]).strip()
        models = shell.read(["sh", "-c", "grep -m1 'model name' /proc/cpuinfo || true"])
        return {
            "kernel": shell.read(["uname", "-r"]).strip(),
            "processor": models.partition(":")[2].strip() or "unknown",
            "processors": int(processors),
        }


def _frames(snapshot: Snapshot, role: str) -> dict:
    station = snapshot.hosts[role].station
    return station.get("ports", station)


def restore(name: str, journal: Journal, sink: CommandSink | None = None) -> bool:
    """Restore a rack's state from before a killed campaign; see :func:`roll_back`."""
    return roll_back(journal, RackSettings, RackHosts, f"restoring {name}", sink)


def rack_settings(name: str, settings: object) -> RackSettings:
    """Return the settings of a rack.

    Raises
    ------
    ConfigurationError
        The testbed is of another kind.
    """
    if isinstance(settings, RackSettings):
        return settings
    raise ConfigurationError(
        f"testbed '{name}' is not of kind rack", f"config/testbeds/{name}.yaml"
    )


if TYPE_CHECKING:
    _satisfied: type[HostTestbed] = RackTestbed
