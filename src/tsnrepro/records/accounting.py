"""Where every datagram of a trial went, on emulated hosts that share a kernel.

sent + copies = received + eliminated + dropped by location + unaccounted

The unit is the datagram, counted by its first fragment. Every term but the last is counted
independently: by the sending and the receiving program, by the stations at each hop, and by the
kernel's trace of each frame that it frees. So the last is zero only if all of these agree.

A kernel may fail to report a drop to the trace, as in some virtual machines while the hypervisor
interrupts them. Datagrams that are then missing between two stations are attributed to the location
whose kernel counters have them, and are also counted as ``untraced``.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER
from tsnrepro.tools.frerctl import Drops
from tsnrepro.tools.snapshot import CounterDifferences, Snapshot

_SENDING_SWITCH, _RECEIVING_SWITCH = SWITCHES

# In older records, where switches that recovered in XDP freed the frames that recovery had already
# counted. Which of these functions the compiler inlined differs by kernel.
_FREED_AFTER_RECOVERY = ("veth_xdp_rcv", "veth_poll")
# Datagrams whose neighbour's address was not resolved did not reach the talker's card, so they are
# counted at the talker's socket already.
_NO_NEIGHBOUR = "SKB_DROP_REASON_NEIGH"

# A delay line works on copies; its host's kernel frees the originals for these reasons.
_DELAY_HOST = "delay"
_NOT_FOR_THIS_HOST = ("SKB_DROP_REASON_OTHERHOST", "SKB_DROP_REASON_UNHANDLED_PROTO")

TALKER_SOCKET = "talker socket"
TALKER_QUEUE = "talker queue"
DELAY_LINE = "delay line"
SOCKET_BUFFER = "listener socket buffer"
SOCKET_CLOSED = "listener socket, unread when the program closed it"
REASSEMBLY = "listener reassembly"
STACK = "listener network stack"
LISTENER_COUNTERS = {
    SOCKET_BUFFER: ("UdpRcvbufErrors",),
    STACK: ("UdpNoPorts", "UdpInCsumErrors"),
    REASSEMBLY: ("IpReasmFails",),
}
"""Counters of the listener's IP stack by location, the most reliable first."""
BEHIND_CARD = "between the listener's card and its program"
"""Datagrams that no counter of the listener explains, if its kernel's drops are not traced."""


LISTENER_CARD = "card of listener, no room"
"""Frames that came while the listener's card had no free buffer: its host was too slow."""


# Drops in the end stations, before the first link or behind the last one. Datagrams that are unread
# when the program ends are not among them: they arrived.
HOST_LOCATIONS = (
    *(TALKER_SOCKET, TALKER_QUEUE, LISTENER_CARD),
    *(SOCKET_BUFFER, STACK, BEHIND_CARD),
)


@dataclass(frozen=True)
class Accounting:
    """Datagrams of one trial. ``drops`` is by location in the order of the path, zeros included.

    ``untraced`` of the drops are missing in the trace and known from the kernel's counters.
    """

    sent: int
    copies: int
    received: int
    eliminated: int
    drops: dict[str, int]
    untraced: int = 0

    @property
    def unaccounted(self) -> int:
        """Datagrams that no counter explains; negative when more is explained than is missing."""
        explained = self.received + self.eliminated + sum(self.drops.values())
        return self.sent + self.copies - explained

    @property
    def unread(self) -> int:
        """Datagrams that arrived and were in the socket when the program closed it."""
        return self.drops.get(SOCKET_CLOSED, 0)

    @property
    def host_lost(self) -> int:
        """Datagrams that talker or listener lost: in their sockets, queues and network stacks."""
        return sum(self.drops.get(location, 0) for location in HOST_LOCATIONS)

    @property
    def network_lost(self) -> int:
        """Datagrams that left the talker and did not reach the listener over any member path.

        Those that failed in reassembly count here: another fragment was dropped on the path.
        Duplicates that recovery passed reduce the number, which may even be negative.
        """
        elsewhere = self.host_lost + self.unread
        return self.eliminated + sum(self.drops.values()) - elsewhere - self.copies

    def document(self) -> dict[str, Any]:
        """Return the accounting as recorded: ``sent - received`` is the sum of the last four."""
        sums = ("network_lost", "host_lost", "unread", "unaccounted")
        return asdict(self) | {name: getattr(self, name) for name in sums}


def where_lost(document: dict[str, Any]) -> dict[str, int]:
    """Return how much of a recorded accounting the network lost, the hosts lost, or is unread."""
    counted = Accounting(0, document["copies"], 0, document["eliminated"], document["drops"])
    return {name: getattr(counted, name) for name in ("network_lost", "host_lost", "unread")}


def account(
    before: Snapshot,
    after: Snapshot,
    sent: int,
    received: int,
    host_of: Callable[[int], str | None],
) -> Accounting:
    """Account for the datagrams of one trial.

    Parameters
    ----------
    before, after
        The counters of all hosts, read while no traffic was in flight.
    sent, received
        Datagrams that the sending program wrote to its socket, and that the receiving program read
        from its socket.
    host_of
        Returns the host whose network namespace has the given inode number.
    """
    path = _StreamPath(before, after)
    traced = _TracedDrops(before, after, host_of) if after.drops is not None else None
    drops = {TALKER_SOCKET: sent - path.out(TALKER, CARD)}
    drops |= _hop_drops(path, traced)
    for port in path.members:
        drops[f"sw2 link {port}, made lossy"] = path.fault(_RECEIVING_SWITCH, port, "dropped")
    if traced is not None and after.delays:
        drops[DELAY_LINE] = traced.in_delay_line()
    drops["recovery: rogue"] = path.at(path.eliminating, "rogue")
    drops["recovery: tagless"] = path.at(path.eliminating, "tagless")
    drops |= _listener_drops(path, traced, received)
    found = Accounting(
        sent=sent,
        # Every member path but the first: the first frame to leave the switch is the original.
        # Frames that a faulty link duplicates on the first path are copies too.
        copies=sum(path.out(_SENDING_SWITCH, port) for port in path.members[1:])
        + path.fault(_SENDING_SWITCH, path.members[0], "copied"),
        received=received,
        eliminated=path.at(path.eliminating, "eliminated"),
        drops=drops,
    )
    if traced is None or found.unaccounted <= 0:
        return found
    return _with_untraced(found, path)


class _StreamPath(CounterDifferences):
    """The stations between the programs, as differences over one trial."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        super().__init__(before, after)
        self._delays_before, self._delays_after = before.delays, after.delays
        ports = after.hosts[_SENDING_SWITCH].station["ports"]
        self.members = [port for port in ports if port != HOST_PORT]

    def out(self, host: str, port: str) -> int:
        return self.port(host, port, "out").stream_frames

    def into(self, host: str, port: str) -> int:
        return self.port(host, port, "in").stream_frames

    def counted_dropped(self, hop: "_Hop") -> int:
        """Return the frames, of any stream, that a hop's queue and its device dropped."""
        queue = self.queue_dropped(hop.host, hop.port)
        return queue + self.transmit_dropped(hop.host, hop.port)

    def delay_line_lost(self, hop: "_Hop") -> int:
        """Return the frames, of any stream, that the delay line behind a hop's queue lost."""
        lines = self._delays_after, self._delays_before
        after, before = (line[hop.port]["forth"].lost if hop.port in line else 0 for line in lines)
        return after - before

    def has_fault(self, hop: "_Hop") -> bool:
        """Return whether the link of a hop lost or duplicated frames by configuration."""
        ends = ((hop.host, hop.port), (hop.next_host, hop.next_port))
        return any(self.fault(*end, what) for end in ends for what in ("dropped", "copied"))

    def counted_at_listener(self) -> dict[str, int]:
        """Return the datagrams, of any stream, that the listener's IP stack dropped."""
        return {
            location: sum(self.stack(LISTENER, name) for name in names)
            for location, names in LISTENER_COUNTERS.items()
        }

    def counted_unread(self) -> int:
        """Return the datagrams, of any stream, that were in sockets when these were closed.

        Datagrams delivered by the IP stack are UDP's unless TCP or ICMP count them. Those that were
        neither read nor counted as dropped were in a socket when it was closed.
        """
        others = ("TcpInSegs", "IcmpInMsgs", "UdpInDatagrams", "UdpNoPorts", "UdpInErrors")
        delivered = self.stack(LISTENER, "IpInDelivers")
        return delivered - sum(self.stack(LISTENER, name) for name in others)

    def hops(self) -> list["_Hop"]:
        return [
            _Hop(TALKER_QUEUE, TALKER, CARD, _SENDING_SWITCH, HOST_PORT),
            *(
                _Hop(f"sw1 queue {port}", _SENDING_SWITCH, port, _RECEIVING_SWITCH, port)
                for port in self.members
            ),
            _Hop("sw2 queue p0", _RECEIVING_SWITCH, HOST_PORT, LISTENER, CARD),
        ]


@dataclass(frozen=True)
class _Hop:
    """An egress queue and the port at the other end of its cable."""

    queue: str
    host: str
    port: str
    next_host: str
    next_port: str


class _TracedDrops:
    """The kernel's drops of the stream's first fragments during one trial, by host and device.

    The trace covers the whole machine: drops in a namespace of no host are not of this stream,
    whatever their port. A frame without a device has no namespace either, and counts.
    """

    def __init__(
        self, before: Snapshot, after: Snapshot, host_of: Callable[[int], str | None]
    ) -> None:
        earlier = {self._key(item): item.frames for item in before.drops or []}
        traced = [
            (item, host_of(item.netns) if item.netns else None)
            for item in after.drops or []
            if not item.later_fragment
            and not item.function.startswith(_FREED_AFTER_RECOVERY)
            and not item.reason.startswith(_NO_NEIGHBOUR)
        ]
        self._items = [
            (item, host, item.frames - earlier.get(self._key(item), 0))
            for item, host in traced
            if host or not item.netns
        ]
        self._indices = {
            (host, name): index
            for host, counters in after.hosts.items()
            for name, index in counters.indices.items()
        }

    @staticmethod
    def _key(item: Drops) -> tuple:
        # With the stream: the trace still has the drops of an earlier trial with several streams.
        location = item.function, item.reason, item.ifindex, item.netns, item.later_fragment
        return *location, item.stream

    def on_device(self, host: str, port: str) -> int:
        index = self._indices[host, port]
        return sum(n for item, where, n in self._items if (where, item.ifindex) == (host, index))

    def by_function(self, *prefixes: str) -> int:
        return sum(n for item, _, n in self._items if item.function.startswith(prefixes))

    def in_delay_line(self) -> int:
        """Count drops in the host of the delay lines, except those of copied frames' originals."""
        return sum(
            n
            for item, where, n in self._items
            if where == _DELAY_HOST and not item.reason.startswith(_NOT_FOR_THIS_HOST)
        )

    def at_listener(self) -> int:
        """Count drops behind the listener's card, and those without a device."""
        return sum(n for _, where, n in self._items if where in (LISTENER, None))


def _with_untraced(traced: Accounting, path: _StreamPath) -> Accounting:
    """Return the accounting with the drops that only the kernel's counters have added."""
    drops, untraced = dict(traced.drops), 0
    for missing, counts in _missing_in_trace(traced, path):
        left = max(0, min(missing, traced.unaccounted - untraced))
        for location, counted in counts.items():
            frames = max(0, min(left, counted - drops[location]))
            drops[location] += frames
            left -= frames
            untraced += frames
    return replace(traced, drops=drops, untraced=untraced)


def _missing_in_trace(
    traced: Accounting, path: _StreamPath
) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the frames missing from one station to the next, and the counters between them.

    Counters include frames of other streams, so they only limit where the missing ones may be.
    """
    drops = traced.drops
    for hop in path.hops():
        if path.has_fault(hop):
            continue
        known = drops[hop.queue] + drops.get(f"{hop.next_host} port {hop.next_port}", 0)
        counted = {hop.queue: path.counted_dropped(hop)}
        if lost := path.delay_line_lost(hop):
            known += drops[DELAY_LINE]
            counted[DELAY_LINE] = lost
        missing = path.out(hop.host, hop.port) - path.into(hop.next_host, hop.next_port) - known
        yield missing, counted
    behind = sum(drops[name] for name in (SOCKET_BUFFER, SOCKET_CLOSED, REASSEMBLY, STACK))
    counted = path.counted_at_listener() | {SOCKET_CLOSED: path.counted_unread()}
    yield path.rx_frames() - traced.received - behind, counted


def _hop_drops(path: _StreamPath, traced: _TracedDrops | None) -> dict[str, int]:
    """Return what each egress queue dropped, and what each switch port dropped on arrival."""
    if traced is None:
        return {hop.queue: _queue_dropped(path, hop) for hop in path.hops()}
    drops = {}
    for hop in path.hops():
        drops[hop.queue] = traced.on_device(hop.host, hop.port)
        if hop.next_host != LISTENER:  # drops at its card count in its network stack
            arrival = traced.on_device(hop.next_host, hop.next_port)
            drops[f"{hop.next_host} port {hop.next_port}"] = arrival
    return drops


def _queue_dropped(path: _StreamPath, hop: _Hop) -> int:
    """Return the queue's count, of any stream, limited to the frames that are missing."""
    missing = path.out(hop.host, hop.port) - path.into(hop.next_host, hop.next_port)
    return min(path.counted_dropped(hop), max(0, missing))


def _listener_drops(
    path: _StreamPath, traced: _TracedDrops | None, received: int
) -> dict[str, int]:
    if traced is None:
        # Without a trace there are only the kernel's totals, which do not show what was unread.
        counted = path.counted_at_listener()
        buffer, stack = counted[SOCKET_BUFFER], counted[STACK]
        # Reassembly also fails after a queue has dropped the first fragment, which counts there.
        came = path.rx_frames() - received - buffer - stack
        unfinished = min(max(0, counted[REASSEMBLY]), max(0, came))
        return {SOCKET_BUFFER: buffer, SOCKET_CLOSED: 0, REASSEMBLY: unfinished, STACK: stack}
    buffer = traced.by_function("udp_queue_rcv", "__udp_enqueue", "udpv6_queue_rcv")
    closed = traced.by_function("udp_destruct", "udpv6_destruct")
    reassembly = traced.by_function("ip_frag", "inet_frag", "ip_expire", "ip6_frag")
    return {
        SOCKET_BUFFER: buffer,
        SOCKET_CLOSED: closed,
        REASSEMBLY: reassembly,
        STACK: traced.at_listener() - buffer - closed - reassembly,
    }
