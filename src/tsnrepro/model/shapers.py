"""What lets a traffic class send: its gate (time-aware shaper), its credit (credit-based shaper).

Sources: IEEE Std 802.1Q-2022, 8.6.8.4 (gates) and 8.6.8.2 (credit). Credit is counted in 10^-9
bits: kilobits a second times picoseconds, so it is exact.
"""

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import kernel

_MOST_CREDIT = 1 << 60
"""Where credit stops, far above what a port needs, so that a starved class does not overflow."""


@kernel
def _cycle_before(port, now):
    """Return when the gate cycle before the current one began."""
    cycle = port.gate_cycle
    return now - (now + port.gate_shift) % cycle - cycle


@kernel
def _window_opens(memory, port, queue, now, need):
    """Return when the next window begins, or goes on, that has ``need`` ps left; or NEVER.

    Windows are [from, until) in the cycle, in order; one that runs through the end of the cycle has
    an end beyond it.
    """
    count = queue.window_count
    begin = _cycle_before(port, now)
    # From the cycle before, whose last window may still be open, to the one after the next.
    for _ in range(4):
        for number in range(count):
            window = at.window(memory, queue.windows + number * at.WINDOW_WORDS)
            opens = max(now, begin + window.opens)
            closes = begin + window.closes
            if opens + need <= closes and opens < closes:
                return opens
        begin += port.gate_cycle
    return at.NEVER


@kernel
def _gate_opens(memory, port, queue, now, need):
    """Return the first time from ``now`` on at which the gate stays open for ``need`` ps.

    NEVER, where no window is long enough. While the gates are disabled all are open.
    """
    if queue.window_count == at.ALWAYS_OPEN:
        return now
    if port.gate_toggle == 0:
        return _window_opens(memory, port, queue, now, need)
    enabled_for = now - port.gate_toggle_from
    if enabled_for > 0:
        enabled_for %= 2 * port.gate_toggle
    if enabled_for >= port.gate_toggle:
        return now
    disabled_at = now - enabled_for + port.gate_toggle
    return min(disabled_at, _window_opens(memory, port, queue, now, need))


@kernel
def _open_time(memory, port, queue, start, end):
    """Return how long the gate is open between two times."""
    count = queue.window_count
    if count == at.ALWAYS_OPEN:
        return end - start
    begin = _cycle_before(port, start)
    total = 0
    while begin < end and count > 0:
        for number in range(count):
            window = at.window(memory, queue.windows + number * at.WINDOW_WORDS)
            opens = max(start, begin + window.opens)
            closes = min(end, begin + window.closes)
            total += max(0, closes - opens)
        begin += port.gate_cycle
    return total


@kernel
def settle_credit(memory, port, queue, waiting, now):
    """Bring the credit of a class up to ``now``.

    ``waiting`` tells whether frames have waited since it was last settled. Without any, credit
    above zero is lost and credit below zero recovers to zero.
    """
    slope = queue.idle_slope
    since = queue.credit_at
    if slope == 0 or now < since:
        return
    credit = queue.credit
    if not waiting:
        credit = min(0, credit)
    if waiting or credit < 0:
        open_time = _open_time(memory, port, queue, since, now)
        credit = min(credit + slope * min(open_time, _MOST_CREDIT // slope), _MOST_CREDIT)
    if not waiting:
        credit = min(0, credit)
    queue.credit = credit
    queue.credit_at = now
    queue.credit_max = max(queue.credit_max, credit)


@kernel
def charge_credit(queue, start, end):
    """Take the credit for a frame that occupies the line from ``start`` to ``end``."""
    if queue.idle_slope == 0:
        return
    credit = queue.credit + queue.send_slope * (end - start)
    queue.credit = credit
    queue.credit_at = end
    queue.credit_min = min(queue.credit_min, credit)


@kernel
def _gate_closes(memory, port, queue, now):
    """Return when the gate, open at ``now``, closes."""
    count = queue.window_count
    if count == at.ALWAYS_OPEN:
        return at.NEVER
    begin = _cycle_before(port, now)
    for _ in range(2):
        for number in range(count):
            window = at.window(memory, queue.windows + number * at.WINDOW_WORDS)
            closes = begin + window.closes
            if begin + window.opens <= now < closes:
                return closes
        begin += port.gate_cycle
    return at.NEVER


@kernel
def _credit_returns(memory, port, queue, now):
    """Return when the credit, settled at ``now`` and below zero, is back at zero."""
    slope = queue.idle_slope
    missing = (-queue.credit + slope - 1) // slope  # open time needed
    time = now
    while missing > 0:
        time = _gate_opens(memory, port, queue, time, 0)
        if time == at.NEVER:
            return at.NEVER
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
    if queue.idle_slope > 0 and queue.credit < 0:
        start = _credit_returns(memory, port, queue, now)
        if start == at.NEVER:
            return at.NEVER
    # Credit does not fall while the class waits, so the gate alone decides from here.
    return _gate_opens(memory, port, queue, start, need)
