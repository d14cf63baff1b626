"""What the testbed's counters say of one trial, in the terms that a capture can be held against."""

from dataclasses import dataclass, field

from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES
from tsnrepro.config.frer import RECOVERY_COUNTERS, FrerSettings
from tsnrepro.tools.counters import CounterDifferences, Snapshot

SENDING, RECEIVING = SWITCHES


@dataclass(frozen=True)
class MemberCounts:
    """Frames of any kind at the two ends of one member link, and what the queue there dropped."""

    replicated: int
    queue_dropped: int
    arrived: int


@dataclass(frozen=True)
class ReadingTimes:
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
    variables: FrerSettings
    listener_frames: int
    """Frames of the stream that came to the listener's card: datagrams or first fragments."""
    listener_fragments: int
    host_queue_dropped: int
    """Frames that the queue between the second switch and the listener dropped."""
    received: int | None = None
    """Datagrams that the receiving program read."""
    dropped_behind_card: dict[str, int] = field(default_factory=dict)
    read: "ReadingTimes | None" = None
    """None: every captured frame is taken to have come between the two readings."""


def counted_between(
    before: Snapshot,
    after: Snapshot,
    *,
    received: int | None = None,
    dropped_behind_card: dict[str, int] | None = None,
    take_no_sequence: bool = False,
    read: ReadingTimes | None = None,
) -> Counted:
    """Return what was counted between two snapshots; what the receiving program said besides."""
    counts, switch = CounterDifferences(before, after), after.hosts[SENDING].station
    recovery = counts.recovery()
    card = counts.port(LISTENER, CARD, "in")
    return Counted(
        frer=switch["frer"],
        numbered_before=before.hosts[SENDING].station["generator"]["numbered"],
        numbered=switch["generator"]["numbered"],
        members={p: _member(counts, p) for p in switch["ports"] if p != HOST_PORT},
        recovery={name: recovery[name] for name in RECOVERY_COUNTERS},
        variables=FrerSettings(
            **{name: recovery[name] for name in ("algorithm", "history_length", "reset_ms")},
            take_no_sequence=take_no_sequence,
        ),
        listener_frames=card.stream_frames,
        listener_fragments=card.stream_fragments,
        host_queue_dropped=counts.queue_dropped(RECEIVING, HOST_PORT),
        received=received,
        dropped_behind_card=dropped_behind_card or {},
        read=read,
    )


def _member(counts: CounterDifferences, port: str) -> MemberCounts:
    return MemberCounts(
        replicated=counts.port(SENDING, port, "out").frames,
        queue_dropped=counts.queue_dropped(SENDING, port),
        arrived=counts.port(RECEIVING, port, "in").frames,
    )
