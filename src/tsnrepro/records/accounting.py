"""Where every datagram of a trial went.

sent + copies made = received + eliminated + dropped by place + unaccounted

Counted are datagrams, by their first fragment where a datagram is several frames. Every term but
the last is a count of its own: by the sending and the receiving program, by the stations at each
hop, and by the kernel's own report of each frame it freed. So the last is zero only when all of
them agree.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tsnrepro.testbed.snapshot import HostCounters, Snapshot
from tsnrepro.tools.frerctl import Drops, Station

TALKER, LISTENER, SENDING_SWITCH, RECEIVING_SWITCH = "talker", "listener", "sw1", "sw2"
HOST_PORT, CARD = "p0", "eth0"

# Where the XDP program's own refusals are freed, already counted as eliminated or rogue. Which of
# these the compiler made into one function differs by kernel.
REFUSED_BY_RECOVERY = ("veth_xdp_rcv", "veth_poll")
# What waited for the neighbour's address in vain has not come to the talker's card: it is part of
# what the talker's socket took in and the card was never given.
NO_NEIGHBOUR = "SKB_DROP_REASON_NEIGH"

# What the kernel of a delay line frees of the frames that the delay line itself has a copy of.
DELAY_LINE = "delay"
NOT_FOR_THIS_HOST = ("SKB_DROP_REASON_OTHERHOST", "SKB_DROP_REASON_UNHANDLED_PROTO")

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
    for port in way.members:
        drops[f"sw2 link {port}, made lossy"] = way.fault(RECEIVING_SWITCH, port, "dropped")
    if located is not None and after.delays:
        drops["delay line"] = located.in_delay_line()
    drops["recovery: rogue"] = way.at(RECEIVING_SWITCH, "rogue")
    drops["recovery: tagless"] = way.at(RECEIVING_SWITCH, "tagless")
    drops |= _listener_drops(way, located, received)
    return Accounting(
        sent=sent,
        # Every member path but the first: the first frame to leave the switch is the original.
        # What a duplicating link adds on the first is a copy too.
        copies=sum(way.out(SENDING_SWITCH, port) for port in way.members[1:])
        + way.fault(SENDING_SWITCH, way.members[0], "copied"),
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

    def at(self, host: str, place: str) -> int:
        return self._difference(host, lambda counters: counters.station[place]).stream_frames

    def fault(self, host: str, port: str, what: str) -> int:
        """Return what a faulty link took (``dropped``) or added (``copied``) by design."""

        def read(counters: HostCounters) -> Station:
            faults = counters.station.get("faults", {})
            return faults[port][what] if port in faults else Station(0, 0, 0, 0)

        return self._difference(host, read).stream_frames

    def queue_dropped(self, host: str, port: str) -> int:
        queue = self.after[host].queues[port].dropped - self.before[host].queues[port].dropped
        link = self.after[host].links[port].tx_dropped - self.before[host].links[port].tx_dropped
        return queue + link

    def stack(self, name: str) -> int:
        return self.after[LISTENER].stack[name] - self.before[LISTENER].stack[name]

    def hops(self) -> list["_Hop"]:
        """Return the hops in the order of the way."""
        return [
            _Hop("talker queue", TALKER, CARD, SENDING_SWITCH, HOST_PORT),
            *(
                _Hop(f"sw1 queue {port}", SENDING_SWITCH, port, RECEIVING_SWITCH, port)
                for port in self.members
            ),
            _Hop("sw2 queue p0", RECEIVING_SWITCH, HOST_PORT, LISTENER, CARD),
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
            and not item.function.startswith(REFUSED_BY_RECOVERY)
            and not item.reason.startswith(NO_NEIGHBOUR)
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
        return item.function, item.reason, item.ifindex, item.netns, item.later_fragment

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
            if where == DELAY_LINE and not item.reason.startswith(NOT_FOR_THIS_HOST)
        )

    def at_listener(self) -> int:
        """Count drops behind the listener's card, and those that know no device."""
        return sum(n for _, where, n in self._items if where in (LISTENER, None))


def _hop_drops(way: _Way, located: _Located | None) -> dict[str, int]:
    """Return what each egress queue dropped, and what each switch port dropped on arrival."""
    if located is None:
        return {hop.place: _queue_dropped(way, hop) for hop in way.hops()}
    drops = {}
    for hop in way.hops():
        drops[hop.place] = located.on_device(hop.host, hop.port)
        if hop.next_host != LISTENER:  # what its card drops is the listener's network stack's
            arrival = located.on_device(hop.next_host, hop.next_port)
            drops[f"{hop.next_host} port {hop.next_port}"] = arrival
    return drops


def _queue_dropped(way: _Way, hop: _Hop) -> int:
    """Return the queue's own count, which knows frames of any kind, as far as the stream lacks."""
    missing = way.out(hop.host, hop.port) - way.into(hop.next_host, hop.next_port)
    return min(way.queue_dropped(hop.host, hop.port), max(0, missing))


def _listener_drops(way: _Way, located: _Located | None, received: int) -> dict[str, int]:
    if located is None:
        # Without a trace the kernel's totals must do; they cannot tell what was left unread.
        buffer = way.stack("UdpRcvbufErrors")
        stack = way.stack("UdpNoPorts") + way.stack("UdpInCsumErrors")
        # Reassembly fails too where a queue dropped the first fragment, which counts there.
        came = way.into(LISTENER, CARD) - received - buffer - stack
        unfinished = min(max(0, way.stack("IpReasmFails")), max(0, came))
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
