"""Counters of one trial, in the form in which they are compared with its captures."""

from dataclasses import dataclass, field

from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES
from tsnrepro.config.frer import RECOVERY_COUNTERS, FrerSettings
from tsnrepro.tools.snapshot import CounterDifferences, Snapshot

SENDING, RECEIVING = SWITCHES


@dataclass(frozen=True)
class MemberCounts:
    """Frames of any stream at the two ends of one member link, and drops of its queue."""

    replicated: int
    queue_dropped: int
    arrived: int


@dataclass(frozen=True)
class ReadingTimes:
    """Begin and end of the readings of the counters, in ns on the captures' clock.

    The hosts are read in parallel, so a frame during a reading may count at some hosts only.
    """

    before_ns: tuple[int, int]
    after_ns: tuple[int, int]


@dataclass(frozen=True)
class TrialCounters:
    """Counters over one trial: differences of the snapshots before and after it."""

    frer: bool
    numbered_before: int
    """Numbers generated before the trial; a capture is complete only if this is 0."""
    numbered: int
    members: dict[str, MemberCounts]
    recovery: dict[str, int]
    variables: FrerSettings
    listener_frames: int
    """Frames of the stream at the listener's card: datagrams or first fragments."""
    listener_fragments: int
    host_queue_dropped: int
    """Drops of the queue between the second switch and the listener."""
    received: int | None = None
    """Datagrams read by the receiving program."""
    dropped_behind_card: dict[str, int] = field(default_factory=dict)
    read: "ReadingTimes | None" = None
    """None: all captured frames are assumed to be between the two readings."""


def trial_counters(
    before: Snapshot,
    after: Snapshot,
    *,
    received: int | None = None,
    dropped_behind_card: dict[str, int] | None = None,
    take_no_sequence: bool = False,
    read: ReadingTimes | None = None,
) -> TrialCounters:
    """Return the counters between two snapshots, with the receiving program's if given."""
    counts, switch = CounterDifferences(before, after), after.hosts[SENDING].station
    recovery = counts.recovery()
    card = counts.port(LISTENER, CARD, "in")
    return TrialCounters(
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
