"""Egress ports: queues and schedulers.

The order at one instant is: the frame on the line departs and its memory is released, frames
arrive, the next frame is selected. :func:`run_fifo` serves ports with one queue, where a frame's
departure is known on arrival; :func:`run_scheduled` serves all ports, event by event.
"""

from tsnrepro.model import layout
from tsnrepro.model.compiled import inlined, kernel
from tsnrepro.model.links import (
    after_jitter,
    earliest_input,
    forward,
    frame_in,
    hop_of,
    is_duplicated,
    pass_recovery,
    push,
    take,
    transmit,
)
from tsnrepro.model.recording import log_departure
from tsnrepro.model.senders import (
    after_entry,
    await_answer,
    call_write,
    give_up,
    hold,
    on_answer,
    plan_entry,
    release,
    release_until,
)
from tsnrepro.model.shapers import charge_credit, eligible_at, settle_credit
from tsnrepro.model.tcp import (
    on_acknowledgement,
    on_sender_event,
    plan_segment,
    record_segment,
    select_segment,
)


@kernel
def _earliest_sender(memory, port, before):
    """Return the address and time of the port's earliest sender before ``before``, or NONE."""
    best, best_time = layout.NONE, before
    first = port.senders
    for place in range(first, first + port.sender_count):
        time = layout.sender(memory, memory[place]).next
        if time < best_time:
            best, best_time = memory[place], time
    return best, best_time


@inlined
def _frame_bytes(hop, meta):
    return hop.bytes_last if meta & layout.META_LAST else hop.bytes_full


@inlined
def _line_time(hop, meta):
    """Return the time from a frame's start to its last bit."""
    return hop.done_last if meta & layout.META_LAST else hop.done_full


@inlined
def _charge(sender, meta):
    return sender.charge_last if meta & layout.META_LAST else sender.charge_full


@kernel
def _fits(port, queue, hop, size):
    """Add a frame to the bytes of a queue, or count it as dropped."""
    held_bytes = queue.bytes + size
    if held_bytes > port.queue_bytes:
        hop.queue_drops += 1
        return False
    queue.bytes = held_bytes
    queue.peak = max(queue.peak, held_bytes)
    return True


@inlined
def _start(memory, port, times, frame):
    """Transmit a frame (sent, ident, meta) and count it: times are queued, start, done, free."""
    queued, start, done, free = times
    hop = layout.hop(memory, hop_of(port, frame[2]))
    wait = start - queued
    hop.sent += 1
    hop.wait_sum += wait
    hop.wait_max = max(hop.wait_max, wait)
    port.busy += free - start
    arrives = transmit(memory, port, hop, (start, done), frame)
    if port.watched:
        _log_and_duplicate(memory, port, (queued, start, done), frame, arrives)


@kernel
def _log_and_duplicate(memory, port, times, frame, arrives):
    """Log a frame that starts, and forward it again if the link duplicates it."""
    if port.logged != layout.NONE:
        log_departure(memory, port.logged, times, frame)
    if is_duplicated(memory, port, times[1]) and arrives:
        hop = layout.hop(memory, hop_of(port, frame[2]))
        hop.duplicated += 1
        forward(memory, port, hop, after_jitter(memory, port, times[2]), frame)


@kernel
def _send_fifo(memory, port, now, frame):
    """Add a frame to the only queue; return when its last bit is sent, or NONE if dropped."""
    queue = layout.queue(memory, port.classes)
    hop = layout.hop(memory, hop_of(port, frame[2]))
    size = _frame_bytes(hop, frame[2])
    queue.bytes -= release_until(memory, queue.ring, now)
    if not _fits(port, queue, hop, size):
        return layout.NONE
    start = max(now, port.line_free)
    done = start + _line_time(hop, frame[2])
    free = done + port.gap
    port.line_free = free
    hold(memory, queue.ring, done, size)
    _start(memory, port, (now, start, done, free), frame)
    return done


@kernel
def _fragment_meta(sender, fragment):
    """Return the meta word of a fragment of a sender's datagram."""
    meta = sender.flow | (fragment << layout.META_FRAGMENT_SHIFT)
    if fragment == sender.fragments - 1:
        meta |= layout.META_LAST
    return meta


@kernel
def _enter_fifo(memory, port, sender):
    """Add the frames of a sender's datagram to the only queue and plan its next one."""
    now = sender.next
    sent, ident = sender.begin, sender.index
    sender.entered += 1
    for fragment in range(sender.fragments):
        meta = _fragment_meta(sender, fragment)
        layout.hop(memory, hop_of(port, meta)).arrived += 1
        done = _send_fifo(memory, port, now, (sent, ident, meta))
        if done != layout.NONE:
            charge = _charge(sender, meta)
            hold(memory, sender.ring, done, charge)
            sender.charged += charge
    sender.free = now
    sender.index = ident + 1
    plan_entry(memory, sender)


@kernel
def run_fifo(memory, port, end):
    """Serve a port with one queue and no timers up to ``end``, exclusive."""
    while True:
        edge, now = earliest_input(memory, port)
        sender, now = _earliest_sender(memory, port, now)
        if now >= end:
            return
        if sender != layout.NONE:
            _enter_fifo(memory, port, layout.sender(memory, sender))
            continue
        now, sent, ident, meta = take(memory, layout.edge(memory, edge).ring)
        meta = pass_recovery(memory, port, meta, now)
        if meta != layout.NONE:
            _send_fifo(memory, port, now, (sent, ident, meta))


@inlined
def _class(port, traffic_class):
    """Return the address of the queue of a traffic class."""
    return port.classes + traffic_class * layout.QUEUE_WORDS


@kernel
def _enqueue(memory, port, now, frame):
    """Add a frame to the queue of its class; return whether it fits."""
    sent, ident, meta = frame
    hop = layout.hop(memory, hop_of(port, meta))
    queue = layout.queue(memory, _class(port, hop.traffic_class))
    if not _fits(port, queue, hop, _frame_bytes(hop, meta)):
        return False
    if queue.ring.read == queue.ring.written:
        settle_credit(memory, port, queue, False, now)
    push(memory, queue.ring, now, sent, ident, meta)
    if port.line_free <= now:
        port.select_at = now
    return True


@kernel
def _enter_class(memory, port, sender, now):
    """Add the frames of a sender's datagram to the queue of its class."""
    sent, ident = sender.begin, sender.index
    sender.entered += 1
    for fragment in range(sender.fragments):
        meta = _fragment_meta(sender, fragment)
        layout.hop(memory, hop_of(port, meta)).arrived += 1
        if _enqueue(memory, port, now, (sent, ident, meta)):
            sender.charged += _charge(sender, meta)


@kernel
def _sender_event(memory, port, sender, now):
    kind = sender.kind
    if kind == layout.PING_PONG and sender.phase == layout.WAITS:
        give_up(memory, sender, now)
    elif kind == layout.TCP:
        on_sender_event(memory, sender, now)
        if select_segment(memory, sender, now):
            _enter_class(memory, port, sender, now)
            record_segment(memory, sender, now)
    elif sender.phase == layout.CALLS:
        call_write(memory, sender, now)
    else:
        _enter_class(memory, port, sender, now)
        if kind == layout.PING_PONG:
            await_answer(sender)
        else:
            after_entry(memory, sender)


@kernel
def _edge_event(memory, port, edge):
    now, sent, ident, meta = take(memory, edge.ring)
    if edge.sender != layout.NONE:
        sender = layout.sender(memory, edge.sender)
        if sender.kind == layout.TCP:
            on_acknowledgement(memory, sender, now, sent, ident)
        else:
            on_answer(memory, sender, now, ident)
        return
    meta = pass_recovery(memory, port, meta, now)
    if meta != layout.NONE:
        _enqueue(memory, port, now, (sent, ident, meta))


@kernel
def _transmit(memory, port, traffic_class, now):
    queue = layout.queue(memory, _class(port, traffic_class))
    arrived, sent, ident, meta = take(memory, queue.ring)
    hop = layout.hop(memory, hop_of(port, meta))
    done = now + _line_time(hop, meta)
    free = done + port.gap
    charge_credit(queue, now, free)
    port.line_free = free
    port.select_at = free
    port.release_at = done
    port.release_class = traffic_class
    port.release_bytes = _frame_bytes(hop, meta)
    port.release_sender = hop.sender
    if hop.sender != layout.NONE:
        port.release_charge = _charge(layout.sender(memory, hop.sender), meta)
    _start(memory, port, (arrived, now, done, free), (sent, ident, meta))


@kernel
def _time_needed(memory, port, queue):
    """Return how long the gate must stay open for the first frame of a class."""
    if not port.guard:
        return 0
    meta = layout.frame(memory, frame_in(queue.ring, queue.ring.read)).meta
    return _line_time(layout.hop(memory, hop_of(port, meta)), meta)


@kernel
def _select(memory, port, now):
    """Start the frame of the highest eligible class, or set the time of the next selection."""
    earliest = layout.NEVER
    for traffic_class in range(layout.CLASSES - 1, -1, -1):
        queue = layout.queue(memory, _class(port, traffic_class))
        if queue.ring.read == queue.ring.written:
            continue
        settle_credit(memory, port, queue, True, now)
        need = _time_needed(memory, port, queue)
        time = eligible_at(memory, port, queue, now, need)
        if time == now:
            _transmit(memory, port, traffic_class, now)
            return
        earliest = min(earliest, time)
    port.select_at = earliest


@kernel
def _release_line(memory, port, now):
    queue = layout.queue(memory, _class(port, port.release_class))
    queue.bytes -= port.release_bytes
    port.release_at = layout.NEVER
    if port.release_sender != layout.NONE:
        sender = layout.sender(memory, port.release_sender)
        release(memory, sender, port.release_charge, now)
        if sender.kind == layout.TCP:
            plan_segment(memory, sender, now)


@kernel
def run_scheduled(memory, port, end):
    """Serve any port up to ``end``, exclusive, event by event."""
    while True:
        edge, arrives = earliest_input(memory, port)
        sender, arrives = _earliest_sender(memory, port, arrives)
        now = min(arrives, port.release_at, port.select_at)
        if now >= end:
            return
        if now == port.release_at:
            _release_line(memory, port, now)
        elif now != arrives:
            _select(memory, port, now)
        elif sender != layout.NONE:
            _sender_event(memory, port, layout.sender(memory, sender), now)
        else:
            _edge_event(memory, port, layout.edge(memory, edge))
