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

import numpy as np

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    ACK_NUMBER_BITS,
    ACK_OFFSET_BITS,
    L_ACK_FLOW,
    L_DELIVERED,
    L_DUPLICATES,
    L_EDGE,
    L_OUT_OF_ORDER,
    L_TRANSPORT,
    L_UNIQUE,
    LOST,
    META_LAST,
    NEVER,
    OPEN,
    OUTSTANDING,
    RECOVERING,
    S_BEGIN,
    S_BUFFER,
    S_CHARGED,
    S_COST,
    S_FREE,
    S_INDEX,
    S_LIMIT,
    S_NEXT,
    S_STALLS,
    S_STOP,
    S_TRANSPORT,
    S_WRITTEN,
    SACKED,
    SEG_FLAG,
    SEG_RECEIVED,
    SEG_SENT,
    SEG_WORDS,
    T_ACK_AT,
    T_ACKS,
    T_BACKOFF,
    T_CUBIC,
    T_ECHO,
    T_ENTRY_AT,
    T_EPOCH,
    T_EXPECTED,
    T_HELD_BACK,
    T_HIGHEST,
    T_HIGHEST_SACKED,
    T_LOST,
    T_LOST_FROM,
    T_NEWEST_SEGMENT,
    T_NEWEST_SENT,
    T_NEXT,
    T_PIPE,
    T_RECOVER,
    T_RECOVERIES,
    T_RETRANSMITTED,
    T_SACKED,
    T_SEGMENT_MASK,
    T_SEGMENTS,
    T_SMOOTHED,
    T_STATE,
    T_TIMEOUT_AT,
    T_TIMEOUTS,
    T_UNACKED,
    T_VARIATION,
    T_WINDOW,
    TIMED_OUT,
    UNLIMITED,
    W_BEFORE_LOSS,
    W_CONGESTION,
    W_ESTIMATE,
    W_ORIGIN,
    W_RETURN,
    W_THRESHOLD,
)
from tsnrepro.model.lines import push
from tsnrepro.model.senders import work_until
from tsnrepro.model.variates import draw_duration

__all__ = [
    "acknowledge_late",
    "on_acknowledgement",
    "on_sender_event",
    "plan_segment",
    "receive_segment",
    "sends_segment",
    "sent_segment",
]

_DUPLICATE_THRESHOLD: Final = 3
_LEAST_TIMEOUT: Final = 200_000_000_000
_MOST_TIMEOUT: Final = 120_000_000_000_000
_FIRST_TIMEOUT: Final = 1_000_000_000_000
_DELAYED_ACK: Final = 40_000_000_000
_CUBIC_C: Final = 0.4
_CUBIC_BETA: Final = 0.7
_CUBIC_ALPHA: Final = 3.0 * (1.0 - _CUBIC_BETA) / (1.0 + _CUBIC_BETA)
_SECOND: Final = 1e12
_NUMBER_MASK: Final = (1 << ACK_NUMBER_BITS) - 1
_OFFSET_MASK: Final = (1 << ACK_OFFSET_BITS) - 1


@kernel
def _get(memory, address):
    """Read a double that is kept as its bits."""
    return np.int64(memory[address]).view(np.float64)


@kernel
def _put(memory, address, value):
    """Keep a double as its bits."""
    memory[address] = np.float64(value).view(np.int64)


@kernel
def _segment(memory, tcp, number):
    return memory[tcp + T_SEGMENTS] + (number & memory[tcp + T_SEGMENT_MASK]) * SEG_WORDS


@kernel
def _may_send(memory, sender, now):
    tcp = memory[sender + S_TRANSPORT]
    if memory[sender + S_CHARGED] >= memory[sender + S_BUFFER]:
        return False
    if memory[tcp + T_PIPE] >= int(_get(memory, tcp + W_CONGESTION)):
        return False
    if memory[tcp + T_LOST] > 0:
        return True
    coming = memory[tcp + T_NEXT]
    limit = memory[sender + S_LIMIT]
    if limit != UNLIMITED and coming >= limit:
        return False
    room = coming - memory[tcp + T_UNACKED] < memory[tcp + T_WINDOW]
    return room and now < memory[sender + S_STOP]


@kernel
def _set_event(memory, sender):
    tcp = memory[sender + S_TRANSPORT]
    memory[sender + S_NEXT] = min(memory[tcp + T_ENTRY_AT], memory[tcp + T_TIMEOUT_AT])


@kernel
def plan_segment(memory, sender, now):
    """Set when the next segment enters the queue, if one may be sent."""
    tcp = memory[sender + S_TRANSPORT]
    if memory[tcp + T_ENTRY_AT] == NEVER and _may_send(memory, sender, now):
        cost = draw_duration(memory, memory[sender + S_COST])
        begin = max(now, memory[sender + S_FREE])
        entry = work_until(memory, memory[sender + S_STALLS], begin, cost)
        memory[tcp + T_ENTRY_AT] = memory[sender + S_FREE] = entry
    _set_event(memory, sender)


@kernel
def on_sender_event(memory, sender, now):
    """Let the retransmission timer expire, if it is what this event is about."""
    if memory[memory[sender + S_TRANSPORT] + T_TIMEOUT_AT] == now:
        _time_out(memory, sender, now)


@kernel
def sends_segment(memory, sender, now):
    """Choose the segment that enters the queue now and tell whether there is one."""
    tcp = memory[sender + S_TRANSPORT]
    if memory[tcp + T_ENTRY_AT] != now:
        return False
    memory[tcp + T_ENTRY_AT] = NEVER
    if not _may_send(memory, sender, now):
        _set_event(memory, sender)
        return False
    number = memory[tcp + T_NEXT]
    if memory[tcp + T_LOST] > 0:
        number = memory[tcp + T_LOST_FROM]
        while memory[_segment(memory, tcp, number) + SEG_FLAG] != LOST:
            number += 1
        memory[tcp + T_LOST_FROM] = number + 1
    memory[sender + S_BEGIN] = now
    memory[sender + S_INDEX] = number
    return True


@kernel
def sent_segment(memory, sender, now):
    """Note that the chosen segment is in the queue."""
    tcp = memory[sender + S_TRANSPORT]
    number = memory[sender + S_INDEX]
    if number == memory[tcp + T_NEXT]:
        memory[tcp + T_NEXT] += 1
        memory[sender + S_WRITTEN] += 1
    else:
        memory[tcp + T_LOST] -= 1
        memory[tcp + T_RETRANSMITTED] += 1
    segment = _segment(memory, tcp, number)
    memory[segment + SEG_SENT] = now
    memory[segment + SEG_FLAG] = OUTSTANDING
    memory[tcp + T_PIPE] += 1
    if memory[tcp + T_TIMEOUT_AT] == NEVER:
        _arm(memory, tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _arm(memory, tcp, now):
    wait = _FIRST_TIMEOUT
    if memory[tcp + T_SMOOTHED] > 0:
        wait = max(_LEAST_TIMEOUT, memory[tcp + T_SMOOTHED] + 4 * memory[tcp + T_VARIATION])
    for _ in range(memory[tcp + T_BACKOFF]):
        wait = min(2 * wait, _MOST_TIMEOUT)
    memory[tcp + T_TIMEOUT_AT] = now + wait


@kernel
def _lose(memory, tcp, number):
    memory[_segment(memory, tcp, number) + SEG_FLAG] = LOST
    memory[tcp + T_PIPE] -= 1
    memory[tcp + T_LOST] += 1
    memory[tcp + T_LOST_FROM] = min(memory[tcp + T_LOST_FROM], number)


@kernel
def _time_out(memory, sender, now):
    tcp = memory[sender + S_TRANSPORT]
    for number in range(memory[tcp + T_UNACKED], memory[tcp + T_NEXT]):
        if memory[_segment(memory, tcp, number) + SEG_FLAG] == OUTSTANDING:
            _lose(memory, tcp, number)
    if memory[tcp + T_STATE] != TIMED_OUT:
        _reduce(memory, tcp)
    _put(memory, tcp + W_CONGESTION, 1.0)
    memory[tcp + T_STATE] = TIMED_OUT
    memory[tcp + T_RECOVER] = memory[tcp + T_NEXT]
    memory[tcp + T_BACKOFF] += 1
    memory[tcp + T_TIMEOUTS] += 1
    _arm(memory, tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _reduce(memory, tcp):
    """Set threshold and window after a loss."""
    congestion = _get(memory, tcp + W_CONGESTION)
    threshold = max(2.0, congestion / 2.0)
    if memory[tcp + T_CUBIC]:
        before = congestion
        if congestion < _get(memory, tcp + W_BEFORE_LOSS):
            before = congestion * (1.0 + _CUBIC_BETA) / 2.0
        _put(memory, tcp + W_BEFORE_LOSS, before)
        threshold = max(2.0, congestion * _CUBIC_BETA)
    _put(memory, tcp + W_THRESHOLD, threshold)
    _put(memory, tcp + W_CONGESTION, threshold)
    memory[tcp + T_EPOCH] = NEVER


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
def _grow(memory, tcp, acknowledged, now):
    congestion = _get(memory, tcp + W_CONGESTION)
    if congestion < _get(memory, tcp + W_THRESHOLD):
        congestion += acknowledged
    elif memory[tcp + T_CUBIC]:
        congestion = _cubic(memory, tcp, acknowledged, now)
    else:
        congestion += acknowledged / congestion
    _put(memory, tcp + W_CONGESTION, min(congestion, float(memory[tcp + T_WINDOW])))


@kernel
def _cubic(memory, tcp, acknowledged, now):
    """Return the congestion window after ``acknowledged`` segments (RFC 9438, 4.2 to 4.5)."""
    congestion = _get(memory, tcp + W_CONGESTION)
    if memory[tcp + T_EPOCH] == NEVER:
        origin = max(congestion, _get(memory, tcp + W_BEFORE_LOSS))
        memory[tcp + T_EPOCH] = now
        _put(memory, tcp + W_ESTIMATE, congestion)
        _put(memory, tcp + W_ORIGIN, origin)
        _put(memory, tcp + W_RETURN, _cube_root((origin - congestion) / _CUBIC_C))
    elapsed = (now - memory[tcp + T_EPOCH] + memory[tcp + T_SMOOTHED]) / _SECOND
    away = elapsed - _get(memory, tcp + W_RETURN)
    target = _get(memory, tcp + W_ORIGIN) + _CUBIC_C * away * away * away
    target = min(max(target, congestion), 1.5 * congestion)
    estimate = _get(memory, tcp + W_ESTIMATE) + _CUBIC_ALPHA * acknowledged / congestion
    _put(memory, tcp + W_ESTIMATE, estimate)
    growing = congestion + acknowledged * (target - congestion) / congestion
    return max(growing, min(estimate, congestion + acknowledged))


@kernel
def _measure(memory, tcp, sample):
    smoothed, variation = memory[tcp + T_SMOOTHED], memory[tcp + T_VARIATION]
    if smoothed == 0:
        memory[tcp + T_SMOOTHED] = sample
        memory[tcp + T_VARIATION] = sample // 2
    else:
        memory[tcp + T_VARIATION] += (abs(smoothed - sample) - variation) // 4
        memory[tcp + T_SMOOTHED] += (sample - smoothed) // 8


@kernel
def _arrived(memory, tcp, number, flag):
    """Take a segment known to have arrived out of the counts; note the one sent last."""
    segment = _segment(memory, tcp, number)
    before = memory[segment + SEG_FLAG]
    if before == OUTSTANDING:
        memory[tcp + T_PIPE] -= 1
    elif before == LOST:
        memory[tcp + T_LOST] -= 1
    else:
        memory[tcp + T_SACKED] -= 1
    memory[segment + SEG_FLAG] = flag
    if not _sent_earlier(memory, tcp, number):
        memory[tcp + T_NEWEST_SENT] = memory[segment + SEG_SENT]
        memory[tcp + T_NEWEST_SEGMENT] = number


@kernel
def _sent_earlier(memory, tcp, number):
    """Tell whether a segment was sent before the newest one known to have arrived."""
    sent = memory[_segment(memory, tcp, number) + SEG_SENT]
    newest = memory[tcp + T_NEWEST_SENT]
    return sent < newest or (sent == newest and number < memory[tcp + T_NEWEST_SEGMENT])


@kernel
def _find_lost(memory, tcp):
    """Mark as lost what was sent before a segment that has arrived, and tell if there was any."""
    found = False
    if memory[tcp + T_SACKED] < _DUPLICATE_THRESHOLD and memory[tcp + T_STATE] == OPEN:
        return found
    end = min(memory[tcp + T_NEXT], memory[tcp + T_HIGHEST_SACKED] + 1)
    for number in range(memory[tcp + T_UNACKED], end):
        outstanding = memory[_segment(memory, tcp, number) + SEG_FLAG] == OUTSTANDING
        if outstanding and _sent_earlier(memory, tcp, number):
            _lose(memory, tcp, number)
            found = True
    return found


@kernel
def _score(memory, tcp, word):
    """Take in what an acknowledgement says has arrived; return how far it moves the window."""
    unacked = memory[tcp + T_UNACKED]
    expected = word & _NUMBER_MASK
    first = expected + ((word >> ACK_NUMBER_BITS) & _OFFSET_MASK)
    count = word >> (ACK_NUMBER_BITS + ACK_OFFSET_BITS)
    for number in range(unacked, expected):
        _arrived(memory, tcp, number, OUTSTANDING)
    advanced = max(expected, unacked)
    memory[tcp + T_UNACKED] = advanced
    memory[tcp + T_LOST_FROM] = max(memory[tcp + T_LOST_FROM], advanced)
    for number in range(max(first, advanced), first + count):
        if memory[_segment(memory, tcp, number) + SEG_FLAG] != SACKED:
            _arrived(memory, tcp, number, SACKED)
            memory[tcp + T_SACKED] += 1
            memory[tcp + T_HIGHEST_SACKED] = max(memory[tcp + T_HIGHEST_SACKED], number)
    return advanced - unacked


@kernel
def on_acknowledgement(memory, sender, now, echo, word):
    """Take in an acknowledgement that has come up to the talker's transport."""
    tcp = memory[sender + S_TRANSPORT]
    acknowledged = _score(memory, tcp, word)
    if _find_lost(memory, tcp) and memory[tcp + T_STATE] == OPEN:
        memory[tcp + T_STATE] = RECOVERING
        memory[tcp + T_RECOVER] = memory[tcp + T_NEXT]
        memory[tcp + T_RECOVERIES] += 1
        _reduce(memory, tcp)
    if acknowledged > 0:
        _measure(memory, tcp, now - echo)
        memory[tcp + T_BACKOFF] = 0
        recovered = memory[tcp + T_UNACKED] >= memory[tcp + T_RECOVER]
        if memory[tcp + T_STATE] != OPEN and recovered:
            memory[tcp + T_STATE] = OPEN
        if memory[tcp + T_STATE] != RECOVERING:
            _grow(memory, tcp, acknowledged, now)
        memory[tcp + T_TIMEOUT_AT] = NEVER
        if memory[tcp + T_UNACKED] < memory[tcp + T_NEXT]:
            _arm(memory, tcp, now)
    plan_segment(memory, sender, now)


@kernel
def _acknowledge(memory, listener, now, block):
    tcp = memory[listener + L_TRANSPORT]
    word = memory[tcp + T_EXPECTED] | block
    memory[tcp + T_HELD_BACK] = 0
    memory[tcp + T_ACK_AT] = NEVER
    memory[tcp + T_ACKS] += 1
    meta = memory[listener + L_ACK_FLOW] | META_LAST
    push(memory, memory[listener + L_EDGE], now, memory[tcp + T_ECHO], word, meta)


@kernel
def acknowledge_late(memory, listener, before):
    """Send the acknowledgement whose delay ends ahead of ``before``, if there is one."""
    due = memory[memory[listener + L_TRANSPORT] + T_ACK_AT]
    if due < before:
        _acknowledge(memory, listener, due, 0)


@kernel
def _block_around(memory, tcp, number):
    """Return the run of received segments around ``number``, packed for an acknowledgement."""
    expected = memory[tcp + T_EXPECTED]
    first, last = number, number
    while first - 1 > expected and memory[_segment(memory, tcp, first - 1) + SEG_RECEIVED]:
        first -= 1
    highest = memory[tcp + T_HIGHEST]
    while last < highest and memory[_segment(memory, tcp, last + 1) + SEG_RECEIVED]:
        last += 1
    offset, count = first - expected, last - first + 1
    return (offset << ACK_NUMBER_BITS) | (count << (ACK_NUMBER_BITS + ACK_OFFSET_BITS))


@kernel
def receive_segment(memory, listener, now, sent, number):
    """Take in a segment at the listener's transport; tell whether it is the first copy of it."""
    tcp = memory[listener + L_TRANSPORT]
    acknowledge_late(memory, listener, now)
    segment = _segment(memory, tcp, number)
    expected = memory[tcp + T_EXPECTED]
    if number < expected or memory[segment + SEG_RECEIVED]:
        memory[listener + L_DUPLICATES] += 1
        _acknowledge(memory, listener, now, 0)
        return False
    memory[listener + L_UNIQUE] += 1
    highest = memory[tcp + T_HIGHEST]
    if number < highest:
        memory[listener + L_OUT_OF_ORDER] += 1
    memory[segment + SEG_RECEIVED] = 1
    memory[tcp + T_HIGHEST] = max(highest, number)
    if number > expected:
        _acknowledge(memory, listener, now, _block_around(memory, tcp, number))
        return True
    if memory[tcp + T_HELD_BACK] == 0:
        memory[tcp + T_ECHO] = sent
    _take_in_order(memory, listener)
    memory[tcp + T_HELD_BACK] += 1
    if highest > number or memory[tcp + T_HELD_BACK] >= 2:
        _acknowledge(memory, listener, now, 0)
    else:
        memory[tcp + T_ACK_AT] = now + _DELAYED_ACK
    return True


@kernel
def _take_in_order(memory, listener):
    """Give the process what is in order now."""
    tcp = memory[listener + L_TRANSPORT]
    expected = memory[tcp + T_EXPECTED]
    segment = _segment(memory, tcp, expected)
    while memory[segment + SEG_RECEIVED]:
        memory[segment + SEG_RECEIVED] = 0
        memory[listener + L_DELIVERED] += 1
        expected += 1
        segment = _segment(memory, tcp, expected)
    memory[tcp + T_EXPECTED] = expected
