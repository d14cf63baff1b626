"""How full a queue was over time, from the frames that left it.

A frame lies in its queue from its arrival until its last bit is sent, so the log of departures
holds the whole course of a queue, exactly; a run that logs no departures pays nothing for it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tsnrepro.model.logs import Block


@dataclass(frozen=True)
class Depth:
    """A queue's depth: ``held_bytes`` from ``times_ps`` on, until the next time; shapes (n,)."""

    times_ps: npt.NDArray[np.int64]
    held_bytes: npt.NDArray[np.int64]

    def reached_ps(self, held_bytes: int) -> int | None:
        """Return when the queue first held so many bytes, None if it never did."""
        reached = np.flatnonzero(self.held_bytes >= held_bytes)
        return int(self.times_ps[reached[0]]) if reached.size else None

    def highest(self, edges_ps: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the largest depth within each of some spans of time, shape (spans,).

        Parameters
        ----------
        edges_ps
            Where spans begin and the last one ends, in increasing order, shape (spans + 1,).
        """
        edges = np.asarray(edges_ps, np.int64)
        # What a span begins with counts too, so its edge is a place in the course.
        begins = np.searchsorted(self.times_ps, edges[:-1], side="right")
        held = np.concatenate([[0], self.held_bytes])
        ends = np.searchsorted(self.times_ps, edges[1:], side="left")
        return np.array(
            [held[a : max(a, b) + 1].max() for a, b in zip(begins, ends, strict=True)], np.int64
        )


def queue_depth(departures: Block) -> Depth:
    """Return the depth of a port's queues over time.

    Parameters
    ----------
    departures
        All that left one port, in the type of :data:`tsnrepro.model.logs.DEPARTURE`.

    Notes
    -----
    At one instant memory is free before the next frame takes it, as in the model's ports.
    """
    size = departures["frame_bytes"].astype(np.int64)
    times = np.concatenate([departures["end_ps"], departures["queued_ps"]])
    changes = np.concatenate([-size, size])
    order = np.argsort(times, kind="stable")
    return Depth(times[order], np.cumsum(changes[order]))


def first_missing_ps(departures: Block) -> int | None:
    """Return when the first datagram came that a queue did not take, None if it took all.

    Its time is interpolated between those of the frames around it, so it is known to one gap.

    Parameters
    ----------
    departures
        All that left the queue of one stream whose datagrams are one frame each and come in order.
    """
    numbers, arrived = departures["datagram"], departures["queued_ps"]
    gap = np.flatnonzero(np.diff(numbers) > 1)
    if not gap.size:
        return None
    before, after = int(gap[0]), int(gap[0]) + 1
    share = 1 / int(numbers[after] - numbers[before])
    return int(arrived[before] + share * int(arrived[after] - arrived[before]))
