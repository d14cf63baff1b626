"""Eligibility of traffic classes: gates (time-aware shaper) and credit (credit-based shaper).

Sources: IEEE Std 802.1Q-2022, 8.6.8.4 (gates) and 8.6.8.2 (credit). Credit is in 10^-9 bits:
kilobits per second times picoseconds, which is exact.
"""

from tsnrepro.model import layout
from tsnrepro.model.compiled import kernel

_MAX_CREDIT = 1 << 60
"""Limit of credit, far above any useful value, so that a starved class does not overflow."""


@kernel
def _cycle_before(port, now):
    """Return the begin of the previous gate cycle."""
    cycle = port.gate_cycle
    return now - (now + port.gate_shift) % cycle - cycle


@kernel
def _window_opens(memory, port, queue, now, need):
    """Return the first time in a window with ``need`` ps left, or NEVER.

    Windows are [from, until) in the cycle, in order; the last one may extend beyond the cycle.
    """
    count = queue.window_count
    begin = _cycle_before(port, now)
    # From the previous cycle, whose last window may still be open, to the one after the next.
    for _ in range(4):
        for number in range(count):
            window = layout.window(memory, queue.windows + number * layout.WINDOW_WORDS)
            opens = max(now, begin + window.opens)
            closes = begin + window.closes
            if opens + need <= closes and opens < closes:
                return opens
        begin += port.gate_cycle
    return layout.NEVER


@kernel
def _gate_opens(memory, port, queue, now, need):
    """Return the first time from ``now`` on after which the gate is open for ``need`` ps.

    It is NEVER if no window is long enough. All gates are open while they are disabled.
    """
    if queue.window_count == layout.ALWAYS_OPEN:
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
    if count == layout.ALWAYS_OPEN:
        return end - start
    begin = _cycle_before(port, start)
    total = 0
    while begin < end and count > 0:
        for number in range(count):
            window = layout.window(memory, queue.windows + number * layout.WINDOW_WORDS)
            opens = max(start, begin + window.opens)
            closes = min(end, begin + window.closes)
            total += max(0, closes - opens)
        begin += port.gate_cycle
    return total


@kernel
def settle_credit(memory, port, queue, waiting, now):
    """Update the credit of a class to ``now``.

    ``waiting`` is whether frames have waited since the last update. Otherwise credit above zero is
    lost and credit below zero recovers to zero.
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
        credit = min(credit + slope * min(open_time, _MAX_CREDIT // slope), _MAX_CREDIT)
    if not waiting:
        credit = min(0, credit)
    queue.credit = credit
    queue.credit_at = now
    queue.credit_max = max(queue.credit_max, credit)


@kernel
def charge_credit(queue, start, end):
    """Subtract the credit of a frame on the line from ``start`` to ``end``."""
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
    if count == layout.ALWAYS_OPEN:
        return layout.NEVER
    begin = _cycle_before(port, now)
    for _ in range(2):
        for number in range(count):
            window = layout.window(memory, queue.windows + number * layout.WINDOW_WORDS)
            closes = begin + window.closes
            if begin + window.opens <= now < closes:
                return closes
        begin += port.gate_cycle
    return layout.NEVER


@kernel
def _credit_returns(memory, port, queue, now):
    """Return when the credit, updated to ``now`` and below zero, reaches zero."""
    slope = queue.idle_slope
    missing = (-queue.credit + slope - 1) // slope  # open time needed
    time = now
    while missing > 0:
        time = _gate_opens(memory, port, queue, time, 0)
        if time == layout.NEVER:
            return layout.NEVER
        step = min(missing, _gate_closes(memory, port, queue, time) - time)
        time += step
        missing -= step
    return time


@kernel
def eligible_at(memory, port, queue, now, need):
    """Return the first time from ``now`` on at which a waiting class may start a frame.

    ``need`` is how long its gate must be open from there. Credit is updated to ``now``.
    """
    start = now
    if queue.idle_slope > 0 and queue.credit < 0:
        start = _credit_returns(memory, port, queue, now)
        if start == layout.NEVER:
            return layout.NEVER
    # Credit does not fall while the class waits, so the gate alone decides from here.
    return _gate_opens(memory, port, queue, start, need)
