"""The R-TAG's numbers as they passed each capture point: order, gaps, repeats, and who was first.

Source: IEEE Std 802.1CB-2017, 7.8 (16 bits of sequence number) and 7.4.3.4 (numbers compared by
their signed difference modulo 2^16).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

_HALF: Final = 32_768


def unwrap(sequence: np.ndarray) -> np.ndarray:
    """Return 16-bit numbers as numbers that go on growing, starting as they are.

    ``sequence`` is in the order of arrival; each number is taken to be less than 32,768 away from
    the one before it, so a gap of half the sequence space or more shows as a shorter one.
    """
    if len(sequence) == 0:
        return np.empty(0, np.int64)
    steps = np.diff(sequence.astype(np.int64))
    signed = ((steps + _HALF) & 0xFFFF) - _HALF
    return np.concatenate([[0], np.cumsum(signed)]) + int(sequence[0])


@dataclass(frozen=True)
class Arrivals:
    """Tagged frames of all paths in the order of their time stamps; arrays of shape (frames,).

    ``number`` is unwrapped over all paths together, so a path that was dead for long finds its
    place by the others. Of equal time stamps the first path's frame stands first.
    """

    time_ns: np.ndarray
    number: np.ndarray
    path: np.ndarray

    def before(self, end: int) -> "Arrivals":
        """Return the frames with numbers below ``end``."""
        return self._in_order(self.number < end)

    def until(self, time_ns: int) -> "Arrivals":
        """Return the frames that came before a moment."""
        return self._in_order(self.time_ns < time_ns)

    def of_path(self, path: int) -> "Arrivals":
        """Return the frames of one path."""
        return self._in_order(self.path == path)

    def delayed(self, path: int, delay_ns: int) -> "Arrivals":
        """Return the order that came about had one path been slower by ``delay_ns``."""
        times = np.where(self.path == path, self.time_ns + delay_ns, self.time_ns)
        order = np.argsort(times, kind="stable")
        return Arrivals(times[order], self.number[order], self.path[order])

    def _in_order(self, chosen: np.ndarray) -> "Arrivals":
        return Arrivals(self.time_ns[chosen], self.number[chosen], self.path[chosen])


def merge(times_ns: list[np.ndarray], sequences: list[np.ndarray]) -> Arrivals:
    """Return the tagged frames of several paths as one row of arrivals.

    A path's own frames stay in the order of its capture.
    """
    # A time stamp may be behind its predecessor's; the order of a capture is that of its file.
    ordered = [np.maximum.accumulate(t) if len(t) else t for t in times_ns]
    time_ns = np.concatenate([np.empty(0, np.int64), *ordered])
    sequence = np.concatenate([np.empty(0, np.int64), *sequences])
    path = np.repeat(np.arange(len(times_ns)), [len(times) for times in times_ns])
    order = np.argsort(time_ns, kind="stable")
    return Arrivals(time_ns[order], unwrap(sequence[order]), path[order])


@dataclass(frozen=True)
class PathOrder:
    """The numbers of one path against those that there were."""

    tagged: int
    missing: int
    repeated: int
    out_of_order: int
    """Frames whose number is below one that passed before them."""
    longest_missing_run: int
    first_missing: int | None
    """The lowest number that never passed, unwrapped."""


def path_order(numbers: np.ndarray, first: int, end: int) -> PathOrder:
    """Return what is wrong with one path's numbers, in order of arrival, of first ... end - 1."""
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
    """Which path's copy of each number came first; arrays of shape (numbers,).

    ``delay_ns`` is how much later than path 0 the number came on the other path, for each number
    that both have; negative where the other path was first.
    """

    winner: np.ndarray
    """The path of the first copy; -1 for a tie."""
    copies: np.ndarray
    """Paths that carried the number."""
    number: np.ndarray
    delay_ns: np.ndarray


def first_copies(arrivals: Arrivals, paths: int) -> FirstCopies:
    """Tell which copy was first at the capture points, and by how much path 1 was behind path 0.

    With more than two paths the delay is that of the second against the first alone.
    """
    empty = np.empty(0, np.int64)
    if len(arrivals.number) == 0:
        return FirstCopies(empty, empty, empty, empty)
    base = int(arrivals.number.min())
    span = int(arrivals.number.max()) - base + 1
    # The numbers are dense but for losses: a table by number is smaller than a sort.
    never = np.iinfo(np.int64).max
    first = np.full((max(paths, 2), span), never, np.int64)
    for path in range(paths):
        its = arrivals.of_path(path)
        # Backwards, so that of repeats the first stays.
        first[path, its.number[::-1] - base] = its.time_ns[::-1]
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
