"""Where every datagram of a trial went, on separate hosts.

The equation is that of :mod:`tsnrepro.records.accounting`. Cables, and cards and chips without
counters, lose frames unseen. Datagrams that are missing between two counting stations, and that no
counter between them has, are attributed to "between" the two. So nothing stays unaccounted, and a
location without a counter is never taken for one without loss. Receive errors of a card, such as
missing buffers and damaged frames, are attributed to the card.
"""

from tsnrepro.common.errors import ToolError
from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER
from tsnrepro.records.accounting import (
    BEHIND_CARD,
    LISTENER_COUNTERS,
    TALKER_QUEUE,
    TALKER_SOCKET,
    Accounting,
)
from tsnrepro.tools.frerctl import FrameCounts
from tsnrepro.tools.snapshot import CounterDifferences, Snapshot

_SENDING, _RECEIVING = SWITCHES


def account_separate_hosts(
    before: Snapshot, after: Snapshot, sent: int, received: int
) -> Accounting:
    """Account for the datagrams of one trial.

    ``before`` and ``after``: the counters of all hosts, read while no traffic was in flight.
    ``sent`` and ``received``: as for :func:`tsnrepro.records.accounting.account`.
    """
    counted = _OptionalCounts(before, after)
    left = counted.frames(TALKER, CARD, "out") or 0
    arrived = counted.frames(_SENDING, HOST_PORT, "in") or 0
    queued = counted.dropped(TALKER, CARD, left - arrived)
    drops = {TALKER_SOCKET: sent - left, TALKER_QUEUE: queued}
    between = counted.without_rx_errors(_SENDING, HOST_PORT, left - arrived - queued, drops)
    drops[_between(TALKER, _SENDING)] = between
    departed = _departed(counted, arrived)
    came = _over_member_paths(counted, arrived, departed, drops)
    eliminated = counted.at(_RECEIVING, "eliminated")
    rejected = {
        f"recovery: {reason}": counted.at(_RECEIVING, reason) for reason in ("rogue", "tagless")
    }
    passed = came - eliminated - sum(rejected.values())
    drops |= rejected | _to_listener(counted, passed) | _at_listener(counted, received)
    return Accounting(
        sent=sent,
        # As in account(): the frame on the first path is the original.
        copies=sum(departed[1:]),
        received=received,
        eliminated=eliminated,
        drops=drops,
    )


def refuse_gains(accounting: Accounting, trial: str) -> None:
    """Refuse an accounting with a location at which more datagrams left than came.

    Since nothing stays unaccounted, frames of another sender show only there.

    Raises ToolError if a location's drops are negative.
    """
    for location, frames in accounting.drops.items():
        if frames < 0:
            raise ToolError(
                f"the counters have {-frames} frames more behind the location "
                f"{location!r} than before it",
                trial,
                "Another host sends to the same port: stop it",
            )


class _OptionalCounts(CounterDifferences):
    """The differences over a trial; None is a port without a counter of the stream."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        super().__init__(before, after)
        self.members = [p for p in after.hosts[_SENDING].station["ports"] if p != HOST_PORT]

    def frames(self, host: str, port: str, direction: str) -> int | None:
        ports = self.after[host].station
        if ports.get("ports", ports)[port][direction] is None:
            return None
        counted: FrameCounts = self.port(host, port, direction)
        return counted.stream_frames

    def dropped(self, host: str, port: str, missing: int) -> int:
        """Return the frames, of any stream, that a port dropped, limited to the missing ones.

        A switch with counters in hardware has them in ``dropped``; else queue and driver do.
        """
        if hardware := self.after[host].station.get("dropped"):
            frames = hardware[port] - self.before[host].station["dropped"][port]
        elif port in self.after[host].queues:
            frames = self.queue_dropped(host, port) + self.transmit_dropped(host, port)
        else:
            frames = self.transmit_dropped(host, port)
        return min(max(0, frames), max(0, missing))

    def without_rx_errors(self, host: str, port: str, missing: int, drops: dict[str, int]) -> int:
        """Attribute missing frames to a card's receive errors; return how many are left.

        The errors are of any stream, so no more than the missing frames are attributed.
        """
        for reason, frames in self.rx_errors(host, port).items():
            if (taken := min(max(0, frames), max(0, missing))) > 0:
                drops[_at_card(host, port, reason)] = taken
                missing -= taken
        return missing


def _at_card(host: str, port: str, reason: str) -> str:
    name = host if port == CARD else f"{host} {port}"
    return f"card of {name}, {reason}"


def _between(one: str, other: str) -> str:
    return f"between {one} and {other}"


def _departed(counted: _OptionalCounts, arrived: int) -> list[int]:
    """Return the frames that the first switch sent over each path.

    Each path in use is assumed to be sent all frames that arrived if its port does not count them.
    """
    known = [counted.frames(_SENDING, member, "out") for member in counted.members]
    in_use = counted.after[_SENDING].station.get("replicates", len(known))
    return [
        (arrived if path < in_use else 0) if frames is None else frames
        for path, frames in enumerate(known)
    ]


def _over_member_paths(
    counted: _OptionalCounts, arrived: int, departed: list[int], drops: dict[str, int]
) -> int:
    """Add the losses up to the second switch; return the frames that arrived there."""
    came = 0
    if departed[0] != arrived:
        drops[f"inside {_SENDING}"] = arrived - departed[0]
    at_host_port = "dropped" in counted.after[_SENDING].station
    for path, member in enumerate(counted.members):
        into = counted.frames(_RECEIVING, member, "in") or 0
        missing = departed[path] - into
        queued = counted.dropped(_SENDING, member, missing)
        # A chip may count frames without a buffer at their ingress port.
        if at_host_port and path == 0:
            queued += counted.dropped(_SENDING, HOST_PORT, missing - queued)
        drops[f"{_SENDING} queue {member}"] = queued
        between = counted.without_rx_errors(_RECEIVING, member, missing - queued, drops)
        drops[_between(f"{_SENDING} {member}", f"{_RECEIVING} {member}")] = between
        came += into
    return came


def _to_listener(counted: _OptionalCounts, passed: int) -> dict[str, int]:
    """Return the losses between recovery and the listener's card."""
    drops = {}
    left = counted.frames(_RECEIVING, HOST_PORT, "out")
    if left is not None and left != passed:
        drops[f"inside {_RECEIVING}"] = passed - left
    out = passed if left is None else left
    missing = out - (counted.frames(LISTENER, CARD, "in") or 0)
    queued = counted.dropped(_RECEIVING, HOST_PORT, missing)
    drops[f"{_RECEIVING} queue {HOST_PORT}"] = queued
    between = counted.without_rx_errors(LISTENER, CARD, missing - queued, drops)
    drops[_between(_RECEIVING, LISTENER)] = between
    return drops


def _at_listener(counted: _OptionalCounts, received: int) -> dict[str, int]:
    """Return the drops that the listener's kernel counts, and what else its program missed."""
    came = counted.frames(LISTENER, CARD, "in") or 0
    left = came - received
    drops = {}
    for location, counters in LISTENER_COUNTERS.items():
        frames = sum(counted.stack(LISTENER, name) for name in counters)
        # The kernel counts datagrams of any stream.
        drops[location] = min(max(0, frames), max(0, left))
        left -= drops[location]
    drops[BEHIND_CARD] = left
    return drops
