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

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    ACK_NUMBER_BITS,
    ACK_OFFSET_BITS,
    L_ACK_FLOW,
    L_DELIVERED,
    L_DUPLICATES,
    L_EDGE,
    L_OUT_OF_ORDER,
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
    S_COST_KIND,
    S_COST_MEAN,
    S_COST_SHAPE,
    S_COST_STREAM,
    S_FREE,
    S_INDEX,
    S_LIMIT,
    S_NEXT,
    S_STALLS,
    S_STOP,
    S_WRITTEN,
    SACKED,
    SEG_FLAG,
    SEG_RECEIVED,
    SEG_SENT,
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
    T_RING_MASK,
    T_RING_START,
    T_SACKED,
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
def _segment(state, sender, number):
    row = state.tcp[sender]
    return state.segments[row[T_RING_START] + (number & row[T_RING_MASK])]


@kernel
def _may_send(state, sender, now):
    row, process = state.tcp[sender], state.senders[sender]
    if process[S_CHARGED] >= process[S_BUFFER]:
        return False
    if row[T_PIPE] >= int(state.tcp_window[sender, W_CONGESTION]):
        return False
    if row[T_LOST] > 0:
        return True
    if process[S_LIMIT] != UNLIMITED and row[T_NEXT] >= process[S_LIMIT]:
        return False
    return now < process[S_STOP] and row[T_NEXT] - row[T_UNACKED] < row[T_WINDOW]


@kernel
def _set_event(state, sender):
    row = state.tcp[sender]
    state.senders[sender, S_NEXT] = min(row[T_ENTRY_AT], row[T_TIMEOUT_AT])


@kernel
def plan_segment(state, sender, now):
    """Set when the next segment enters the queue, if one may be sent."""
    row, process = state.tcp[sender], state.senders[sender]
    if row[T_ENTRY_AT] == NEVER and _may_send(state, sender, now):
        cost = draw_duration(
            state.random,
            process[S_COST_STREAM],
            process[S_COST_KIND],
            process[S_COST_MEAN],
            process[S_COST_SHAPE],
        )
        row[T_ENTRY_AT] = work_until(state, process[S_STALLS], max(now, process[S_FREE]), cost)
        process[S_FREE] = row[T_ENTRY_AT]
    _set_event(state, sender)


@kernel
def on_sender_event(state, sender, now):
    """Let the retransmission timer expire, if it is what this event is about."""
    if state.tcp[sender, T_TIMEOUT_AT] == now:
        _time_out(state, sender, now)


@kernel
def sends_segment(state, sender, now):
    """Choose the segment that enters the queue now and tell whether there is one."""
    row, process = state.tcp[sender], state.senders[sender]
    if row[T_ENTRY_AT] != now:
        return False
    row[T_ENTRY_AT] = NEVER
    if not _may_send(state, sender, now):
        _set_event(state, sender)
        return False
    process[S_BEGIN] = now
    process[S_INDEX] = row[T_NEXT]
    if row[T_LOST] > 0:
        number = row[T_LOST_FROM]
        while _segment(state, sender, number)[SEG_FLAG] != LOST:
            number += 1
        row[T_LOST_FROM] = number + 1
        process[S_INDEX] = number
    return True


@kernel
def sent_segment(state, sender, now):
    """Note that the chosen segment is in the queue."""
    row, process = state.tcp[sender], state.senders[sender]
    number = process[S_INDEX]
    if number == row[T_NEXT]:
        row[T_NEXT] += 1
        process[S_WRITTEN] += 1
    else:
        row[T_LOST] -= 1
        row[T_RETRANSMITTED] += 1
    segment = _segment(state, sender, number)
    segment[SEG_SENT] = now
    segment[SEG_FLAG] = OUTSTANDING
    row[T_PIPE] += 1
    if row[T_TIMEOUT_AT] == NEVER:
        _arm(state, sender, now)
    plan_segment(state, sender, now)


@kernel
def _arm(state, sender, now):
    row = state.tcp[sender]
    wait = _FIRST_TIMEOUT
    if row[T_SMOOTHED] > 0:
        wait = max(_LEAST_TIMEOUT, row[T_SMOOTHED] + 4 * row[T_VARIATION])
    for _ in range(row[T_BACKOFF]):
        wait = min(2 * wait, _MOST_TIMEOUT)
    row[T_TIMEOUT_AT] = now + wait


@kernel
def _lose(state, sender, number):
    row = state.tcp[sender]
    _segment(state, sender, number)[SEG_FLAG] = LOST
    row[T_PIPE] -= 1
    row[T_LOST] += 1
    row[T_LOST_FROM] = min(row[T_LOST_FROM], number)


@kernel
def _time_out(state, sender, now):
    row, window = state.tcp[sender], state.tcp_window[sender]
    for number in range(row[T_UNACKED], row[T_NEXT]):
        if _segment(state, sender, number)[SEG_FLAG] == OUTSTANDING:
            _lose(state, sender, number)
    if row[T_STATE] != TIMED_OUT:
        _reduce(state, sender)
    window[W_CONGESTION] = 1.0
    row[T_STATE] = TIMED_OUT
    row[T_RECOVER] = row[T_NEXT]
    row[T_BACKOFF] += 1
    row[T_TIMEOUTS] += 1
    _arm(state, sender, now)
    plan_segment(state, sender, now)


@kernel
def _reduce(state, sender):
    """Set threshold and window after a loss."""
    row, window = state.tcp[sender], state.tcp_window[sender]
    congestion = window[W_CONGESTION]
    if row[T_CUBIC]:
        before = congestion
        if congestion < window[W_BEFORE_LOSS]:
            before = congestion * (1.0 + _CUBIC_BETA) / 2.0
        window[W_BEFORE_LOSS] = before
        window[W_THRESHOLD] = max(2.0, congestion * _CUBIC_BETA)
    else:
        window[W_THRESHOLD] = max(2.0, congestion / 2.0)
    window[W_CONGESTION] = window[W_THRESHOLD]
    row[T_EPOCH] = NEVER


@kernel
def _cube_root(x):
    if x <= 0.0:
        return 0.0
    root = max(1.0, x)
    for _ in range(200):
        following = root - (root * root * root - x) / (3.0 * root * root)
        if following >= root:
            return root
        root = following
    return root


@kernel
def _grow(state, sender, acknowledged, now):
    row, window = state.tcp[sender], state.tcp_window[sender]
    congestion = window[W_CONGESTION]
    if congestion < window[W_THRESHOLD]:
        congestion += acknowledged
    elif row[T_CUBIC]:
        congestion = _cubic(state, sender, acknowledged, now)
    else:
        congestion += acknowledged / congestion
    window[W_CONGESTION] = min(congestion, float(row[T_WINDOW]))


@kernel
def _cubic(state, sender, acknowledged, now):
    """Return the congestion window after ``acknowledged`` segments (RFC 9438, 4.2 to 4.5)."""
    row, window = state.tcp[sender], state.tcp_window[sender]
    congestion = window[W_CONGESTION]
    if row[T_EPOCH] == NEVER:
        row[T_EPOCH] = now
        window[W_ESTIMATE] = congestion
        window[W_ORIGIN] = max(congestion, window[W_BEFORE_LOSS])
        window[W_RETURN] = _cube_root((window[W_ORIGIN] - congestion) / _CUBIC_C)
    away = (now - row[T_EPOCH] + row[T_SMOOTHED]) / _SECOND - window[W_RETURN]
    target = window[W_ORIGIN] + _CUBIC_C * away * away * away
    target = min(max(target, congestion), 1.5 * congestion)
    window[W_ESTIMATE] += _CUBIC_ALPHA * acknowledged / congestion
    growing = congestion + acknowledged * (target - congestion) / congestion
    return max(growing, min(window[W_ESTIMATE], congestion + acknowledged))


@kernel
def _measure(row, sample):
    if row[T_SMOOTHED] == 0:
        row[T_SMOOTHED] = sample
        row[T_VARIATION] = sample // 2
    else:
        row[T_VARIATION] += (abs(row[T_SMOOTHED] - sample) - row[T_VARIATION]) // 4
        row[T_SMOOTHED] += (sample - row[T_SMOOTHED]) // 8


@kernel
def _arrived(state, sender, number, flag):
    """Take a segment known to have arrived out of the counts; note the one sent last."""
    row = state.tcp[sender]
    segment = _segment(state, sender, number)
    if segment[SEG_FLAG] == OUTSTANDING:
        row[T_PIPE] -= 1
    elif segment[SEG_FLAG] == LOST:
        row[T_LOST] -= 1
    else:
        row[T_SACKED] -= 1
    segment[SEG_FLAG] = flag
    sent = segment[SEG_SENT]
    if sent > row[T_NEWEST_SENT] or (
        sent == row[T_NEWEST_SENT] and number > row[T_NEWEST_SEGMENT]
    ):
        row[T_NEWEST_SENT] = sent
        row[T_NEWEST_SEGMENT] = number


@kernel
def _find_lost(state, sender):
    """Mark as lost what was sent before a segment that has arrived, and tell if there was any."""
    row = state.tcp[sender]
    found = False
    if row[T_SACKED] < _DUPLICATE_THRESHOLD and row[T_STATE] == OPEN:
        return found
    for number in range(row[T_UNACKED], min(row[T_NEXT], row[T_HIGHEST_SACKED] + 1)):
        segment = _segment(state, sender, number)
        sent = segment[SEG_SENT]
        earlier = sent < row[T_NEWEST_SENT] or (
            sent == row[T_NEWEST_SENT] and number < row[T_NEWEST_SEGMENT]
        )
        if segment[SEG_FLAG] == OUTSTANDING and earlier:
            _lose(state, sender, number)
            found = True
    return found


@kernel
def on_acknowledgement(state, sender, now, echo, word):
    """Take in an acknowledgement that has come up to the talker's transport."""
    row = state.tcp[sender]
    expected = word & _NUMBER_MASK
    first = expected + ((word >> ACK_NUMBER_BITS) & _OFFSET_MASK)
    count = word >> (ACK_NUMBER_BITS + ACK_OFFSET_BITS)
    acknowledged = max(0, expected - row[T_UNACKED])
    for number in range(row[T_UNACKED], expected):
        _arrived(state, sender, number, OUTSTANDING)
    row[T_UNACKED] = max(expected, row[T_UNACKED])
    row[T_LOST_FROM] = max(row[T_LOST_FROM], row[T_UNACKED])
    for number in range(max(first, row[T_UNACKED]), first + count):
        if _segment(state, sender, number)[SEG_FLAG] != SACKED:
            _arrived(state, sender, number, SACKED)
            row[T_SACKED] += 1
            row[T_HIGHEST_SACKED] = max(row[T_HIGHEST_SACKED], number)
    if _find_lost(state, sender) and row[T_STATE] == OPEN:
        row[T_STATE] = RECOVERING
        row[T_RECOVER] = row[T_NEXT]
        row[T_RECOVERIES] += 1
        _reduce(state, sender)
    if acknowledged > 0:
        _measure(row, now - echo)
        row[T_BACKOFF] = 0
        if row[T_STATE] != OPEN and row[T_UNACKED] >= row[T_RECOVER]:
            row[T_STATE] = OPEN
        if row[T_STATE] != RECOVERING:
            _grow(state, sender, acknowledged, now)
        row[T_TIMEOUT_AT] = NEVER
        if row[T_UNACKED] < row[T_NEXT]:
            _arm(state, sender, now)
    plan_segment(state, sender, now)


@kernel
def _acknowledge(state, listener, sender, now, block):
    row = state.tcp[sender]
    word = row[T_EXPECTED] | block
    row[T_HELD_BACK] = 0
    row[T_ACK_AT] = NEVER
    row[T_ACKS] += 1
    target = state.listeners[listener]
    push(state, target[L_EDGE], now, row[T_ECHO], word, target[L_ACK_FLOW] | META_LAST)


@kernel
def acknowledge_late(state, listener, sender, before):
    """Send the acknowledgement whose delay ends ahead of ``before``, if there is one."""
    due = state.tcp[sender, T_ACK_AT]
    if due < before:
        _acknowledge(state, listener, sender, due, 0)


@kernel
def _block_around(state, sender, number):
    """Return the run of received segments around ``number``, packed for an acknowledgement."""
    row = state.tcp[sender]
    first, last = number, number
    while first - 1 > row[T_EXPECTED] and _segment(state, sender, first - 1)[SEG_RECEIVED]:
        first -= 1
    while last < row[T_HIGHEST] and _segment(state, sender, last + 1)[SEG_RECEIVED]:
        last += 1
    offset, count = first - row[T_EXPECTED], last - first + 1
    return (offset << ACK_NUMBER_BITS) | (count << (ACK_NUMBER_BITS + ACK_OFFSET_BITS))


@kernel
def receive_segment(state, listener, sender, now, sent_and_number):
    """Take in a segment at the listener's transport; tell whether it is the first copy of it."""
    sent, number = sent_and_number
    row, counts = state.tcp[sender], state.listeners[listener]
    acknowledge_late(state, listener, sender, now)
    segment = _segment(state, sender, number)
    if number < row[T_EXPECTED] or segment[SEG_RECEIVED]:
        counts[L_DUPLICATES] += 1
        _acknowledge(state, listener, sender, now, 0)
        return False
    counts[L_UNIQUE] += 1
    if number < row[T_HIGHEST]:
        counts[L_OUT_OF_ORDER] += 1
    if row[T_HELD_BACK] == 0 and number == row[T_EXPECTED]:
        row[T_ECHO] = sent
    segment[SEG_RECEIVED] = 1
    row[T_HIGHEST] = max(row[T_HIGHEST], number)
    if number > row[T_EXPECTED]:
        _acknowledge(state, listener, sender, now, _block_around(state, sender, number))
        return True
    gap = row[T_HIGHEST] > number
    while _segment(state, sender, row[T_EXPECTED])[SEG_RECEIVED]:
        _segment(state, sender, row[T_EXPECTED])[SEG_RECEIVED] = 0
        row[T_EXPECTED] += 1
        counts[L_DELIVERED] += 1
    row[T_HELD_BACK] += 1
    if gap or row[T_HELD_BACK] >= 2:
        _acknowledge(state, listener, sender, now, 0)
    else:
        row[T_ACK_AT] = now + _DELAYED_ACK
    return True
