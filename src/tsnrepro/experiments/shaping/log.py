"""Times in a stream's log: the latencies of frames, and what the programs added to them.

The log is the listener's (:mod:`tsnrepro.native.streams.log`), on every testbed: the number of each
datagram, the time of sending from its payload, when the frame entered the queue of the talker's
device (the stamp of its kernel), when the listener's program had it, and when it reached the
listener: the receive stamp of the kernel or the card, or on the model the end of its last bit.
"""

import numpy as np
import numpy.typing as npt

from tsnrepro.native.streams.log import LISTENER_DTYPE, Records, compress, decompress

__all__ = [
    "DEPARTURES",
    "LISTENER_DTYPE",
    "LOG",
    "Records",
    "compress",
    "decompress",
    "latency_us",
    "listener_wait_us",
    "stamped",
    "talker_wait_us",
    "timed",
]

LOG = "stream-log.parquet"
"""Output of every trial: the log of the stream, without the load."""

DEPARTURES = "departures.parquet"
"""Output where the listener does not hear the shaped ports directly: the stream's departures."""


def stamped(log: Records) -> Records:
    """Return the records that have a receive stamp."""
    return log[log["stamped_ns"] > 0]


def timed(log: Records) -> Records:
    """Return the records whose latency is known."""
    with_stamp = stamped(log)
    queued = _queued(with_stamp)
    return queued if len(queued) else with_stamp


def _queued(log: Records) -> Records:
    """Return the records that have a time of entering the queue of the talker's device."""
    return log[log["queued_ns"] > 0] if "queued_ns" in (log.dtype.names or ()) else log[:0]


def latency_us(log: Records) -> npt.NDArray[np.float64]:
    """Return the frames' one-way latencies in microseconds, in order, see :func:`timed`.

    From the queue of the talker's device to the receive stamp: neither program's wait for its
    processor is in it. Where no frame's time of entering the queue is known, from the time in the
    payload: in older records that of the write, with launch times the launch.
    """
    known = timed(log)
    return _between_us(known, "queued_ns" if len(_queued(known)) else "sent_ns", "stamped_ns")


def talker_wait_us(log: Records) -> npt.NDArray[np.float64]:
    """Return the times from the talker's reading of the clock to its device's queue."""
    queued = _queued(log)
    return _between_us(queued, "sent_ns", "queued_ns") if len(queued) else np.empty(0)


def listener_wait_us(log: Records) -> npt.NDArray[np.float64]:
    """Return the times from the receive stamp until the program had the datagram."""
    return _between_us(stamped(log), "stamped_ns", "received_ns")


def _between_us(log: Records, earlier: str, later: str) -> npt.NDArray[np.float64]:
    # Signed: clocks that disagree give negative times, which must not wrap round.
    return (log[later].astype(np.int64) - log[earlier].astype(np.int64)) / 1000
