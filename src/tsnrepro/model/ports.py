"""Egress ports: which frame is sent next, and when.

At one instant, in this order: the frame on the line leaves (its memory is free), frames arrive, the
next frame is chosen. :func:`run_fifo` serves ports with one queue, where a frame's time of
departure is known when it arrives; :func:`run_scheduled` serves all ports, event by event.
"""

from tsnrepro.model.compiled import inlined, kernel
from tsnrepro.model.layout import (
    C_ARRIVED,
    C_DUPLICATED,
    C_QUEUE_DROPS,
    C_SENT,
    C_WAIT_MAX,
    C_WAIT_SUM,
    CALLS,
    CLASSES,
    E_BUSY,
    E_CLASSES,
    E_GAP,
    E_GUARD,
    E_LINE_FREE,
    E_LOGGED,
    E_QUEUE_BYTES,
    E_RELEASE_AT,
    E_RELEASE_BYTES,
    E_RELEASE_CHARGE,
    E_RELEASE_CLASS,
    E_RELEASE_SENDER,
    E_SELECT_AT,
    E_SENDER_COUNT,
    E_SENDERS,
    E_WATCHED,
    F_META,
    F_WORDS,
    G_SENDER,
    H_BYTES_FULL,
    H_BYTES_LAST,
    H_CLASS,
    H_DONE_FULL,
    H_DONE_LAST,
    H_SENDER,
    HELD_SIZE,
    HELD_UNTIL,
    HELD_WORDS,
    META_FRAGMENT_SHIFT,
    META_LAST,
    NEVER,
    NONE,
    PING_PONG,
    Q_BYTES,
    Q_COLUMNS,
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
    WAITS,
)
from tsnrepro.model.lines import (
    earliest_input,
    hand_on,
    hop_of,
    is_duplicated,
    pass_recovery,
    push,
    send_on,
    take,
)
from tsnrepro.model.pingpong import await_answer, give_up, on_answer
from tsnrepro.model.rows import log_departure
from tsnrepro.model.senders import after_entry, call_write, plan_entry, release
from tsnrepro.model.shapers import charge_credit, eligible_at, settle_credit
from tsnrepro.model.tcp import (
    on_acknowledgement,
    on_sender_event,
    plan_segment,
    sends_segment,
    sent_segment,
)

__all__ = ["run_fifo", "run_scheduled"]


@kernel
def _earliest_sender(memory, port, before):
    """Return the sender of this port with the earliest event, if that is ahead of ``before``."""
    best, best_time = NONE, before
    first = memory[port + E_SENDERS]
    for place in range(first, first + memory[port + E_SENDER_COUNT]):
        sender = memory[place]
        if memory[sender + S_NEXT] < best_time:
            best, best_time = sender, memory[sender + S_NEXT]
    return best, best_time


@kernel
def _hold(memory, ring, until, size):
    """Note in a ring that ``size`` bytes are held until a time."""
    written = memory[ring + RING_WRITTEN]
    held = memory[ring + RING_START] + (written & memory[ring + RING_MASK]) * HELD_WORDS
    memory[held + HELD_UNTIL] = until
    memory[held + HELD_SIZE] = size
    memory[ring + RING_WRITTEN] = written + 1


@kernel
def _let_go(memory, queue, now):
    """Take the frames that have left by ``now`` off the bytes of a queue."""
    start, mask = memory[queue + RING_START], memory[queue + RING_MASK]
    read, written = memory[queue + RING_READ], memory[queue + RING_WRITTEN]
    held_bytes = memory[queue + Q_BYTES]
    while read != written:
        held = start + (read & mask) * HELD_WORDS
        if memory[held + HELD_UNTIL] > now:
            break
        held_bytes -= memory[held + HELD_SIZE]
        read += 1
    if read == written:
        read = 0
        memory[queue + RING_WRITTEN] = 0
    memory[queue + RING_READ] = read
    memory[queue + Q_BYTES] = held_bytes


@kernel
def _fits(memory, port, queue, hop, size):
    """Count a frame into the bytes of a queue, or as dropped."""
    held_bytes = memory[queue + Q_BYTES] + size
    if held_bytes > memory[port + E_QUEUE_BYTES]:
        memory[hop + C_QUEUE_DROPS] += 1
        return False
    memory[queue + Q_BYTES] = held_bytes
    memory[queue + Q_PEAK] = max(memory[queue + Q_PEAK], held_bytes)
    return True


@inlined
def _start(memory, port, times, frame):
    """Send a frame (sent, ident, meta), and count it: times are queued, start, done, free."""
    queued, start, done, free = times
    hop = hop_of(memory, port, frame[2])
    wait = start - queued
    memory[hop + C_SENT] += 1
    memory[hop + C_WAIT_SUM] += wait
    memory[hop + C_WAIT_MAX] = max(memory[hop + C_WAIT_MAX], wait)
    memory[port + E_BUSY] += free - start
    arrives = send_on(memory, port, hop, (start, done), frame)
    if memory[port + E_WATCHED]:
        _watch(memory, port, (queued, start, done), frame, arrives)


@kernel
def _watch(memory, port, times, frame, arrives):
    """Log a frame that starts, and hand it on again where the link duplicates it."""
    if memory[port + E_LOGGED] != NONE:
        log_departure(memory, memory[port + E_LOGGED], times, frame)
    if is_duplicated(memory, port, times[1]) and arrives:
        hop = hop_of(memory, port, frame[2])
        memory[hop + C_DUPLICATED] += 1
        hand_on(memory, port, hop, times[2], frame)


@kernel
def _send_in_turn(memory, port, now, frame):
    """Take a frame into the only queue; return when its last bit is sent, or NONE if dropped."""
    meta = frame[2]
    queue = memory[port + E_CLASSES]
    hop = hop_of(memory, port, meta)
    last = (meta & META_LAST) != 0
    size = memory[hop + (H_BYTES_LAST if last else H_BYTES_FULL)]
    _let_go(memory, queue, now)
    if not _fits(memory, port, queue, hop, size):
        return NONE
    start = max(now, memory[port + E_LINE_FREE])
    done = start + memory[hop + (H_DONE_LAST if last else H_DONE_FULL)]
    free = done + memory[port + E_GAP]
    memory[port + E_LINE_FREE] = free
    _hold(memory, queue, done, size)
    _start(memory, port, (now, start, done, free), frame)
    return done


@kernel
def _fragment_meta(memory, sender, fragment):
    """Return the meta word of a fragment of a sender's datagram."""
    meta = memory[sender + S_FLOW] | (fragment << META_FRAGMENT_SHIFT)
    if fragment == memory[sender + S_FRAGMENTS] - 1:
        meta |= META_LAST
    return meta


@kernel
def _enter_in_turn(memory, port, sender):
    """Put the frames of a sender's datagram into the only queue and plan its next one."""
    now = memory[sender + S_NEXT]
    sent, ident = memory[sender + S_BEGIN], memory[sender + S_INDEX]
    memory[sender + S_ENTERED] += 1
    for fragment in range(memory[sender + S_FRAGMENTS]):
        meta = _fragment_meta(memory, sender, fragment)
        memory[hop_of(memory, port, meta) + C_ARRIVED] += 1
        done = _send_in_turn(memory, port, now, (sent, ident, meta))
        if done != NONE:
            charge = memory[sender + (S_CHARGE_LAST if meta & META_LAST else S_CHARGE_FULL)]
            _hold(memory, sender, done, charge)
            memory[sender + S_CHARGED] += charge
    memory[sender + S_FREE] = now
    memory[sender + S_INDEX] = ident + 1
    plan_entry(memory, sender)


@kernel
def run_fifo(memory, port, end):
    """Serve a port with one queue and no timers up to ``end``, which it does not reach."""
    while True:
        edge, now = earliest_input(memory, port)
        sender, now = _earliest_sender(memory, port, now)
        if now >= end:
            return
        if sender != NONE:
            _enter_in_turn(memory, port, sender)
            continue
        now, sent, ident, meta = take(memory, edge)
        meta = pass_recovery(memory, port, meta, now)
        if meta != NONE:
            _send_in_turn(memory, port, now, (sent, ident, meta))


@kernel
def _wait_in_class(memory, port, now, frame):
    """Put a frame into the queue of its class; tell whether it fits."""
    sent, ident, meta = frame
    hop = hop_of(memory, port, meta)
    queue = memory[port + E_CLASSES] + memory[hop + H_CLASS] * Q_COLUMNS
    size = memory[hop + (H_BYTES_LAST if meta & META_LAST else H_BYTES_FULL)]
    if not _fits(memory, port, queue, hop, size):
        return False
    if memory[queue + RING_READ] == memory[queue + RING_WRITTEN]:
        settle_credit(memory, port, queue, False, now)
    push(memory, queue, now, sent, ident, meta)
    if memory[port + E_LINE_FREE] <= now:
        memory[port + E_SELECT_AT] = now
    return True


@kernel
def _enter_class(memory, port, sender, now):
    """Put the frames of a sender's datagram into the queue of its class."""
    sent, ident = memory[sender + S_BEGIN], memory[sender + S_INDEX]
    memory[sender + S_ENTERED] += 1
    for fragment in range(memory[sender + S_FRAGMENTS]):
        meta = _fragment_meta(memory, sender, fragment)
        memory[hop_of(memory, port, meta) + C_ARRIVED] += 1
        if _wait_in_class(memory, port, now, (sent, ident, meta)):
            memory[sender + S_CHARGED] += memory[
                sender + (S_CHARGE_LAST if meta & META_LAST else S_CHARGE_FULL)
            ]


@kernel
def _sender_event(memory, port, sender, now):
    kind = memory[sender + S_KIND]
    if kind == PING_PONG and memory[sender + S_PHASE] == WAITS:
        give_up(memory, sender, now)
    elif kind == TCP:
        on_sender_event(memory, sender, now)
        if sends_segment(memory, sender, now):
            _enter_class(memory, port, sender, now)
            sent_segment(memory, sender, now)
    elif memory[sender + S_PHASE] == CALLS:
        call_write(memory, sender, now)
    else:
        _enter_class(memory, port, sender, now)
        if kind == PING_PONG:
            await_answer(memory, sender)
        else:
            after_entry(memory, sender)


@kernel
def _edge_event(memory, port, edge):
    now, sent, ident, meta = take(memory, edge)
    sender = memory[edge + G_SENDER]
    if sender != NONE:
        if memory[sender + S_KIND] == TCP:
            on_acknowledgement(memory, sender, now, sent, ident)
        else:
            on_answer(memory, sender, now, ident)
        return
    meta = pass_recovery(memory, port, meta, now)
    if meta != NONE:
        _wait_in_class(memory, port, now, (sent, ident, meta))


@kernel
def _transmit(memory, port, traffic_class, now):
    queue = memory[port + E_CLASSES] + traffic_class * Q_COLUMNS
    arrived, sent, ident, meta = take(memory, queue)
    hop = hop_of(memory, port, meta)
    last = (meta & META_LAST) != 0
    done = now + memory[hop + (H_DONE_LAST if last else H_DONE_FULL)]
    free = done + memory[port + E_GAP]
    charge_credit(memory, queue, now, free)
    memory[port + E_LINE_FREE] = free
    memory[port + E_SELECT_AT] = free
    memory[port + E_RELEASE_AT] = done
    memory[port + E_RELEASE_CLASS] = traffic_class
    memory[port + E_RELEASE_BYTES] = memory[hop + (H_BYTES_LAST if last else H_BYTES_FULL)]
    sender = memory[hop + H_SENDER]
    memory[port + E_RELEASE_SENDER] = sender
    if sender != NONE:
        memory[port + E_RELEASE_CHARGE] = memory[
            sender + (S_CHARGE_LAST if last else S_CHARGE_FULL)
        ]
    _start(memory, port, (arrived, now, done, free), (sent, ident, meta))


@kernel
def _time_needed(memory, port, queue):
    """Return how long the gate must stay open for the first frame of a class."""
    if not memory[port + E_GUARD]:
        return 0
    place = memory[queue + RING_READ] & memory[queue + RING_MASK]
    meta = memory[memory[queue + RING_START] + place * F_WORDS + F_META]
    hop = hop_of(memory, port, meta)
    return memory[hop + (H_DONE_LAST if meta & META_LAST else H_DONE_FULL)]


@kernel
def _choose(memory, port, now):
    """Start the frame of the highest class that may send, or set when to look again."""
    earliest = NEVER
    for traffic_class in range(CLASSES - 1, -1, -1):
        queue = memory[port + E_CLASSES] + traffic_class * Q_COLUMNS
        if memory[queue + RING_READ] == memory[queue + RING_WRITTEN]:
            continue
        settle_credit(memory, port, queue, True, now)
        need = _time_needed(memory, port, queue)
        time = eligible_at(memory, port, queue, now, need)
        if time == now:
            _transmit(memory, port, traffic_class, now)
            return
        earliest = min(earliest, time)
    memory[port + E_SELECT_AT] = earliest


@kernel
def _release_line(memory, port, now):
    queue = memory[port + E_CLASSES] + memory[port + E_RELEASE_CLASS] * Q_COLUMNS
    memory[queue + Q_BYTES] -= memory[port + E_RELEASE_BYTES]
    memory[port + E_RELEASE_AT] = NEVER
    sender = memory[port + E_RELEASE_SENDER]
    if sender != NONE:
        release(memory, sender, memory[port + E_RELEASE_CHARGE], now)
        if memory[sender + S_KIND] == TCP:
            plan_segment(memory, sender, now)


@kernel
def run_scheduled(memory, port, end):
    """Serve any port up to ``end``, which it does not reach, one event after the other."""
    while True:
        edge, arrives = earliest_input(memory, port)
        sender, arrives = _earliest_sender(memory, port, arrives)
        now = min(arrives, memory[port + E_RELEASE_AT], memory[port + E_SELECT_AT])
        if now >= end:
            return
        if now == memory[port + E_RELEASE_AT]:
            _release_line(memory, port, now)
        elif now != arrives:
            _choose(memory, port, now)
        elif sender != NONE:
            _sender_event(memory, port, sender, now)
        else:
            _edge_event(memory, port, edge)
