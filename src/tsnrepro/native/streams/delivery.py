"""Delivery of a stream: loss, duplicates, reordering, gaps, and one-way latency.

All of it follows from the talker's count and the listener's log; the names follow the IETF's
metrics: loss periods (RFC 3357, section 4), reordering (RFC 4737, section 3),
one-way delay (RFC 7679).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tsnrepro.common.errors import ToolError
from tsnrepro.native.streams.log import Records

Receipt = Literal["application", "kernel"]
"""Which time is that of reception: the program's, or the kernel's or card's time stamp."""
_COLUMN = {"application": "received_ns", "kernel": "stamped_ns"}

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Gap:
    """The longest time between consecutive first arrivals of one stream."""

    duration_ns: int
    after_sequence: int
    before_sequence: int
    lost_datagrams: int
    """Numbers between the two that never arrived."""


@dataclass(frozen=True)
class Delivery:
    """Counts of one stream's datagrams: ``sent`` = ``unique`` + ``lost``.

    ``reordered`` are first arrivals below the largest number seen before. ``loss_runs`` has a
    row for each run of consecutive lost numbers: its first number and its length.
    """

    sent: int
    received: int
    unique: int
    duplicated: int
    lost: int
    reordered: int
    loss_runs: Times
    longest_gap: Gap | None
    """``None`` where fewer than two arrivals have a time."""

    @property
    def longest_loss_run(self) -> int:
        """The most consecutive numbers lost."""
        return int(self.loss_runs[:, 1].max(initial=0))


@dataclass(frozen=True)
class OneWay:
    """One-way latencies of first arrivals, in order of arrival.

    Arrivals without one of the two times have none; they are counted in ``missing_stamps``. A
    negative latency is kept: it shows that the clocks disagree.
    """

    latency_ns: Times
    sequence: Times
    missing_stamps: int


def deliver(sent: int, arrivals: Records, receipt: Receipt = "application") -> Delivery:
    """Account for a stream of ``sent`` datagrams, numbered from 0.

    ``sent``: datagrams that the talker's kernel accepted; ``arrivals``: the listener's records of
    this stream alone, shape ``(received,)``; ``receipt``: which time of an arrival the gaps are
    measured by. Raises ToolError if a number arrived that was never sent, or the records belong to
    several streams.
    """
    firsts = _first_arrivals(arrivals)
    sequence = _numbers(arrivals[firsts])
    _check(sent, arrivals, sequence)
    lost = _lost(sent, sequence)
    return Delivery(
        sent=sent,
        received=len(arrivals),
        unique=len(sequence),
        duplicated=len(arrivals) - len(sequence),
        lost=len(lost),
        reordered=_reordered(sequence),
        loss_runs=_runs(lost),
        longest_gap=_longest_gap(arrivals[firsts], lost, receipt),
    )


def one_way(arrivals: Records, receipt: Receipt = "application") -> OneWay:
    """Return the latency of every first arrival, in nanoseconds.

    It is the time from the one in the payload to reception. Both must be on one clock, or the
    offset of the clocks must be known (:mod:`tsnrepro.testbeds.hosts.clocks`).
    """
    first = arrivals[_first_arrivals(arrivals)]
    begin, end = _times(first["sent_ns"]), _times(first[_COLUMN[receipt]])
    known = (begin != 0) & (end != 0)
    missing = int(np.count_nonzero(~known))
    return OneWay(end[known] - begin[known], _numbers(first)[known], missing)


def on_senders_clock(arrivals: Records) -> tuple[Records, int]:
    """Return arrivals with their receive times on the sender's clock, and the offset removed.

    For hosts whose clocks are not synchronised. The fastest datagram is taken to have no latency,
    so all times are early by its latency; a clock that drifts by 50 ppm adds 0.5 ms in 10 s.
    """
    begin, end = _times(arrivals["sent_ns"]), _times(arrivals["received_ns"])
    timed = (begin != 0) & (end != 0)
    if not timed.any():
        return arrivals, 0
    ahead = int((end - begin)[timed].min())
    moved = arrivals.copy()
    for column in _COLUMN.values():
        there = arrivals[column] != 0
        moved[column][there] = _times(arrivals[column])[there] - ahead
    return moved, ahead


def of_stream(records: Records, stream: int) -> Records:
    """Return the records of one stream of a log, in order of arrival."""
    return records[records["stream"] == stream]


def _numbers(records: Records) -> Times:
    return records["sequence"].astype(np.int64)


def _times(column: npt.NDArray[np.uint64]) -> Times:
    return column.astype(np.int64)


def _first_arrivals(arrivals: Records) -> npt.NDArray[np.intp]:
    """Return the indices of each number's first arrival, in order of arrival."""
    _, places = np.unique(arrivals["sequence"], return_index=True)
    return np.sort(places)


def _check(sent: int, arrivals: Records, sequence: Times) -> None:
    streams = np.unique(arrivals["stream"])
    if len(streams) > 1:
        raise ToolError(f"these arrivals belong to several streams: {streams.tolist()}")
    if foreign := int(np.count_nonzero(sequence >= sent)):
        raise ToolError(
            f"{foreign} numbers arrived that were never sent, the largest {sequence.max()}",
            f"a stream of {sent} datagrams",
            "Another talker sends to this port, or the log belongs to another run",
        )


def _lost(sent: int, sequence: Times) -> Times:
    arrived = np.zeros(sent, bool)
    arrived[sequence] = True
    return np.flatnonzero(~arrived).astype(np.int64)


def _runs(lost: Times) -> Times:
    """Return first number and length of each run of consecutive numbers, shape ``(runs, 2)``."""
    begins = np.flatnonzero(np.diff(lost, prepend=-2) != 1)
    lengths = np.diff(begins, append=len(lost))
    return np.column_stack([lost[begins], lengths]).astype(np.int64)


def _reordered(sequence: Times) -> int:
    largest = np.maximum.accumulate(sequence)
    return int(np.count_nonzero(sequence[1:] < largest[:-1]))


def _longest_gap(first: Records, lost: Times, receipt: Receipt) -> Gap | None:
    timed = first[first[_COLUMN[receipt]] != 0]
    if len(timed) < 2:
        return None
    gaps = np.diff(_times(timed[_COLUMN[receipt]]))
    at = int(np.argmax(gaps))
    after, before = (int(number) for number in timed["sequence"][at : at + 2])
    inside = np.searchsorted(lost, before) - np.searchsorted(lost, after)
    return Gap(int(gaps[at]), after, before, max(0, int(inside)))
