"""The receiving side of a host: network card, stack, elimination, reassembly, socket, process.

Every stage is first in, first out, so each frame is processed to its end at once: until the process
has read it, or a stage drops it.
"""

from tsnrepro.model import layout
from tsnrepro.model.compiled import kernel
from tsnrepro.model.links import earliest_input, hop_of, pass_recovery, push, take
from tsnrepro.model.recording import count_time, log_delivery
from tsnrepro.model.senders import hold, release_until, work_until
from tsnrepro.model.tcp import acknowledge_late, receive_segment
from tsnrepro.model.variates import draw_duration

_WORD_BITS = 6
_WORD_MASK = 63


@kernel
def _through_card(memory, receiver, now):
    """Return when the stack has processed a frame that arrives now, or NONE if the card is full."""
    work = layout.duration(memory, receiver.stack)
    if work.mean_ps == 0:
        return now
    ring = layout.queue(memory, receiver.classes).ring
    release_until(memory, ring, now)
    if ring.written - ring.read >= receiver.card_frames:
        return layout.NONE
    done = max(now, receiver.stack_free) + draw_duration(memory, work)
    receiver.stack_free = done
    hold(memory, ring, done, 1)
    return done


@kernel
def _count_bits(word):
    count = 0
    while word:
        word &= word - 1
        count += 1
    return count


@kernel
def _reassemble(memory, listener, ident, fragment):
    """Record a fragment; return whether its datagram is now complete."""
    fragments = listener.fragments
    if fragments == 1:
        return True
    pending = layout.pending(
        memory, listener.pending + (ident % layout.PENDING_SLOTS) * layout.PENDING_WORDS
    )
    whole = (1 << fragments) - 1
    there, mask = pending.ident, pending.mask
    if there < ident:
        if there != layout.NONE and mask != whole:
            listener.incomplete += 1
            listener.pending_frames += _count_bits(mask)
        pending.ident = ident
        mask = 0
    bit = 1 << fragment
    if there > ident or mask & bit:
        listener.stray_frames += 1
        return False
    pending.mask = mask | bit
    return mask | bit == whole


@kernel
def _is_repeat(memory, listener, ident):
    """Return whether a datagram was delivered before, among the last 65,536."""
    seen = listener.seen
    newest = listener.newest
    if ident > newest:
        for skipped in range(max(newest + 1, ident - layout.SEEN_SLOTS + 1), ident + 1):
            slot = skipped % layout.SEEN_SLOTS
            memory[seen + (slot >> _WORD_BITS)] &= ~(1 << (slot & _WORD_MASK))
        listener.newest = ident
    elif newest - ident >= layout.SEEN_SLOTS:
        return False
    slot = ident % layout.SEEN_SLOTS
    word, bit = seen + (slot >> _WORD_BITS), 1 << (slot & _WORD_MASK)
    repeat = (memory[word] & bit) != 0
    memory[word] |= bit
    return repeat


@kernel
def _record(memory, listener, ident, times):
    """Record a delivered datagram and its times (sent, arrived, delivered)."""
    sent, arrived, delivered = times
    listener.last = max(listener.last, delivered)
    count_time(memory, listener.latency, delivered - sent)
    count_time(memory, listener.transit, arrived - sent)
    if listener.logged:
        log_delivery(memory, listener.number, ident, times)


@kernel
def _to_socket(memory, listener, now):
    """Return when the process has read a datagram complete now, or NONE if it is dropped."""
    listener.charged -= release_until(memory, listener.ring, now)
    if listener.charged > listener.buffer:
        listener.socket_drops += 1
        return layout.NONE
    work = draw_duration(memory, layout.duration(memory, listener.work))
    begin = max(now, listener.free)
    done = work_until(memory, listener.stalls, begin, work)
    listener.free = done
    hold(memory, listener.ring, done, listener.charge)
    listener.charged += listener.charge
    return done


@kernel
def _answer(memory, listener, read, sent, ident):
    """Let the process that has read a request write its answer before it reads on."""
    cost = draw_duration(memory, layout.duration(memory, listener.cost))
    ring = layout.edge(memory, listener.edge).ring
    done = work_until(memory, listener.cost_stalls, read, cost)
    listener.free = done
    listener.answers += 1
    last = listener.fragments - 1
    for fragment in range(last + 1):
        meta = listener.return_flow | (fragment << layout.META_FRAGMENT_SHIFT)
        if fragment == last:
            meta |= layout.META_LAST
        push(memory, ring, done, sent, ident, meta)


@kernel
def _to_process(memory, listener, now, frame):
    sent, ident, meta, arrived = frame
    fragment = (meta >> layout.META_FRAGMENT_SHIFT) & layout.META_FRAGMENT_MASK
    if not _reassemble(memory, listener, ident, fragment):
        return
    listener.complete += 1
    delivered = _to_socket(memory, listener, now)
    if delivered == layout.NONE:
        return
    listener.delivered += 1
    kind = listener.kind
    if kind == layout.TO_SERVER:
        _answer(memory, listener, delivered, sent, ident)
    elif kind == layout.TO_CLIENT:
        push(memory, layout.edge(memory, listener.edge).ring, delivered, sent, ident, meta)
    if _is_repeat(memory, listener, ident):
        listener.duplicates += 1
        return
    listener.unique += 1
    if ident < listener.newest:
        listener.out_of_order += 1
    _record(memory, listener, ident, (sent, arrived, delivered))


@kernel
def _deliver(memory, receiver, now, frame):
    """Pass a frame from the stack to its socket or transport."""
    sent, ident, meta, arrived = frame
    listener = layout.listener(memory, layout.hop(memory, hop_of(receiver, meta)).listener)
    listener.frames += 1
    kind = listener.kind
    if kind == layout.TO_TCP_SENDER:
        push(memory, layout.edge(memory, listener.edge).ring, now, sent, ident, meta)
    elif kind == layout.TO_TCP_RECEIVER:
        if receive_segment(memory, listener, now, sent, ident):
            _record(memory, listener, ident, (sent, arrived, now))
    else:
        _to_process(memory, listener, now, frame)


@kernel
def run_receiver(memory, receiver, end):
    """Serve the receiving side of a host up to ``end``, exclusive."""
    while True:
        edge, arrived = earliest_input(memory, receiver)
        if arrived >= end:
            break
        _, sent, ident, meta = take(memory, layout.edge(memory, edge).ring)
        now = _through_card(memory, receiver, arrived)
        if now == layout.NONE:
            hop = layout.hop(memory, hop_of(receiver, meta))
            hop.arrived += 1
            hop.nic_drops += 1
            continue
        meta = pass_recovery(memory, receiver, meta, now)
        if meta != layout.NONE:
            _deliver(memory, receiver, now, (sent, ident, meta, arrived))
    first = receiver.transports
    for place in range(first, first + receiver.transport_count):
        acknowledge_late(memory, layout.listener(memory, memory[place]), end)
