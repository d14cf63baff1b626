"""What the testbed's counters say of one trial, in the terms that a capture can be held against."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tsnrepro.model.recovery import COUNTERS, new_registers
from tsnrepro.testbed.snapshot import HostCounters, Snapshot, read_host
from tsnrepro.tools.frerctl import Station, parse_drops

__all__ = [
    "Counted",
    "MemberCounts",
    "Reading",
    "RecoveryVariables",
    "counted_between",
    "snapshot_of",
]

SENDING, RECEIVING, LISTENER = "sw1", "sw2", "listener"
HOST_PORT, CARD = "p0", "eth0"


@dataclass(frozen=True)
class RecoveryVariables:
    """The managed objects of a recovery function (IEEE Std 802.1CB-2017, 10.4)."""

    algorithm: str = "vector"
    history_length: int = 512
    reset_ms: int = 2000
    take_no_sequence: bool = False

    def registers(self) -> np.ndarray:
        """Return the function's state, freshly started, times in nanoseconds."""
        return np.array(
            new_registers(
                self.history_length,
                self.reset_ms * 1_000_000 or None,
                match=self.algorithm == "match",
                take_no_sequence=self.take_no_sequence,
            ),
            np.int64,
        )


@dataclass(frozen=True)
class MemberCounts:
    """Frames of any kind at the two ends of one member link, and what the queue there dropped."""

    replicated: int
    queue_dropped: int
    arrived: int


@dataclass(frozen=True)
class Reading:
    """From when to when the counters were read, before and after; ns on the captures' clock.

    The hosts are read one beside the other, so a frame meanwhile counts at some and not at others.
    """

    before_ns: tuple[int, int]
    after_ns: tuple[int, int]


@dataclass(frozen=True)
class Counted:
    """Counters over one trial: differences of the snapshots before and after it."""

    frer: bool
    numbered_before: int
    """Numbers given since the generator was started afresh; a capture is whole if this is 0."""
    numbered: int
    members: dict[str, MemberCounts]
    recovery: dict[str, int]
    variables: RecoveryVariables
    listener_frames: int
    """Frames of the stream that came to the listener's card: datagrams or first fragments."""
    listener_fragments: int
    host_queue_dropped: int
    """Frames that the queue between the second switch and the listener dropped."""
    received: int | None = None
    """Datagrams that the receiving program read."""
    dropped_behind_card: dict[str, int] = field(default_factory=dict)
    read: "Reading | None" = None
    """None: every captured frame is taken to have come between the two readings."""


def snapshot_of(raw: str | dict[str, str]) -> Snapshot:
    """Return a snapshot from its record: what was printed on each host, as JSON or as a mapping.

    Raises
    ------
    ToolError
        A host's counters are not what the tools print.
    """
    printed: dict[str, str] = json.loads(raw) if isinstance(raw, str) else raw
    hosts = {name: read_host(text) for name, text in printed.items() if name != "drops"}
    drops = parse_drops(printed["drops"]) if "drops" in printed else None
    return Snapshot(hosts, printed, drops)


def counted_between(
    before: Snapshot,
    after: Snapshot,
    *,
    received: int | None = None,
    dropped_behind_card: dict[str, int] | None = None,
    take_no_sequence: bool = False,
    read: Reading | None = None,
) -> Counted:
    """Return what was counted between two snapshots; what the receiving program said besides."""
    first, last = before.hosts, after.hosts
    recovery, earlier = last[RECEIVING].station["recovery"], first[RECEIVING].station["recovery"]
    generators = [hosts[SENDING].station["generator"]["numbered"] for hosts in (first, last)]
    ports = [port for port in last[SENDING].station["ports"] if port != HOST_PORT]
    card = _grown(first, last, LISTENER, CARD, "in")
    return Counted(
        frer=last[SENDING].station["frer"],
        numbered_before=generators[0],
        numbered=generators[1],
        members={port: _member(first, last, port) for port in ports},
        recovery={name: recovery[name] - earlier[name] for name in COUNTERS},
        variables=RecoveryVariables(
            recovery["algorithm"],
            recovery["history_length"],
            recovery["reset_ms"],
            take_no_sequence,
        ),
        listener_frames=card.stream_frames,
        listener_fragments=card.stream_fragments,
        host_queue_dropped=_queue_dropped(first, last, RECEIVING, HOST_PORT),
        received=received,
        dropped_behind_card=dropped_behind_card or {},
        read=read,
    )


def _member(
    first: dict[str, HostCounters], last: dict[str, HostCounters], port: str
) -> MemberCounts:
    return MemberCounts(
        replicated=_grown(first, last, SENDING, port, "out").frames,
        queue_dropped=_queue_dropped(first, last, SENDING, port),
        arrived=_grown(first, last, RECEIVING, port, "in").frames,
    )


def _grown(first: dict[str, Any], last: dict[str, Any], host: str, port: str, way: str) -> Station:
    def station(hosts: dict[str, HostCounters]) -> Station:
        counted = hosts[host].station
        return counted.get("ports", counted)[port][way]

    return station(last) - station(first)


def _queue_dropped(
    first: dict[str, HostCounters], last: dict[str, HostCounters], host: str, port: str
) -> int:
    return last[host].queues[port].dropped - first[host].queues[port].dropped
