"""Statistics of times and rows of logs, written by the kernels.

A log is a block of memory that Python empties between calls; the run returns early if the next
window might exceed its room (see :mod:`tsnrepro.model.engine`).
"""

import numpy as np

from tsnrepro.model import layout
from tsnrepro.model.compiled import kernel

_BIN_OF_ONE = 1023 << layout.HISTOGRAM_SUB_BITS
_BIN_SHIFT = 52 - layout.HISTOGRAM_SUB_BITS


@kernel
def _bin(time):
    """Return the histogram bin of a time, 128 per octave, by the bits of the double."""
    if time < 1:
        return 0
    return (np.float64(time).view(np.int64) >> _BIN_SHIFT) - _BIN_OF_ONE


@kernel
def count_time(memory, times, time):
    """Add a time to its sum, minimum, maximum and histogram."""
    times.total += time
    times.least = min(times.least, time)
    times.most = max(times.most, time)
    memory[times.bins + _bin(time)] += 1


@kernel
def _new_row(memory, log, words):
    """Return the address of a new row of a log; if it is full, NONE and a fault."""
    count = log.count
    if count >= log.most:
        layout.run(memory, 0).fault = 1
        return layout.NONE
    log.count = count + 1
    return log.start + count * words


@kernel
def _needs_room(log):
    return log.most > 0 and log.most - log.count < log.room


@kernel
def logs_need_room(memory):
    """Return whether a log might be full in the next window."""
    run = layout.run(memory, 0)
    return _needs_room(run.deliveries) or _needs_room(run.departures) or _needs_room(run.answers)


@kernel
def log_delivery(memory, stream, ident, times):
    """Log a delivered datagram and its times (sent, arrived, delivered)."""
    address = _new_row(memory, layout.run(memory, 0).deliveries, layout.DELIVERY_WORDS)
    if address != layout.NONE:
        row = layout.delivery(memory, address)
        row.stream, row.datagram = stream, ident
        row.sent_ps, row.arrived_ps, row.delivered_ps = times


@kernel
def log_departure(memory, port, times, frame):
    """Log a frame (sent, ident, meta) that starts at a port: times are queued, start, done."""
    address = _new_row(memory, layout.run(memory, 0).departures, layout.STARTED_WORDS)
    if address != layout.NONE:
        row = layout.started(memory, address)
        row.port = port
        row.sent_ps, row.datagram, row.meta = frame
        row.queued_ps, row.start_ps, row.end_ps = times


@kernel
def log_answer(memory, stream, ident, sent, answered):
    """Log an answered request."""
    address = _new_row(memory, layout.run(memory, 0).answers, layout.ANSWER_WORDS)
    if address != layout.NONE:
        row = layout.answer(memory, address)
        row.stream, row.request = stream, ident
        row.sent_ps, row.answered_ps = sent, answered
