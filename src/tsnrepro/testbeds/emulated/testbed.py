"""The emulated testbed: a talker, two FRER switches and a listener on this machine.

Each is a host of namespaces reached over SSH; the cables are veth pairs. Every egress queue is a
token bucket at the link's rate that counts preamble, gap and FCS::

    talker eth0 --- p0 sw1 m0 === m0 sw2 p0 --- eth0 listener
                           m1 === m1            (one pair a member path)

A member path that is to be longer goes through one more host, which holds each frame back::

    sw1 m1 --- a1 delay b1 --- m1 sw2
"""

import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import paramiko

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.common.topology import (
    CARD,
    HOST_PORT,
    HOSTS,
    LISTENER,
    SWITCHES,
    TALKER,
    member_names,
)
from tsnrepro.config import Configuration, EmulatedSettings
from tsnrepro.native import frer
from tsnrepro.testbeds import facts
from tsnrepro.testbeds.clocks import ClockSync, ClockSyncFailure, check_clocks
from tsnrepro.testbeds.emulated.counter_reader import CounterReader
from tsnrepro.testbeds.emulated.delay import DELAY, DelayLine, ports
from tsnrepro.testbeds.emulated.namespace import NamespaceHost
from tsnrepro.testbeds.emulated.requirements import SSHD, missing, refuse
from tsnrepro.testbeds.faults import Faults
from tsnrepro.testbeds.lock import TestbedLock
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.testbeds.ssh import SshHost
from tsnrepro.tools import frerctl, kernel, qdisc
from tsnrepro.tools.counters import Snapshot, read_host
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream
from tsnrepro.tools.kernel import Asked

_ADDRESSES = {TALKER: "10.0.100.1", LISTENER: "10.0.100.2"}
_NETWORK = "10.0.100.0/24"
HOST_MTU = 1500
# Room for the R-TAG and a VLAN tag, where frames carry one.
MEMBER_MTU = 1600
# Reassembly gives up after a second instead of 30, so that a datagram whose second fragment was
# dropped is counted before its trial ends.
_HOST_SYSCTLS = ("net.ipv4.ipfrag_time=1",)
_GONE_REMEDY = "Run the same again; it goes on at the first missing trial"

_COMMAND_SECONDS = 20
# How late a frame may be beyond what its path takes: the kernel's timers and programs. Where a
# program waits for longer, campaigns measure again (`max_stall_ms`).
_LATENESS_SECONDS = 0.04
# The same while no trial runs.
_AT_REST_SECONDS = 0.02
# A server that does not end with its connection is ended.
_SERVER_END_SECONDS = 2
# Longer than any campaign's notebook: the tracer ends with the testbed.
_TRACE_SECONDS = 7 * 24 * 3600

SSHD_FOLDER = "/run/tsnrepro"
# TMPDIR: a host's /run goes with the host. SHLVL: bash reads ~/.bashrc for a first shell over SSH,
# and what the user of this machine has there must not come between a command and its output.
_SSHD_CONFIGURATION = f"""\
HostKey {SSHD_FOLDER}/host_key
AuthorizedKeysFile {SSHD_FOLDER}/authorized_keys
AllowUsers root
PermitRootLogin prohibit-password
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AllowTcpForwarding no
X11Forwarding no
PrintMotd no
PidFile none
LogLevel ERROR
MaxSessions 50
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run SHLVL=1
"""


# Other traffic than a trial's, such as neighbour discovery, never goes on for so many.
_MOST_READINGS = 20


def _counting_port(name: str) -> str:
    """Return the port by which frerctl finds what counts on a host."""
    return HOST_PORT if name in SWITCHES else CARD


class EmulatedTestbed:
    """The testbed, up from ``with`` to its end.

    Raises
    ------
    TestbedError
        The machine lacks something, another campaign holds the testbed, or a step of bringing
        it up failed; whatever was up by then is down again.
    """

    kind = "emulated"
    machines = (LISTENER,)
    max_parallel = 1
    """A host of each machine: all hosts are on this one."""
    faults: Faults
    """What may go wrong on the way, once the testbed is up."""
    frerctl: str
    """Path of frerctl, which every host sees, once the testbed is up."""

    def __init__(self, settings: EmulatedSettings, purpose: str = "") -> None:
        self.settings = settings
        self._purpose = purpose
        self._stack = ExitStack()
        self._spaces: dict[str, NamespaceHost] = {}
        self.hosts: dict[str, SshHost] = {}
        self._tracer = None
        self._servers: list[subprocess.Popen] = []
        self._readers: dict[str, CounterReader] = {}
        # What every station was told to count, in frerctl's words.
        self._delays: dict[str, DelayLine] = {}
        self._counted = [StreamFilter("udp", 1)]
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
        refuse(missing(), self.kind)
        self._stack.enter_context(TestbedLock(self.kind, self._purpose))
        self.frerctl = str(frer.frerctl())
        self.faults = Faults(self.hosts, self.settings, self.frerctl)
        names = [*HOSTS, DELAY] if self.settings.delayed_paths else HOSTS
        for name in names:
            self._spaces[name] = NamespaceHost(name)
            self._stack.callback(self._spaces[name].close)
        self._cable()
        key = paramiko.ECDSAKey.generate()
        for name in names:
            self.hosts[name] = self._connect(name, key)
            self._stack.callback(self.hosts[name].close)
        self._everywhere(self._set_up_ports)
        self._set_up_delay_host()
        self._start_stations()
        if self.settings.trace_drops:
            self._start_tracer()

    def _end_servers(self) -> None:
        for server in self._servers:
            _end_server(server)

    def member_ports(self) -> list[str]:
        """Return the names of a switch's member ports; both switches use the same."""
        return member_names(self.settings.paths)

    @property
    def _tagged_ports(self) -> set[tuple[str, str]]:
        """The ports that frames with an R-TAG come to."""
        tagged = {(name, port) for name in SWITCHES for port in self.member_ports()}
        if self._listener_eliminates:
            tagged |= {(SWITCHES[1], HOST_PORT), (LISTENER, CARD)}
        return tagged

    @property
    def _listener_eliminates(self) -> bool:
        return self.settings.elimination == "listener"

    @property
    def _frer_ports(self) -> dict[str, str]:
        """The hosts that FRER runs on, each with the port by which frerctl finds it."""
        ports: dict[str, str] = dict.fromkeys(SWITCHES, HOST_PORT)
        return ports | {LISTENER: CARD} if self._listener_eliminates else ports

    def _cable(self) -> None:
        """Plug the cables in: the one thing done from outside the hosts."""
        cables = [(TALKER, CARD, SWITCHES[0], HOST_PORT), (SWITCHES[1], HOST_PORT, LISTENER, CARD)]
        for path, port in enumerate(self.member_ports()):
            if path in self.settings.delayed_paths:
                one, other = ports(path)
                cables += [(SWITCHES[0], port, DELAY, one), (DELAY, other, SWITCHES[1], port)]
            else:
                cables.append((SWITCHES[0], port, SWITCHES[1], port))
        for one, port, other, other_port in cables:
            end = ["peer", "name", other_port, "netns", str(self._spaces[other].pid)]
            space = ["netns", str(self._spaces[one].pid)]
            command = ["ip", "link", "add", "name", port, *space, "type", "veth", *end]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise TestbedError(f"no veth pair: {done.stderr.strip()}", f"{one} {port}")

    def _connect(self, name: str, key: paramiko.PKey) -> SshHost:
        """Start ``sshd -i`` in the host's namespaces on one end of a socket pair."""
        space, host_key = self._spaces[name], paramiko.ECDSAKey.generate()
        folder = space.file(SSHD_FOLDER)
        folder.mkdir(mode=0o700)
        host_key.write_private_key_file(str(folder / "host_key"))
        login = f"{key.get_name()} {key.get_base64()}\n"
        (folder / "authorized_keys").write_text(login, encoding="ascii")
        (folder / "sshd_config").write_text(_SSHD_CONFIGURATION, encoding="ascii")
        ours, theirs = socket.socketpair()
        with theirs:
            server = subprocess.Popen(
                space.enter([SSHD, "-i", "-e", "-f", f"{SSHD_FOLDER}/sshd_config"]),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
            )
        if not self._servers:
            # After all connections are closed, so that the servers end at a time.
            self._stack.callback(self._end_servers)
        self._servers.append(server)
        self._stack.callback(ours.close)
        return SshHost(name, host_key, "root", key, sock=ours)

    def _everywhere(
        self, action: Callable[[str], Any], names: Collection[str] = HOSTS
    ) -> dict[str, Any]:
        """Act on several hosts at a time, and return what came of it by host."""
        with ThreadPoolExecutor(len(names)) as pool:
            return dict(zip(names, pool.map(action, names), strict=True))

    def _ports(self, name: str) -> list[str]:
        if name == DELAY:
            return [port for path in self.settings.delayed_paths for port in ports(path)]
        return [HOST_PORT, *self.member_ports()] if name in SWITCHES else [CARD]

    def _set_up_ports(self, name: str) -> None:
        for port in self._ports(name):
            mtu = MEMBER_MTU if (name, port) in self._tagged_ports else HOST_MTU
            self._run(name, kernel.disable_offloads(port))
            if name in SWITCHES:
                # A switch port speaks for no host: no neighbour discovery of its own.
                self._run(name, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
            self._run(name, self._queue(port))
            self._run(name, ["ip", "link", "set", port, "mtu", str(mtu), "up"])
        if name in _ADDRESSES:
            self._run(name, ["sysctl", "-qw", *_HOST_SYSCTLS])
            self._run(name, ["ip", "addr", "add", f"{_ADDRESSES[name]}/24", "dev", CARD])
        if (name, CARD) in self._tagged_ports:
            # A card with room for tags sends packets no longer than any other's.
            route = [_NETWORK, "dev", CARD, "proto", "kernel", "scope", "link"]
            route += ["src", _ADDRESSES[name], "mtu", str(HOST_MTU)]
            self._run(name, ["ip", "route", "replace", *route])

    def _queue(self, port: str) -> list[str]:
        s = self.settings
        member = s.member_link_rate_mbps if port in self.member_ports() else None
        rate = member or s.link_rate_mbps
        return qdisc.tbf(port, rate, burst_bytes=s.burst_bytes, limit_bytes=s.queue_bytes)

    def _set_up_delay_host(self) -> None:
        for port in self._ports(DELAY):
            self._run(DELAY, kernel.disable_offloads(port))
            self._run(DELAY, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
            self._run(DELAY, ["ip", "link", "set", port, "mtu", str(MEMBER_MTU), "up"])
        self._start_delay_lines()

    def _start_delay_lines(self) -> None:
        """Start the delay lines that do not run."""
        for path, delay_us in self.settings.delayed_paths.items():
            port = self.member_ports()[path]
            if port not in self._delays or not self._delays[port].running:
                program = str(frer.delayline())
                line = DelayLine(program, self.hosts[DELAY], path, delay_us, _TRACE_SECONDS)
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
        """Trace the kernel's drops: one kernel serves all hosts, so one tracer sees all."""
        command = [self.frerctl, "drops", *self._counted[0].options()]
        self._tracer = self.hosts[SWITCHES[0]].start(command, deadline_s=_TRACE_SECONDS)
        answer = self._tracer.send_line(self._drops_line())
        if answer != "ready":
            said = self._tracer.wait().stderr.strip() or answer
            raise TestbedError(
                f"drops cannot be traced: {said}",
                "frerctl drops",
                "Set trace_drops: false to use the kernel's totals instead",
            )
        self._tracer.read_line()

    def _run(self, name: str, argv: list[str]) -> str:
        with self._failures():
            return self.hosts[name].run(argv, deadline_s=_COMMAND_SECONDS).check().stdout

    def _ask(self, what: Asked, names: Collection[str] = HOSTS) -> dict[str, str]:
        """Return what the readers of several hosts answer, all at a time, by host."""
        with self._failures():
            try:
                for name in names:
                    self._reader(name).ask(what)
                return {name: self._readers[name].answer() for name in names}
            except BaseException:
                # Answers that nobody waited for would be taken for the next ones.
                self._readers.clear()
                raise

    def _reader(self, name: str) -> CounterReader:
        if name not in self._readers or not self._readers[name].running:
            port = _counting_port(name)
            reader = CounterReader(self.hosts[name], self.frerctl, port, _COMMAND_SECONDS)
            self._readers[name] = reader
        return self._readers[name]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Let what fails in the block be a failure of the testbed, by its cause."""
        try:
            yield
        except (CommandError, TestbedError) as error:
            # With a host its links go, and others fail in its place.
            if gone := [host for host, space in self._spaces.items() if space.is_gone()]:
                what = f"its processes have ended: {', '.join(gone)}"
                raise TestbedError(what, f"found at {error.where}", _GONE_REMEDY) from error
            raise TestbedError(error.what, error.where, error.remedy) from error

    # --- what experiments use ---------------------------------------------------------------

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches to ``frer`` or ``control`` and every station to count ``stream``.

        So is a listener that eliminates. All traffic is treated as the one stream is. Recovery and
        sequence generation start afresh.
        """
        frer = self.settings.frer
        self._revive()

        def set_station(name: str) -> None:
            if port := self._frer_ports.get(name):
                argv = frerctl.configure(self.frerctl, port, configuration, frer, stream)
                self._run(name, argv)
            elif self._several or [stream] != self._counted:
                self._run(name, [self.frerctl, "set", CARD, *stream.options()])

        self._everywhere(set_station)
        if configuration == "frer":
            self._forget_old_numbers()
        self._count([stream], several=False)

    def configure_streams(self, streams: list[SwitchStream]) -> None:
        """Set both switches and every station to tell up to 16 streams apart.

        Each stream has its own sequence numbers, recovery and counters, and what its listener
        answers belongs to it. Traffic of no stream is best effort: untagged, over path 0.
        Recovery and sequence generation start afresh. The hosts keep each other's MAC address
        from now on, because ARP is best effort too and would not survive a cut of path 0.

        Raises
        ------
        ConfigurationError
            There is no stream, or more than a switch has room for.
        TestbedError
            Two streams have a port in common.
        """
        self._revive()

        def set_station(name: str) -> None:
            port = _counting_port(name)
            argv = frerctl.configure_streams(self.frerctl, port, self.settings.frer, streams)
            self._run(name, argv)

        self._everywhere(set_station)
        self._forget_old_numbers()
        self._count([stream.filter for stream in streams], several=True)
        self.pin_neighbours()

    def _forget_old_numbers(self) -> None:
        """Start recovery afresh once what was numbered before is off the paths.

        Hosts send a little unasked. Were such a frame, with a number from before, the first that a
        recovery function takes, it would have the stream's own frames taken for rogue until its
        reset, or the one with the same number for a copy.
        """
        time.sleep(self.settings.longest_delay_s + _AT_REST_SECONDS)
        self._ask("reset", tuple(self._frer_ports))

    def _revive(self) -> None:
        """Start again what runs beside all trials and has ended: it costs one trial, not all."""
        self._start_delay_lines()
        if self._tracer and not self._tracer.running:
            self._start_tracer()

    def pin_neighbours(self) -> None:
        """Let talker and listener keep each other's MAC address without asking for it again."""
        mac = {
            name: self._run(name, ["cat", f"/sys/class/net/{CARD}/address"]).strip()
            for name in _ADDRESSES
        }
        for name, other in ((TALKER, LISTENER), (LISTENER, TALKER)):
            entry = [_ADDRESSES[other], "lladdr", mac[other], "dev", CARD, "nud", "permanent"]
            self._run(name, ["ip", "neigh", "replace", *entry])

    def _count(self, filters: list[StreamFilter], *, several: bool) -> None:
        self._counted, self._several, self.faults.streams = filters, several, len(filters)
        if self._tracer:
            self._tracer.send_line(self._drops_line())

    def _drops_line(self) -> str:
        return " ".join(each.line() for each in self._counted)

    @property
    def transit_seconds(self) -> float:
        """The longest that a frame may be on its way: the longest path, and three full queues."""
        settings = self.settings
        rates = settings.link_rate_mbps, settings.member_link_rate_mbps or settings.link_rate_mbps
        queues_s = 3 * settings.queue_bytes * 8 / (min(rates) * 1e6)
        return settings.longest_delay_s + queues_s + _LATENESS_SECONDS

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts; the caller has ended all traffic before."""
        raw = self._ask("snapshot")
        drops = None
        if self._tracer:
            raw["drops"] = self._tracer.send_line(self._drops_line())
            drops = frerctl.parse_drops(raw["drops"])
        raw |= {f"delay {port}": line.read() for port, line in self._delays.items()}
        delays = {port: line.parse(raw[f"delay {port}"]) for port, line in self._delays.items()}
        return Snapshot({name: read_host(raw[name]) for name in HOSTS}, raw, drops, delays)

    def quiescent_snapshot(self) -> Snapshot:
        """Read the counters of all hosts until no station counts a frame after the reading.

        On a busy machine frames of a trial may wait in a queue for longer than any fixed time.
        """
        for _ in range(_MOST_READINGS):
            read = self.snapshot()
            time.sleep(self.settings.longest_delay_s)
            if self._stations() == {name: host.station for name, host in read.hosts.items()}:
                break
        return read

    def _stations(self) -> dict[str, dict]:
        """Read what stations and switches count, at a third of a snapshot's price."""
        return {name: frerctl.parse_counters(said) for name, said in self._ask("counters").items()}

    def clocks_together(
        self, longest_s: float
    ) -> AbstractContextManager[list[ClockSync | ClockSyncFailure]]:
        """See that talker and listener read one clock, before a block and after it."""
        del longest_s
        return check_clocks(self.hosts[TALKER], self.hosts[LISTENER])

    def epoch_ns(self, host: str) -> int:
        """Return what a host's CLOCK_REALTIME shows: all share this machine's."""
        del host
        return time.time_ns()

    def host_of(self, netns: int) -> str | None:
        """Return the host whose network namespace has this inode number."""
        spaces = self._spaces.items()
        return next((name for name, space in spaces if space.network_inode() == netns), None)

    def address(self, name: str) -> str:
        """Return the IPv4 address of the talker or the listener."""
        return _ADDRESSES[name]

    def describe(self) -> dict:
        """Return the facts that every record of this testbed carries."""
        # All hosts have this machine's. Some take a tenth of a second to tell their version.
        with ThreadPoolExecutor(1) as pool:
            installed = pool.submit(facts.tools, self.hosts[TALKER])
            hosts = self._everywhere(
                lambda name: facts.host(self.hosts[name], self._ports(name), {}), self.hosts
            )
        return {
            "testbed": self.kind,
            "settings": self.settings.recorded(),
            "dataplane_sources": frer.source_digest(),
            "controller": facts.controller(),
            "addresses": _ADDRESSES,
            "ports": {name: self._ports(name) for name in self.hosts},
            "hosts": {name: found | installed.result() for name, found in hosts.items()},
        }


def _end_server(server: subprocess.Popen) -> None:
    """Wait for a server whose connection is closed; one that is stopped would never end."""
    try:
        server.wait(_SERVER_END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if TYPE_CHECKING:
    _satisfied: type[HostTestbed] = EmulatedTestbed
