"""A TCP transfer in whole segments: windows, loss detection and congestion control.

The sender's segments and the receiver's acknowledgements pass through the modelled queues like any
frame. An acknowledgement has the next expected segment, and one block of segments received beyond
it, in one word.

Sources: RFC 5681 (slow start, congestion avoidance, delayed acknowledgements), RFC 2018 (selective
acknowledgements), RFC 6675 (three of them start a recovery), RFC 8985 (a segment sent before one
that has arrived is lost), RFC 9438 (CUBIC), RFC 6298 (retransmission timer; 200 ms at least and
40 ms for a delayed acknowledgement, as TCP_RTO_MIN and TCP_DELACK_MIN of Linux).
"""

from typing import Final

from tsnrepro.model import layout
from tsnrepro.model.compiled import kernel
from tsnrepro.model.links import push
from tsnrepro.model.senders import work_until
from tsnrepro.model.variates import draw_duration

_DUPLICATE_THRESHOLD: Final = 3
_MIN_TIMEOUT: Final = 200_000_000_000
_MAX_TIMEOUT: Final = 120_000_000_000_000
_FIRST_TIMEOUT: Final = 1_000_000_000_000
_DELAYED_ACK: Final = 40_000_000_000
_CUBIC_C: Final = 0.4
_CUBIC_BETA: Final = 0.7
_CUBIC_ALPHA: Final = 3.0 * (1.0 - _CUBIC_BETA) / (1.0 + _CUBIC_BETA)
_SECOND: Final = 1e12
_NUMBER_MASK: Final = (1 << layout.ACK_NUMBER_BITS) - 1
_OFFSET_MASK: Final = (1 << layout.ACK_OFFSET_BITS) - 1


@kernel
def _segment(tcp, number):
    """Return the address of a segment of the window."""
    return tcp.segments + (number & tcp.segment_mask) * layout.SEGMENT_WORDS


@kernel
def _may_send(memory, sender, now):
    tcp = layout.transport(memory, sender.transport)
    if sender.charged >= sender.buffer:
        return False
    if tcp.pipe >= int(tcp.congestion):
        return False
    if tcp.lost > 0:
        return True
    coming = tcp.next
    limit = sender.limit
    if limit != layout.UNLIMITED and coming >= limit:
        return False
    room = coming - tcp.unacked < tcp.window
    return room and now < sender.stop


@kernel
def _set_event(memory, sender):
    tcp = layout.transport(memory, sender.transport)
    sender.next = min(tcp.entry_at, tcp.timeout_at)


@kernel
def plan_segment(memory, sender, now):
    """Set when the next segment enters the queue, if one may be sent."""
    tcp = layout.transport(memory, sender.transport)
    if tcp.entry_at == layout.NEVER and _may_send(memory, sender, now):
        cost = draw_duration(memory, layout.duration(memory, sender.cost))
        begin = max(now, sender.free)
        entry = work_until(memory, sender.stalls, begin, cost)
        tcp.entry_at = sender.free = entry
    _set_event(memory, sender)


@kernel
def on_sender_event(memory, sender, now):
    """Handle the retransmission timer if it expires at this event."""
    if layout.transport(memory, sender.transport).timeout_at == now:
        _time_out(memory, sender, now)


@kernel
def select_segment(memory, sender, now):
    """Select the segment that enters the queue now; return whether there is one."""
    tcp = layout.transport(memory, sender.transport)
    if tcp.entry_at != now:
        return False
    tcp.entry_at = layout.NEVER
    if not _may_send(memory, sender, now):
        _set_event(memory, sender)
        return False
    number = tcp.next
    if tcp.lost > 0:
        number = tcp.lost_from
        while layout.segment(memory, _segment(tcp, number)).flag != layout.LOST:
            number += 1
        tcp.lost_from = number + 1
    sender.begin = now
    sender.index = number
    return True


@kernel
def record_segment(memory, sender, now):
    """Record that the selected segment is in the queue."""
    tcp = layout.transport(memory, sender.transport)
    number = sender.index
    if number == tcp.next:
        tcp.next += 1
        sender.written += 1
    else:
        tcp.lost -= 1
        tcp.retransmitted += 1
    segment = layout.segment(memory, _segment(tcp, number))
    segment.sent = now
    segment.flag = layout.OUTSTANDING
    tcp.pipe += 1
    if tcp.timeout_at == layout.NEVER:
        _arm(tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _arm(tcp, now):
    wait = _FIRST_TIMEOUT
    if tcp.smoothed > 0:
        wait = max(_MIN_TIMEOUT, tcp.smoothed + 4 * tcp.variation)
    for _ in range(tcp.backoff):
        wait = min(2 * wait, _MAX_TIMEOUT)
    tcp.timeout_at = now + wait


@kernel
def _lose(memory, tcp, number):
    layout.segment(memory, _segment(tcp, number)).flag = layout.LOST
    tcp.pipe -= 1
    tcp.lost += 1
    tcp.lost_from = min(tcp.lost_from, number)


@kernel
def _time_out(memory, sender, now):
    tcp = layout.transport(memory, sender.transport)
    for number in range(tcp.unacked, tcp.next):
        if layout.segment(memory, _segment(tcp, number)).flag == layout.OUTSTANDING:
            _lose(memory, tcp, number)
    if tcp.state != layout.TIMED_OUT:
        _reduce(tcp)
    tcp.congestion = 1.0
    tcp.state = layout.TIMED_OUT
    tcp.recover = tcp.next
    tcp.backoff += 1
    tcp.timeouts += 1
    _arm(tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _reduce(tcp):
    """Set threshold and window after a loss."""
    congestion = tcp.congestion
    threshold = max(2.0, congestion / 2.0)
    if tcp.cubic:
        before = congestion
        if congestion < tcp.before_loss:
            before = congestion * (1.0 + _CUBIC_BETA) / 2.0
        tcp.before_loss = before
        threshold = max(2.0, congestion * _CUBIC_BETA)
    tcp.threshold = threshold
    tcp.congestion = threshold
    tcp.epoch = layout.NEVER


@kernel
def _cube_root(x):
    """Return the cube root of a non-negative number, by Newton's method from above."""
    root = max(1.0, x)
    while x > 0.0:
        following = root - (root * root * root - x) / (3.0 * root * root)
        if following >= root:
            return root
        root = following
    return 0.0


@kernel
def _grow(tcp, acknowledged, now):
    congestion = tcp.congestion
    if congestion < tcp.threshold:
        congestion += acknowledged
    elif tcp.cubic:
        congestion = _cubic(tcp, acknowledged, now)
    else:
        congestion += acknowledged / congestion
    tcp.congestion = min(congestion, float(tcp.window))


@kernel
def _cubic(tcp, acknowledged, now):
    """Return the congestion window after ``acknowledged`` segments (RFC 9438, 4.2 to 4.5)."""
    congestion = tcp.congestion
    if tcp.epoch == layout.NEVER:
        origin = max(congestion, tcp.before_loss)
        tcp.epoch = now
        tcp.estimate = congestion
        tcp.origin = origin
        tcp.return_time = _cube_root((origin - congestion) / _CUBIC_C)
    elapsed = (now - tcp.epoch + tcp.smoothed) / _SECOND
    away = elapsed - tcp.return_time
    target = tcp.origin + _CUBIC_C * away * away * away
    target = min(max(target, congestion), 1.5 * congestion)
    estimate = tcp.estimate + _CUBIC_ALPHA * acknowledged / congestion
    tcp.estimate = estimate
    growing = congestion + acknowledged * (target - congestion) / congestion
    return max(growing, min(estimate, congestion + acknowledged))


@kernel
def _measure(tcp, sample):
    smoothed, variation = tcp.smoothed, tcp.variation
    if smoothed == 0:
        tcp.smoothed = sample
        tcp.variation = sample // 2
    else:
        tcp.variation += (abs(smoothed - sample) - variation) // 4
        tcp.smoothed += (sample - smoothed) // 8


@kernel
def _arrived(memory, tcp, number, flag):
    """Update the counts for a segment known to have arrived, and the newest such segment."""
    segment = layout.segment(memory, _segment(tcp, number))
    before = segment.flag
    if before == layout.OUTSTANDING:
        tcp.pipe -= 1
    elif before == layout.LOST:
        tcp.lost -= 1
    else:
        tcp.sacked -= 1
    segment.flag = flag
    if not _sent_earlier(memory, tcp, number):
        tcp.newest_sent = segment.sent
        tcp.newest_segment = number


@kernel
def _sent_earlier(memory, tcp, number):
    """Return whether a segment was sent before the newest one known to have arrived."""
    sent = layout.segment(memory, _segment(tcp, number)).sent
    newest = tcp.newest_sent
    return sent < newest or (sent == newest and number < tcp.newest_segment)


@kernel
def _find_lost(memory, tcp):
    """Mark segments as lost that were sent before an arrived one; return whether there were any."""
    found = False
    if tcp.sacked < _DUPLICATE_THRESHOLD and tcp.state == layout.OPEN:
        return found
    end = min(tcp.next, tcp.highest_sacked + 1)
    for number in range(tcp.unacked, end):
        outstanding = layout.segment(memory, _segment(tcp, number)).flag == layout.OUTSTANDING
        if outstanding and _sent_earlier(memory, tcp, number):
            _lose(memory, tcp, number)
            found = True
    return found


@kernel
def _score(memory, tcp, word):
    """Process the segments that an acknowledgement reports; return the advance of the window."""
    unacked = tcp.unacked
    expected = word & _NUMBER_MASK
    first = expected + ((word >> layout.ACK_NUMBER_BITS) & _OFFSET_MASK)
    count = word >> (layout.ACK_NUMBER_BITS + layout.ACK_OFFSET_BITS)
    for number in range(unacked, expected):
        _arrived(memory, tcp, number, layout.OUTSTANDING)
    advanced = max(expected, unacked)
    tcp.unacked = advanced
    tcp.lost_from = max(tcp.lost_from, advanced)
    for number in range(max(first, advanced), first + count):
        if layout.segment(memory, _segment(tcp, number)).flag != layout.SACKED:
            _arrived(memory, tcp, number, layout.SACKED)
            tcp.sacked += 1
            tcp.highest_sacked = max(tcp.highest_sacked, number)
    return advanced - unacked


@kernel
def on_acknowledgement(memory, sender, now, echo, word):
    """Process an acknowledgement at the talker's transport."""
    tcp = layout.transport(memory, sender.transport)
    acknowledged = _score(memory, tcp, word)
    if _find_lost(memory, tcp) and tcp.state == layout.OPEN:
        tcp.state = layout.RECOVERING
        tcp.recover = tcp.next
        tcp.recoveries += 1
        _reduce(tcp)
    if acknowledged > 0:
        _measure(tcp, now - echo)
        tcp.backoff = 0
        recovered = tcp.unacked >= tcp.recover
        if tcp.state != layout.OPEN and recovered:
            tcp.state = layout.OPEN
        if tcp.state != layout.RECOVERING:
            _grow(tcp, acknowledged, now)
        tcp.timeout_at = layout.NEVER
        if tcp.unacked < tcp.next:
            _arm(tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _acknowledge(memory, listener, now, block):
    tcp = layout.transport(memory, listener.transport)
    word = tcp.expected | block
    tcp.held_back = 0
    tcp.ack_at = layout.NEVER
    tcp.acks += 1
    meta = listener.return_flow | layout.META_LAST
    push(memory, layout.edge(memory, listener.edge).ring, now, tcp.echo, word, meta)


@kernel
def acknowledge_late(memory, listener, before):
    """Send a delayed acknowledgement that is due before ``before``, if there is one."""
    due = layout.transport(memory, listener.transport).ack_at
    if due < before:
        _acknowledge(memory, listener, due, 0)


@kernel
def _block_around(memory, tcp, number):
    """Return the run of received segments around ``number``, packed for an acknowledgement."""
    expected = tcp.expected
    first, last = number, number
    while first - 1 > expected and layout.segment(memory, _segment(tcp, first - 1)).received:
        first -= 1
    highest = tcp.highest
    while last < highest and layout.segment(memory, _segment(tcp, last + 1)).received:
        last += 1
    offset, count = first - expected, last - first + 1
    return (offset << layout.ACK_NUMBER_BITS) | (
        count << (layout.ACK_NUMBER_BITS + layout.ACK_OFFSET_BITS)
    )


@kernel
def receive_segment(memory, listener, now, sent, number):
    """Process a segment at the listener's transport; return whether it is its first copy."""
    tcp = layout.transport(memory, listener.transport)
    acknowledge_late(memory, listener, now)
    segment = layout.segment(memory, _segment(tcp, number))
    expected = tcp.expected
    if number < expected or segment.received:
        listener.duplicates += 1
        _acknowledge(memory, listener, now, 0)
        return False
    listener.unique += 1
    highest = tcp.highest
    if number < highest:
        listener.out_of_order += 1
    segment.received = 1
    tcp.highest = max(highest, number)
    if number > expected:
        _acknowledge(memory, listener, now, _block_around(memory, tcp, number))
        return True
    if tcp.held_back == 0:
        tcp.echo = sent
    _take_in_order(memory, listener)
    tcp.held_back += 1
    if highest > number or tcp.held_back >= 2:
        _acknowledge(memory, listener, now, 0)
    else:
        tcp.ack_at = now + _DELAYED_ACK
    return True


@kernel
def _take_in_order(memory, listener):
    """Deliver the segments that are in order to the process."""
    tcp = layout.transport(memory, listener.transport)
    expected = tcp.expected
    segment = layout.segment(memory, _segment(tcp, expected))
    while segment.received:
        segment.received = 0
        listener.delivered += 1
        expected += 1
        segment = layout.segment(memory, _segment(tcp, expected))
    tcp.expected = expected
