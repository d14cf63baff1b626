"""What the kernels note for Python: times in histograms, and rows of the logs that were asked for.

A log is a block of memory that Python empties between visits; the run stops early for that when the
next window might not find room (see :mod:`tsnrepro.model.engine`).
"""

import numpy as np

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    ANSWER_WORDS,
    DELIVERY_WORDS,
    HISTOGRAM_SUB_BITS,
    NONE,
    STARTED_WORDS,
    answer_at,
    delivery_at,
    run_at,
    started_at,
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
def count_time(memory, times, time):
    """Count a time in its sum, minimum, maximum and histogram."""
    times.total += time
    times.least = min(times.least, time)
    times.most = max(times.most, time)
    memory[times.bins + _bin(time)] += 1


@kernel
def _new_row(memory, log, words):
    """Return the address of a new row of a log, or NONE (and a fault) where it is full."""
    count = log.count
    if count >= log.most:
        run_at(memory, 0).fault = 1
        return NONE
    log.count = count + 1
    return log.start + count * words


@kernel
def _needs_room(log):
    return log.most > 0 and log.most - log.count < log.room


@kernel
def logs_need_room(memory):
    """Tell whether a log might run full in the next window."""
    run = run_at(memory, 0)
    return _needs_room(run.deliveries) or _needs_room(run.departures) or _needs_room(run.answers)


@kernel
def log_delivery(memory, stream, ident, times):
    """Note a delivered datagram and its times (sent, arrived, delivered)."""
    address = _new_row(memory, run_at(memory, 0).deliveries, DELIVERY_WORDS)
    if address != NONE:
        row = delivery_at(memory, address)
        row.stream, row.datagram = stream, ident
        row.sent_ps, row.arrived_ps, row.delivered_ps = times


@kernel
def log_departure(memory, port, times, frame):
    """Note a frame (sent, ident, meta) that starts at a port: times are queued, start, done."""
    address = _new_row(memory, run_at(memory, 0).departures, STARTED_WORDS)
    if address != NONE:
        row = started_at(memory, address)
        row.port = port
        row.sent_ps, row.datagram, row.meta = frame
        row.queued_ps, row.start_ps, row.end_ps = times


@kernel
def log_answer(memory, stream, ident, sent, answered):
    """Note an answered request."""
    address = _new_row(memory, run_at(memory, 0).answers, ANSWER_WORDS)
    if address != NONE:
        row = answer_at(memory, address)
        row.stream, row.request = stream, ident
        row.sent_ps, row.answered_ps = sent, answered
