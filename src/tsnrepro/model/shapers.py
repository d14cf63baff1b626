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
    Q_IDLE_SLOPE,
    Q_SEND_SLOPE,
    Q_WINDOW_COUNT,
    Q_WINDOWS,
    WINDOW_FROM,
    WINDOW_UNTIL,
    WINDOW_WORDS,
)

_MOST_CREDIT = 1 << 60
"""Where credit stops, far above what a port needs, so that a starved class does not overflow."""

__all__ = ["charge_credit", "eligible_at", "gate_opens", "settle_credit"]


@kernel
def _cycle_before(memory, port, now):
    """Return when the gate cycle before the current one began."""
    cycle = memory[port + E_GATE_CYCLE]
    return now - (now + memory[port + E_GATE_SHIFT]) % cycle - cycle


@kernel
def gate_opens(memory, port, queue, now, need):
    """Return the first time from ``now`` on at which the gate stays open for ``need`` ps.

    NEVER, where no window is long enough. Windows are [from, until) in the cycle, in order; one
    that runs through the end of the cycle has an end beyond it.
    """
    count = memory[queue + Q_WINDOW_COUNT]
    if count == ALWAYS_OPEN:
        return now
    begin = _cycle_before(memory, port, now)
    # From the cycle before, whose last window may still be open, to the one after the next.
    for _ in range(4):
        window = memory[queue + Q_WINDOWS]
        for _ in range(count):
            opens = max(now, begin + memory[window + WINDOW_FROM])
            closes = begin + memory[window + WINDOW_UNTIL]
            if opens + need <= closes and opens < closes:
                return opens
            window += WINDOW_WORDS
        begin += memory[port + E_GATE_CYCLE]
    return NEVER


@kernel
def _open_time(memory, port, queue, start, end):
    """Return how long the gate is open between two times."""
    count = memory[queue + Q_WINDOW_COUNT]
    if count == ALWAYS_OPEN:
        return end - start
    begin = _cycle_before(memory, port, start)
    total = 0
    while begin < end and count > 0:
        window = memory[queue + Q_WINDOWS]
        for _ in range(count):
            opens = max(start, begin + memory[window + WINDOW_FROM])
            closes = min(end, begin + memory[window + WINDOW_UNTIL])
            total += max(0, closes - opens)
            window += WINDOW_WORDS
        begin += memory[port + E_GATE_CYCLE]
    return total


@kernel
def settle_credit(memory, port, queue, waiting, now):
    """Bring the credit of a class up to ``now``.

    ``waiting`` tells whether frames have waited since it was last settled. Without any, credit
    above zero is lost and credit below zero recovers to zero.
    """
    slope = memory[queue + Q_IDLE_SLOPE]
    since = memory[queue + Q_CREDIT_AT]
    if slope == 0 or now < since:
        return
    credit = memory[queue + Q_CREDIT]
    if not waiting:
        credit = min(0, credit)
    if waiting or credit < 0:
        open_time = _open_time(memory, port, queue, since, now)
        credit = min(credit + slope * min(open_time, _MOST_CREDIT // slope), _MOST_CREDIT)
    if not waiting:
        credit = min(0, credit)
    memory[queue + Q_CREDIT] = credit
    memory[queue + Q_CREDIT_AT] = now
    memory[queue + Q_CREDIT_MAX] = max(memory[queue + Q_CREDIT_MAX], credit)


@kernel
def charge_credit(memory, queue, start, end):
    """Take the credit for a frame that occupies the line from ``start`` to ``end``."""
    if memory[queue + Q_IDLE_SLOPE] == 0:
        return
    credit = memory[queue + Q_CREDIT] + memory[queue + Q_SEND_SLOPE] * (end - start)
    memory[queue + Q_CREDIT] = credit
    memory[queue + Q_CREDIT_AT] = end
    memory[queue + Q_CREDIT_MIN] = min(memory[queue + Q_CREDIT_MIN], credit)


@kernel
def _gate_closes(memory, port, queue, now):
    """Return when the gate, open at ``now``, closes."""
    count = memory[queue + Q_WINDOW_COUNT]
    if count == ALWAYS_OPEN:
        return NEVER
    begin = _cycle_before(memory, port, now)
    for _ in range(2):
        window = memory[queue + Q_WINDOWS]
        for _ in range(count):
            closes = begin + memory[window + WINDOW_UNTIL]
            if begin + memory[window + WINDOW_FROM] <= now < closes:
                return closes
            window += WINDOW_WORDS
        begin += memory[port + E_GATE_CYCLE]
    return NEVER


@kernel
def _credit_returns(memory, port, queue, now):
    """Return when the credit, settled at ``now`` and below zero, is back at zero."""
    slope = memory[queue + Q_IDLE_SLOPE]
    missing = (-memory[queue + Q_CREDIT] + slope - 1) // slope  # open time needed
    time = now
    while missing > 0:
        time = gate_opens(memory, port, queue, time, 0)
        if time == NEVER:
            return NEVER
        step = min(missing, _gate_closes(memory, port, queue, time) - time)
        time += step
        missing -= step
    return time


@kernel
def eligible_at(memory, port, queue, now, need):
    """Return the first time from ``now`` on at which a waiting class may start a frame.

    ``need`` is how long its gate must stay open from there. Credit is settled at ``now``.
    """
    start = now
    if memory[queue + Q_IDLE_SLOPE] > 0 and memory[queue + Q_CREDIT] < 0:
        start = _credit_returns(memory, port, queue, now)
        if start == NEVER:
            return NEVER
    # Credit does not fall while the class waits, so the gate alone decides from here.
    return gate_opens(memory, port, queue, start, need)
