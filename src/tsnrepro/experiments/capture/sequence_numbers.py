"""Sequence numbers of R-TAGs at each capture point: order, gaps, repeats, and first copies.

Source: IEEE Std 802.1CB-2017, 7.8 (16 bits of sequence number) and 7.4.3.4 (numbers compared by
their signed difference modulo 2^16).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

_HALF: Final = 32_768


def unwrap(sequence: np.ndarray) -> np.ndarray:
    """Return 16-bit numbers without wrap-around, starting at the first one.

    ``sequence`` is in the order of arrival; each number is assumed to be less than 32,768 away from
    the one before it, so a gap of half the sequence space or more appears shorter.
    """
    if len(sequence) == 0:
        return np.empty(0, np.int64)
    steps = np.diff(sequence.astype(np.int64))
    signed = ((steps + _HALF) & 0xFFFF) - _HALF
    return np.concatenate([[0], np.cumsum(signed)]) + int(sequence[0])


@dataclass(frozen=True)
class Arrivals:
    """Tagged frames of all paths in the order of their time stamps; arrays of shape (frames,).

    ``number`` is unwrapped over all paths together, so that numbers are right after a long outage
    of one path. Frames with equal time stamps are in the order of the paths.
    """

    time_ns: np.ndarray
    number: np.ndarray
    path: np.ndarray

    def before(self, end: int) -> "Arrivals":
        """Return the frames with numbers below ``end``."""
        return self._in_order(self.number < end)

    def until(self, time_ns: int) -> "Arrivals":
        """Return the frames before a time."""
        return self._in_order(self.time_ns < time_ns)

    def of_path(self, path: int) -> "Arrivals":
        """Return the frames of one path."""
        return self._in_order(self.path == path)

    def delayed(self, path: int, delay_ns: int) -> "Arrivals":
        """Return the order of arrival if one path were slower by ``delay_ns``."""
        times = np.where(self.path == path, self.time_ns + delay_ns, self.time_ns)
        order = np.argsort(times, kind="stable")
        return Arrivals(times[order], self.number[order], self.path[order])

    def _in_order(self, chosen: np.ndarray) -> "Arrivals":
        return Arrivals(self.time_ns[chosen], self.number[chosen], self.path[chosen])


def merge(times_ns: list[np.ndarray], sequences: list[np.ndarray]) -> Arrivals:
    """Return the tagged frames of several paths as one sequence of arrivals.

    The frames of each path stay in the order of its capture.
    """
    # A time stamp may be before its predecessor's; the order of a capture is that of its file.
    ordered = [np.maximum.accumulate(t) if len(t) else t for t in times_ns]
    time_ns = np.concatenate([np.empty(0, np.int64), *ordered])
    sequence = np.concatenate([np.empty(0, np.int64), *sequences])
    path = np.repeat(np.arange(len(times_ns)), [len(times) for times in times_ns])
    order = np.argsort(time_ns, kind="stable")
    return Arrivals(time_ns[order], unwrap(sequence[order]), path[order])


@dataclass(frozen=True)
class PathOrder:
    """The numbers of one path compared with those that were generated."""

    tagged: int
    missing: int
    repeated: int
    out_of_order: int
    """Frames whose number is below an earlier one."""
    longest_missing_run: int
    first_missing: int | None
    """The lowest number that never passed, unwrapped."""


def path_order(numbers: np.ndarray, first: int, end: int) -> PathOrder:
    """Compare one path's numbers, in order of arrival, with the range first ... end - 1."""
    seen, highest = np.unique(numbers), np.maximum.accumulate(numbers)
    inside = seen[(seen >= first) & (seen < end)]
    edges = np.concatenate([[first - 1], inside, [end]])
    gaps = np.diff(edges) - 1
    missing = int(gaps.sum())
    backward = np.zeros(len(numbers), bool)
    backward[1:] = numbers[1:] < highest[:-1]
    return PathOrder(
        tagged=len(numbers),
        missing=missing,
        repeated=len(numbers) - len(seen),
        out_of_order=int(backward.sum()),
        longest_missing_run=int(gaps.max()),
        first_missing=int(edges[np.argmax(gaps > 0)]) + 1 if missing else None,
    )


@dataclass(frozen=True)
class FirstCopies:
    """Which path's copy of each number was first; arrays of shape (numbers,).

    ``delay_ns`` is the delay of path 1 against path 0, for each number that both have.
    """

    winner: np.ndarray
    """The path of the first copy; -1 for a tie."""
    copies: np.ndarray
    """Paths that carried the number."""
    number: np.ndarray
    delay_ns: np.ndarray


def first_copies(arrivals: Arrivals, paths: int) -> FirstCopies:
    """Return which copy of each number was first, and the delay of path 1 against path 0."""
    empty = np.empty(0, np.int64)
    if len(arrivals.number) == 0:
        return FirstCopies(empty, empty, empty, empty)
    base = int(arrivals.number.min())
    span = int(arrivals.number.max()) - base + 1
    # The numbers are dense except for losses: a table by number is faster than sorting.
    never = np.iinfo(np.int64).max
    first = np.full((max(paths, 2), span), never, np.int64)
    for path in range(paths):
        frames = arrivals.of_path(path)
        # Backwards, so that the first of repeated numbers stays.
        first[path, frames.number[::-1] - base] = frames.time_ns[::-1]
    came = first != never
    present = came.any(axis=0)
    best = first.min(axis=0)
    at_best = (first == best) & came
    winner = np.where(at_best.sum(axis=0) > 1, -1, at_best.argmax(axis=0))
    both = came[0] & came[1]
    return FirstCopies(
        winner=winner[present],
        copies=came.sum(axis=0)[present],
        number=np.flatnonzero(present) + base,
        delay_ns=first[1, both] - first[0, both],
    )
