"""The sending process of a stream: when it calls write, when the datagram is in the queue.

A sender is a sequence of writes. Write n begins when it is due and the one before has returned,
waits for room in the socket (or drops), takes processor time, and then hands its frames to the
port. The port drives it: by events where the time of release is not known in advance (*calls*,
*enters*, *blocked*), or in one step with :func:`plan_entry` where it is (a FIFO port knows when a
frame leaves as soon as it has arrived).
"""

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import inlined, kernel
from tsnrepro.model.variates import draw_duration


@kernel
def _next_stall(memory, stalls):
    interval, length = at.duration(memory, stalls.interval), at.duration(memory, stalls.length)
    stalls.begins = stalls.ends + draw_duration(memory, interval)
    stalls.ends = stalls.begins + draw_duration(memory, length)


@kernel
def work_until(memory, address, start, work):
    """Return when ``work`` picoseconds of a process are done that may begin at ``start``.

    At ``address`` is its sequence of stalls, if not NONE. Starts must not go back.
    """
    if address == at.NONE:
        return start + work
    stalls = at.stalls(memory, address)
    while True:
        if start >= stalls.ends:
            _next_stall(memory, stalls)
            continue
        begins = stalls.begins
        if start < begins:
            if start + work <= begins:
                return start + work
            work -= begins - start
        start = stalls.ends


@kernel
def _write_until(memory, sender, start):
    """Return when a write is done that has room in its socket at ``start``."""
    cost = draw_duration(memory, at.duration(memory, sender.cost))
    return work_until(memory, sender.stalls, start, cost)


@kernel
def _due(memory, sender):
    """Return when the coming write is due, and move on to the one after it."""
    kind = sender.kind
    due = sender.due
    if kind in (at.SATURATING, at.PING_PONG):
        return due
    if kind == at.LISTED:
        return sender.start + memory[sender.times + sender.index]
    if kind == at.POISSON:
        due += draw_duration(memory, at.duration(memory, sender.gap))
        sender.due = due
        return due
    # The step is a whole number and a rest in parts of ``step_unit``, added up without rounding.
    following = due + sender.step
    rest = sender.due_rest + sender.step_rest
    if rest >= sender.step_unit:
        rest -= sender.step_unit
        following += 1
    sender.due = following
    sender.due_rest = rest
    return due


@kernel
def _begin(memory, sender):
    """Return when the coming write call begins, or NEVER where there is none."""
    index = sender.index
    limit = sender.limit
    if limit != at.UNLIMITED and index >= limit:
        return at.NEVER
    due = _due(memory, sender)
    free = sender.free
    begin = max(due, free)
    if sender.kind == at.BURSTS and index > 0 and free <= due:
        # The rate is reached: wait for the first tick at which it no longer is.
        start, tick = sender.start, sender.tick
        begin = start + ((due - start) // tick + 1) * tick
    if begin >= sender.stop:
        return at.NEVER
    return begin


@kernel
def plan_call(memory, sender):
    """Set the event of the coming write call."""
    begin = _begin(memory, sender)
    sender.next = begin
    sender.phase = at.FINISHED if begin == at.NEVER else at.CALLS


@kernel
def _pass_over(memory, sender, begin):
    """Drop the datagram of the write that begins now: its call fails, and costs its time."""
    sender.socket_drops += 1
    sender.index += 1
    sender.free = _write_until(memory, sender, begin)


@kernel
def _plan_enter(memory, sender, room):
    sender.next = _write_until(memory, sender, room)
    sender.phase = at.ENTERS


@kernel
def call_write(memory, sender, now):
    """Begin the write that is due: enter, be blocked, or drop."""
    sender.written += 1
    sender.begin = now
    if sender.charged < sender.buffer:
        _plan_enter(memory, sender, now)
    elif sender.drops:
        _pass_over(memory, sender, now)
        plan_call(memory, sender)
    else:
        sender.next = at.NEVER
        sender.phase = at.BLOCKED


@kernel
def release(memory, sender, charge, now):
    """Take ``charge`` bytes off the socket; a blocked write goes on where there is room."""
    sender.charged -= charge
    blocked = sender.phase == at.BLOCKED
    if blocked and sender.charged < sender.buffer:
        _plan_enter(memory, sender, now)


@kernel
def after_entry(memory, sender):
    """Note that the write's datagram is in the queue, and set the event of the next write."""
    sender.free = sender.next
    sender.index += 1
    plan_call(memory, sender)


@inlined
def _held_in(ring, number):
    """Return the address of what is held in a ring, by its running number there."""
    return ring.start + (number & ring.mask) * at.HELD_WORDS


@inlined
def hold(memory, ring, until, amount):
    """Note in a ring that ``amount`` is held until a time."""
    written = ring.written
    held = at.held(memory, _held_in(ring, written))
    held.until = until
    held.amount = amount
    ring.written = written + 1


@inlined
def let_go(memory, ring, now):
    """Take what is held until ``now`` at most out of a ring; return what that amounts to."""
    read, written = ring.read, ring.written
    size = 0
    while read != written:
        held = at.held(memory, _held_in(ring, read))
        if held.until > now:
            break
        size += held.amount
        read += 1
    if read == written:
        read = 0
        ring.written = 0
    ring.read = read
    return size


@kernel
def _take_back(memory, sender, now):
    """Take what is sent by ``now`` off the socket's charge."""
    sender.charged -= let_go(memory, sender.ring, now)


@kernel
def _room_at(memory, sender):
    """Return when the next frame of a full socket is sent."""
    return at.held(memory, _held_in(sender.ring, sender.ring.read)).until


@kernel
def plan_entry(memory, sender):
    """Set when the next datagram enters, knowing when every frame of this socket is sent."""
    while True:
        begin = _begin(memory, sender)
        if begin == at.NEVER:
            sender.next = at.NEVER
            sender.phase = at.FINISHED
            return
        sender.written += 1
        _take_back(memory, sender, begin)
        room = begin
        if sender.charged >= sender.buffer:
            if sender.drops:
                _pass_over(memory, sender, begin)
                continue
            while sender.charged >= sender.buffer:
                room = _room_at(memory, sender)
                _take_back(memory, sender, room)
        sender.begin = begin
        _plan_enter(memory, sender, room)
        return
