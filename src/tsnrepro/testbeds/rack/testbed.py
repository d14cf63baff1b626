"""The testbed of kind ``rack``: a talker, two FRER switches and a listener in a rack."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.common.topology import HOSTS, LISTENER, SWITCHES, TALKER, member_names
from tsnrepro.config import Configuration, RackSettings
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.native import frer, streams
from tsnrepro.testbeds import facts
from tsnrepro.testbeds.clocks import ClockSync, ClockSyncFailure, check_clocks, read_clocks
from tsnrepro.testbeds.faults import Faults
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.testbeds.rack import programs
from tsnrepro.testbeds.rack.access import connect
from tsnrepro.testbeds.rack.carrier import wait_for_links
from tsnrepro.testbeds.rack.connections import Connected, everywhere
from tsnrepro.testbeds.rack.ebpf import EbpfDriver
from tsnrepro.testbeds.rack.end_station import Station
from tsnrepro.testbeds.rack.faults import RackFaults
from tsnrepro.testbeds.rack.host import RackHost, facts_by_role
from tsnrepro.testbeds.rack.host_lease import HostLease, rollback
from tsnrepro.testbeds.rack.journal import Journal
from tsnrepro.testbeds.rack.shell import CommandSink
from tsnrepro.testbeds.rack.switch import SwitchDriver, driver_of
from tsnrepro.testbeds.rack.time_service import ClockKeeper
from tsnrepro.tools.counters import Snapshot, read_host
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

_STATIONS = (TALKER, LISTENER)
# What is in a switch's buffers or on its way to a program when a test has ended.
_LATENESS_SECONDS = 0.1
# Other traffic than a trial's never goes on for so many.
_MOST_READINGS = 20


class Rack(Connected):
    """The hosts of a rack, connected: what is set up on each, and undone.

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
        self, settings: RackSettings, stack: ExitStack, tell: CommandSink | None = None
    ) -> None:
        super().__init__(connect(settings, HOSTS, stack), tell)
        self.settings = settings
        program, hosts = programs.frerctl(), settings.hosts
        self.switches: dict[str, SwitchDriver] = {
            name: driver_of(self.shells[name], getattr(hosts, name), program) for name in SWITCHES
        }
        self.stations = {
            TALKER: Station(self.shells[TALKER], hosts.talker, hosts.listener.ipv4, program),
            LISTENER: Station(
                self.shells[LISTENER],
                hosts.listener,
                hosts.talker.ipv4,
                program,
                stamps=LISTENER in settings.stamping,
            ),
        }

    @property
    def parts(self) -> dict[str, SwitchDriver | Station]:
        """Every host's driver, by role."""
        return {**self.switches, **self.stations}

    @property
    def with_programs(self) -> list[str]:
        """The hosts that our programs are needed on."""
        return [*_STATIONS, *(n for n, driver in self.switches.items() if driver.needs_programs)]

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches and every station to one stream."""
        frer = self.settings.frer

        def on(role: str) -> None:
            if role in self.switches:
                self.switches[role].configure(configuration, frer, stream)
            else:
                self.stations[role].count(configuration, frer, stream)

        everywhere(on, HOSTS)
        self._start_afresh()

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to several streams.

        Raises
        ------
        TestbedError
            A switch cannot tell streams apart.
        """
        frer = self.settings.frer

        def on(role: str) -> None:
            driver = self.parts[role]
            if isinstance(driver, Station):
                driver.count_streams(frer, streams)
            elif isinstance(driver, EbpfDriver):
                driver.configure_streams(frer, streams)
            else:
                raise TestbedError(
                    "several streams at once are not supported on this switch's driver",
                    role,
                    "Switches of driver ebpf tell streams apart",
                )

        everywhere(on, HOSTS)
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Start recovery afresh once what was numbered before is off the paths."""
        time.sleep(0 if self.shells[TALKER].dry else _LATENESS_SECONDS)
        everywhere(lambda role: self.switches[role].start_afresh(self.settings.frer), SWITCHES)


class HardwareTestbed:
    """A rack that measures, up from ``with`` to its end; its hosts are then as they were before.

    What a campaign that was killed has left is put back first.

    Parameters
    ----------
    settings
        Of the testbed.
    name
        Its name, for the journal.
    purpose
        What for, as others are told who want the rack meanwhile.
    journals
        Folder of the journal; by default that of the repository.

    Raises
    ------
    TestbedError
        A host cannot be reached or set up, or somebody else has reserved the rack.
    """

    kind = "rack"
    machines = _STATIONS
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
        self._held = HostLease(
            *(settings, journal, purpose),
            connect=partial(Rack, settings),
            rollback=partial(restore, name, journal),
        )
        self._stack = ExitStack()
        self.hosts: dict[str, RackHost] = {}

    def __enter__(self) -> "HardwareTestbed":
        with ExitStack() as stack:
            self._rack = stack.enter_context(self._held)
            self._rack.prepare()
            devices = {role: part.devices for role, part in self._rack.parts.items()}
            wait_for_links(self._rack.shells, devices)
            self._stack = stack.pop_all()
        on_host = programs.on_host()
        for role, driver in self._rack.parts.items():
            self.hosts[role] = RackHost(self._rack.connections[role], driver.devices, on_host)
        self._clocks = self._clock_keeper()
        self.faults = RackFaults(self.hosts, self.settings, str(frer.frerctl()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _clock_keeper(self) -> ClockKeeper | None:
        ptp = self.settings.ptp
        if ptp is None:
            return None
        # Without the names of the topology, one of which their cards may happen to have.
        on_host = programs.on_host()
        hosts = {role: RackHost(self._rack.connections[role], {}, on_host) for role in _STATIONS}
        cards = {role: [getattr(ptp.interfaces, role)] for role in _STATIONS}
        program = str(streams.listener())
        return ClockKeeper(hosts, cards, program, ptp, self.settings.stamping)

    # --- what experiments use ------------------------------------------------------------

    def member_ports(self) -> list[str]:
        """Return the names of a switch's member ports; both switches use the same."""
        return member_names(self.settings.paths)

    @property
    def concealed(self) -> dict[str, str] | None:
        """What stands in records for the addresses of the measured network."""
        return self.settings.concealed

    def address(self, name: str) -> str:
        """Return the IPv4 address of the talker or the listener on the measured network."""
        return getattr(self.settings.hosts, name).ipv4

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches to ``frer`` or ``control`` and every station to count ``stream``."""
        self._held.renew()
        self._rack.configure(configuration, stream)

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to tell several streams apart."""
        self._held.renew()
        self._rack.configure_streams(streams)
        self.pin_neighbours()

    def set_member_link(self, port: str, *, up: bool) -> None:
        """Take a member path's link down, or up again, at the first switch."""
        self._rack.switches[SWITCHES[0]].set_link(port, up=up)

    def leave_as_it_is(self) -> None:
        """Let the rack stay set up, and reserved, when this ends; the journal remembers it."""
        self._held.leave_as_they_are()

    def pin_neighbours(self) -> None:
        """Let talker and listener keep each other's MAC address without asking for it again."""
        stations = self._rack.stations
        stations[TALKER].pin(stations[LISTENER].mac())
        stations[LISTENER].pin(stations[TALKER].mac())

    @property
    def transit_seconds(self) -> float:
        """The longest that a frame may be on its way."""
        return _LATENESS_SECONDS

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts; the caller has ended all traffic before."""

        def read(role: str) -> str:
            if role in self._rack.switches:
                return self._rack.switches[role].counters()
            return self.hosts[role].in_topology(self._rack.stations[role].counters())

        raw = everywhere(read, HOSTS)
        counted = {role: read_host(raw[role]) for role in HOSTS}
        return Snapshot(counted, raw, None, apart=True)

    def quiescent_snapshot(self) -> Snapshot:
        """Read the counters of all hosts until no port counts a frame between two readings."""
        last = self.snapshot()
        for _ in range(_MOST_READINGS):
            before, last = last, self.snapshot()
            if all(_frames(last, role) == _frames(before, role) for role in HOSTS):
                break
        return last

    def clocks_together(
        self, longest_s: float
    ) -> AbstractContextManager[Sequence[ClockSync | ClockSyncFailure]]:
        """Let linuxptp keep the clocks together during a block; without it, see what they do."""
        if self._clocks:
            return self._clocks.together(longest_s)
        return check_clocks(self.hosts[TALKER], self.hosts[LISTENER])

    def epoch_ns(self, host: str) -> int:
        """Return what a host's CLOCK_REALTIME shows, read over SSH."""
        return read_clocks(self.hosts[host], str(streams.talker())).epoch_ns

    def host_of(self, netns: int) -> str | None:
        """Return no host: drops are not traced on machines of their own."""
        del netns

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed carries.

        Hosts go by their roles: neither their addresses, nor their names, nor logins are in it.
        """
        hosts = everywhere(self._describe_host, HOSTS)
        measured = (
            "link_rate_mbps",
            "rx_timestamping",
            "receive_buffer_bytes",
            "listener_sched_fifo",
            "frer",
        )
        # Its cards are somebody's, and go by no name in records.
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
            "ports": {role: sorted(part.devices) for role, part in self._rack.parts.items()},
            "hosts": hosts,
        }

    def _describe_host(self, role: str) -> dict[str, Any]:
        ports = list(self._rack.parts[role].devices)
        found = facts_by_role(self.hosts[role], ports, role)
        # tc names devices without quotes.
        names = {device: name for name, device in self._rack.parts[role].devices.items()}
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


def restore(name: str, journal: Journal, tell: CommandSink | None = None) -> bool:
    """Bring a rack back to what it was before a campaign that did not end; see ``rollback``."""
    return rollback(journal, RackSettings, Rack, f"restoring {name}", tell)


def rack_settings(name: str, settings: object) -> RackSettings:
    """Return the settings of a testbed that is a rack.

    Raises
    ------
    ConfigurationError
        It is of another kind.
    """
    if isinstance(settings, RackSettings):
        return settings
    raise ConfigurationError(
        f"testbed '{name}' is not of kind rack", f"config/testbeds/{name}.yaml"
    )


if TYPE_CHECKING:
    _satisfied: type[HostTestbed] = HardwareTestbed
