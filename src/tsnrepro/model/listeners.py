"""The receiving side of a host: network card, stack, elimination, reassembly, socket, process.

Every stage is first in, first out, so each frame is followed to its end at once: when it is read by
the process, or where it is dropped.
"""

import numpy as np

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    C_ARRIVED,
    C_NIC_DROPS,
    D_ARRIVED,
    D_DELIVERED,
    D_IDENT,
    D_SENT,
    D_STREAM,
    E_NIC_LIMIT,
    E_STACK_FREE,
    E_STACK_KIND,
    E_STACK_MEAN,
    E_STACK_SHAPE,
    E_STACK_STREAM,
    F_IDENT,
    F_META,
    F_SENT,
    F_TIME,
    FAULT_RING_FULL,
    H_STREAM,
    HELD_SIZE,
    HELD_UNTIL,
    HISTOGRAM_SUB_BITS,
    L_BUFFER,
    L_CHARGE,
    L_CHARGED,
    L_COMPLETE,
    L_DELIVERED,
    L_DUPLICATES,
    L_EDGE,
    L_ELEMENT,
    L_FIRST,
    L_FRAGMENTS,
    L_FRAMES,
    L_FREE,
    L_INCOMPLETE,
    L_KIND,
    L_LAST,
    L_LATENCY_MAX,
    L_LATENCY_MIN,
    L_LATENCY_SUM,
    L_NEWEST,
    L_OUT_OF_ORDER,
    L_PENDING,
    L_PENDING_FRAMES,
    L_SEEN,
    L_SENDER,
    L_SOCKET_DROPS,
    L_STALLS,
    L_STRAY_FRAMES,
    L_TIME_KIND,
    L_TIME_MEAN,
    L_TIME_SHAPE,
    L_TIME_STREAM,
    L_TRANSIT_MAX,
    L_TRANSIT_MIN,
    L_TRANSIT_SUM,
    L_UNIQUE,
    META_FLOW_MASK,
    META_FRAGMENT_MASK,
    META_FRAGMENT_SHIFT,
    NONE,
    P_IDENT,
    P_MASK,
    PENDING_SLOTS,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    SEEN_SLOTS,
    TO_PROCESS,
    TO_TCP_RECEIVER,
    X_FAULT,
    X_RECORDED,
    X_RECORDING,
)
from tsnrepro.model.lines import earliest_input, pass_recovery, push, rewind
from tsnrepro.model.senders import work_until
from tsnrepro.model.tcp import acknowledge_late, receive_segment
from tsnrepro.model.variates import draw_duration

__all__ = ["run_receiver"]

_BITS_OF_ONE = 1023 << HISTOGRAM_SUB_BITS
_BIN_SHIFT = 52 - HISTOGRAM_SUB_BITS
_WORD_BITS = 6
_WORD_MASK = 63


@kernel
def _through_card(state, element, now):
    """Return when the stack hands a frame up that arrives now, or NONE if the card is full."""
    row = state.elements[element]
    if row[E_STACK_MEAN] == 0:
        return now
    ring = state.classes[element, 0]
    while ring[RING_READ] != ring[RING_WRITTEN]:
        if state.held[ring[RING_START] + (ring[RING_READ] & ring[RING_MASK]), HELD_UNTIL] > now:
            break
        ring[RING_READ] += 1
    if ring[RING_WRITTEN] - ring[RING_READ] >= row[E_NIC_LIMIT]:
        return NONE
    work = draw_duration(
        state.random,
        row[E_STACK_STREAM],
        row[E_STACK_KIND],
        row[E_STACK_MEAN],
        row[E_STACK_SHAPE],
    )
    row[E_STACK_FREE] = max(now, row[E_STACK_FREE]) + work
    place = ring[RING_START] + (ring[RING_WRITTEN] & ring[RING_MASK])
    state.held[place, HELD_UNTIL] = row[E_STACK_FREE]
    ring[RING_WRITTEN] += 1
    return row[E_STACK_FREE]


@kernel
def _count_bits(word):
    count = 0
    while word:
        word &= word - 1
        count += 1
    return count


@kernel
def _reassemble(state, stream, ident, fragment):
    """Note a fragment; tell whether its datagram is now whole."""
    row = state.listeners[stream]
    fragments = row[L_FRAGMENTS]
    if fragments == 1:
        return True
    pending = state.pending[row[L_PENDING] + ident % PENDING_SLOTS]
    whole = (1 << fragments) - 1
    if pending[P_IDENT] > ident:
        row[L_STRAY_FRAMES] += 1
        return False
    if pending[P_IDENT] < ident:
        if pending[P_IDENT] != NONE and pending[P_MASK] != whole:
            row[L_INCOMPLETE] += 1
            row[L_PENDING_FRAMES] += _count_bits(pending[P_MASK])
        pending[P_IDENT] = ident
        pending[P_MASK] = 0
    bit = 1 << fragment
    if pending[P_MASK] & bit:
        row[L_STRAY_FRAMES] += 1
        return False
    pending[P_MASK] |= bit
    return pending[P_MASK] == whole


@kernel
def _is_repeat(state, stream, ident):
    """Tell whether a datagram was delivered before, looking back over the last 65,536."""
    row = state.listeners[stream]
    seen, base = state.seen, row[L_SEEN]
    newest = row[L_NEWEST]
    if ident > newest:
        for skipped in range(max(newest + 1, ident - SEEN_SLOTS + 1), ident + 1):
            slot = skipped % SEEN_SLOTS
            seen[base + (slot >> _WORD_BITS)] &= ~(1 << (slot & _WORD_MASK))
        row[L_NEWEST] = ident
    elif newest - ident >= SEEN_SLOTS:
        return False
    slot = ident % SEEN_SLOTS
    word, bit = base + (slot >> _WORD_BITS), 1 << (slot & _WORD_MASK)
    repeat = (seen[word] & bit) != 0
    seen[word] |= bit
    return repeat


@kernel
def _bin(time):
    """Return the histogram bin of a time: 128 to an octave, by the bits of the double."""
    if time < 1:
        return 0
    return (np.float64(time).view(np.int64) >> _BIN_SHIFT) - _BITS_OF_ONE


@kernel
def _record(state, stream, ident, times):
    """Count a delivered datagram and its times (sent, arrived, delivered)."""
    sent, arrived, delivered = times
    row = state.listeners[stream]
    latency, transit = delivered - sent, arrived - sent
    row[L_FIRST] = min(row[L_FIRST], delivered)
    row[L_LAST] = max(row[L_LAST], delivered)
    row[L_LATENCY_SUM] += latency
    row[L_LATENCY_MIN] = min(row[L_LATENCY_MIN], latency)
    row[L_LATENCY_MAX] = max(row[L_LATENCY_MAX], latency)
    row[L_TRANSIT_SUM] += transit
    row[L_TRANSIT_MIN] = min(row[L_TRANSIT_MIN], transit)
    row[L_TRANSIT_MAX] = max(row[L_TRANSIT_MAX], transit)
    state.histograms[stream, 0, _bin(latency)] += 1
    state.histograms[stream, 1, _bin(transit)] += 1
    if state.control[X_RECORDING]:
        count = state.control[X_RECORDED]
        if count >= state.records.shape[0]:
            state.control[X_FAULT] = FAULT_RING_FULL
            return
        record = state.records[count]
        record[D_STREAM] = stream
        record[D_IDENT] = ident
        record[D_SENT] = sent
        record[D_ARRIVED] = arrived
        record[D_DELIVERED] = delivered
        state.control[X_RECORDED] = count + 1


@kernel
def _to_socket(state, stream, now):
    """Return when the process has read a datagram that is whole now, or NONE if it is dropped."""
    row = state.listeners[stream]
    start, mask, held = row[RING_START], row[RING_MASK], state.held
    while row[RING_READ] != row[RING_WRITTEN]:
        oldest = held[start + (row[RING_READ] & mask)]
        if oldest[HELD_UNTIL] > now:
            break
        row[L_CHARGED] -= oldest[HELD_SIZE]
        row[RING_READ] += 1
    rewind(row)
    if row[L_CHARGED] > row[L_BUFFER]:
        row[L_SOCKET_DROPS] += 1
        return NONE
    work = draw_duration(
        state.random,
        row[L_TIME_STREAM],
        row[L_TIME_KIND],
        row[L_TIME_MEAN],
        row[L_TIME_SHAPE],
    )
    row[L_FREE] = work_until(state, row[L_STALLS], max(now, row[L_FREE]), work)
    place = held[start + (row[RING_WRITTEN] & mask)]
    place[HELD_UNTIL] = row[L_FREE]
    place[HELD_SIZE] = row[L_CHARGE]
    row[RING_WRITTEN] += 1
    row[L_CHARGED] += row[L_CHARGE]
    return row[L_FREE]


@kernel
def _to_process(state, stream, now, frame):
    sent, ident, meta, arrived = frame
    row = state.listeners[stream]
    fragment = (meta >> META_FRAGMENT_SHIFT) & META_FRAGMENT_MASK
    if not _reassemble(state, stream, ident, fragment):
        return
    row[L_COMPLETE] += 1
    delivered = _to_socket(state, stream, now)
    if delivered == NONE:
        return
    row[L_DELIVERED] += 1
    if _is_repeat(state, stream, ident):
        row[L_DUPLICATES] += 1
        return
    row[L_UNIQUE] += 1
    if ident < row[L_NEWEST]:
        row[L_OUT_OF_ORDER] += 1
    _record(state, stream, ident, (sent, arrived, delivered))


@kernel
def _hand_up(state, element, now, frame):
    """Give a frame of the stack to whom it is for."""
    sent, ident, meta, arrived = frame
    stream = state.hops[element, meta & META_FLOW_MASK, H_STREAM]
    row = state.listeners[stream]
    row[L_FRAMES] += 1
    if row[L_KIND] == TO_PROCESS:
        _to_process(state, stream, now, frame)
    elif row[L_KIND] == TO_TCP_RECEIVER:
        if receive_segment(state, stream, row[L_SENDER], now, (sent, ident)):
            _record(state, stream, ident, (sent, arrived, now))
    else:
        push(state, row[L_EDGE], now, sent, ident, meta)


@kernel
def run_receiver(state, element, end):
    """Serve the receiving side of a host up to ``end``, which it does not reach."""
    while True:
        edge, arrived = earliest_input(state, element)
        if arrived >= end:
            break
        row = state.edges[edge]
        frame = state.frames[row[RING_START] + (row[RING_READ] & row[RING_MASK])]
        row[RING_READ] += 1
        sent, ident, meta = frame[F_SENT], frame[F_IDENT], frame[F_META]
        rewind(row)
        now = _through_card(state, element, arrived)
        if now == NONE:
            flow = meta & META_FLOW_MASK
            state.counters[element, flow, C_ARRIVED] += 1
            state.counters[element, flow, C_NIC_DROPS] += 1
            continue
        meta = pass_recovery(state, element, meta, now)
        if meta != NONE:
            _hand_up(state, element, now, (sent, ident, meta, arrived))
    _send_late_acknowledgements(state, element, end)


@kernel
def _send_late_acknowledgements(state, element, end):
    for stream in range(state.listeners.shape[0]):
        row = state.listeners[stream]
        if row[L_ELEMENT] == element and row[L_KIND] == TO_TCP_RECEIVER:
            acknowledge_late(state, stream, row[L_SENDER], end)
