"""Where every datagram of a trial went.

sent + copies made = received + eliminated + dropped by place + unaccounted

Counted are datagrams, by their first fragment where a datagram is several frames. Every term but
the last is a count of its own: by the sending and the receiving program, by the stations at each
hop, and by the kernel's own report of each frame it freed. So the last is zero only when all of
them agree.

A kernel may fail to report a drop to the trace, as some virtual machines' does while it interrupts
their agent. What is missing then between two stations is put where the kernel's counters of a queue
or of the IP stack have it, and told as ``untraced``.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER
from tsnrepro.tools.counters import CounterDifferences, Snapshot
from tsnrepro.tools.frerctl import Drops

_SENDING_SWITCH, _RECEIVING_SWITCH = SWITCHES

# Where switches that recovered in XDP freed what they refused and had counted: older records. Which
# of these the compiler made into one function differs by kernel.
_REFUSED_BY_RECOVERY = ("veth_xdp_rcv", "veth_poll")
# What waited for the neighbour's address in vain has not come to the talker's card: it is part of
# what the talker's socket took in and the card was never given.
_NO_NEIGHBOUR = "SKB_DROP_REASON_NEIGH"

# What the kernel of a delay line frees of the frames that the delay line itself has a copy of.
_DELAY_LINE = "delay"
_NOT_FOR_THIS_HOST = ("SKB_DROP_REASON_OTHERHOST", "SKB_DROP_REASON_UNHANDLED_PROTO")

TALKER_SOCKET = "talker socket"
TALKER_QUEUE = "talker queue"
SOCKET_BUFFER = "listener socket buffer"
SOCKET_CLOSED = "listener socket, unread when the program closed it"
REASSEMBLY = "listener reassembly"
STACK = "listener network stack"
OF_LISTENER = {
    SOCKET_BUFFER: ("UdpRcvbufErrors",),
    STACK: ("UdpNoPorts", "UdpInCsumErrors"),
    REASSEMBLY: ("IpReasmFails",),
}
"""The counters of the listener's IP stack by the place they tell of, the surest first."""
BEHIND_CARD = "between the listener's card and its program"
"""What no counter of the listener explains, where its kernel's drops are not traced."""


LISTENER_CARD = "card of listener, no room"
"""What came when the listener's card had no buffer free: its host did not empty them in time."""


# What a program's own host dropped before the first link or behind the last one. What it has not
# read yet when it ends is neither: it arrived.
HOST_PLACES = (
    *(TALKER_SOCKET, TALKER_QUEUE, LISTENER_CARD),
    *(SOCKET_BUFFER, STACK, BEHIND_CARD),
)


@dataclass(frozen=True)
class Accounting:
    """Datagrams of one trial. ``drops`` is by place, in the order of the way, zeros included.

    ``untraced`` of them no trace saw: the kernel's counters have them.
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
        """Datagrams that arrived and waited in the socket when the program closed it."""
        return self.drops.get(SOCKET_CLOSED, 0)

    @property
    def host_lost(self) -> int:
        """Datagrams that talker or listener lost: in their sockets, queues and network stacks."""
        return sum(self.drops.get(place, 0) for place in HOST_PLACES)

    @property
    def network_lost(self) -> int:
        """Datagrams that left the talker and did not come to the listener over any member path.

        What reassembly gave up is the network's: another fragment of it was dropped on the path.
        Repeats that recovery let through make it smaller, in the extreme negative.
        """
        elsewhere = self.host_lost + self.unread
        return self.eliminated + sum(self.drops.values()) - elsewhere - self.copies

    def document(self) -> dict[str, Any]:
        """Return what a record keeps: ``sent - received`` is the sum of the four last."""
        sums = ("network_lost", "host_lost", "unread", "unaccounted")
        return asdict(self) | {name: getattr(self, name) for name in sums}


def where_lost(document: dict[str, Any]) -> dict[str, int]:
    """Return what a recorded accounting says that the network lost, the hosts lost, is unread."""
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
        The counters of all hosts, read while no traffic was on its path.
    sent, received
        Datagrams that the sending program handed to its socket, and that the receiving program
        read from its own.
    host_of
        Finds the host by the inode number of its network namespace.
    """
    path = _StreamPath(before, after)
    located = _Located(before, after, host_of) if after.drops is not None else None
    drops = {TALKER_SOCKET: sent - path.out(TALKER, CARD)}
    drops |= _hop_drops(path, located)
    for port in path.members:
        drops[f"sw2 link {port}, made lossy"] = path.fault(_RECEIVING_SWITCH, port, "dropped")
    if located is not None and after.delays:
        drops["delay line"] = located.in_delay_line()
    drops["recovery: rogue"] = path.at(path.eliminating, "rogue")
    drops["recovery: tagless"] = path.at(path.eliminating, "tagless")
    drops |= _listener_drops(path, located, received)
    found = Accounting(
        sent=sent,
        # Every member path but the first: the first frame to leave the switch is the original.
        # What a duplicating link adds on the first is a copy too.
        copies=sum(path.out(_SENDING_SWITCH, port) for port in path.members[1:])
        + path.fault(_SENDING_SWITCH, path.members[0], "copied"),
        received=received,
        eliminated=path.at(path.eliminating, "eliminated"),
        drops=drops,
    )
    if located is None or after.delays or found.unaccounted <= 0:
        return found
    return _with_untraced(found, path)


class _StreamPath(CounterDifferences):
    """The stations between the programs, as differences over one trial."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        super().__init__(before, after)
        ports = after.hosts[_SENDING_SWITCH].station["ports"]
        self.members = [port for port in ports if port != HOST_PORT]

    def out(self, host: str, port: str) -> int:
        return self.port(host, port, "out").stream_frames

    def into(self, host: str, port: str) -> int:
        return self.port(host, port, "in").stream_frames

    def counted_dropped(self, hop: "_Hop") -> int:
        """Return the frames of any kind that a hop's queue, and the device behind it, dropped."""
        queue = self.queue_dropped(hop.host, hop.port)
        return queue + self.transmit_dropped(hop.host, hop.port)

    def made_faulty(self, hop: "_Hop") -> bool:
        """Tell whether the link of a hop lost or copied frames because it was told to."""
        ends = ((hop.host, hop.port), (hop.next_host, hop.next_port))
        return any(self.fault(*end, what) for end in ends for what in ("dropped", "copied"))

    def counted_at_listener(self) -> dict[str, int]:
        """Return the datagrams of any kind that the listener's IP stack counts as dropped."""
        return {
            place: sum(self.stack(LISTENER, name) for name in names)
            for place, names in OF_LISTENER.items()
        }

    def counted_unread(self) -> int:
        """Return the datagrams of any kind that came to sockets of the listener and stayed there.

        Of what its IP stack delivered, UDP had what TCP and ICMP had not; what nobody read of that
        and no counter has as dropped was in a socket when it was closed.
        """
        others = ("TcpInSegs", "IcmpInMsgs", "UdpInDatagrams", "UdpNoPorts", "UdpInErrors")
        delivered = self.stack(LISTENER, "IpInDelivers")
        return delivered - sum(self.stack(LISTENER, name) for name in others)

    def hops(self) -> list["_Hop"]:
        """Return the hops in the order of the path."""
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

    place: str
    host: str
    port: str
    next_host: str
    next_port: str


class _Located:
    """The kernel's drops of the stream's first fragments during one trial, by host and device.

    The trace sees the whole machine: what has a namespace that is no host's is not of this stream,
    whatever its port. A frame without a device has no namespace either, and counts.
    """

    def __init__(
        self, before: Snapshot, after: Snapshot, host_of: Callable[[int], str | None]
    ) -> None:
        earlier = {self._key(item): item.frames for item in before.drops or []}
        located = [
            (item, host_of(item.netns) if item.netns else None)
            for item in after.drops or []
            if not item.later_fragment
            and not item.function.startswith(_REFUSED_BY_RECOVERY)
            and not item.reason.startswith(_NO_NEIGHBOUR)
        ]
        self._items = [
            (item, host, item.frames - earlier.get(self._key(item), 0))
            for item, host in located
            if host or not item.netns
        ]
        self._indices = {
            (host, name): index
            for host, counters in after.hosts.items()
            for name, index in counters.indices.items()
        }

    @staticmethod
    def _key(item: Drops) -> tuple:
        # With the stream: the trace still has those of an earlier trial, which had several.
        place = item.function, item.reason, item.ifindex, item.netns, item.later_fragment
        return *place, item.stream

    def on_device(self, host: str, port: str) -> int:
        index = self._indices[host, port]
        return sum(n for item, where, n in self._items if (where, item.ifindex) == (host, index))

    def by_function(self, *prefixes: str) -> int:
        return sum(n for item, _, n in self._items if item.function.startswith(prefixes))

    def in_delay_line(self) -> int:
        """Count drops in the host of the delay lines, but those of what it only listens to.

        Its kernel has no use for the frames that the delay line takes a copy of.
        """
        return sum(
            n
            for item, where, n in self._items
            if where == _DELAY_LINE and not item.reason.startswith(_NOT_FOR_THIS_HOST)
        )

    def at_listener(self) -> int:
        """Count drops behind the listener's card, and those that know no device."""
        return sum(n for _, where, n in self._items if where in (LISTENER, None))


def _with_untraced(traced: Accounting, path: _StreamPath) -> Accounting:
    """Return the account with what only the kernel's counters tell, at the places that have it."""
    drops, untraced = dict(traced.drops), 0
    for missing, places in _missing_behind_the_trace(traced, path):
        left = max(0, min(missing, traced.unaccounted - untraced))
        for place, counted in places.items():
            frames = max(0, min(left, counted - drops[place]))
            drops[place] += frames
            left -= frames
            untraced += frames
    return replace(traced, drops=drops, untraced=untraced)


def _missing_behind_the_trace(
    traced: Accounting, path: _StreamPath
) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield what is missing from one station to the next, and what counters between them have.

    Counters know frames of any kind, so they only say where the missing may have gone.
    """
    drops = traced.drops
    for hop in path.hops():
        if path.made_faulty(hop):
            continue
        known = drops[hop.place] + drops.get(f"{hop.next_host} port {hop.next_port}", 0)
        missing = path.out(hop.host, hop.port) - path.into(hop.next_host, hop.next_port) - known
        yield missing, {hop.place: path.counted_dropped(hop)}
    behind = sum(drops[place] for place in (SOCKET_BUFFER, SOCKET_CLOSED, REASSEMBLY, STACK))
    counted = path.counted_at_listener() | {SOCKET_CLOSED: path.counted_unread()}
    yield path.rx_frames() - traced.received - behind, counted


def _hop_drops(path: _StreamPath, located: _Located | None) -> dict[str, int]:
    """Return what each egress queue dropped, and what each switch port dropped on arrival."""
    if located is None:
        return {hop.place: _queue_dropped(path, hop) for hop in path.hops()}
    drops = {}
    for hop in path.hops():
        drops[hop.place] = located.on_device(hop.host, hop.port)
        if hop.next_host != LISTENER:  # what its card drops is the listener's network stack's
            arrival = located.on_device(hop.next_host, hop.next_port)
            drops[f"{hop.next_host} port {hop.next_port}"] = arrival
    return drops


def _queue_dropped(path: _StreamPath, hop: _Hop) -> int:
    """Return the queue's own count, which knows frames of any kind, as far as the stream lacks."""
    missing = path.out(hop.host, hop.port) - path.into(hop.next_host, hop.next_port)
    return min(path.counted_dropped(hop), max(0, missing))


def _listener_drops(path: _StreamPath, located: _Located | None, received: int) -> dict[str, int]:
    if located is None:
        # Without a trace the kernel's totals must do; they cannot tell what was left unread.
        counted = path.counted_at_listener()
        buffer, stack = counted[SOCKET_BUFFER], counted[STACK]
        # Reassembly fails too where a queue dropped the first fragment, which counts there.
        came = path.rx_frames() - received - buffer - stack
        unfinished = min(max(0, counted[REASSEMBLY]), max(0, came))
        return {SOCKET_BUFFER: buffer, SOCKET_CLOSED: 0, REASSEMBLY: unfinished, STACK: stack}
    buffer = located.by_function("udp_queue_rcv", "__udp_enqueue", "udpv6_queue_rcv")
    closed = located.by_function("udp_destruct", "udpv6_destruct")
    reassembly = located.by_function("ip_frag", "inet_frag", "ip_expire", "ip6_frag")
    return {
        SOCKET_BUFFER: buffer,
        SOCKET_CLOSED: closed,
        REASSEMBLY: reassembly,
        STACK: located.at_listener() - buffer - closed - reassembly,
    }
