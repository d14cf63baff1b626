"""The sending process of a stream: when it calls write, and when the datagram is in the queue.

A sender is a sequence of writes. Write n begins when it is due and the previous one has returned,
waits for room in the socket (or drops), takes processor time, and then passes its frames to the
port. The port drives it: by events if the time of release is not known in advance (*calls*,
*enters*, *blocked*), or in one step with :func:`plan_entry` if it is (a FIFO port knows the
departure of a frame on its arrival).

The talker of a ping-pong *waits* between the entry of a request and its answer or time-out; its
event is then the time-out. An answer arrives from the receiving side of the host when the process
has read it; one at the very instant of the time-out is in time.
"""

from tsnrepro.model import layout
from tsnrepro.model.compiled import inlined, kernel
from tsnrepro.model.recording import count_time, log_answer
from tsnrepro.model.variates import draw_duration


@kernel
def _next_stall(memory, stalls):
    interval, length = (
        layout.duration(memory, stalls.interval),
        layout.duration(memory, stalls.length),
    )
    stalls.begins = stalls.ends + draw_duration(memory, interval)
    stalls.ends = stalls.begins + draw_duration(memory, length)


@kernel
def work_until(memory, address, start, work):
    """Return when a process completes ``work`` picoseconds that begin at ``start``.

    ``address`` is that of its sequence of stalls, or NONE. Starts must not decrease.
    """
    if address == layout.NONE:
        return start + work
    stalls = layout.stalls(memory, address)
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
    """Return when a write completes that has room in its socket at ``start``."""
    cost = draw_duration(memory, layout.duration(memory, sender.cost))
    return work_until(memory, sender.stalls, start, cost)


@kernel
def _due(memory, sender):
    """Return when the next write is due, and advance to the one after it."""
    kind = sender.kind
    due = sender.due
    if kind in (layout.SATURATING, layout.PING_PONG):
        return due
    if kind == layout.LISTED:
        return sender.start + memory[sender.times + sender.index]
    if kind == layout.POISSON:
        due += draw_duration(memory, layout.duration(memory, sender.gap))
        sender.due = due
        return due
    # The step is an integer and a fraction of ``step_unit``, added without rounding.
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
    """Return when the next write call begins, or NEVER."""
    index = sender.index
    limit = sender.limit
    if limit != layout.UNLIMITED and index >= limit:
        return layout.NEVER
    due = _due(memory, sender)
    free = sender.free
    begin = max(due, free)
    if sender.kind == layout.BURSTS and index > 0 and free <= due:
        # The rate is reached: wait for the first tick after the write is due.
        start, tick = sender.start, sender.tick
        begin = start + ((due - start) // tick + 1) * tick
    if begin >= sender.stop:
        return layout.NEVER
    return begin


@kernel
def plan_call(memory, sender):
    """Set the event of the next write call."""
    begin = _begin(memory, sender)
    sender.next = begin
    sender.phase = layout.FINISHED if begin == layout.NEVER else layout.CALLS


@kernel
def _drop_datagram(memory, sender, begin):
    """Drop the datagram of the write that begins now; the failing call takes its time."""
    sender.socket_drops += 1
    sender.index += 1
    sender.free = _write_until(memory, sender, begin)


@kernel
def _plan_enter(memory, sender, room):
    sender.next = _write_until(memory, sender, room)
    sender.phase = layout.ENTERS


@kernel
def call_write(memory, sender, now):
    """Begin the write that is due: it enters, blocks, or drops."""
    sender.written += 1
    sender.begin = now
    if sender.charged < sender.buffer:
        _plan_enter(memory, sender, now)
    elif sender.drops:
        _drop_datagram(memory, sender, now)
        plan_call(memory, sender)
    else:
        sender.next = layout.NEVER
        sender.phase = layout.BLOCKED


@kernel
def release(memory, sender, charge, now):
    """Release ``charge`` bytes of the socket; a blocked write continues if there is room."""
    sender.charged -= charge
    blocked = sender.phase == layout.BLOCKED
    if blocked and sender.charged < sender.buffer:
        _plan_enter(memory, sender, now)


@kernel
def after_entry(memory, sender):
    """Complete a write whose datagram is in the queue, and set the event of the next one."""
    sender.free = sender.next
    sender.index += 1
    plan_call(memory, sender)


@inlined
def _allocation_at(ring, number):
    """Return the address of an allocation in a ring, by its position there."""
    return ring.start + (number & ring.mask) * layout.ALLOCATION_WORDS


@inlined
def hold(memory, ring, until, amount):
    """Add an allocation of ``amount`` until a time to a ring."""
    written = ring.written
    allocation = layout.allocation(memory, _allocation_at(ring, written))
    allocation.until = until
    allocation.amount = amount
    ring.written = written + 1


@inlined
def release_until(memory, ring, now):
    """Remove the allocations that end by ``now`` from a ring; return their sum."""
    read, written = ring.read, ring.written
    size = 0
    while read != written:
        allocation = layout.allocation(memory, _allocation_at(ring, read))
        if allocation.until > now:
            break
        size += allocation.amount
        read += 1
    if read == written:
        read = 0
        ring.written = 0
    ring.read = read
    return size


@kernel
def _uncharge(memory, sender, now):
    """Release the socket's charge for frames sent by ``now``."""
    sender.charged -= release_until(memory, sender.ring, now)


@kernel
def _room_at(memory, sender):
    """Return when the next frame of a full socket is sent."""
    return layout.allocation(memory, _allocation_at(sender.ring, sender.ring.read)).until


@kernel
def plan_entry(memory, sender):
    """Set when the next datagram enters, if the departures of all its frames are known."""
    while True:
        begin = _begin(memory, sender)
        if begin == layout.NEVER:
            sender.next = layout.NEVER
            sender.phase = layout.FINISHED
            return
        sender.written += 1
        _uncharge(memory, sender, begin)
        room = begin
        if sender.charged >= sender.buffer:
            if sender.drops:
                _drop_datagram(memory, sender, begin)
                continue
            while sender.charged >= sender.buffer:
                room = _room_at(memory, sender)
                _uncharge(memory, sender, room)
        sender.begin = begin
        _plan_enter(memory, sender, room)
        return


# --- ping-pong --------------------------------------------------------------------------------


@kernel
def await_answer(sender):
    """Wait for the answer to a request that has entered the queue."""
    sender.phase = layout.WAITS
    sender.next += sender.timeout


@kernel
def _continue(memory, sender, now):
    sender.free = now
    sender.due = sender.begin + sender.step
    sender.index += 1
    plan_call(memory, sender)


@kernel
def give_up(memory, sender, now):
    """Continue with the next request after a time-out."""
    sender.timeouts += 1
    _continue(memory, sender, now)


@kernel
def on_answer(memory, sender, now, ident):
    """Process an answer that the process has read."""
    if sender.phase != layout.WAITS or sender.index != ident:
        sender.disregarded += 1
        return
    sender.answered += 1
    sent = sender.begin
    count_time(memory, sender.round_trip, now - sent)
    if sender.logged:
        log_answer(memory, sender.number, ident, sent, now)
    _continue(memory, sender, now)
