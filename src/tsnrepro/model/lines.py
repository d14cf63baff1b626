"""Edges and links: how a frame leaves an element, is lost on the way, is copied, and arrives."""

from numba.extending import register_jitable

from tsnrepro.model import elimination, latent, recovery
from tsnrepro.model import layout as at
from tsnrepro.model.compiled import inlined, kernel
from tsnrepro.model.variates import draw_bits

for _function in (
    latent.detect,
    recovery._reset,
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
def frame_in(ring, number):
    """Return the address of a frame in a ring, by its running number there."""
    return ring.start + (number & ring.mask) * at.FRAME_WORDS


@inlined
def push(memory, ring, time, sent, ident, meta):  # noqa: PLR0917 - numba has no keyword-only
    """Put a frame into a ring."""
    written = ring.written
    if written - ring.read > ring.mask:
        at.run(memory, 0).fault = 1
        return
    frame = at.frame(memory, frame_in(ring, written))
    frame.time = time
    frame.sent = sent
    frame.ident = ident
    frame.meta = meta
    ring.written = written + 1


@kernel
def take(memory, ring):
    """Take the earliest frame out of a ring and return its words: time, sent, ident, meta.

    A ring that runs empty starts at its beginning again, so that what is used stays in the cache.
    """
    read = ring.read
    frame = at.frame(memory, frame_in(ring, read))
    read += 1
    if read == ring.written:
        read = 0
        ring.written = 0
    ring.read = read
    return frame.time, frame.sent, frame.ident, frame.meta


@kernel
def earliest_input(memory, element):
    """Return the address of the edge with the earliest frame, or NONE, and that frame's time.

    The first of several that are equally early is taken.
    """
    best, best_time = at.NONE, at.NEVER
    first = element.inputs
    for place in range(first, first + element.input_count):
        ring = at.edge(memory, memory[place]).ring
        if ring.read != ring.written:
            time = at.frame(memory, frame_in(ring, ring.read)).time
            if time < best_time:
                best, best_time = memory[place], time
    return best, best_time


@kernel
def hop_of(element, meta):
    """Return the address of what an element does with the flow of a frame."""
    return element.hops + (meta & at.META_FLOW_MASK) * at.HOP_WORDS


@kernel
def _lost_by_chance(memory, element):
    random = element.loss_random
    threshold = element.loss_good
    if element.loss_kind == at.BURST_LOSS:
        step = draw_bits(memory, random)
        bad = element.loss_state
        bad = step >= element.loss_leave if bad else step < element.loss_enter
        element.loss_state = bad
        if bad:
            threshold = element.loss_bad
    return draw_bits(memory, random) < threshold


@kernel
def _lost_in_failure(memory, element, start, arrival):
    failure, end = element.failure, element.failures_end
    while failure < end and at.failure(memory, failure).up <= start:
        failure += at.FAILURE_WORDS
    element.failure = failure
    return failure < end and at.failure(memory, failure).down < arrival


@kernel
def _survives(memory, element, hop, start, done):
    """Tell whether a frame reaches the far end, and count it where it does not."""
    by_chance = element.loss_kind != at.NO_LOSS and (
        _lost_by_chance(memory, element) and element.loss_from <= start < element.loss_until
    )
    if element.failure < element.failures_end and _lost_in_failure(
        memory, element, start, done + element.delay
    ):
        hop.lost_down += 1
        return False
    if by_chance:
        hop.lost_random += 1
        return False
    return True


@kernel
def is_duplicated(memory, element, start):
    """Tell whether the link hands a frame that starts at ``start`` on twice, if at all."""
    if element.twice_random == at.NONE:
        return False
    chance = draw_bits(memory, element.twice_random) < element.twice
    return chance and element.twice_from <= start < element.twice_until


@kernel
def _next_number(memory, generator, now):
    """Return the number of the frame that a generator numbers at ``now``."""
    while generator.event < generator.events_end:
        event = at.event(memory, generator.event)
        if event.time > now:
            break
        if event.action == at.RESTART:
            generator.number = 0
        else:
            generator.stuck = event.action == at.STICK
        generator.event += at.EVENT_WORDS
    number = generator.number
    if not generator.stuck:
        generator.number = (number + 1) & 0xFFFF
    return number


@inlined
def hand_on(memory, element, hop, done, frame):
    """Put a frame on the edges to what follows, numbered and replicated where the flow splits."""
    sent, ident, meta = frame
    arrival = done + element.ahead
    label = meta & ~at.META_FLOW_MASK
    if hop.sequence != at.NONE:
        number = _next_number(memory, at.generator(memory, hop.sequence), arrival)
        label = (label & ((1 << at.META_SEQ_SHIFT) - 1)) | (number << at.META_SEQ_SHIFT)
    place, count = hop.outs, hop.out_count
    for _ in range(count):
        out = at.out(memory, place)
        edge = at.edge(memory, out.edge)
        push(memory, edge.ring, arrival, sent, ident, label | out.flow)
        place += at.OUT_WORDS
    hop.handed_on += count


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
    hop = at.hop(memory, hop_of(element, meta))
    hop.arrived += 1
    if hop.recover == at.NONE:
        return meta
    if hop.elimination != at.NONE:
        _keep_up(memory, hop.elimination, now)
    number = (meta >> at.META_SEQ_SHIFT) & 0xFFFF
    if (hop.individual != at.NONE and not _recover(memory, hop.individual, number, now)) or (
        not _recover(memory, hop.recover, number, now)
    ):
        hop.eliminated += 1
        return at.NONE
    return (meta & ~at.META_FLOW_MASK) | hop.after
