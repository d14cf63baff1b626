"""Egress ports: which frame is sent next, and when.

At one instant, in this order: the frame on the line leaves (its memory is free), frames arrive, the
next frame is chosen. :func:`run_fifo` serves ports with one queue, where a frame's time of
departure is known when it arrives; :func:`run_scheduled` serves all ports, event by event.
"""

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    C_ARRIVED,
    C_QUEUE_DROPS,
    C_SENT,
    C_WAIT_MAX,
    C_WAIT_SUM,
    CALLS,
    CLASSES,
    E_BUSY,
    E_FIRST_SENDER,
    E_GAP,
    E_GUARD,
    E_LINE_FREE,
    E_QUEUE_BYTES,
    E_RELEASE_AT,
    E_RELEASE_BYTES,
    E_RELEASE_CHARGE,
    E_RELEASE_CLASS,
    E_RELEASE_FLOW,
    E_SELECT_AT,
    E_SENDER_COUNT,
    EDGE_ACKS,
    F_IDENT,
    F_META,
    F_SENT,
    F_TIME,
    G_KIND,
    G_SENDER,
    H_BYTES_FULL,
    H_BYTES_LAST,
    H_CLASS,
    H_DONE_FULL,
    H_DONE_LAST,
    H_SENDER,
    HELD_SIZE,
    HELD_UNTIL,
    META_FLOW_MASK,
    META_FRAGMENT_SHIFT,
    META_LAST,
    NEVER,
    NONE,
    Q_BYTES,
    Q_PEAK,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    S_BEGIN,
    S_CHARGE_FULL,
    S_CHARGE_LAST,
    S_CHARGED,
    S_ENTERED,
    S_FLOW,
    S_FRAGMENTS,
    S_FREE,
    S_INDEX,
    S_KIND,
    S_NEXT,
    S_PHASE,
    TCP,
)
from tsnrepro.model.lines import earliest_input, pass_recovery, rewind, send_on
from tsnrepro.model.senders import after_entry, call_write, plan_entry, release
from tsnrepro.model.shapers import charge_credit, eligible_at, settle_credit
from tsnrepro.model.tcp import on_acknowledgement, on_sender_event, plan_segment, sends_segment, sent_segment

__all__ = ["run_fifo", "run_scheduled"]


@kernel
def _earliest_sender(state, element, before):
    """Return the sender of this port with the earliest event, if that is ahead of ``before``."""
    best, best_time = NONE, before
    first = state.elements[element, E_FIRST_SENDER]
    for sender in range(first, first + state.elements[element, E_SENDER_COUNT]):
        time = state.senders[sender, S_NEXT]
        if time < best_time:
            best, best_time = sender, time
    return best, best_time


@kernel
def _pop(state, edge):
    row = state.edges[edge]
    frame = state.frames[row[RING_START] + (row[RING_READ] & row[RING_MASK])]
    row[RING_READ] += 1
    return frame[F_TIME], frame[F_SENT], frame[F_IDENT], frame[F_META]


@kernel
def _count_sent(state, element, flow, wait, busy):
    counts = state.counters[element, flow]
    counts[C_SENT] += 1
    counts[C_WAIT_SUM] += wait
    counts[C_WAIT_MAX] = max(counts[C_WAIT_MAX], wait)
    state.elements[element, E_BUSY] += busy


@kernel
def _send_in_turn(state, element, now, frame):
    """Take a frame into the only queue; return when its last bit is sent, or NONE if dropped."""
    _, _, meta = frame
    row = state.elements[element]
    queue = state.classes[element, 0]
    held = state.held
    start_of_ring, mask = queue[RING_START], queue[RING_MASK]
    while queue[RING_READ] != queue[RING_WRITTEN]:
        oldest = held[start_of_ring + (queue[RING_READ] & mask)]
        if oldest[HELD_UNTIL] > now:
            break
        queue[Q_BYTES] -= oldest[HELD_SIZE]
        queue[RING_READ] += 1
    rewind(queue)
    flow = meta & META_FLOW_MASK
    hop = state.hops[element, flow]
    last = meta & META_LAST
    size = hop[H_BYTES_LAST] if last else hop[H_BYTES_FULL]
    if queue[Q_BYTES] + size > row[E_QUEUE_BYTES]:
        state.counters[element, flow, C_QUEUE_DROPS] += 1
        return NONE
    start = max(now, row[E_LINE_FREE])
    done = start + (hop[H_DONE_LAST] if last else hop[H_DONE_FULL])
    row[E_LINE_FREE] = done + row[E_GAP]
    place = held[start_of_ring + (queue[RING_WRITTEN] & mask)]
    place[HELD_UNTIL] = done
    place[HELD_SIZE] = size
    queue[RING_WRITTEN] += 1
    queue[Q_BYTES] += size
    queue[Q_PEAK] = max(queue[Q_PEAK], queue[Q_BYTES])
    _count_sent(state, element, flow, start - now, done + row[E_GAP] - start)
    send_on(state, element, start, done, frame)
    return done


@kernel
def _enter_in_turn(state, element, sender):
    """Put the frames of a sender's datagram into the only queue and plan its next one."""
    row = state.senders[sender]
    now = row[S_NEXT]
    fragments = row[S_FRAGMENTS]
    row[S_ENTERED] += 1
    for fragment in range(fragments):
        last = fragment == fragments - 1
        meta = row[S_FLOW] | (fragment << META_FRAGMENT_SHIFT) | (META_LAST if last else 0)
        state.counters[element, row[S_FLOW], C_ARRIVED] += 1
        done = _send_in_turn(state, element, now, (row[S_BEGIN], row[S_INDEX], meta))
        if done != NONE:
            charge = row[S_CHARGE_LAST] if last else row[S_CHARGE_FULL]
            place = state.held[row[RING_START] + (row[RING_WRITTEN] & row[RING_MASK])]
            place[HELD_UNTIL] = done
            place[HELD_SIZE] = charge
            row[RING_WRITTEN] += 1
            row[S_CHARGED] += charge
    row[S_FREE] = now
    row[S_INDEX] += 1
    plan_entry(state, sender)


@kernel
def run_fifo(state, element, end):
    """Serve a port with one queue and no timers up to ``end``, which it does not reach."""
    while True:
        edge, time = earliest_input(state, element)
        sender, time = _earliest_sender(state, element, time)
        if time >= end:
            return
        if sender != NONE:
            _enter_in_turn(state, element, sender)
            continue
        now, sent, ident, meta = _pop(state, edge)
        rewind(state.edges[edge])
        meta = pass_recovery(state, element, meta, now)
        if meta != NONE:
            _send_in_turn(state, element, now, (sent, ident, meta))


@kernel
def _wait_in_class(state, element, now, frame):
    """Put a frame into the queue of its class; return its size, or NONE if it is dropped."""
    sent, ident, meta = frame
    row = state.elements[element]
    flow = meta & META_FLOW_MASK
    hop = state.hops[element, flow]
    traffic_class = hop[H_CLASS]
    queue = state.classes[element, traffic_class]
    size = hop[H_BYTES_LAST] if meta & META_LAST else hop[H_BYTES_FULL]
    if queue[Q_BYTES] + size > row[E_QUEUE_BYTES]:
        state.counters[element, flow, C_QUEUE_DROPS] += 1
        return False
    if queue[RING_READ] == queue[RING_WRITTEN]:
        rewind(queue)
        settle_credit(state, element, traffic_class, False, now)
    place = state.frames[queue[RING_START] + (queue[RING_WRITTEN] & queue[RING_MASK])]
    place[F_TIME] = now
    place[F_SENT] = sent
    place[F_IDENT] = ident
    place[F_META] = meta
    queue[RING_WRITTEN] += 1
    queue[Q_BYTES] += size
    queue[Q_PEAK] = max(queue[Q_PEAK], queue[Q_BYTES])
    if row[E_LINE_FREE] <= now:
        row[E_SELECT_AT] = now
    return True


@kernel
def _enter_class(state, element, sender, now):
    """Put the frames of a sender's datagram into the queue of its class."""
    row = state.senders[sender]
    fragments = row[S_FRAGMENTS]
    row[S_ENTERED] += 1
    for fragment in range(fragments):
        last = fragment == fragments - 1
        meta = row[S_FLOW] | (fragment << META_FRAGMENT_SHIFT) | (META_LAST if last else 0)
        state.counters[element, row[S_FLOW], C_ARRIVED] += 1
        if _wait_in_class(state, element, now, (row[S_BEGIN], row[S_INDEX], meta)):
            row[S_CHARGED] += row[S_CHARGE_LAST] if last else row[S_CHARGE_FULL]


@kernel
def _sender_event(state, element, sender, now):
    row = state.senders[sender]
    if row[S_KIND] == TCP:
        on_sender_event(state, sender, now)
        if sends_segment(state, sender, now):
            _enter_class(state, element, sender, now)
            sent_segment(state, sender, now)
    elif row[S_PHASE] == CALLS:
        call_write(state, sender, now)
    else:
        _enter_class(state, element, sender, now)
        after_entry(state, sender)


@kernel
def _edge_event(state, element, edge):
    now, sent, ident, meta = _pop(state, edge)
    rewind(state.edges[edge])
    if state.edges[edge, G_KIND] == EDGE_ACKS:
        on_acknowledgement(state, state.edges[edge, G_SENDER], now, sent, ident)
        return
    meta = pass_recovery(state, element, meta, now)
    if meta != NONE:
        _wait_in_class(state, element, now, (sent, ident, meta))


@kernel
def _transmit(state, element, traffic_class, now):
    row = state.elements[element]
    queue = state.classes[element, traffic_class]
    frame = state.frames[queue[RING_START] + (queue[RING_READ] & queue[RING_MASK])]
    queue[RING_READ] += 1
    meta = frame[F_META]
    flow = meta & META_FLOW_MASK
    hop = state.hops[element, flow]
    last = meta & META_LAST
    done = now + (hop[H_DONE_LAST] if last else hop[H_DONE_FULL])
    free = done + row[E_GAP]
    charge_credit(state, element, traffic_class, now, free)
    row[E_LINE_FREE] = free
    row[E_SELECT_AT] = free
    row[E_RELEASE_AT] = done
    row[E_RELEASE_CLASS] = traffic_class
    row[E_RELEASE_FLOW] = flow
    row[E_RELEASE_BYTES] = hop[H_BYTES_LAST] if last else hop[H_BYTES_FULL]
    sender = hop[H_SENDER]
    if sender != NONE:
        row[E_RELEASE_CHARGE] = state.senders[sender, S_CHARGE_LAST if last else S_CHARGE_FULL]
    _count_sent(state, element, flow, now - frame[F_TIME], free - now)
    send_on(state, element, now, done, (frame[F_SENT], frame[F_IDENT], meta))


@kernel
def _choose(state, element, now):
    """Start the frame of the highest class that may send, or set when to look again."""
    row = state.elements[element]
    earliest = NEVER
    for traffic_class in range(CLASSES - 1, -1, -1):
        queue = state.classes[element, traffic_class]
        if queue[RING_READ] == queue[RING_WRITTEN]:
            continue
        settle_credit(state, element, traffic_class, True, now)
        need = 0
        if row[E_GUARD]:
            frame = state.frames[queue[RING_START] + (queue[RING_READ] & queue[RING_MASK])]
            hop = state.hops[element, frame[F_META] & META_FLOW_MASK]
            need = hop[H_DONE_LAST] if frame[F_META] & META_LAST else hop[H_DONE_FULL]
        at = eligible_at(state, element, traffic_class, now, need)
        if at == now:
            _transmit(state, element, traffic_class, now)
            return
        earliest = min(earliest, at)
    row[E_SELECT_AT] = earliest


@kernel
def _release_line(state, element, now):
    row = state.elements[element]
    state.classes[element, row[E_RELEASE_CLASS], Q_BYTES] -= row[E_RELEASE_BYTES]
    row[E_RELEASE_AT] = NEVER
    sender = state.hops[element, row[E_RELEASE_FLOW], H_SENDER]
    if sender != NONE:
        release(state, sender, row[E_RELEASE_CHARGE], now)
        if state.senders[sender, S_KIND] == TCP:
            plan_segment(state, sender, now)


@kernel
def run_scheduled(state, element, end):
    """Serve any port up to ``end``, which it does not reach, one event after the other."""
    row = state.elements[element]
    while True:
        edge, arrives = earliest_input(state, element)
        sender, arrives = _earliest_sender(state, element, arrives)
        now = min(arrives, row[E_RELEASE_AT], row[E_SELECT_AT])
        if now >= end:
            return
        if now == row[E_RELEASE_AT]:
            _release_line(state, element, now)
        elif now != arrives:
            _choose(state, element, now)
        elif sender != NONE:
            _sender_event(state, element, sender, now)
        else:
            _edge_event(state, element, edge)
