"""Edges and links: departure, loss, replication and arrival of frames."""

import numpy as np

from tsnrepro.model import layout
from tsnrepro.model.compiled import inlined, kernel
from tsnrepro.model.recovery import recover, run_due_events
from tsnrepro.model.variates import PROBABILITY_ONE, draw_bits


@inlined
def frame_in(ring, number):
    """Return the address of a frame in a ring, by its position there."""
    return ring.start + (number & ring.mask) * layout.FRAME_WORDS


@inlined
def push(memory, ring, time, sent, ident, meta):  # noqa: PLR0917 - numba has no keyword-only
    """Append a frame to a ring."""
    written = ring.written
    if written - ring.read > ring.mask:
        layout.run(memory, 0).fault = 1
        return
    frame = layout.frame(memory, frame_in(ring, written))
    frame.time = time
    frame.sent = sent
    frame.ident = ident
    frame.meta = meta
    ring.written = written + 1


@kernel
def take(memory, ring):
    """Remove the earliest frame of a ring and return its words: time, sent, ident, meta.

    An empty ring starts at its beginning again, so that the words in use stay in the cache.
    """
    read = ring.read
    frame = layout.frame(memory, frame_in(ring, read))
    read += 1
    if read == ring.written:
        read = 0
        ring.written = 0
    ring.read = read
    return frame.time, frame.sent, frame.ident, frame.meta


@kernel
def earliest_input(memory, element):
    """Return the address of the edge with the earliest frame, or NONE, and that frame's time.

    Of several equally early ones it is the first edge.
    """
    best, best_time = layout.NONE, layout.NEVER
    first = element.inputs
    for place in range(first, first + element.input_count):
        ring = layout.edge(memory, memory[place]).ring
        if ring.read != ring.written:
            time = layout.frame(memory, frame_in(ring, ring.read)).time
            if time < best_time:
                best, best_time = memory[place], time
    return best, best_time


@kernel
def hop_of(element, meta):
    """Return the address of the hop of a frame's flow at an element."""
    return element.hops + (meta & layout.META_FLOW_MASK) * layout.HOP_WORDS


@kernel
def _lost_by_chance(memory, element):
    random = element.loss_random
    threshold = element.loss_good
    if element.loss_kind == layout.BURST_LOSS:
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
    while failure < end and layout.failure(memory, failure).up <= start:
        failure += layout.FAILURE_WORDS
    element.failure = failure
    return failure < end and layout.failure(memory, failure).down < arrival


@kernel
def _survives(memory, element, hop, start, done):
    """Return whether a frame reaches the far end, and count it if not."""
    by_chance = element.loss_kind != layout.NO_LOSS and (
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
    """Return whether the link duplicates a frame that starts at ``start``."""
    if element.twice_random == layout.NONE:
        return False
    chance = draw_bits(memory, element.twice_random) < element.twice
    return chance and element.twice_from <= start < element.twice_until


@kernel
def _next_number(memory, generator, now):
    """Return the sequence number that a generator gives at ``now``."""
    while generator.event < generator.events_end:
        event = layout.event(memory, generator.event)
        if event.time > now:
            break
        if event.action == layout.RESTART:
            generator.number = 0
        else:
            generator.stuck = event.action == layout.STICK
        generator.event += layout.EVENT_WORDS
    number = generator.number
    if not generator.stuck:
        generator.number = (number + 1) & 0xFFFF
    return number


@kernel
def after_jitter(memory, element, done):
    """Return when a frame whose last bit is sent at ``done`` would be sent, for all its delay.

    It is not before the frame ahead of it.
    """
    if not element.jitter:
        return done
    share = draw_bits(memory, element.jitter_random) / PROBABILITY_ONE
    element.latest = max(element.latest, done + np.int64(share * element.jitter))
    return element.latest


@inlined
def forward(memory, element, hop, done, frame):
    """Put a frame on the edges to the next elements, numbered and replicated if the flow splits."""
    sent, ident, meta = frame
    arrival = done + element.ahead
    label = meta & ~layout.META_FLOW_MASK
    if hop.sequence != layout.NONE:
        number = _next_number(memory, layout.generator(memory, hop.sequence), arrival)
        label = (label & ((1 << layout.META_SEQ_SHIFT) - 1)) | (number << layout.META_SEQ_SHIFT)
    place, count = hop.outs, hop.out_count
    for _ in range(count):
        out = layout.out(memory, place)
        edge = layout.edge(memory, out.edge)
        push(memory, edge.ring, arrival, sent, ident, label | out.flow)
        place += layout.OUT_WORDS
    hop.handed_on += count


@inlined
def transmit(memory, element, hop, times, frame):
    """Transmit a frame (sent, ident, meta) on the element's link at times (start, done).

    It is lost by chance, or if the link is down at any time between the start of its first bit and
    the arrival of its last bit; else it is forwarded. Return whether it is.
    """
    start, done = times
    done = after_jitter(memory, element, done)
    if not _survives(memory, element, hop, start, done):
        return False
    forward(memory, element, hop, done, frame)
    return True


@kernel
def pass_recovery(memory, element, meta, now):
    """Count an arriving frame, and eliminate duplicates if its member path ends here.

    Return its meta word with its further flow, or NONE if it is eliminated.
    """
    hop = layout.hop(memory, hop_of(element, meta))
    hop.arrived += 1
    if hop.recover == layout.NONE:
        return meta
    if hop.elimination != layout.NONE:
        run_due_events(memory, hop.elimination, now)
    number = (meta >> layout.META_SEQ_SHIFT) & 0xFFFF
    if (hop.individual != layout.NONE and not recover(memory, hop.individual, number, now)) or (
        not recover(memory, hop.recover, number, now)
    ):
        hop.eliminated += 1
        return layout.NONE
    return (meta & ~layout.META_FLOW_MASK) | hop.after
