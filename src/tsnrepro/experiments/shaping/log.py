"""Times in a stream's log: latencies from application to application, and to the receive stamp.

The log is the listener's (:mod:`tsnrepro.native.streams.log`), on every testbed: the number of each
datagram, the time of sending from its payload, when the program had it, and when it reached the
listener: the kernel's receive stamp, or on the model the end of its last bit.
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
    "network_latency_us",
    "stamped",
]

LOG = "stream-log.parquet"
"""Output of every trial: the log of the stream, without the load."""

DEPARTURES = "departures.parquet"
"""Output where the listener does not hear the shaped ports directly: the stream's departures."""


def stamped(log: Records) -> Records:
    """Return the records that have a receive stamp."""
    return log[log["stamped_ns"] > 0]


def latency_us(log: Records) -> npt.NDArray[np.float64]:
    """Return the one-way latencies, application to application, in microseconds, in order."""
    return _difference_us(log["received_ns"], log["sent_ns"])


def network_latency_us(log: Records) -> npt.NDArray[np.float64]:
    """Return the times from sending to the receive stamp, where there is one, in microseconds."""
    with_stamp = stamped(log)
    return _difference_us(with_stamp["stamped_ns"], with_stamp["sent_ns"])


def _difference_us(later: Records, earlier: Records) -> npt.NDArray[np.float64]:
    # Signed: clocks that disagree give negative latencies, which must not wrap round.
    return (later.astype(np.int64) - earlier.astype(np.int64)) / 1000
