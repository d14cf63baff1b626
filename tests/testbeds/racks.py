"""Racks for tests: hosts and switches as namespaces, each behind an OpenSSH server on a TCP port.

Nothing of the project knows that they are no machines: they are reached by address, port, key file
and known_hosts. A LAN966x is a namespace whose shell is ``lan966x_shell.py``.
"""

import ctypes
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import paramiko
import yaml

from tsnrepro.config import NicPairSettings, RackSettings, parse
from tsnrepro.native import frer
from tsnrepro.native.programs import SOURCES
from tsnrepro.testbeds.emulated.namespace import SSHD, NamespaceHost
from tsnrepro.testbeds.rack.testbed import RackTestbed

SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = Path(__file__).with_name("lan966x_shell.py")
TC = Path(__file__).with_name("tc_with_frer.py")
KEYS = "/run/rack-sshd"
BOARD_SHELL = "/run/board-shell"
CARDS = {"talker": "enp2s0", "listener": "enx00051b5103bf"}
PTP_CARDS = {"talker": "eth0", "listener": "enp7s0"}
CHIP_PORTS = {4: "eth4", 1: "eth1", 2: "eth2"}
SSHD_CONFIGURATION = """\
HostKey {keys}/host_key
AuthorizedKeysFile {keys}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AllowTcpForwarding {forwarding}
PidFile none
LogLevel ERROR
MaxSessions 50
SetEnv PATH={path} TMPDIR=/run SHLVL=1
"""


class Server:
    """An ``sshd -i`` for each connection to a port of the loopback, as inetd would start it."""

    def __init__(self, enter, listening: socket.socket | None = None) -> None:
        self._enter = enter
        self._listening = listening or socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._servers: list[subprocess.Popen] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            with accepted:
                argv = self._enter([SSHD, "-i", "-e", "-f", f"{KEYS}/sshd_config"])
                self._servers.append(
                    subprocess.Popen(
                        argv,
                        stdin=accepted.fileno(),
                        stdout=accepted.fileno(),
                        stderr=subprocess.DEVNULL,
                    )
                )

    def close(self) -> None:
        self._listening.close()
        for server in self._servers:
            server.kill()
            server.wait()


class Rack:
    """A rack of four hosts, cabled as in the published measurements.

    Parameters
    ----------
    folder
        For keys and the testbed's file.
    drivers
        Of the two switches: ``ebpf``, ``kernel`` or ``lan966x``.
    ptp
        How linuxptp keeps clocks together, over a cable of its own.
    action_frer
        Whether tc of switches of driver ``kernel`` knows the action ``frer``: ``tc_with_frer.py``.
    """

    def __init__(
        self,
        folder: Path,
        drivers: tuple[str, str],
        ptp: dict | None = None,
        *,
        action_frer: bool = False,
    ) -> None:
        self.ptp, self._action_frer = ptp, action_frer
        self.folder, self.drivers = folder, dict(zip(("sw1", "sw2"), drivers, strict=True))
        self._stack = ExitStack()
        self.spaces: dict[str, NamespaceHost] = {}
        self.ports: dict[str, int] = {}

    def __enter__(self) -> "Rack":
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()

    def _build(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        login = paramiko.ECDSAKey.generate()
        login.write_private_key_file(str(self.folder / "key"))
        for role in ("talker", *self.drivers, "listener"):
            self.spaces[role] = NamespaceHost(role)
            self._stack.callback(self.spaces[role].close)
        self._plug_in()
        known = []
        for role, space in self.spaces.items():
            known.append(self._serve(role, space, login))
        (self.folder / "known_hosts").write_text("".join(known), encoding="ascii")
        text = yaml.safe_dump(self.document())
        (self.folder / "rack.yaml").write_text(text, encoding="utf-8")

    def _plug_in(self) -> None:
        self._cable("talker", CARDS["talker"], "sw1", "eth4")
        for member in ("eth1", "eth2"):
            self._cable("sw1", member, "sw2", member)
        self._cable("sw2", "eth4", "listener", CARDS["listener"])
        if self.ptp:
            self._cable("talker", PTP_CARDS["talker"], "listener", PTP_CARDS["listener"])

    def _cable(self, one: str, port: str, other: str, other_port: str) -> None:
        end = ["peer", "name", other_port, "netns", str(self.spaces[other].pid)]
        space = ["netns", str(self.spaces[one].pid)]
        argv = ["ip", "link", "add", "name", port, *space, "type", "veth", *end]
        subprocess.run(argv, check=True)
        self.run(one, "ip", "link", "set", port, "up")
        self.run(other, "ip", "link", "set", other_port, "up")

    def _serve(self, role: str, space: NamespaceHost, login: paramiko.PKey) -> str:
        folder, host_key = space.file(KEYS), paramiko.ECDSAKey.generate()
        folder.mkdir(mode=0o700)
        host_key.write_private_key_file(str(folder / "host_key"))
        public = f"{login.get_name()} {login.get_base64()}\n"
        (folder / "authorized_keys").write_text(public, encoding="ascii")
        path = SYSTEM
        if self.drivers.get(role) == "lan966x":
            self._make_board(space)
            path = f"{BOARD_SHELL}:{SYSTEM}"
        if self.drivers.get(role) == "kernel" and self._action_frer:
            self._teach_tc(space)
            path = f"{BOARD_SHELL}:{SYSTEM}"
        text = SSHD_CONFIGURATION.format(keys=KEYS, path=path, forwarding="no")
        (folder / "sshd_config").write_text(text, encoding="ascii")
        server = Server(space.enter, self._listening())
        self._stack.callback(server.close)
        self.ports[role] = server.port
        return f"[127.0.0.1]:{server.port} {host_key.get_name()} {host_key.get_base64()}\n"

    def _listening(self) -> socket.socket | None:
        """Return the socket that logins come in at; by default one of this machine."""
        return None

    def _make_board(self, space: NamespaceHost) -> None:
        board = {"ports": self._board_ports(), "frerctl": str(frer.frerctl())}
        board["trunk"] = [*self.drivers.values()] == ["lan966x", "lan966x"]
        space.file("/run/lan966x-board.json").write_text(json.dumps(board), encoding="utf-8")
        space.file("/run/lan966x.json").touch()
        shell = space.file(BOARD_SHELL)
        shell.mkdir()
        for command in ("frer", "vcap", "ip", "bridge", "ethtool"):
            _put_command(shell / command, [str(SHELL), command])

    def _board_ports(self) -> dict[int, str]:
        """Return the cabled ports of a board, by their numbers in the chip."""
        return CHIP_PORTS

    def _teach_tc(self, space: NamespaceHost) -> None:
        shell = space.file(BOARD_SHELL)
        shell.mkdir()
        _put_command(shell / "tc", [str(TC), str(_frerctl_behind_the_counting(self.folder))])

    def run(self, role: str, *argv: str) -> str:
        """Run a command on a host, past SSH and past a board's shell."""
        done = subprocess.run(
            self.spaces[role].enter(list(argv)), capture_output=True, text=True, check=True
        )
        return done.stdout

    @contextmanager
    def jump_host(self) -> Iterator[dict]:
        """Give access to a host outside of the rack that lets connections through."""
        space = NamespaceHost("jump")
        host_key = paramiko.ECDSAKey.generate()
        try:
            folder = space.file(KEYS)
            folder.mkdir(mode=0o700)
            host_key.write_private_key_file(str(folder / "host_key"))
            login = paramiko.ECDSAKey.from_private_key_file(str(self.folder / "key"))
            public = f"{login.get_name()} {login.get_base64()}\n"
            (folder / "authorized_keys").write_text(public, encoding="ascii")
            text = SSHD_CONFIGURATION.format(keys=KEYS, path=SYSTEM, forwarding="yes")
            (folder / "sshd_config").write_text(text, encoding="ascii")

            def enter(argv: list[str]) -> list[str]:
                # Its own files, and the network that the rack is reached over.
                spaces = ["--pid", "--mount", "--uts"]
                return ["nsenter", "--target", str(space.pid), *spaces, "--", *argv]

            server = Server(enter)
            try:
                known = f"[127.0.0.1]:{server.port} {host_key.get_name()} {host_key.get_base64()}"
                with (self.folder / "known_hosts").open("a", encoding="ascii") as file:
                    file.write(f"{known}\n")
                self.ports["jump"] = server.port
                yield self._access("jump")
            finally:
                server.close()
        finally:
            space.close()

    @contextmanager
    def up(self, name: str, **changes) -> Iterator[RackTestbed]:
        """Bring the testbed up, and see that all hosts are as before when it has ended."""
        before = fingerprint(self)
        with RackTestbed(self.settings(**changes), name, "a test", self.folder) as testbed:
            yield testbed
        assert fingerprint(self) == before

    # --- the testbed's file -----------------------------------------------------------------

    def _stations(self) -> dict[str, dict]:
        addresses = {"talker": "10.0.100.1", "listener": "10.0.100.2"}
        return {
            role: self._access(role) | {"interface": CARDS[role], "ipv4": address}
            for role, address in addresses.items()
        }

    def document(self) -> dict:
        """Return the testbed's file."""
        hosts = self._stations()
        for role, driver in self.drivers.items():
            ports = [
                {"device": device, "chip_port": chip} if driver == "lan966x" else device
                for chip, device in CHIP_PORTS.items()
            ]
            described = {"driver": driver, "host_port": ports[0], "member_ports": ports[1:]}
            hosts[role] = self._access(role) | described
        return {
            **{"kind": "rack", "known_hosts": str(self.folder / "known_hosts")},
            **{"hosts": hosts, "frer": {"history_length": 512, "reset_ms": 200}},
            "ptp": self.ptp and self.ptp | {"interfaces": PTP_CARDS},
        }

    def _access(self, role: str) -> dict:
        key = str(self.folder / "key")
        return {"address": "127.0.0.1", "port": self.ports[role], "key_file": key}

    def settings(self, **changes) -> RackSettings:
        """Return the testbed's settings."""
        return parse(RackSettings, self.document() | changes, "a rack of a test")


def _put_command(path: Path, words: list[str]) -> None:
    argv = [sys.executable, "-S", "-E", *words]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', "ascii")
    path.chmod(0o755)


def _frerctl_behind_the_counting(folder: Path) -> Path:
    """Return a frerctl whose switch comes where the driver's rules do: behind what counts."""
    program = folder / "frerctl-behind"
    if not program.exists():
        made = ["make", "-s", f"BUILD={folder}", "CC=clang -DFILTER_PRIORITY=10"]
        subprocess.run([*made, f"{folder}/frerctl"], cwd=SOURCES, check=True)
        (folder / "frerctl").rename(program)
    return program


class Pair(Rack):
    """Two hosts and a cable between their cards."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ("ebpf", "ebpf"))
        self.drivers = {}

    def _plug_in(self) -> None:
        self._cable("talker", CARDS["talker"], "listener", CARDS["listener"])

    def document(self) -> dict:
        """Return the testbed's file."""
        known_hosts = str(self.folder / "known_hosts")
        hosts = {"hosts": self._stations(), "ptp": None}
        return {"kind": "nic-pair", "known_hosts": known_hosts, "link_rate_mbps": 10_000, **hosts}

    def settings(self, **changes) -> NicPairSettings:
        """Return the testbed's settings."""
        return parse(NicPairSettings, self.document() | changes, "a pair of a test")


class AroundPc(Rack):
    """Two switches between the ports of a PC, which is the host ``talker`` and reaches them.

    One alone has ``members`` ports for the PC's listener.
    """

    PORTS = ("enp3s0", "enp4s0", "enp6s0")
    members = 2

    def _plug_in(self) -> None:
        self._cable("talker", self.PORTS[0], "sw1", "eth4")
        if "sw2" not in self.drivers:
            for member in range(self.members):
                self._cable("sw1", f"eth{1 + member}", "talker", self.PORTS[1 + member])
            return
        for member in ("eth1", "eth2"):
            self._cable("sw1", member, "sw2", member)
        self._cable("sw2", "eth4", "talker", self.PORTS[1])

    def _board_ports(self) -> dict[int, str]:
        return dict([*CHIP_PORTS.items()][: 1 + self.members])

    def _listening(self) -> socket.socket:
        made: list[socket.socket] = []
        thread = threading.Thread(target=lambda: made.append(self._socket_on_pc()))
        thread.start()
        thread.join()
        return made[0]

    def _socket_on_pc(self) -> socket.socket:
        net = os.open(f"/proc/{self.spaces['talker'].pid}/ns/net", os.O_RDONLY)
        # Of this thread alone.
        assert ctypes.CDLL(None, use_errno=True).setns(net, 0) == 0
        os.close(net)
        return socket.create_server(("127.0.0.1", 0))

    def document(self) -> dict:
        """Return the testbed's file."""
        rack = super().document()
        switches = {name: rack["hosts"][name] for name in self.drivers}
        for switch in switches.values():
            del switch["member_ports"][self.members :]
        members = 1 if "sw2" in self.drivers else self.members
        listener = self.PORTS[1 : 1 + members]
        return {
            **{"kind": "bench", "device": "D10", "virtual_ports": True},
            # The most that every driver supports.
            "frer": rack["frer"] | {"history_length": 32},
            "ports": {"talker": [self.PORTS[0]], "listener": [*listener]},
            "switches": {"known_hosts": rack["known_hosts"], **switches},
        }


def fingerprint(rack: Rack) -> dict:
    """Return the state of all hosts, seen from outside and without the code under test."""
    found = {}
    for role in rack.spaces:
        links = json.loads(rack.run(role, "ip", "-j", "-d", "addr", "show"))
        addresses = {
            link["ifname"]: [a["local"] for a in link["addr_info"] if a["family"] == "inet"]
            for link in links
        }
        found[role] = {
            # Whether there is a carrier is known a second later.
            "links": [
                (link["ifname"], link["mtu"], "UP" in link["flags"], "PROMISC" in link["flags"])
                for link in links
            ],
            "addresses": addresses,
            "offloads": [rack.run(role, "ethtool", "-k", link["ifname"]) for link in links],
            "queues": rack.run(role, "tc", "qdisc", "show"),
            "neighbours": rack.run(role, "ip", "neigh", "show", "nud", "permanent"),
            "ipfrag_time": rack.run(role, "sysctl", "-n", "net.ipv4.ipfrag_time"),
            "programs": rack.run(role, "ls", "/run").split().count("tsnrepro-programs"),
            "reserved": rack.run(role, "ls", "/run").split().count("tsnrepro-reservation"),
        }
        if rack.drivers.get(role) == "lan966x":
            board = json.loads(rack.spaces[role].file("/run/lan966x.json").read_text() or "{}")
            found[role]["board"] = chip_state(board)
    return found


def chip_state(board: dict) -> dict:
    """Return what a board is told; a flow that was only looked at is as one never named."""
    flow = {"ms_enable": 0, "ms_id": 0, "generation": 0, "pop": 0, "dev1": "-", "dev2": "-"}
    kept = ("bridges", "masters", "vlans", "ms", "rules")
    found = {key: board.get(key, {}) for key in kept}
    found["flows"] = {k: v for k, v in board.get("flows", {}).items() if v != flow}
    for key in ("cs", "flooding"):
        found[key] = {k: v for k, v in board.get(key, {}).items() if any(v.values())}
    return found
