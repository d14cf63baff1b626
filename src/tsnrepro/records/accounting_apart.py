"""Where every datagram of a trial went, on hosts that are machines of their own.

The equation is that of :mod:`tsnrepro.records.accounting`. Nobody sees there what a cable, a card
or a chip without a counter lost: what is missing between two places that count, and that no
counter between them has, is named "between" the two. So nothing stays unaccounted, and a place
whose count is not known is never taken for one that lost nothing. What a card says that it did not
take, because it had no room or the frame was damaged, is named after the card.
"""

from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER
from tsnrepro.records.accounting import (
    BEHIND_CARD,
    OF_LISTENER,
    TALKER_QUEUE,
    TALKER_SOCKET,
    Accounting,
)
from tsnrepro.tools.counters import CounterDifferences, Snapshot
from tsnrepro.tools.frerctl import FrameCounts

_SENDING, _RECEIVING = SWITCHES


def account_apart(before: Snapshot, after: Snapshot, sent: int, received: int) -> Accounting:
    """Account for the datagrams of one trial.

    Parameters
    ----------
    before, after
        The counters of all hosts, read while no traffic was on its path.
    sent, received
        Datagrams that the sending program handed to its socket, and that the receiving program
        read from its own.
    """
    counted = _CountsApart(before, after)
    left = counted.frames(TALKER, CARD, "out") or 0
    arrived = counted.frames(_SENDING, HOST_PORT, "in") or 0
    queued = counted.dropped(TALKER, CARD, left - arrived)
    drops = {TALKER_SOCKET: sent - left, TALKER_QUEUE: queued}
    between = counted.beyond_the_card(_SENDING, HOST_PORT, left - arrived - queued, drops)
    drops[_between(TALKER, _SENDING)] = between
    departed = _departed(counted, arrived)
    came = _over_the_paths(counted, arrived, departed, drops)
    eliminated = counted.at(_RECEIVING, "eliminated")
    refused = {
        f"recovery: {reason}": counted.at(_RECEIVING, reason) for reason in ("rogue", "tagless")
    }
    passed = came - eliminated - sum(refused.values())
    drops |= refused | _to_the_listener(counted, passed) | _at_the_listener(counted, received)
    return Accounting(
        sent=sent,
        # As elsewhere: the frame on the first path is the original.
        copies=sum(departed[1:]),
        received=received,
        eliminated=eliminated,
        drops=drops,
    )


class _CountsApart(CounterDifferences):
    """The differences over a trial, where None is a place that nothing counts at."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        super().__init__(before, after)
        self.members = [p for p in after.hosts[_SENDING].station["ports"] if p != HOST_PORT]

    def frames(self, host: str, port: str, direction: str) -> int | None:
        """Return the stream's frames at a port."""
        ports = self.after[host].station
        if ports.get("ports", ports)[port][direction] is None:
            return None
        counted: FrameCounts = self.port(host, port, direction)
        return counted.stream_frames

    def dropped(self, host: str, port: str, missing: int) -> int:
        """Return the frames of any kind that a port counts as dropped, as far as some are missing.

        A switch that counts for itself has them in ``dropped``; else queue and driver do.
        """
        if own := self.after[host].station.get("dropped"):
            frames = own[port] - self.before[host].station["dropped"][port]
        elif port in self.after[host].queues:
            frames = self.queue_dropped(host, port) + self.transmit_dropped(host, port)
        else:
            frames = self.transmit_dropped(host, port)
        return min(max(0, frames), max(0, missing))

    def beyond_the_card(self, host: str, port: str, missing: int, drops: dict[str, int]) -> int:
        """Add what a card says that it did not take of what is missing; return what is left.

        It counts frames of any kind, so it cannot have more of the stream's than are missing.
        """
        for reason, frames in self.rx_errors(host, port).items():
            if (taken := min(max(0, frames), max(0, missing))) > 0:
                drops[_at_card(host, port, reason)] = taken
                missing -= taken
        return missing


def _at_card(host: str, port: str, reason: str) -> str:
    place = host if port == CARD else f"{host} {port}"
    return f"card of {place}, {reason}"


def _between(one: str, other: str) -> str:
    return f"between {one} and {other}"


def _departed(counted: _CountsApart, arrived: int) -> list[int]:
    """Return the frames that the first switch sent over each path.

    Where its ports do not count the stream's, each path in use is taken to be sent all that came.
    """
    known = [counted.frames(_SENDING, member, "out") for member in counted.members]
    in_use = counted.after[_SENDING].station.get("replicates", len(known))
    return [
        (arrived if path < in_use else 0) if frames is None else frames
        for path, frames in enumerate(known)
    ]


def _over_the_paths(
    counted: _CountsApart, arrived: int, departed: list[int], drops: dict[str, int]
) -> int:
    """Add what was lost on the way to the second switch, and return what came there."""
    came = 0
    if departed[0] != arrived:
        drops[f"inside {_SENDING}"] = arrived - departed[0]
    at_host_port = "dropped" in counted.after[_SENDING].station
    for path, member in enumerate(counted.members):
        into = counted.frames(_RECEIVING, member, "in") or 0
        missing = departed[path] - into
        queued = counted.dropped(_SENDING, member, missing)
        # A chip may count what it has no room for where it came in.
        if at_host_port and path == 0:
            queued += counted.dropped(_SENDING, HOST_PORT, missing - queued)
        drops[f"{_SENDING} queue {member}"] = queued
        between = counted.beyond_the_card(_RECEIVING, member, missing - queued, drops)
        drops[_between(f"{_SENDING} {member}", f"{_RECEIVING} {member}")] = between
        came += into
    return came


def _to_the_listener(counted: _CountsApart, passed: int) -> dict[str, int]:
    """Return what was lost between recovery and the listener's card."""
    drops = {}
    left = counted.frames(_RECEIVING, HOST_PORT, "out")
    if left is not None and left != passed:
        drops[f"inside {_RECEIVING}"] = passed - left
    out = passed if left is None else left
    missing = out - (counted.frames(LISTENER, CARD, "in") or 0)
    queued = counted.dropped(_RECEIVING, HOST_PORT, missing)
    drops[f"{_RECEIVING} queue {HOST_PORT}"] = queued
    between = counted.beyond_the_card(LISTENER, CARD, missing - queued, drops)
    drops[_between(_RECEIVING, LISTENER)] = between
    return drops


def _at_the_listener(counted: _CountsApart, received: int) -> dict[str, int]:
    """Return what the listener's kernel says that it dropped, and what else its program lacks."""
    came = counted.frames(LISTENER, CARD, "in") or 0
    left = came - received
    drops = {}
    for place, counters in OF_LISTENER.items():
        frames = sum(counted.stack(LISTENER, name) for name in counters)
        # The kernel counts datagrams of any kind.
        drops[place] = min(max(0, frames), max(0, left))
        left -= drops[place]
    drops[BEHIND_CARD] = left
    return drops
