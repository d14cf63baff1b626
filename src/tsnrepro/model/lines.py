"""Edges and links: how a frame leaves an element, is lost on the way, is copied, and arrives."""

from numba.extending import register_jitable

from tsnrepro.model import elimination, latent, recovery
from tsnrepro.model.compiled import inlined, kernel
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
    E_HOPS,
    E_INPUT_COUNT,
    E_INPUTS,
    E_LOSS_BAD,
    E_LOSS_ENTER,
    E_LOSS_FROM,
    E_LOSS_GOOD,
    E_LOSS_KIND,
    E_LOSS_LEAVE,
    E_LOSS_RANDOM,
    E_LOSS_STATE,
    E_LOSS_UNTIL,
    E_TWICE,
    E_TWICE_FROM,
    E_TWICE_RANDOM,
    E_TWICE_UNTIL,
    EV_ACTION,
    EV_TIME,
    EV_WORDS,
    F_IDENT,
    F_META,
    F_SENT,
    F_TIME,
    F_WORDS,
    FAIL_DOWN,
    FAIL_UP,
    FAIL_WORDS,
    H_AFTER,
    H_COLUMNS,
    H_ELIMINATION,
    H_INDIVIDUAL,
    H_OUT_COUNT,
    H_OUTS,
    H_RECOVER,
    H_SEQUENCE,
    META_FLOW_MASK,
    META_SEQ_SHIFT,
    NEVER,
    NO_LOSS,
    NONE,
    OUT_EDGE,
    OUT_FLOW,
    OUT_WORDS,
    RESTART,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    SQ_EVENT,
    SQ_EVENTS_END,
    SQ_NUMBER,
    SQ_STUCK,
    STICK,
    X_FAULT,
)
from tsnrepro.model.variates import draw_bits

__all__ = [
    "earliest_input",
    "hand_on",
    "hop_of",
    "is_duplicated",
    "pass_recovery",
    "push",
    "send_on",
    "take",
]

for _function in (
    latent.detect,
    recovery._forget,
    recovery.signed_distance,
    recovery.expire,
    recovery.restart,
    recovery._take_any,
    recovery._match,
    recovery._vector,
    recovery.recover,
    elimination.keep_up,
):
    register_jitable(_function)
_recover, _keep_up = recovery.recover, elimination.keep_up


@inlined
def push(memory, edge, time, sent, ident, meta):  # noqa: PLR0917 - numba has no keyword-only
    """Put a frame on an edge."""
    written, mask = memory[edge + RING_WRITTEN], memory[edge + RING_MASK]
    if written - memory[edge + RING_READ] > mask:
        memory[X_FAULT] = 1
        return
    frame = memory[edge + RING_START] + (written & mask) * F_WORDS
    memory[frame + F_TIME] = time
    memory[frame + F_SENT] = sent
    memory[frame + F_IDENT] = ident
    memory[frame + F_META] = meta
    memory[edge + RING_WRITTEN] = written + 1


@kernel
def take(memory, edge):
    """Take the earliest frame off an edge and return its words: time, sent, ident, meta.

    A ring that runs empty starts at its beginning again, so that what is used stays in the cache.
    """
    read = memory[edge + RING_READ]
    frame = memory[edge + RING_START] + (read & memory[edge + RING_MASK]) * F_WORDS
    read += 1
    if read == memory[edge + RING_WRITTEN]:
        read = 0
        memory[edge + RING_WRITTEN] = 0
    memory[edge + RING_READ] = read
    return (
        memory[frame + F_TIME],
        memory[frame + F_SENT],
        memory[frame + F_IDENT],
        memory[frame + F_META],
    )


@kernel
def earliest_input(memory, element):
    """Return the edge with the earliest frame, NONE if there is none, and that frame's time.

    The first of several that are equally early is taken.
    """
    best, best_time = NONE, NEVER
    first = memory[element + E_INPUTS]
    for place in range(first, first + memory[element + E_INPUT_COUNT]):
        edge = memory[place]
        read = memory[edge + RING_READ]
        if read != memory[edge + RING_WRITTEN]:
            frame = memory[edge + RING_START] + (read & memory[edge + RING_MASK]) * F_WORDS
            time = memory[frame + F_TIME]
            if time < best_time:
                best, best_time = edge, time
    return best, best_time


@kernel
def hop_of(memory, element, meta):
    """Return the address of what an element does with the flow of a frame."""
    return memory[element + E_HOPS] + (meta & META_FLOW_MASK) * H_COLUMNS


@kernel
def _lost_by_chance(memory, element):
    random = memory[element + E_LOSS_RANDOM]
    threshold = memory[element + E_LOSS_GOOD]
    if memory[element + E_LOSS_KIND] == BURST_LOSS:
        step = draw_bits(memory, random)
        bad = memory[element + E_LOSS_STATE]
        bad = (
            step >= memory[element + E_LOSS_LEAVE] if bad else step < memory[element + E_LOSS_ENTER]
        )
        memory[element + E_LOSS_STATE] = bad
        if bad:
            threshold = memory[element + E_LOSS_BAD]
    return draw_bits(memory, random) < threshold


@kernel
def _lost_in_failure(memory, element, start, arrival):
    failure, end = memory[element + E_FAILURE], memory[element + E_FAILURES_END]
    while failure < end and memory[failure + FAIL_UP] <= start:
        failure += FAIL_WORDS
    memory[element + E_FAILURE] = failure
    return failure < end and memory[failure + FAIL_DOWN] < arrival


@kernel
def _survives(memory, element, hop, start, done):
    """Tell whether a frame reaches the far end, and count it where it does not."""
    by_chance = memory[element + E_LOSS_KIND] != NO_LOSS and (
        _lost_by_chance(memory, element)
        and memory[element + E_LOSS_FROM] <= start < memory[element + E_LOSS_UNTIL]
    )
    if memory[element + E_FAILURE] < memory[element + E_FAILURES_END] and _lost_in_failure(
        memory, element, start, done + memory[element + E_DELAY]
    ):
        memory[hop + C_LOST_DOWN] += 1
        return False
    if by_chance:
        memory[hop + C_LOST_RANDOM] += 1
        return False
    return True


@kernel
def is_duplicated(memory, element, start):
    """Tell whether the link hands a frame that starts at ``start`` on twice, if at all."""
    if memory[element + E_TWICE_RANDOM] == NONE:
        return False
    chance = draw_bits(memory, memory[element + E_TWICE_RANDOM]) < memory[element + E_TWICE]
    return chance and memory[element + E_TWICE_FROM] <= start < memory[element + E_TWICE_UNTIL]


@kernel
def _next_number(memory, sequence, now):
    """Return the number of the frame that a generator numbers at ``now``."""
    event, end = memory[sequence + SQ_EVENT], memory[sequence + SQ_EVENTS_END]
    while event < end and memory[event + EV_TIME] <= now:
        if memory[event + EV_ACTION] == RESTART:
            memory[sequence + SQ_NUMBER] = 0
        else:
            memory[sequence + SQ_STUCK] = memory[event + EV_ACTION] == STICK
        event += EV_WORDS
        memory[sequence + SQ_EVENT] = event
    number = memory[sequence + SQ_NUMBER]
    if not memory[sequence + SQ_STUCK]:
        memory[sequence + SQ_NUMBER] = (number + 1) & 0xFFFF
    return number


@inlined
def hand_on(memory, element, hop, done, frame):
    """Put a frame on the edges to what follows, numbered and replicated where the flow splits."""
    sent, ident, meta = frame
    arrival = done + memory[element + E_AHEAD]
    label = meta & ~META_FLOW_MASK
    sequence = memory[hop + H_SEQUENCE]
    if sequence != NONE:
        number = _next_number(memory, sequence, arrival)
        label = (label & ((1 << META_SEQ_SHIFT) - 1)) | (number << META_SEQ_SHIFT)
    out, count = memory[hop + H_OUTS], memory[hop + H_OUT_COUNT]
    for _ in range(count):
        push(memory, memory[out + OUT_EDGE], arrival, sent, ident, label | memory[out + OUT_FLOW])
        out += OUT_WORDS
    memory[hop + C_HANDED_ON] += count


@inlined
def send_on(memory, element, hop, times, frame):
    """Send a frame (sent, ident, meta) down the element's link at times (start, done).

    It is lost where the link is down at any time between its first bit's start and its last bit's
    arrival, or by chance; else it is handed on. Tell which.
    """
    start, done = times
    if not _survives(memory, element, hop, start, done):
        return False
    hand_on(memory, element, hop, done, frame)
    return True


@kernel
def pass_recovery(memory, element, meta, now):
    """Count a frame that arrives and put it through elimination where its member path ends.

    Return its meta word, with the flow it belongs to from here, or NONE if it is eliminated.
    """
    hop = hop_of(memory, element, meta)
    memory[hop + C_ARRIVED] += 1
    compound = memory[hop + H_RECOVER]
    if compound == NONE:
        return meta
    if memory[hop + H_ELIMINATION] != NONE:
        _keep_up(memory, memory[hop + H_ELIMINATION], now)
    number = (meta >> META_SEQ_SHIFT) & 0xFFFF
    individual = memory[hop + H_INDIVIDUAL]
    if (individual != NONE and not _recover(memory, individual, number, now)) or not _recover(
        memory, compound, number, now
    ):
        memory[hop + C_ELIMINATED] += 1
        return NONE
    return (meta & ~META_FLOW_MASK) | memory[hop + H_AFTER]
