"""The receiving side of a host: network card, stack, elimination, reassembly, socket, process.

Every stage is first in, first out, so each frame is followed to its end at once: when it is read by
the process, or where it is dropped.
"""

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    C_ARRIVED,
    C_NIC_DROPS,
    D_MEAN,
    E_CARD_FRAMES,
    E_CLASSES,
    E_STACK,
    E_STACK_FREE,
    E_TRANSPORT_COUNT,
    E_TRANSPORTS,
    H_LISTENER,
    HELD_UNTIL,
    HELD_WORDS,
    L_ACK_FLOW,
    L_ANSWERS,
    L_BUFFER,
    L_CHARGE,
    L_CHARGED,
    L_COMPLETE,
    L_COST,
    L_COST_STALLS,
    L_DELIVERED,
    L_DUPLICATES,
    L_EDGE,
    L_FIRST,
    L_FRAGMENTS,
    L_FRAMES,
    L_FREE,
    L_INCOMPLETE,
    L_KIND,
    L_LAST,
    L_LATENCY_SUM,
    L_LOGGED,
    L_NEWEST,
    L_NUMBER,
    L_OUT_OF_ORDER,
    L_PENDING,
    L_PENDING_FRAMES,
    L_SEEN,
    L_SOCKET_DROPS,
    L_STALLS,
    L_STRAY_FRAMES,
    L_TIME,
    L_TRANSIT_SUM,
    L_UNIQUE,
    META_FRAGMENT_MASK,
    META_FRAGMENT_SHIFT,
    META_LAST,
    NONE,
    P_IDENT,
    P_MASK,
    P_WORDS,
    PENDING_SLOTS,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    SEEN_SLOTS,
    TO_CLIENT,
    TO_SERVER,
    TO_TCP_RECEIVER,
    TO_TCP_SENDER,
)
from tsnrepro.model.lines import earliest_input, hop_of, pass_recovery, push, take
from tsnrepro.model.rows import count_time, log_delivery
from tsnrepro.model.senders import work_until
from tsnrepro.model.tcp import acknowledge_late, receive_segment
from tsnrepro.model.variates import draw_duration

__all__ = ["run_receiver"]

_WORD_BITS = 6
_WORD_MASK = 63


@kernel
def _through_card(memory, receiver, now):
    """Return when the stack hands a frame up that arrives now, or NONE if the card is full."""
    work = memory[receiver + E_STACK]
    if memory[work + D_MEAN] == 0:
        return now
    ring = memory[receiver + E_CLASSES]
    start, mask = memory[ring + RING_START], memory[ring + RING_MASK]
    read, written = memory[ring + RING_READ], memory[ring + RING_WRITTEN]
    while read != written and memory[start + (read & mask) * HELD_WORDS + HELD_UNTIL] <= now:
        read += 1
    memory[ring + RING_READ] = read
    if written - read >= memory[receiver + E_CARD_FRAMES]:
        return NONE
    done = max(now, memory[receiver + E_STACK_FREE]) + draw_duration(memory, work)
    memory[receiver + E_STACK_FREE] = done
    memory[start + (written & mask) * HELD_WORDS + HELD_UNTIL] = done
    memory[ring + RING_WRITTEN] = written + 1
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
    """Note a fragment; tell whether its datagram is now whole."""
    fragments = memory[listener + L_FRAGMENTS]
    if fragments == 1:
        return True
    pending = memory[listener + L_PENDING] + (ident % PENDING_SLOTS) * P_WORDS
    whole = (1 << fragments) - 1
    there, mask = memory[pending + P_IDENT], memory[pending + P_MASK]
    if there < ident:
        if there != NONE and mask != whole:
            memory[listener + L_INCOMPLETE] += 1
            memory[listener + L_PENDING_FRAMES] += _count_bits(mask)
        memory[pending + P_IDENT] = ident
        mask = 0
    bit = 1 << fragment
    if there > ident or mask & bit:
        memory[listener + L_STRAY_FRAMES] += 1
        return False
    memory[pending + P_MASK] = mask | bit
    return mask | bit == whole


@kernel
def _is_repeat(memory, listener, ident):
    """Tell whether a datagram was delivered before, looking back over the last 65,536."""
    seen = memory[listener + L_SEEN]
    newest = memory[listener + L_NEWEST]
    if ident > newest:
        for skipped in range(max(newest + 1, ident - SEEN_SLOTS + 1), ident + 1):
            slot = skipped % SEEN_SLOTS
            memory[seen + (slot >> _WORD_BITS)] &= ~(1 << (slot & _WORD_MASK))
        memory[listener + L_NEWEST] = ident
    elif newest - ident >= SEEN_SLOTS:
        return False
    slot = ident % SEEN_SLOTS
    word, bit = seen + (slot >> _WORD_BITS), 1 << (slot & _WORD_MASK)
    repeat = (memory[word] & bit) != 0
    memory[word] |= bit
    return repeat


@kernel
def _record(memory, listener, ident, times):
    """Count a delivered datagram and its times (sent, arrived, delivered)."""
    sent, arrived, delivered = times
    memory[listener + L_FIRST] = min(memory[listener + L_FIRST], delivered)
    memory[listener + L_LAST] = max(memory[listener + L_LAST], delivered)
    count_time(memory, listener + L_LATENCY_SUM, delivered - sent)
    count_time(memory, listener + L_TRANSIT_SUM, arrived - sent)
    if memory[listener + L_LOGGED]:
        log_delivery(memory, memory[listener + L_NUMBER], ident, times)


@kernel
def _to_socket(memory, listener, now):
    """Return when the process has read a datagram that is whole now, or NONE if it is dropped."""
    start, mask = memory[listener + RING_START], memory[listener + RING_MASK]
    read, written = memory[listener + RING_READ], memory[listener + RING_WRITTEN]
    charge = memory[listener + L_CHARGE]
    while read != written and memory[start + (read & mask) * HELD_WORDS + HELD_UNTIL] <= now:
        memory[listener + L_CHARGED] -= charge
        read += 1
    if read == written:
        read = written = 0
    memory[listener + RING_READ] = read
    if memory[listener + L_CHARGED] > memory[listener + L_BUFFER]:
        memory[listener + L_SOCKET_DROPS] += 1
        return NONE
    work = draw_duration(memory, memory[listener + L_TIME])
    begin = max(now, memory[listener + L_FREE])
    done = work_until(memory, memory[listener + L_STALLS], begin, work)
    memory[listener + L_FREE] = done
    memory[start + (written & mask) * HELD_WORDS + HELD_UNTIL] = done
    memory[listener + RING_WRITTEN] = written + 1
    memory[listener + L_CHARGED] += charge
    return done


@kernel
def _answer(memory, listener, read, sent, ident):
    """Let the process that has read a request write its answer, and read on after that."""
    cost = draw_duration(memory, memory[listener + L_COST])
    done = work_until(memory, memory[listener + L_COST_STALLS], read, cost)
    memory[listener + L_FREE] = done
    memory[listener + L_ANSWERS] += 1
    last = memory[listener + L_FRAGMENTS] - 1
    for fragment in range(last + 1):
        meta = memory[listener + L_ACK_FLOW] | (fragment << META_FRAGMENT_SHIFT)
        if fragment == last:
            meta |= META_LAST
        push(memory, memory[listener + L_EDGE], done, sent, ident, meta)


@kernel
def _to_process(memory, listener, now, frame):
    sent, ident, meta, arrived = frame
    fragment = (meta >> META_FRAGMENT_SHIFT) & META_FRAGMENT_MASK
    if not _reassemble(memory, listener, ident, fragment):
        return
    memory[listener + L_COMPLETE] += 1
    delivered = _to_socket(memory, listener, now)
    if delivered == NONE:
        return
    memory[listener + L_DELIVERED] += 1
    kind = memory[listener + L_KIND]
    if kind == TO_SERVER:
        _answer(memory, listener, delivered, sent, ident)
    elif kind == TO_CLIENT:
        push(memory, memory[listener + L_EDGE], delivered, sent, ident, meta)
    if _is_repeat(memory, listener, ident):
        memory[listener + L_DUPLICATES] += 1
        return
    memory[listener + L_UNIQUE] += 1
    if ident < memory[listener + L_NEWEST]:
        memory[listener + L_OUT_OF_ORDER] += 1
    _record(memory, listener, ident, (sent, arrived, delivered))


@kernel
def _hand_up(memory, receiver, now, frame):
    """Give a frame of the stack to whom it is for."""
    sent, ident, meta, arrived = frame
    listener = memory[hop_of(memory, receiver, meta) + H_LISTENER]
    memory[listener + L_FRAMES] += 1
    kind = memory[listener + L_KIND]
    if kind == TO_TCP_SENDER:
        push(memory, memory[listener + L_EDGE], now, sent, ident, meta)
    elif kind == TO_TCP_RECEIVER:
        if receive_segment(memory, listener, now, sent, ident):
            _record(memory, listener, ident, (sent, arrived, now))
    else:
        _to_process(memory, listener, now, frame)


@kernel
def run_receiver(memory, receiver, end):
    """Serve the receiving side of a host up to ``end``, which it does not reach."""
    while True:
        edge, arrived = earliest_input(memory, receiver)
        if arrived >= end:
            break
        _, sent, ident, meta = take(memory, edge)
        now = _through_card(memory, receiver, arrived)
        if now == NONE:
            hop = hop_of(memory, receiver, meta)
            memory[hop + C_ARRIVED] += 1
            memory[hop + C_NIC_DROPS] += 1
            continue
        meta = pass_recovery(memory, receiver, meta, now)
        if meta != NONE:
            _hand_up(memory, receiver, now, (sent, ident, meta, arrived))
    first = memory[receiver + E_TRANSPORTS]
    for place in range(first, first + memory[receiver + E_TRANSPORT_COUNT]):
        acknowledge_late(memory, memory[place], end)
