"""Logs of the talker, which only tests read: 32 bytes a datagram sent."""

from pathlib import Path

import numpy as np

TALKER_DTYPE = np.dtype(
    [
        ("stream", "<u4"),
        ("sequence", "<u4"),
        ("wanted_ns", "<u8"),
        ("sent_ns", "<u8"),
        ("stamped_ns", "<u8"),
    ]
)
"""One datagram sent: stream, number, slot (0 where saturating), clock before the call, stamp."""


def read_talker_log(path: Path) -> np.ndarray:
    """Return a talker's log, whose records are whole and whose numbers are 0, 1, 2, ..."""
    records = np.frombuffer(path.read_bytes(), TALKER_DTYPE)
    np.testing.assert_array_equal(records["sequence"], np.arange(len(records)))
    return records


def pacing_errors(sent: np.ndarray) -> np.ndarray:
    """Return how much later than wanted each datagram of a talker's log was sent, in ns."""
    paced = sent[sent["wanted_ns"] != 0]
    return paced["sent_ns"].astype(np.int64) - paced["wanted_ns"].astype(np.int64)
