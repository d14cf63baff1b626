"""The sending process of a stream: when it calls write, when the datagram is in the queue.

A sender is a sequence of writes. Write n begins when it is due and the one before has returned,
waits for room in the socket (or drops), takes processor time, and then hands its frames to the
port. The port drives it: by events where the time of release is not known in advance (*calls*,
*enters*, *blocked*), or in one step with :func:`plan_entry` where it is (a FIFO port knows when a
frame leaves as soon as it has arrived).
"""

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    BLOCKED,
    BURSTS,
    CALLS,
    ENTERS,
    FINISHED,
    HELD_SIZE,
    HELD_UNTIL,
    HELD_WORDS,
    LISTED,
    NEVER,
    NONE,
    PING_PONG,
    POISSON,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    S_BEGIN,
    S_BUFFER,
    S_CHARGED,
    S_COST,
    S_DROPS,
    S_DUE,
    S_DUE_REST,
    S_FREE,
    S_GAP,
    S_INDEX,
    S_KIND,
    S_LIMIT,
    S_NEXT,
    S_PHASE,
    S_SOCKET_DROPS,
    S_STALLS,
    S_START,
    S_STEP,
    S_STEP_REST,
    S_STEP_UNIT,
    S_STOP,
    S_TICK,
    S_TIMES,
    S_WRITTEN,
    SATURATING,
    ST_FROM,
    ST_INTERVAL,
    ST_LENGTH,
    ST_UNTIL,
    UNLIMITED,
)
from tsnrepro.model.variates import draw_duration

__all__ = ["after_entry", "call_write", "plan_call", "plan_entry", "release", "work_until"]


@kernel
def _next_stall(memory, stalls):
    memory[stalls + ST_FROM] = memory[stalls + ST_UNTIL] + draw_duration(
        memory, memory[stalls + ST_INTERVAL]
    )
    memory[stalls + ST_UNTIL] = memory[stalls + ST_FROM] + draw_duration(
        memory, memory[stalls + ST_LENGTH]
    )


@kernel
def work_until(memory, stalls, start, work):
    """Return when ``work`` picoseconds of a process are done that may begin at ``start``.

    ``stalls`` is the address of its sequence of stalls, or NONE. Starts must not go back.
    """
    if stalls == NONE:
        return start + work
    while True:
        if start >= memory[stalls + ST_UNTIL]:
            _next_stall(memory, stalls)
            continue
        begins = memory[stalls + ST_FROM]
        if start < begins:
            if start + work <= begins:
                return start + work
            work -= begins - start
        start = memory[stalls + ST_UNTIL]


@kernel
def _write_until(memory, sender, start):
    """Return when a write is done that has room in its socket at ``start``."""
    cost = draw_duration(memory, memory[sender + S_COST])
    return work_until(memory, memory[sender + S_STALLS], start, cost)


@kernel
def _due(memory, sender):
    """Return when the coming write is due, and move on to the one after it."""
    kind = memory[sender + S_KIND]
    due = memory[sender + S_DUE]
    if kind in (SATURATING, PING_PONG):
        return due
    if kind == LISTED:
        listed = memory[memory[sender + S_TIMES] + memory[sender + S_INDEX]]
        return memory[sender + S_START] + listed
    if kind == POISSON:
        due += draw_duration(memory, memory[sender + S_GAP])
        memory[sender + S_DUE] = due
        return due
    # The step is a whole number and a rest in S_STEP_UNIT parts, added up without rounding.
    following = due + memory[sender + S_STEP]
    rest = memory[sender + S_DUE_REST] + memory[sender + S_STEP_REST]
    if rest >= memory[sender + S_STEP_UNIT]:
        rest -= memory[sender + S_STEP_UNIT]
        following += 1
    memory[sender + S_DUE] = following
    memory[sender + S_DUE_REST] = rest
    return due


@kernel
def _begin(memory, sender):
    """Return when the coming write call begins, or NEVER where there is none."""
    index = memory[sender + S_INDEX]
    limit = memory[sender + S_LIMIT]
    if limit != UNLIMITED and index >= limit:
        return NEVER
    due = _due(memory, sender)
    free = memory[sender + S_FREE]
    begin = max(due, free)
    if memory[sender + S_KIND] == BURSTS and index > 0 and free <= due:
        # The rate is reached: wait for the first tick at which it no longer is.
        start, tick = memory[sender + S_START], memory[sender + S_TICK]
        begin = start + ((due - start) // tick + 1) * tick
    if begin >= memory[sender + S_STOP]:
        return NEVER
    return begin


@kernel
def plan_call(memory, sender):
    """Set the event of the coming write call."""
    begin = _begin(memory, sender)
    memory[sender + S_NEXT] = begin
    memory[sender + S_PHASE] = FINISHED if begin == NEVER else CALLS


@kernel
def _pass_over(memory, sender, begin):
    """Drop the datagram of the write that begins now: its call fails, and costs its time."""
    memory[sender + S_SOCKET_DROPS] += 1
    memory[sender + S_INDEX] += 1
    memory[sender + S_FREE] = _write_until(memory, sender, begin)


@kernel
def _plan_enter(memory, sender, room):
    memory[sender + S_NEXT] = _write_until(memory, sender, room)
    memory[sender + S_PHASE] = ENTERS


@kernel
def call_write(memory, sender, now):
    """Begin the write that is due: enter, be blocked, or drop."""
    memory[sender + S_WRITTEN] += 1
    memory[sender + S_BEGIN] = now
    if memory[sender + S_CHARGED] < memory[sender + S_BUFFER]:
        _plan_enter(memory, sender, now)
    elif memory[sender + S_DROPS]:
        _pass_over(memory, sender, now)
        plan_call(memory, sender)
    else:
        memory[sender + S_NEXT] = NEVER
        memory[sender + S_PHASE] = BLOCKED


@kernel
def release(memory, sender, charge, now):
    """Take ``charge`` bytes off the socket; a blocked write goes on where there is room."""
    memory[sender + S_CHARGED] -= charge
    blocked = memory[sender + S_PHASE] == BLOCKED
    if blocked and memory[sender + S_CHARGED] < memory[sender + S_BUFFER]:
        _plan_enter(memory, sender, now)


@kernel
def after_entry(memory, sender):
    """Note that the write's datagram is in the queue, and set the event of the next write."""
    memory[sender + S_FREE] = memory[sender + S_NEXT]
    memory[sender + S_INDEX] += 1
    plan_call(memory, sender)


@kernel
def _take_back(memory, sender, now):
    """Take what is sent by ``now`` off the socket's charge."""
    start, mask = memory[sender + RING_START], memory[sender + RING_MASK]
    read, written = memory[sender + RING_READ], memory[sender + RING_WRITTEN]
    charged = memory[sender + S_CHARGED]
    while read != written:
        held = start + (read & mask) * HELD_WORDS
        if memory[held + HELD_UNTIL] > now:
            break
        charged -= memory[held + HELD_SIZE]
        read += 1
    if read == written:
        read = 0
        memory[sender + RING_WRITTEN] = 0
    memory[sender + RING_READ] = read
    memory[sender + S_CHARGED] = charged


@kernel
def _room_at(memory, sender):
    """Return when the next frame of a full socket is sent."""
    place = memory[sender + RING_READ] & memory[sender + RING_MASK]
    return memory[memory[sender + RING_START] + place * HELD_WORDS + HELD_UNTIL]


@kernel
def plan_entry(memory, sender):
    """Set when the next datagram enters, knowing when every frame of this socket is sent."""
    while True:
        begin = _begin(memory, sender)
        if begin == NEVER:
            memory[sender + S_NEXT] = NEVER
            memory[sender + S_PHASE] = FINISHED
            return
        memory[sender + S_WRITTEN] += 1
        _take_back(memory, sender, begin)
        room = begin
        if memory[sender + S_CHARGED] >= memory[sender + S_BUFFER]:
            if memory[sender + S_DROPS]:
                _pass_over(memory, sender, begin)
                continue
            while memory[sender + S_CHARGED] >= memory[sender + S_BUFFER]:
                room = _room_at(memory, sender)
                _take_back(memory, sender, room)
        memory[sender + S_BEGIN] = begin
        _plan_enter(memory, sender, room)
        return
