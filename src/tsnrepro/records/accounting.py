"""Where every datagram of a trial went.

sent + copies made = received + eliminated + dropped by place + unaccounted

Counted are datagrams, by their first fragment where a datagram is several frames. Every term but
the last is a count of its own: by the sending and the receiving program, by the stations at each
hop, and by the kernel's own report of each frame it freed. So the last is zero only when all of
them agree.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tsnrepro.testbed.snapshot import HostCounters, Snapshot
from tsnrepro.tools.frerctl import Drops, Station

TALKER, LISTENER, SENDING_SWITCH, RECEIVING_SWITCH = "talker", "listener", "sw1", "sw2"
HOST_PORT, CARD = "p0", "eth0"

# The one reason the XDP program's own refusals carry, already counted as eliminated or rogue.
REFUSED_BY_RECOVERY = "veth_xdp_rcv_skb"

SOCKET_BUFFER = "listener socket buffer"
SOCKET_CLOSED = "listener socket, unread when the program closed it"
REASSEMBLY = "listener reassembly"
STACK = "listener network stack"


@dataclass(frozen=True)
class Accounting:
    """Datagrams of one trial. ``drops`` is by place, in the order of the way, zeros included."""

    sent: int
    copies: int
    received: int
    eliminated: int
    drops: dict[str, int]

    @property
    def unaccounted(self) -> int:
        """Datagrams that no counter explains; negative when more is explained than is missing."""
        explained = self.received + self.eliminated + sum(self.drops.values())
        return self.sent + self.copies - explained


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
        The counters of all hosts, read while no traffic was on its way.
    sent, received
        Datagrams that the sending program handed to its socket, and that the receiving program
        read from its own.
    host_of
        Finds the host by the inode number of its network namespace.
    """
    way = _Way(before, after)
    located = _Located(before, after, host_of) if after.drops is not None else None
    drops = {"talker socket": sent - way.out(TALKER, CARD)}
    drops |= _hop_drops(way, located)
    drops["recovery: rogue"] = way.at(RECEIVING_SWITCH, "rogue")
    drops["recovery: tagless"] = way.at(RECEIVING_SWITCH, "tagless")
    drops |= _listener_drops(way, located)
    return Accounting(
        sent=sent,
        copies=sum(way.out(SENDING_SWITCH, port) for port in way.members)
        - way.into(SENDING_SWITCH, HOST_PORT),
        received=received,
        eliminated=way.at(RECEIVING_SWITCH, "eliminated"),
        drops=drops,
    )


class _Way:
    """The stations between the programs, as differences over one trial."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before.hosts, after.hosts
        ports = after.hosts[SENDING_SWITCH].station["ports"]
        self.members = [port for port in ports if port != HOST_PORT]

    def _difference(self, host: str, read: Callable[[HostCounters], Station]) -> Station:
        return read(self.after[host]) - read(self.before[host])

    def _port(self, host: str, port: str, direction: str) -> Station:
        def read(counters: HostCounters) -> Station:
            return counters.station.get("ports", counters.station)[port][direction]

        return self._difference(host, read)

    def out(self, host: str, port: str) -> int:
        return self._port(host, port, "out").stream_frames

    def into(self, host: str, port: str) -> int:
        return self._port(host, port, "in").stream_frames

    def fragments_into(self, host: str, port: str) -> int:
        return self._port(host, port, "in").stream_fragments

    def at(self, host: str, place: str) -> int:
        return self._difference(host, lambda counters: counters.station[place]).stream_frames

    def queue_dropped(self, host: str, port: str) -> int:
        queue = self.after[host].queues[port].dropped - self.before[host].queues[port].dropped
        link = self.after[host].links[port].tx_dropped - self.before[host].links[port].tx_dropped
        return queue + link

    def stack(self, name: str) -> int:
        return self.after[LISTENER].stack[name] - self.before[LISTENER].stack[name]

    def hops(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield each egress: its place, host and port, and how many frames it was given."""
        yield "talker queue", TALKER, CARD, self.out(TALKER, CARD)
        for port in self.members:
            given = self.out(SENDING_SWITCH, port)
            yield f"sw1 queue {port}", SENDING_SWITCH, port, given
        yield "sw2 queue p0", RECEIVING_SWITCH, HOST_PORT, self.out(RECEIVING_SWITCH, HOST_PORT)


class _Located:
    """The kernel's drops of the stream's first fragments during one trial, by host and device."""

    def __init__(
        self, before: Snapshot, after: Snapshot, host_of: Callable[[int], str | None]
    ) -> None:
        earlier = {self._key(item): item.frames for item in before.drops or []}
        self._items = [
            (item, host_of(item.netns) if item.netns else None, count)
            for item in after.drops or []
            if not item.later_fragment and item.function != REFUSED_BY_RECOVERY
            if (count := item.frames - earlier.get(self._key(item), 0))
        ]
        self._indices = {
            (host, name): index
            for host, counters in after.hosts.items()
            for name, index in counters.indices.items()
        }

    @staticmethod
    def _key(item: Drops) -> tuple:
        return item.function, item.reason, item.ifindex, item.netns, item.later_fragment

    def on_device(self, host: str, port: str) -> int:
        index = self._indices[host, port]
        return sum(n for item, where, n in self._items if (where, item.ifindex) == (host, index))

    def by_function(self, *prefixes: str) -> int:
        return sum(n for item, _, n in self._items if item.function.startswith(prefixes))

    def at_listener(self) -> int:
        """Count drops behind the listener's card, and those that know no device."""
        return sum(n for _, where, n in self._items if where in (LISTENER, None))


def _hop_drops(way: _Way, located: _Located | None) -> dict[str, int]:
    """Return what each egress queue dropped, by the trace or by the queue's own counter."""
    return {
        place: located.on_device(host, port) if located else way.queue_dropped(host, port)
        for place, host, port, _ in way.hops()
    }


def _listener_drops(way: _Way, located: _Located | None) -> dict[str, int]:
    unfinished = max(0, way.stack("IpReasmFails"))
    if located is None:
        # Without a trace the kernel's totals must do; they cannot tell what was left unread.
        return {
            SOCKET_BUFFER: way.stack("UdpRcvbufErrors"),
            SOCKET_CLOSED: 0,
            REASSEMBLY: unfinished,
            STACK: way.stack("UdpNoPorts") + way.stack("UdpInCsumErrors"),
        }
    buffer = located.by_function("udp_queue_rcv", "__udp_enqueue", "udpv6_queue_rcv")
    closed = located.by_function("udp_destruct", "udpv6_destruct")
    reassembly = located.by_function("ip_frag", "inet_frag", "ip_expire", "ip6_frag")
    return {
        SOCKET_BUFFER: buffer,
        SOCKET_CLOSED: closed,
        REASSEMBLY: reassembly,
        STACK: located.at_listener() - buffer - closed - reassembly,
    }
