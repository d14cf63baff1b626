"""The emulated testbed: a talker, two FRER switches and a listener on this machine.

Each is a host of namespaces, reached over SSH; cables are veth pairs. Every egress queue is a token
bucket at the link's rate, which includes preamble, interframe gap and FCS::

    talker eth0 --- p0 sw1 m0 === m0 sw2 p0 --- eth0 listener
                           m1 === m1            (one pair per member path)

A delayed member path passes through a further host::

    sw1 m1 --- a1 delay b1 --- m1 sw2
"""

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import paramiko

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.common.topology import (
    ADDRESSES,
    CARD,
    HOST_PORT,
    HOSTS,
    LISTENER,
    STATIONS,
    SWITCHES,
    TALKER,
    member_names,
)
from tsnrepro.config import BenchSettings, Configuration, EmulatedSettings
from tsnrepro.native import frer
from tsnrepro.testbeds.emulated.counter_reader import CounterReader
from tsnrepro.testbeds.emulated.delay import DELAY, DelayLine, ports
from tsnrepro.testbeds.emulated.namespace import NamespaceHost, cable, missing_requirements
from tsnrepro.testbeds.emulated.servers import SshServers
from tsnrepro.testbeds.faults import Faults
from tsnrepro.testbeds.hosts import facts
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure, check_clocks
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS
from tsnrepro.testbeds.hosts.lease import TestbedLock
from tsnrepro.testbeds.hosts.ssh import SshHost
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.testbeds.requirements import require_none_missing
from tsnrepro.tools import ethtool, frerctl, qdisc
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream
from tsnrepro.tools.host_counters import Request, read_host
from tsnrepro.tools.snapshot import Snapshot

_NETWORK = "10.0.100.0/24"
HOST_MTU = 1500
# Room for the R-TAG and a VLAN tag.
MEMBER_MTU = 1600
# Reassembly times out after 1 s instead of 30, so that a datagram whose second fragment was dropped
# is counted before its trial ends.
_HOST_SYSCTLS = ("net.ipv4.ipfrag_time=1",)
LOCK = "emulated"
# A talker that catches up after a stall waits at its own port: 50 ms on a link of 20 Mb/s.
_LEAST_HOST_QUEUE_BYTES = 131_072
_RESUME_REMEDY = "Run the same again; it resumes at the first missing trial"

# Delay of a frame by timers and programs beyond that of its path. After a longer stall, a trial is
# measured again (`max_stall_ms`).
_LATENESS_SECONDS = 0.04
# The same while no trial is running.
_IDLE_LATENESS_SECONDS = 0.02
# Longer than any campaign: the tracer ends with the testbed.
_TRACE_SECONDS = 7 * 24 * 3600

# More than other traffic, such as neighbour discovery, ever lasts.
_MAX_READINGS = 20


def _counting_port(name: str) -> str:
    """Return the port by which frerctl finds a host's station or switch."""
    return HOST_PORT if name in SWITCHES else CARD


class EmulatedTestbed:
    """The emulated testbed, up for a ``with`` block.

    Raises TestbedError if the machine does not meet a requirement, the testbed is in use, or it
    could not be brought up; what was up by then has been taken down.
    """

    kind = "emulated"
    machines = (LISTENER,)
    """One host of each machine: all hosts are on this one."""
    max_parallel = 1
    _faults: type[Faults] = Faults
    faults: Faults
    """Fault injection, once the testbed is up."""
    frerctl: str
    """Path of frerctl on all hosts, once the testbed is up."""

    def __init__(self, settings: EmulatedSettings | BenchSettings, purpose: str = "") -> None:
        self.settings = settings
        self._purpose = purpose
        self._stack = ExitStack()
        self._spaces: dict[str, NamespaceHost] = {}
        self.hosts: dict[str, SshHost] = {}
        self._tracer = None
        self._servers = SshServers(self._stack)
        self._readers: dict[str, CounterReader] = {}
        self._delays: dict[str, DelayLine] = {}
        # The streams that the stations count.
        self._filters = [StreamFilter("udp", 1)]
        self._several = False

    def __enter__(self) -> "EmulatedTestbed":
        try:
            self._bring_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- bringing it up ---------------------------------------------------------------------

    def _bring_up(self) -> None:
        require_none_missing(missing_requirements(), self.kind)
        self._reserve()
        self.frerctl = str(frer.frerctl())
        self.faults = self._faults(self.hosts, self.settings, self.frerctl)
        names = [*HOSTS, DELAY] if self.settings.delayed_paths else HOSTS
        for name in names:
            self._spaces[name] = NamespaceHost(name)
            self._stack.callback(self._spaces[name].close)
        self._cable()
        key = paramiko.ECDSAKey.generate()
        for name in names:
            self.hosts[name] = self._connect(name, key)
            self._stack.callback(self.hosts[name].close)
        self._in_parallel(self._set_up_ports)
        self._set_up_delay_host()
        self._start_stations()
        if self.settings.trace_drops:
            self._start_tracer()

    def _reserve(self) -> None:
        # Whatever the kind: what runs on this machine would interfere.
        self._stack.enter_context(TestbedLock(LOCK, self._purpose))

    def member_ports(self) -> list[str]:
        """Return the names of a switch's member ports; both switches use the same."""
        return member_names(self.settings.paths)

    @property
    def _tagged_ports(self) -> set[tuple[str, str]]:
        """The ports that receive frames with an R-TAG."""
        tagged = {(name, port) for name in SWITCHES for port in self.member_ports()}
        if self._listener_eliminates:
            tagged |= {(SWITCHES[1], HOST_PORT), (LISTENER, CARD)}
        return tagged

    @property
    def _listener_eliminates(self) -> bool:
        return self.settings.elimination == "listener"

    @property
    def _frer_ports(self) -> dict[str, str]:
        """The hosts that run FRER, each with the port by which frerctl finds it."""
        ports: dict[str, str] = dict.fromkeys(SWITCHES, HOST_PORT)
        return ports | {LISTENER: CARD} if self._listener_eliminates else ports

    def _cable(self) -> None:
        """Create the cables, from outside the hosts."""
        cables = [(TALKER, CARD, SWITCHES[0], HOST_PORT), (SWITCHES[1], HOST_PORT, LISTENER, CARD)]
        for one, port, other, other_port in [*cables, *self._member_cables()]:
            cable(self._spaces[one], port, self._spaces[other], other_port)

    def _member_cables(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the cables between the switches: each end's host and port."""
        for path, port in enumerate(self.member_ports()):
            if path in self.settings.delayed_paths:
                one, other = ports(path)
                yield SWITCHES[0], port, DELAY, one
                yield DELAY, other, SWITCHES[1], port
            else:
                yield SWITCHES[0], port, SWITCHES[1], port

    def _connect(self, name: str, key: paramiko.PKey) -> SshHost:
        return self._servers.connect(self._spaces[name], key)

    def _in_parallel(
        self, action: Callable[[str], Any], names: Collection[str] = HOSTS
    ) -> dict[str, Any]:
        """Call ``action`` for several hosts in parallel and return the results by host."""
        with ThreadPoolExecutor(len(names)) as pool:
            return dict(zip(names, pool.map(action, names), strict=True))

    def _ports(self, name: str) -> list[str]:
        if name == DELAY:
            return [port for path in self.settings.delayed_paths for port in ports(path)]
        return [HOST_PORT, *self.member_ports()] if name in SWITCHES else [CARD]

    def _set_up_ports(self, name: str) -> None:
        for port in self._ports(name):
            mtu = MEMBER_MTU if (name, port) in self._tagged_ports else HOST_MTU
            self._run(name, ethtool.disable_offloads(port))
            if name in SWITCHES:
                # A switch sends no neighbour discovery of its own.
                self._run(name, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
            self._run(name, self._queue(name, port))
            self._run(name, ["ip", "link", "set", port, "mtu", str(mtu), "up"])
        if name in ADDRESSES:
            self._run(name, ["sysctl", "-qw", *_HOST_SYSCTLS])
            self._run(name, ["ip", "addr", "add", f"{ADDRESSES[name]}/24", "dev", CARD])
        if (name, CARD) in self._tagged_ports:
            # A card with room for tags must not send longer packets.
            route = [_NETWORK, "dev", CARD, "proto", "kernel", "scope", "link"]
            route += ["src", ADDRESSES[name], "mtu", str(HOST_MTU)]
            self._run(name, ["ip", "route", "replace", *route])

    def _queue(self, name: str, port: str) -> list[str]:
        s = self.settings
        limit = s.queue_bytes if name in SWITCHES else max(s.queue_bytes, _LEAST_HOST_QUEUE_BYTES)
        member = s.member_link_rate_mbps if port in self.member_ports() else None
        rate = member or s.link_rate_mbps
        return qdisc.tbf(port, rate, burst_bytes=s.burst_bytes, limit_bytes=limit)

    def _set_up_delay_host(self) -> None:
        for port in self._ports(DELAY):
            self._run(DELAY, ethtool.disable_offloads(port))
            self._run(DELAY, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
            self._run(DELAY, ["ip", "link", "set", port, "mtu", str(MEMBER_MTU), "up"])
        self._start_delay_lines()

    def _start_delay_lines(self) -> None:
        """Start the delay lines that are not running."""
        for path, times_us in self.settings.delayed_paths.items():
            port = self.member_ports()[path]
            if port not in self._delays or not self._delays[port].running:
                program = str(frer.delayline())
                line = DelayLine(program, self.hosts[DELAY], path, times_us, _TRACE_SECONDS)
                self._delays[port] = line

    def _start_stations(self) -> None:
        ports = ",".join(self._ports(SWITCHES[0]))
        frer = frerctl.frer_options(self.settings.frer)
        leave_tags = ["--leave-tags", "on"] if self._listener_eliminates else []
        self._run(SWITCHES[0], [self.frerctl, "switch", ports, *frer])
        self._run(SWITCHES[1], [self.frerctl, "switch", ports, *frer, *leave_tags])
        self._run(TALKER, [self.frerctl, "station", CARD])
        at_listener = ["listener", CARD, *frer] if self._listener_eliminates else ["station", CARD]
        self._run(LISTENER, [self.frerctl, *at_listener])

    def _start_tracer(self) -> None:
        """Trace the kernel's drops: one tracer sees those of all hosts, which share a kernel."""
        command = [self.frerctl, "drops", *self._filters[0].options()]
        self._tracer = self.hosts[SWITCHES[0]].start(command, deadline_s=_TRACE_SECONDS)
        line = self._tracer.send_line(self._drops_line())
        if line != "ready":
            reason = self._tracer.wait().stderr.strip() or line
            raise TestbedError(
                f"drops cannot be traced: {reason}",
                "frerctl drops",
                "Set trace_drops: false to use the kernel's totals instead",
            )
        self._tracer.read_line()

    def _run(self, name: str, argv: list[str]) -> str:
        with self._failures():
            return self.hosts[name].run(argv, deadline_s=COMMAND_SECONDS).check().stdout

    def _request(self, request: Request, names: Collection[str] = HOSTS) -> dict[str, str]:
        """Send a request to the counter readers of several hosts; return responses by host."""
        with self._failures():
            try:
                for name in names:
                    self._reader(name).send(request)
                return {name: self._readers[name].receive() for name in names}
            except BaseException:
                # Pending responses would be taken for those of the next request.
                self._readers.clear()
                raise

    def _reader(self, name: str) -> CounterReader:
        if name not in self._readers or not self._readers[name].running:
            port = _counting_port(name)
            reader = CounterReader(self.hosts[name], self.frerctl, port, COMMAND_SECONDS)
            self._readers[name] = reader
        return self._readers[name]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise failures in the block as the testbed's, with their cause."""
        try:
            yield
        except (CommandError, TestbedError) as error:
            # A host's links disappear with it, and others fail in its place.
            if ended := [host for host, space in self._spaces.items() if space.has_ended()]:
                what = f"hosts have ended: {', '.join(ended)}"
                raise TestbedError(what, f"found at {error.where}", _RESUME_REMEDY) from error
            raise TestbedError(error.what, error.where, error.remedy) from error

    # --- for experiments --------------------------------------------------------------------

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches to ``frer`` or ``control`` and every station to count ``stream``.

        A listener that eliminates is set like a switch. All traffic is treated as the stream is.
        Recovery and sequence generation are reset.
        """
        frer = self.settings.frer
        self._restart_helpers()

        def set_station(name: str) -> None:
            if port := self._frer_ports.get(name):
                argv = frerctl.configure(self.frerctl, port, configuration, frer, stream)
                self._run(name, argv)
            elif self._several or [stream] != self._filters:
                self._run(name, [self.frerctl, "set", CARD, *stream.options()])

        self._in_parallel(set_station)
        if configuration == "frer":
            self._reset_recovery()
        self._count([stream], several=False)

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to distinguish up to 16 streams.

        Each stream has its own sequence numbers, recovery function and counters, and includes its
        listener's replies. Other traffic is best effort: untagged, over path 0. Recovery and
        sequence generation are reset. From now on the hosts have static neighbour entries, because
        ARP is best effort too and fails over a dead path 0.

        Raises ConfigurationError if there is no stream, or there are more than a switch supports.
        Raises TestbedError if two streams have a port in common.
        """
        self._restart_helpers()

        def set_station(name: str) -> None:
            port = _counting_port(name)
            argv = frerctl.configure_streams(self.frerctl, port, self.settings.frer, streams)
            self._run(name, argv)

        self._in_parallel(set_station)
        self._reset_recovery()
        self._count([stream.filter for stream in streams], several=True)
        self.pin_neighbours()

    def _reset_recovery(self) -> None:
        """Reset recovery once frames with old sequence numbers are off the paths.

        Hosts send some frames of their own. If such a frame, with an old number, were the first
        that a recovery function accepts, the stream's own frames would be rogue until its reset,
        or the one with the same number a duplicate.
        """
        time.sleep(self.settings.longest_delay_s + _IDLE_LATENESS_SECONDS)
        self._request("reset", tuple(self._frer_ports))

    def _restart_helpers(self) -> None:
        """Restart delay lines and tracer if they have ended: that costs one trial, not all."""
        self._start_delay_lines()
        if self._tracer and not self._tracer.running:
            self._start_tracer()

    def pin_neighbours(self) -> None:
        """Give talker and listener static neighbour entries of each other."""
        mac = {
            name: self._run(name, ["cat", f"/sys/class/net/{CARD}/address"]).strip()
            for name in STATIONS
        }
        for name, other in zip(STATIONS, reversed(STATIONS), strict=True):
            entry = [ADDRESSES[other], "lladdr", mac[other], "dev", CARD, "nud", "permanent"]
            self._run(name, ["ip", "neigh", "replace", *entry])

    def _count(self, filters: list[StreamFilter], *, several: bool) -> None:
        self._filters, self._several, self.faults.streams = filters, several, len(filters)
        if self._tracer:
            self._tracer.send_line(self._drops_line())

    def _drops_line(self) -> str:
        return " ".join(each.line() for each in self._filters)

    @property
    def transit_seconds(self) -> float:
        """The longest time of a frame in transit: the longest path, and three full queues."""
        settings = self.settings
        rates = settings.link_rate_mbps, settings.member_link_rate_mbps or settings.link_rate_mbps
        queues = 2 * settings.queue_bytes + max(settings.queue_bytes, _LEAST_HOST_QUEUE_BYTES)
        queues_s = queues * 8 / (min(rates) * 1e6)
        return settings.longest_delay_s + queues_s + _LATENESS_SECONDS

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts, after all traffic has ended."""
        raw = self._request("snapshot")
        drops = None
        if self._tracer:
            raw["drops"] = self._tracer.send_line(self._drops_line())
            drops = frerctl.parse_drops(raw["drops"])
        raw |= {f"delay {port}": line.read() for port, line in self._delays.items()}
        delays = {port: line.parse(raw[f"delay {port}"]) for port, line in self._delays.items()}
        return Snapshot({name: read_host(raw[name]) for name in HOSTS}, raw, drops, delays)

    def quiescent_snapshot(self) -> Snapshot:
        """Read the counters of all hosts until no station counts a frame after the reading.

        On a busy machine frames may stay in a queue for longer than any fixed time.
        """
        for _ in range(_MAX_READINGS):
            read = self.snapshot()
            time.sleep(self.settings.longest_delay_s)
            if self._stations() == {name: host.station for name, host in read.hosts.items()}:
                break
        return read

    def _stations(self) -> dict[str, dict]:
        """Read the counters of stations and switches, in a third of a snapshot's time."""
        return {
            name: frerctl.parse_counters(text) for name, text in self._request("counters").items()
        }

    def synchronized_clocks(
        self, max_s: float
    ) -> AbstractContextManager[list[ClockSync | ClockSyncFailure]]:
        """Verify that talker and listener read one clock, before and after a block."""
        del max_s
        return check_clocks(self.hosts[TALKER], self.hosts[LISTENER])

    def epoch_ns(self, host: str) -> int:
        """Return a host's CLOCK_REALTIME, which all hosts share with this machine."""
        del host
        return time.time_ns()

    def host_of(self, netns: int) -> str | None:
        """Return the host whose network namespace has an inode number."""
        spaces = self._spaces.items()
        return next((name for name, space in spaces if space.network_inode() == netns), None)

    def address(self, name: str) -> str:
        """Return the IPv4 address of the talker or the listener."""
        return ADDRESSES[name]

    def describe(self) -> dict:
        """Return the facts that every record of this testbed has."""
        # All hosts share this machine's tools, some of which take 0.1 s to print their version.
        with ThreadPoolExecutor(1) as pool:
            installed = pool.submit(facts.tools, self.hosts[TALKER])
            hosts = self._in_parallel(
                lambda name: facts.host(self.hosts[name], self._ports(name), {}), self.hosts
            )
        return {
            "testbed": self.kind,
            "settings": self.settings.recorded(),
            "dataplane_sources": frer.source_digest(),
            "controller": facts.controller(),
            "addresses": ADDRESSES,
            "ports": {name: self._ports(name) for name in self.hosts},
            "hosts": {name: found | installed.result() for name, found in hosts.items()},
        }


if TYPE_CHECKING:
    _satisfied: type[HostTestbed] = EmulatedTestbed
