"""The emulated testbed: a talker, two FRER switches and a listener on this machine.

Each is a host of namespaces reached over SSH; the cables are veth pairs. Every egress queue is a
token bucket at the link's rate that counts preamble, gap and FCS::

    talker eth0 --- p0 sw1 m0 === m0 sw2 p0 --- eth0 listener
                           m1 === m1            (one pair a member path)
"""

import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain

import paramiko

from tsnrepro.dataplane import build
from tsnrepro.errors import CommandError, TestbedError
from tsnrepro.settings import Configuration, EmulatedSettings
from tsnrepro.testbed import facts
from tsnrepro.testbed.lock import TestbedLock
from tsnrepro.testbed.namespace import NamespaceHost
from tsnrepro.testbed.requirements import SSHD, missing
from tsnrepro.testbed.snapshot import Snapshot, read_host
from tsnrepro.testbed.ssh import SshHost
from tsnrepro.tools import frerctl, kernel
from tsnrepro.tools.frerctl import StreamFilter

TALKER, LISTENER = "talker", "listener"
SWITCHES = ("sw1", "sw2")
HOSTS = (TALKER, *SWITCHES, LISTENER)
ADDRESSES = {TALKER: "10.0.100.1", LISTENER: "10.0.100.2"}
HOST_PORT, CARD = "p0", "eth0"

PREAMBLE_GAP_FCS_BYTES = 24
HOST_MTU = 1500
# Room for the R-TAG and a VLAN tag between the switches.
MEMBER_MTU = 1600
# One frame is one packet everywhere: a segment of many frames would get one sequence number.
OFFLOADS = ("tso", "gso", "gro", "sg", "tx", "rx", "txvlan", "rxvlan")

# Reassembly gives up after a second instead of 30, so that a datagram whose second fragment was
# dropped is counted before its trial ends.
HOST_SYSCTLS = ("net.ipv4.ipfrag_time=1",)

COMMAND_SECONDS = 20
# Longer than any campaign's notebook: the tracer ends with the testbed.
TRACE_SECONDS = 7 * 24 * 3600

SSHD_FOLDER = "/run/tsnrepro"
# TMPDIR: a host's /run goes with the host. SHLVL: bash reads ~/.bashrc for a first shell over SSH,
# and what the user of this machine has there must not come between a command and its output.
SSHD_CONFIGURATION = f"""\
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


class EmulatedTestbed:
    """The testbed, up from ``with`` to its end.

    Raises
    ------
    TestbedError
        The machine lacks something, another campaign holds the testbed, or a step of bringing
        it up failed; whatever was up by then is down again.
    """

    kind = "emulated"

    def __init__(self, settings: EmulatedSettings, purpose: str = "") -> None:
        self.settings = settings
        self._purpose = purpose
        self._stack = ExitStack()
        self._spaces: dict[str, NamespaceHost] = {}
        self.hosts: dict[str, SshHost] = {}
        self._tracer = None
        self._stream = StreamFilter("udp", 1)

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
        if lacks := missing():
            raise TestbedError(
                f"this machine lacks {', '.join(lacks)}",
                "testbed emulated",
                "`tsnrepro testbeds` tells what else can run here",
            )
        self._stack.enter_context(TestbedLock(self.kind, self._purpose))
        self._frerctl = str(build.frerctl())
        for name in HOSTS:
            self._spaces[name] = NamespaceHost(name)
            self._stack.callback(self._spaces[name].close)
        self._cable()
        key = paramiko.ECDSAKey.generate()
        for name in HOSTS:
            self.hosts[name] = self._connect(name, key)
            self._stack.callback(self.hosts[name].close)
        self._everywhere(self._set_up_ports)
        self._start_stations()
        if self.settings.locate_drops:
            self._start_tracer()

    def member_ports(self) -> list[str]:
        """Return the names of a switch's member ports; both switches use the same."""
        return [f"m{path}" for path in range(self.settings.paths)]

    def _cable(self) -> None:
        """Plug the cables in: the one thing done from outside the hosts."""
        cables = [(TALKER, CARD, SWITCHES[0], HOST_PORT), (SWITCHES[1], HOST_PORT, LISTENER, CARD)]
        cables += [(SWITCHES[0], port, SWITCHES[1], port) for port in self.member_ports()]
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
        (folder / "sshd_config").write_text(SSHD_CONFIGURATION, encoding="ascii")
        ours, theirs = socket.socketpair()
        with theirs:
            server = subprocess.Popen(
                space.enter([SSHD, "-i", "-e", "-f", f"{SSHD_FOLDER}/sshd_config"]),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
            )
        self._stack.callback(server.wait)
        self._stack.callback(ours.close)
        return SshHost(name, host_key, "root", key, sock=ours)

    def _everywhere(self, action) -> None:
        with ThreadPoolExecutor(len(HOSTS)) as pool:
            list(pool.map(action, HOSTS))

    def _ports(self, name: str) -> list[str]:
        return [HOST_PORT, *self.member_ports()] if name in SWITCHES else [CARD]

    def _set_up_ports(self, name: str) -> None:
        for port in self._ports(name):
            mtu = MEMBER_MTU if port in self.member_ports() else HOST_MTU
            self._run(name, ["ethtool", "-K", port, *chain(*((o, "off") for o in OFFLOADS))])
            if name in SWITCHES:
                # A switch port speaks for no host: no neighbour discovery of its own.
                self._run(name, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
            self._run(name, self._queue(port))
            self._run(name, ["ip", "link", "set", port, "mtu", str(mtu), "up"])
        if name in ADDRESSES:
            self._run(name, ["sysctl", "-qw", *HOST_SYSCTLS])
            self._run(name, ["ip", "addr", "add", f"{ADDRESSES[name]}/24", "dev", CARD])

    def _queue(self, port: str) -> list[str]:
        s = self.settings
        wire = ["stab", "overhead", str(PREAMBLE_GAP_FCS_BYTES), "linklayer", "ethernet"]
        bucket = ["tbf", "rate", f"{s.link_rate_mbps}mbit", "burst", str(s.burst_bytes)]
        handle = ["root", "handle", "1:"]
        command = ["tc", "qdisc", "add", "dev", port, *handle, *wire, *bucket]
        return [*command, "limit", str(s.queue_bytes)]

    def _start_stations(self) -> None:
        ports = ",".join(self._ports(SWITCHES[0]))
        frer = frerctl.frer_options(self.settings.frer)
        for name in SWITCHES:
            self._run(name, [self._frerctl, "switch", ports, *frer])
        for name in ADDRESSES:
            self._run(name, [self._frerctl, "station", CARD])

    def _start_tracer(self) -> None:
        """Trace the kernel's drops: one kernel serves all hosts, so one tracer sees all."""
        command = [self._frerctl, "drops", *self._stream.options()]
        self._tracer = self.hosts[SWITCHES[0]].start(command, deadline_s=TRACE_SECONDS)
        answer = self._tracer.send_line(self._stream.line())
        if answer != "ready":
            said = self._tracer.wait().stderr.strip() or answer
            raise TestbedError(
                f"drops cannot be traced: {said}",
                "frerctl drops",
                "Set locate_drops: false to go by the kernel's totals instead",
            )
        self._tracer.read_line()

    def _run(self, name: str, argv: list[str]) -> str:
        try:
            return self.hosts[name].run(argv, deadline_s=COMMAND_SECONDS).check().stdout
        except CommandError as error:
            raise TestbedError(error.what, error.where, error.remedy) from error

    # --- what experiments use ---------------------------------------------------------------

    def configure(self, configuration: Configuration, stream: StreamFilter) -> None:
        """Set both switches to ``frer`` or ``control`` and every station to count ``stream``.

        Recovery and sequence generation start afresh.
        """
        frer = self.settings.frer

        def set_station(name: str) -> None:
            if name in SWITCHES:
                argv = frerctl.configure(self._frerctl, HOST_PORT, configuration, frer, stream)
                self._run(name, argv)
            elif stream != self._stream:
                self._run(name, [self._frerctl, "set", CARD, *stream.options()])

        self._everywhere(set_station)
        self._stream = stream
        if self._tracer:
            self._tracer.send_line(stream.line())

    def snapshot(self) -> Snapshot:
        """Read the counters of all hosts; the caller has ended all traffic before."""

        def read(name: str) -> tuple[str, str]:
            port = HOST_PORT if name in SWITCHES else CARD
            return name, self._run(name, kernel.snapshot(self._frerctl, port))

        with ThreadPoolExecutor(len(HOSTS)) as pool:
            raw = dict(pool.map(read, HOSTS))
        drops = None
        if self._tracer:
            raw["drops"] = self._tracer.send_line(self._stream.line())
            drops = frerctl.parse_drops(raw["drops"])
        return Snapshot({name: read_host(raw[name]) for name in HOSTS}, raw, drops)

    def host_of(self, netns: int) -> str | None:
        """Return the host whose network namespace has this inode number."""
        spaces = self._spaces.items()
        return next((name for name, space in spaces if space.network_inode() == netns), None)

    def bound(self, role: str, argv: list[str]) -> list[str]:
        """Return ``argv`` bound to the processor that the configuration gives this host."""
        processor = {str(k): v for k, v in self.settings.processors.items()}.get(role)
        return argv if processor is None else ["taskset", "--cpu-list", str(processor), *argv]

    def address(self, name: str) -> str:
        """Return the IPv4 address of the talker or the listener."""
        return ADDRESSES[name]

    def describe(self) -> dict:
        """Return the facts that every record of this testbed carries."""
        return {
            "testbed": self.kind,
            "settings": self.settings.model_dump(mode="json"),
            "dataplane_sources": build.source_digest(),
            "controller": facts.controller(),
            "hosts": {name: facts.host(self.hosts[name], self._ports(name)) for name in HOSTS},
        }
