"""A TCP transfer in whole segments: what limits it, and what it does about loss.

The sender's segments and the receiver's acknowledgements travel through the modelled queues like
any frame. An acknowledgement packs the next segment expected, and one block of segments received
beyond it, into one word.

Sources: RFC 5681 (slow start, congestion avoidance, delayed acknowledgements), RFC 2018 (selective
acknowledgements), RFC 6675 (three of them start a recovery), RFC 8985 (a segment sent before one
that has arrived is lost), RFC 9438 (CUBIC), RFC 6298 (retransmission timer; 200 ms at least and
40 ms for a delayed acknowledgement, as TCP_RTO_MIN and TCP_DELACK_MIN of Linux).
"""

from typing import Final

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import kernel
from tsnrepro.model.lines import push
from tsnrepro.model.senders import work_until
from tsnrepro.model.variates import draw_duration

_DUPLICATE_THRESHOLD: Final = 3
_LEAST_TIMEOUT: Final = 200_000_000_000
_MOST_TIMEOUT: Final = 120_000_000_000_000
_FIRST_TIMEOUT: Final = 1_000_000_000_000
_DELAYED_ACK: Final = 40_000_000_000
_CUBIC_C: Final = 0.4
_CUBIC_BETA: Final = 0.7
_CUBIC_ALPHA: Final = 3.0 * (1.0 - _CUBIC_BETA) / (1.0 + _CUBIC_BETA)
_SECOND: Final = 1e12
_NUMBER_MASK: Final = (1 << at.ACK_NUMBER_BITS) - 1
_OFFSET_MASK: Final = (1 << at.ACK_OFFSET_BITS) - 1


@kernel
def _segment(tcp, number):
    """Return the address of a segment of the window."""
    return tcp.segments + (number & tcp.segment_mask) * at.SEGMENT_WORDS


@kernel
def _may_send(memory, sender, now):
    tcp = at.transport(memory, sender.transport)
    if sender.charged >= sender.buffer:
        return False
    if tcp.pipe >= int(tcp.congestion):
        return False
    if tcp.lost > 0:
        return True
    coming = tcp.next
    limit = sender.limit
    if limit != at.UNLIMITED and coming >= limit:
        return False
    room = coming - tcp.unacked < tcp.window
    return room and now < sender.stop


@kernel
def _set_event(memory, sender):
    tcp = at.transport(memory, sender.transport)
    sender.next = min(tcp.entry_at, tcp.timeout_at)


@kernel
def plan_segment(memory, sender, now):
    """Set when the next segment enters the queue, if one may be sent."""
    tcp = at.transport(memory, sender.transport)
    if tcp.entry_at == at.NEVER and _may_send(memory, sender, now):
        cost = draw_duration(memory, at.duration(memory, sender.cost))
        begin = max(now, sender.free)
        entry = work_until(memory, sender.stalls, begin, cost)
        tcp.entry_at = sender.free = entry
    _set_event(memory, sender)


@kernel
def on_sender_event(memory, sender, now):
    """Let the retransmission timer expire, if it is what this event is about."""
    if at.transport(memory, sender.transport).timeout_at == now:
        _time_out(memory, sender, now)


@kernel
def sends_segment(memory, sender, now):
    """Choose the segment that enters the queue now and tell whether there is one."""
    tcp = at.transport(memory, sender.transport)
    if tcp.entry_at != now:
        return False
    tcp.entry_at = at.NEVER
    if not _may_send(memory, sender, now):
        _set_event(memory, sender)
        return False
    number = tcp.next
    if tcp.lost > 0:
        number = tcp.lost_from
        while at.segment(memory, _segment(tcp, number)).flag != at.LOST:
            number += 1
        tcp.lost_from = number + 1
    sender.begin = now
    sender.index = number
    return True


@kernel
def sent_segment(memory, sender, now):
    """Note that the chosen segment is in the queue."""
    tcp = at.transport(memory, sender.transport)
    number = sender.index
    if number == tcp.next:
        tcp.next += 1
        sender.written += 1
    else:
        tcp.lost -= 1
        tcp.retransmitted += 1
    segment = at.segment(memory, _segment(tcp, number))
    segment.sent = now
    segment.flag = at.OUTSTANDING
    tcp.pipe += 1
    if tcp.timeout_at == at.NEVER:
        _arm(tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _arm(tcp, now):
    wait = _FIRST_TIMEOUT
    if tcp.smoothed > 0:
        wait = max(_LEAST_TIMEOUT, tcp.smoothed + 4 * tcp.variation)
    for _ in range(tcp.backoff):
        wait = min(2 * wait, _MOST_TIMEOUT)
    tcp.timeout_at = now + wait


@kernel
def _lose(memory, tcp, number):
    at.segment(memory, _segment(tcp, number)).flag = at.LOST
    tcp.pipe -= 1
    tcp.lost += 1
    tcp.lost_from = min(tcp.lost_from, number)


@kernel
def _time_out(memory, sender, now):
    tcp = at.transport(memory, sender.transport)
    for number in range(tcp.unacked, tcp.next):
        if at.segment(memory, _segment(tcp, number)).flag == at.OUTSTANDING:
            _lose(memory, tcp, number)
    if tcp.state != at.TIMED_OUT:
        _reduce(tcp)
    tcp.congestion = 1.0
    tcp.state = at.TIMED_OUT
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
    tcp.epoch = at.NEVER


@kernel
def _cube_root(x):
    """Return the cube root of a number that is not negative, by Newton's steps from above."""
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
    if tcp.epoch == at.NEVER:
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
    """Take a segment known to have arrived out of the counts; note the one sent last."""
    segment = at.segment(memory, _segment(tcp, number))
    before = segment.flag
    if before == at.OUTSTANDING:
        tcp.pipe -= 1
    elif before == at.LOST:
        tcp.lost -= 1
    else:
        tcp.sacked -= 1
    segment.flag = flag
    if not _sent_earlier(memory, tcp, number):
        tcp.newest_sent = segment.sent
        tcp.newest_segment = number


@kernel
def _sent_earlier(memory, tcp, number):
    """Tell whether a segment was sent before the newest one known to have arrived."""
    sent = at.segment(memory, _segment(tcp, number)).sent
    newest = tcp.newest_sent
    return sent < newest or (sent == newest and number < tcp.newest_segment)


@kernel
def _find_lost(memory, tcp):
    """Mark as lost what was sent before a segment that has arrived, and tell if there was any."""
    found = False
    if tcp.sacked < _DUPLICATE_THRESHOLD and tcp.state == at.OPEN:
        return found
    end = min(tcp.next, tcp.highest_sacked + 1)
    for number in range(tcp.unacked, end):
        outstanding = at.segment(memory, _segment(tcp, number)).flag == at.OUTSTANDING
        if outstanding and _sent_earlier(memory, tcp, number):
            _lose(memory, tcp, number)
            found = True
    return found


@kernel
def _score(memory, tcp, word):
    """Take in what an acknowledgement says has arrived; return how far it moves the window."""
    unacked = tcp.unacked
    expected = word & _NUMBER_MASK
    first = expected + ((word >> at.ACK_NUMBER_BITS) & _OFFSET_MASK)
    count = word >> (at.ACK_NUMBER_BITS + at.ACK_OFFSET_BITS)
    for number in range(unacked, expected):
        _arrived(memory, tcp, number, at.OUTSTANDING)
    advanced = max(expected, unacked)
    tcp.unacked = advanced
    tcp.lost_from = max(tcp.lost_from, advanced)
    for number in range(max(first, advanced), first + count):
        if at.segment(memory, _segment(tcp, number)).flag != at.SACKED:
            _arrived(memory, tcp, number, at.SACKED)
            tcp.sacked += 1
            tcp.highest_sacked = max(tcp.highest_sacked, number)
    return advanced - unacked


@kernel
def on_acknowledgement(memory, sender, now, echo, word):
    """Take in an acknowledgement that has come up to the talker's transport."""
    tcp = at.transport(memory, sender.transport)
    acknowledged = _score(memory, tcp, word)
    if _find_lost(memory, tcp) and tcp.state == at.OPEN:
        tcp.state = at.RECOVERING
        tcp.recover = tcp.next
        tcp.recoveries += 1
        _reduce(tcp)
    if acknowledged > 0:
        _measure(tcp, now - echo)
        tcp.backoff = 0
        recovered = tcp.unacked >= tcp.recover
        if tcp.state != at.OPEN and recovered:
            tcp.state = at.OPEN
        if tcp.state != at.RECOVERING:
            _grow(tcp, acknowledged, now)
        tcp.timeout_at = at.NEVER
        if tcp.unacked < tcp.next:
            _arm(tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _acknowledge(memory, listener, now, block):
    tcp = at.transport(memory, listener.transport)
    word = tcp.expected | block
    tcp.held_back = 0
    tcp.ack_at = at.NEVER
    tcp.acks += 1
    meta = listener.return_flow | at.META_LAST
    push(memory, at.edge(memory, listener.edge).ring, now, tcp.echo, word, meta)


@kernel
def acknowledge_late(memory, listener, before):
    """Send the acknowledgement whose delay ends ahead of ``before``, if there is one."""
    due = at.transport(memory, listener.transport).ack_at
    if due < before:
        _acknowledge(memory, listener, due, 0)


@kernel
def _block_around(memory, tcp, number):
    """Return the run of received segments around ``number``, packed for an acknowledgement."""
    expected = tcp.expected
    first, last = number, number
    while first - 1 > expected and at.segment(memory, _segment(tcp, first - 1)).received:
        first -= 1
    highest = tcp.highest
    while last < highest and at.segment(memory, _segment(tcp, last + 1)).received:
        last += 1
    offset, count = first - expected, last - first + 1
    return (offset << at.ACK_NUMBER_BITS) | (count << (at.ACK_NUMBER_BITS + at.ACK_OFFSET_BITS))


@kernel
def receive_segment(memory, listener, now, sent, number):
    """Take in a segment at the listener's transport; tell whether it is the first copy of it."""
    tcp = at.transport(memory, listener.transport)
    acknowledge_late(memory, listener, now)
    segment = at.segment(memory, _segment(tcp, number))
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
    """Give the process what is in order now."""
    tcp = at.transport(memory, listener.transport)
    expected = tcp.expected
    segment = at.segment(memory, _segment(tcp, expected))
    while segment.received:
        segment.received = 0
        listener.delivered += 1
        expected += 1
        segment = at.segment(memory, _segment(tcp, expected))
    tcp.expected = expected
