"""Edges and links: how a frame leaves an element, is lost on the way, is copied, and arrives."""

from numba.extending import register_jitable

from tsnrepro.model import recovery
from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    BURST_LOSS,
    C_ARRIVED,
    C_ELIMINATED,
    C_HANDED_ON,
    C_LOST_DOWN,
    C_LOST_RANDOM,
    E_AHEAD,
    E_DELAY,
    E_FAILURE,
    E_FAILURES_END,
    E_FIRST_IN,
    E_IN_COUNT,
    E_LOSS_BAD,
    E_LOSS_ENTER,
    E_LOSS_GOOD,
    E_LOSS_KIND,
    E_LOSS_LEAVE,
    E_LOSS_STATE,
    E_LOSS_STREAM,
    F_IDENT,
    F_META,
    F_SENT,
    F_TIME,
    FAULT_RING_FULL,
    H_AFTER,
    H_FIRST_OUT,
    H_INDIVIDUAL,
    H_OUT_COUNT,
    H_RECOVER,
    H_SPLIT,
    META_FLOW_MASK,
    META_SEQ_SHIFT,
    NEVER,
    NO_LOSS,
    NONE,
    OUT_EDGE,
    OUT_FLOW,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    X_FAULT,
)
from tsnrepro.model.variates import draw_bits

__all__ = ["earliest_input", "pass_recovery", "push", "rewind", "send_on"]

for _function in (
    recovery.signed_distance,
    recovery.expire,
    recovery._take_any,
    recovery._match,
    recovery._vector,
    recovery.recover,
):
    register_jitable(_function)
_recover = recovery.recover


@kernel
def push(state, edge, time, sent, ident, meta):
    """Put a frame on an edge."""
    row = state.edges[edge]
    written = row[RING_WRITTEN]
    if written - row[RING_READ] > row[RING_MASK]:
        state.control[X_FAULT] = FAULT_RING_FULL
        return
    frame = state.frames[row[RING_START] + (written & row[RING_MASK])]
    frame[F_TIME] = time
    frame[F_SENT] = sent
    frame[F_IDENT] = ident
    frame[F_META] = meta
    row[RING_WRITTEN] = written + 1


@kernel
def rewind(row):
    """Start a ring that has run empty at its beginning again: what is used stays in the cache."""
    if row[RING_READ] == row[RING_WRITTEN]:
        row[RING_READ] = 0
        row[RING_WRITTEN] = 0


@kernel
def earliest_input(state, element):
    """Return the edge with the earliest frame, NONE if there is none, and that frame's time.

    The first of several that are equally early is taken.
    """
    best, best_time = NONE, NEVER
    first = state.elements[element, E_FIRST_IN]
    for place in range(first, first + state.elements[element, E_IN_COUNT]):
        edge = state.inputs[place]
        read = state.edges[edge, RING_READ]
        if read != state.edges[edge, RING_WRITTEN]:
            start, mask = state.edges[edge, RING_START], state.edges[edge, RING_MASK]
            time = state.frames[start + (read & mask), F_TIME]
            if time < best_time:
                best, best_time = edge, time
    return best, best_time


@kernel
def _lost_by_chance(state, element):
    row = state.elements[element]
    kind = row[E_LOSS_KIND]
    threshold = row[E_LOSS_GOOD]
    if kind == BURST_LOSS:
        step = draw_bits(state.random, row[E_LOSS_STREAM])
        if row[E_LOSS_STATE]:
            row[E_LOSS_STATE] = step >= row[E_LOSS_LEAVE]
        else:
            row[E_LOSS_STATE] = step < row[E_LOSS_ENTER]
        if row[E_LOSS_STATE]:
            threshold = row[E_LOSS_BAD]
    return draw_bits(state.random, row[E_LOSS_STREAM]) < threshold


@kernel
def _lost_in_failure(state, element, start, arrival):
    row = state.elements[element]
    at = row[E_FAILURE]
    while at < row[E_FAILURES_END] and state.failures[at, 1] <= start:
        at += 1
    row[E_FAILURE] = at
    return at < row[E_FAILURES_END] and state.failures[at, 0] < arrival


@kernel
def send_on(state, element, start, done, frame):
    """Send a frame (sent, ident, meta) from ``start`` until ``done`` down the element's link.

    It is lost where the link is down at any time between its first bit's start and its last bit's
    arrival, or by chance; else it is handed on, numbered and copied where the flow splits.
    """
    sent, ident, meta = frame
    row = state.elements[element]
    flow = meta & META_FLOW_MASK
    counts = state.counters[element, flow]
    arrival = done + row[E_AHEAD]
    by_chance = row[E_LOSS_KIND] != NO_LOSS and _lost_by_chance(state, element)
    if row[E_FAILURE] < row[E_FAILURES_END] and _lost_in_failure(
        state, element, start, done + row[E_DELAY]
    ):
        counts[C_LOST_DOWN] += 1
        return
    if by_chance:
        counts[C_LOST_RANDOM] += 1
        return
    hop = state.hops[element, flow]
    label = meta & ~META_FLOW_MASK
    if hop[H_SPLIT] != NONE:
        number = state.sequence[hop[H_SPLIT]]
        state.sequence[hop[H_SPLIT]] = (number + 1) & 0xFFFF
        label = (label & ((1 << META_SEQ_SHIFT) - 1)) | (number << META_SEQ_SHIFT)
    first = hop[H_FIRST_OUT]
    for place in range(first, first + hop[H_OUT_COUNT]):
        out = state.outs[place]
        push(state, out[OUT_EDGE], arrival, sent, ident, label | out[OUT_FLOW])
    counts[C_HANDED_ON] += hop[H_OUT_COUNT]


@kernel
def pass_recovery(state, element, meta, now):
    """Count a frame that arrives and put it through elimination where its member path ends.

    Return its meta word, with the flow it belongs to from here, or NONE if it is eliminated.
    """
    flow = meta & META_FLOW_MASK
    hop = state.hops[element, flow]
    state.counters[element, flow, C_ARRIVED] += 1
    if hop[H_RECOVER] == NONE:
        return meta
    number = (meta >> META_SEQ_SHIFT) & 0xFFFF
    passed = True
    if hop[H_INDIVIDUAL] != NONE:
        passed = _recover(state.recovery, hop[H_INDIVIDUAL], number, now)
    if not (passed and _recover(state.recovery, hop[H_RECOVER], number, now)):
        state.counters[element, flow, C_ELIMINATED] += 1
        return NONE
    return (meta & ~META_FLOW_MASK) | hop[H_AFTER]
