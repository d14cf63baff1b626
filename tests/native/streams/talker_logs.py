"""What tests ask of a talker's log."""

from pathlib import Path

import numpy as np

from tsnrepro.native.streams import log


def read_talker_log(path: Path) -> np.ndarray:
    """Return a talker's log, whose numbers are 0, 1, 2, ..."""
    records = log.read_talker_log(path)
    np.testing.assert_array_equal(records["sequence"], np.arange(len(records)))
    return records


def pacing_errors(sent: np.ndarray) -> np.ndarray:
    """Return how much later than wanted each datagram of a talker's log was sent, in ns."""
    paced = sent[sent["slot_ns"] != 0]
    return paced["sent_ns"].astype(np.int64) - paced["slot_ns"].astype(np.int64)
