"""What the kernels note for Python: times in histograms, and rows of the logs that were asked for.

A log is a block of memory that Python empties between visits; the run stops early for that when the
next window might not find room (see :mod:`tsnrepro.model.engine`).
"""

import numpy as np

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    AN_ANSWERED,
    AN_IDENT,
    AN_SENT,
    AN_STREAM,
    AN_WORDS,
    DP_DONE,
    DP_IDENT,
    DP_META,
    DP_PORT,
    DP_QUEUED,
    DP_SENT,
    DP_START,
    DP_WORDS,
    HISTOGRAM_SUB_BITS,
    LOG_COLUMNS,
    LOG_COUNT,
    LOG_ROOM,
    LOG_SIZE,
    LOG_START,
    LOGS,
    NONE,
    R_ARRIVED,
    R_DELIVERED,
    R_IDENT,
    R_SENT,
    R_STREAM,
    R_WORDS,
    X_ANSWERS,
    X_DELIVERIES,
    X_DEPARTURES,
    X_FAULT,
    X_LOGS,
)

__all__ = ["count_time", "log_answer", "log_delivery", "log_departure", "logs_need_room"]

_BIN_OF_ONE = 1023 << HISTOGRAM_SUB_BITS
_BIN_SHIFT = 52 - HISTOGRAM_SUB_BITS


@kernel
def _bin(time):
    """Return the histogram bin of a time: 128 to an octave, by the bits of the double."""
    if time < 1:
        return 0
    return (np.float64(time).view(np.int64) >> _BIN_SHIFT) - _BIN_OF_ONE


@kernel
def count_time(memory, sums, time):
    """Count a time in sum, minimum, maximum and histogram (four columns in this order)."""
    memory[sums] += time
    memory[sums + 1] = min(memory[sums + 1], time)
    memory[sums + 2] = max(memory[sums + 2], time)
    memory[memory[sums + 3] + _bin(time)] += 1


@kernel
def _new_row(memory, log, words):
    """Return the address of a new row of a log, or NONE (and a fault) where it is full."""
    count = memory[log + LOG_COUNT]
    if count >= memory[log + LOG_SIZE]:
        memory[X_FAULT] = 1
        return NONE
    memory[log + LOG_COUNT] = count + 1
    return memory[log + LOG_START] + count * words


@kernel
def logs_need_room(memory):
    """Tell whether a log might run full in the next window."""
    for number in range(LOGS):
        log = X_LOGS + number * LOG_COLUMNS
        size = memory[log + LOG_SIZE]
        if size > 0 and size - memory[log + LOG_COUNT] < memory[log + LOG_ROOM]:
            return True
    return False


@kernel
def log_delivery(memory, stream, ident, times):
    """Note a delivered datagram and its times (sent, arrived, delivered)."""
    row = _new_row(memory, X_DELIVERIES, R_WORDS)
    if row != NONE:
        memory[row + R_STREAM] = stream
        memory[row + R_IDENT] = ident
        memory[row + R_SENT], memory[row + R_ARRIVED], memory[row + R_DELIVERED] = times


@kernel
def log_departure(memory, port, times, frame):
    """Note a frame (sent, ident, meta) that starts at a port: times are queued, start, done."""
    row = _new_row(memory, X_DEPARTURES, DP_WORDS)
    if row != NONE:
        memory[row + DP_PORT] = port
        memory[row + DP_SENT], memory[row + DP_IDENT], memory[row + DP_META] = frame
        memory[row + DP_QUEUED], memory[row + DP_START], memory[row + DP_DONE] = times


@kernel
def log_answer(memory, stream, ident, sent, answered):
    """Note an answered request."""
    row = _new_row(memory, X_ANSWERS, AN_WORDS)
    if row != NONE:
        memory[row + AN_STREAM] = stream
        memory[row + AN_IDENT] = ident
        memory[row + AN_SENT] = sent
        memory[row + AN_ANSWERED] = answered
