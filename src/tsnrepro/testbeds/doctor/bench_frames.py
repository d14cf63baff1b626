"""Frames from port to port of a bench: which of them come, with their tags, and where else.

Unlike the doctor's other checks this moves the ports into namespaces, as a campaign does, and gives
them back. The frames are addressed to stations behind the ports, like a campaign's.
"""

import ctypes
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import LISTENER, SWITCHES, TALKER
from tsnrepro.config import BenchSettings
from tsnrepro.testbeds.bench.hosts import reserve
from tsnrepro.testbeds.bench.ports import ROLES, Port, local_shell, moved, ports_of
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, Finding
from tsnrepro.testbeds.emulated.namespace import NamespaceHost
from tsnrepro.testbeds.hosts import ports
from tsnrepro.testbeds.hosts.local import LocalHost
from tsnrepro.testbeds.hosts.remote import wait_for_links
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import Shell

_FRAMES = 20
_INTERVAL_SECONDS = 0.001
_TRANSIT_SECONDS = 0.3
_MARK = b"tsnrepro"
# Locally administered addresses of two stations, and the EtherType of local experiments (IEEE Std
# 802-2014, 9.2.3); the tags are those of IEEE Std 802.1Q and 802.1CB.
_STATION = {TALKER: bytes.fromhex("020000005401"), LISTENER: bytes.fromhex("020000005402")}
_NEIGHBOUR = bytes.fromhex("020000005403")
_EXPERIMENT = b"\x88\xb5"
_C_TAG = b"\x81\x00" + struct.pack("!H", 5 << 13 | 10)
_R_TAG = b"\xf1\xc1" + bytes(4)
_FULL_PACKET = 1500
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_ETH_P_ALL, _SOL_PACKET, _PACKET_AUXDATA, _PACKET_OUTGOING = 3, 263, 8, 4
# struct tpacket_auxdata and its flag of a tag that the kernel took out of the frame, packet(7).
_AUXDATA = struct.Struct("@IIIHHHH")
_VLAN_VALID = 0x10
_LINK_REMEDY = (
    "Check the cables against `ports`, and the device: a managed one may block a port by spanning "
    "tree or another VLAN"
)


@dataclass(frozen=True)
class _Kind:
    """A kind of frame: its tags, and the length of the packet behind them."""

    name: str
    tags: bytes = b""
    length: int = 46
    to_own_side: bool = False
    """From a neighbour of the sending station to that station, behind the same port."""


_KINDS = (
    _Kind("frames"),
    _Kind("frames with VLAN tag", _C_TAG),
    _Kind("frames with R-TAG", _R_TAG),
    _Kind("full frames with R-TAG", _R_TAG, _FULL_PACKET),
)
_TO_OWN_SIDE = _Kind("frames to the port they came from", to_own_side=True)


def send(settings: BenchSettings, name: str) -> list[Finding]:
    """Send frames over each path of a bench, and give the ports back."""
    journal, shell = Journal(name), local_shell()
    with ExitStack() as stack:
        reserve(stack, journal, "tsnrepro doctor --send")
        return send_over(settings, journal, shell)


def send_over(settings: BenchSettings, journal: Journal, shell: Shell) -> list[Finding]:
    """Send frames over each path, with the journal of the testbed."""
    with ExitStack() as stack:
        spaces = {host: NamespaceHost(host) for host in SWITCHES}
        for space in spaces.values():
            stack.callback(space.close)
        pids = {host: space.pid for host, space in spaces.items()}
        stack.enter_context(moved(shell, settings, journal, pids))
        shells = {h: Shell(LocalHost(h, space.enter)) for h, space in spaces.items()}
        listed = ports_of(settings)
        for port in listed:
            _set_up(shells[port.host], port)
        wait_for_links(
            {role: shells[host] for role, host in ROLES.items()},
            {role: {p.device: p.name for p in listed if p.role == role} for role in ROLES},
        )
        opened = {
            port: stack.enter_context(
                _socket(f"/run/netns/{port.namespace(journal.testbed)}", port)
            )
            for port in listed
        }
        return [
            finding
            for one, other in zip(*_by_role(opened).values(), strict=True)
            for finding in _over_path(opened, one, other, settings)
        ]


def _by_role(opened: Mapping[Port, socket.socket]) -> dict[str, list[Port]]:
    return {role: [port for port in opened if port.role == role] for role in ROLES}


def _set_up(shell: Shell, port: Port) -> None:
    """Set a port up as a campaign does; not every card has room for tags."""
    max_mtu = int(ports.link_of(shell, port.name).get("max_mtu") or ports.MEMBER_MTU)
    ports.prepare(shell, port.name, min(max_mtu, ports.MEMBER_MTU) or None, silent=True)


@contextmanager
def _socket(space: str, port: Port) -> Iterator[socket.socket]:
    """Open a socket of whole frames on a port in a network namespace."""

    def make() -> socket.socket:
        with open(space, "rb") as file:
            # os.setns() is Python 3.12's.
            if _LIBC.setns(file.fileno(), _CLONE_NEWNET):
                reason = os.strerror(ctypes.get_errno())
                raise TestbedError(f"cannot enter the network namespace: {reason}", space)
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        made.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        made.bind((port.name, _ETH_P_ALL))
        made.setblocking(False)
        return made

    # A namespace is a thread's: a socket stays in the one that it was opened in.
    with ThreadPoolExecutor(1) as thread, thread.submit(make).result() as opened:
        yield opened


def _frame(kind: _Kind, role: str, number: int) -> bytes:
    other = LISTENER if role == TALKER else TALKER
    ends = (_STATION[role], _NEIGHBOUR) if kind.to_own_side else (_STATION[other], _STATION[role])
    head = b"".join(ends) + kind.tags + _EXPERIMENT
    packet = _MARK + bytes([number])
    return head + packet.ljust(kind.length, b"\0")


def _exchange(
    opened: Mapping[Port, socket.socket], source: Port, kind: _Kind
) -> dict[Port, list[bytes]]:
    """Send frames on a port; return those that each port received, as far as they are ours."""
    for each in opened.values():
        _received(each)
    for number in range(_FRAMES):
        opened[source].send(_frame(kind, source.role, number))
        time.sleep(_INTERVAL_SECONDS)
    time.sleep(_TRANSIT_SECONDS)
    return {port: [f for f in _received(s) if _MARK in f] for port, s in opened.items()}


def _received(opened: socket.socket) -> list[bytes]:
    """Return all frames that a socket has, each with the VLAN tag that the kernel took out."""
    found = []
    while True:
        try:
            frame, control, _, sender = opened.recvmsg(4096, socket.CMSG_SPACE(_AUXDATA.size))
        except BlockingIOError:
            return found
        if sender[2] == _PACKET_OUTGOING:
            continue
        for _, _, data in control:
            status, *_, tci, tpid = _AUXDATA.unpack(data[: _AUXDATA.size])
            if status & _VLAN_VALID:
                frame = frame[:12] + struct.pack("!HH", tpid or 0x8100, tci) + frame[12:]
        found.append(frame)


def _over_path(
    opened: Mapping[Port, socket.socket], one: Port, other: Port, settings: BenchSettings
) -> Iterator[Finding]:
    """Yield the findings of a path: from its talker's port to its listener's, and back."""
    path = f"{one.device} to {other.device}"
    # The answer first: a switch then knows where the listener is.
    back = _exchange(opened, other, _KINDS[0])
    yield _arrival(f"{other.device} to {one.device}", "frames", back[one], needed=True)
    everywhere: Counter[Port] = Counter()
    for kind in _KINDS:
        came = _exchange(opened, one, kind)
        everywhere.update({port: len(frames) for port, frames in came.items()})
        needed = kind is _KINDS[0] or (settings.paths > 1 and _R_TAG in kind.tags)
        yield _arrival(path, kind.name, came[other], needed=needed, tags=kind.tags)
    if back[one]:
        came = _exchange(opened, other, _TO_OWN_SIDE)
        yield _learning(path, len(came[one]), cable=settings.device == "none")
    yield from _elsewhere(path, one, other, everywhere)


def _arrival(
    path: str, what: str, frames: list[bytes], *, needed: bool, tags: bytes = b""
) -> Finding:
    """Return whether the frames came, once each and with their tags."""
    whole = [frame for frame in frames if frame[12:].startswith(tags + _EXPERIMENT)]
    found, verdict, remedy = f"{len(whole)} of {_FRAMES} came", PASS, ""
    if len(whole) > _FRAMES:
        found, verdict = f"{found}: copies", STOP
        remedy = "Look for a loop: two cables between the device and another, or a mirror port"
    elif len(whole) < _FRAMES:
        verdict, remedy = STOP if needed else WARN, _LINK_REMEDY
        if changed := len(frames) - len(whole):
            found += f", {changed} with other tags"
        if not needed:
            remedy = "The device does not forward them: experiments with such frames fail on it"
        elif tags:
            remedy = "FRER needs a device that forwards R-TAGs: use others, or one port each"
    return Finding(f"{what} from {path}", "bench", verdict, found, remedy)


def _learning(path: str, forwarded: int, *, cable: bool) -> Finding:
    """Return whether a device that saw a station's frames forwards those to it by its address."""
    found = f"{forwarded} of {_FRAMES} frames to a station of the port they came from forwarded"
    verdict = WARN if forwarded and not cable else PASS
    remedy = "Keep other stations off the device: it sends each frame to all its ports"
    return Finding(f"MAC learning of {path}", "bench", verdict, found, remedy)


def _elsewhere(path: str, one: Port, other: Port, came: Counter[Port]) -> Iterator[Finding]:
    """Return whether frames of a path came to ports that are not at its end."""
    returned = sum(came[port] for port in came if port.role == one.role)
    yield Finding(
        f"loops of {path}",
        "bench",
        STOP if returned else PASS,
        f"{plural(returned, 'frame')} came back to the talker's ports",
        "Look for a loop: two cables between the device and another",
    )
    strayed = [
        port.device for port in came if port.role == other.role and port != other and came[port]
    ]
    if len(came) > len(ROLES):
        yield Finding(
            f"separation of {path}",
            "bench",
            STOP if strayed else PASS,
            f"frames also came to {', '.join(strayed)}"
            if strayed
            else "frames came to no other port",
            "Use a device of its own for each path, or VLANs: paths that share one fail together",
        )
