"""What lets a traffic class send: its gate (time-aware shaper), its credit (credit-based shaper).

Sources: IEEE Std 802.1Q-2022, 8.6.8.4 (gates) and 8.6.8.2 (credit). Credit is counted in 10^-9
bits: kilobits a second times picoseconds, so it is exact.
"""

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    ALWAYS_OPEN,
    E_GATE_CYCLE,
    E_GATE_SHIFT,
    NEVER,
    Q_CREDIT,
    Q_CREDIT_AT,
    Q_CREDIT_MAX,
    Q_CREDIT_MIN,
    Q_FIRST_WINDOW,
    Q_IDLE_SLOPE,
    Q_SEND_SLOPE,
    Q_WINDOW_COUNT,
)

_MOST_CREDIT = 1 << 60
"""Where credit stops, far above what a port needs, so that a starved class does not overflow."""

__all__ = ["charge_credit", "eligible_at", "gate_opens", "settle_credit"]


@kernel
def gate_opens(state, element, traffic_class, now, need):
    """Return the first time from ``now`` on at which the gate stays open for ``need`` ps.

    NEVER, where no window is long enough. Windows are [from, until) in the cycle, in order; one
    that runs through the end of the cycle has an end beyond it.
    """
    queue = state.classes[element, traffic_class]
    count = queue[Q_WINDOW_COUNT]
    if count == ALWAYS_OPEN:
        return now
    first = queue[Q_FIRST_WINDOW]
    cycle = state.elements[element, E_GATE_CYCLE]
    begin = now - (now + state.elements[element, E_GATE_SHIFT]) % cycle - cycle
    # From the cycle before, whose last window may still be open, to the one after the next.
    for _ in range(4):
        for place in range(first, first + count):
            opens = max(now, begin + state.windows[place, 0])
            if opens + need <= begin + state.windows[place, 1] and (
                opens < begin + state.windows[place, 1]
            ):
                return opens
        begin += cycle
    return NEVER


@kernel
def _open_time(state, element, traffic_class, start, end):
    """Return how long the gate is open between two times."""
    queue = state.classes[element, traffic_class]
    count = queue[Q_WINDOW_COUNT]
    if count == ALWAYS_OPEN:
        return end - start
    first = queue[Q_FIRST_WINDOW]
    cycle = state.elements[element, E_GATE_CYCLE]
    begin = start - (start + state.elements[element, E_GATE_SHIFT]) % cycle - cycle
    total = 0
    while begin < end:
        for place in range(first, first + count):
            opens = max(start, begin + state.windows[place, 0])
            closes = min(end, begin + state.windows[place, 1])
            total += max(0, closes - opens)
        begin += cycle
    return total


@kernel
def settle_credit(state, element, traffic_class, waiting, now):
    """Bring the credit of a class up to ``now``.

    ``waiting`` tells whether frames have waited since it was last settled. Without any, credit
    above zero is lost and credit below zero recovers to zero.
    """
    queue = state.classes[element, traffic_class]
    if queue[Q_IDLE_SLOPE] == 0 or now < queue[Q_CREDIT_AT]:
        return
    credit = queue[Q_CREDIT]
    if not waiting:
        credit = min(0, credit)
    if waiting or credit < 0:
        slope = queue[Q_IDLE_SLOPE]
        open_time = _open_time(state, element, traffic_class, queue[Q_CREDIT_AT], now)
        gained = slope * min(open_time, _MOST_CREDIT // slope)
        credit = min(credit + gained, _MOST_CREDIT) if waiting else min(0, credit + gained)
    queue[Q_CREDIT] = credit
    queue[Q_CREDIT_AT] = now
    queue[Q_CREDIT_MAX] = max(queue[Q_CREDIT_MAX], credit)


@kernel
def charge_credit(state, element, traffic_class, start, end):
    """Take the credit for a frame that occupies the line from ``start`` to ``end``."""
    queue = state.classes[element, traffic_class]
    if queue[Q_IDLE_SLOPE] == 0:
        return
    queue[Q_CREDIT] += queue[Q_SEND_SLOPE] * (end - start)
    queue[Q_CREDIT_AT] = end
    queue[Q_CREDIT_MIN] = min(queue[Q_CREDIT_MIN], queue[Q_CREDIT])


@kernel
def _credit_returns(state, element, traffic_class, now):
    """Return when the credit, settled at ``now`` and below zero, is back at zero."""
    queue = state.classes[element, traffic_class]
    slope = queue[Q_IDLE_SLOPE]
    missing = (-queue[Q_CREDIT] + slope - 1) // slope  # open time needed
    at = now
    while missing > 0:
        at = gate_opens(state, element, traffic_class, at, 0)
        if at == NEVER:
            return NEVER
        closes = _gate_closes(state, element, traffic_class, at)
        step = min(missing, closes - at)
        at += step
        missing -= step
    return at


@kernel
def _gate_closes(state, element, traffic_class, now):
    """Return when the gate, open at ``now``, closes."""
    queue = state.classes[element, traffic_class]
    count = queue[Q_WINDOW_COUNT]
    if count == ALWAYS_OPEN:
        return NEVER
    first = queue[Q_FIRST_WINDOW]
    cycle = state.elements[element, E_GATE_CYCLE]
    begin = now - (now + state.elements[element, E_GATE_SHIFT]) % cycle - cycle
    for _ in range(2):
        for place in range(first, first + count):
            if begin + state.windows[place, 0] <= now < begin + state.windows[place, 1]:
                return begin + state.windows[place, 1]
        begin += cycle
    return NEVER


@kernel
def eligible_at(state, element, traffic_class, now, need):
    """Return the first time from ``now`` on at which a waiting class may start a frame.

    ``need`` is how long its gate must stay open from there. Credit is settled at ``now``.
    """
    queue = state.classes[element, traffic_class]
    start = now
    if queue[Q_IDLE_SLOPE] > 0 and queue[Q_CREDIT] < 0:
        start = _credit_returns(state, element, traffic_class, now)
        if start == NEVER:
            return NEVER
    # Credit does not fall while the class waits, so the gate alone decides from here.
    return gate_opens(state, element, traffic_class, start, need)
