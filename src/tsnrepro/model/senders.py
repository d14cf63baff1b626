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
    LISTED,
    NEVER,
    NONE,
    POISSON,
    RING_MASK,
    RING_READ,
    RING_START,
    RING_WRITTEN,
    S_BEGIN,
    S_BUFFER,
    S_CHARGED,
    S_COST_KIND,
    S_COST_MEAN,
    S_COST_SHAPE,
    S_COST_STREAM,
    S_DROPS,
    S_DUE,
    S_DUE_REST,
    S_FIRST_TIME,
    S_FREE,
    S_GAP_MEAN,
    S_GAP_STREAM,
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
    S_WRITTEN,
    SATURATING,
    ST_FROM,
    ST_GAP_KIND,
    ST_GAP_MEAN,
    ST_GAP_SHAPE,
    ST_LENGTH_KIND,
    ST_LENGTH_MEAN,
    ST_LENGTH_SHAPE,
    ST_STREAM,
    ST_UNTIL,
    UNLIMITED,
)
from tsnrepro.model.variates import ERLANG, draw_duration

__all__ = ["after_entry", "call_write", "plan_call", "plan_entry", "release", "work_until"]


@kernel
def _next_stall(state, index):
    stalls = state.stalls
    stream = stalls[index, ST_STREAM]
    gap = draw_duration(
        state.random,
        stream,
        stalls[index, ST_GAP_KIND],
        stalls[index, ST_GAP_MEAN],
        stalls[index, ST_GAP_SHAPE],
    )
    length = draw_duration(
        state.random,
        stream,
        stalls[index, ST_LENGTH_KIND],
        stalls[index, ST_LENGTH_MEAN],
        stalls[index, ST_LENGTH_SHAPE],
    )
    stalls[index, ST_FROM] = stalls[index, ST_UNTIL] + gap
    stalls[index, ST_UNTIL] = stalls[index, ST_FROM] + length


@kernel
def work_until(state, stalls, start, work):
    """Return when ``work`` picoseconds of a process are done that may begin at ``start``.

    ``stalls`` is the index of its sequence of stalls, or NONE. Starts must not go back.
    """
    if stalls == NONE:
        return start + work
    while True:
        if start >= state.stalls[stalls, ST_UNTIL]:
            _next_stall(state, stalls)
            continue
        begins = state.stalls[stalls, ST_FROM]
        if start + work <= begins and start < begins:
            return start + work
        if start < begins:
            work -= begins - start
        start = state.stalls[stalls, ST_UNTIL]


@kernel
def _cost(state, sender):
    row = state.senders[sender]
    return draw_duration(
        state.random, row[S_COST_STREAM], row[S_COST_KIND], row[S_COST_MEAN], row[S_COST_SHAPE]
    )


@kernel
def _due(state, sender):
    """Return when the coming write is due, and move on to the one after it."""
    row = state.senders[sender]
    kind = row[S_KIND]
    due = row[S_DUE]
    if kind == SATURATING:
        return due
    if kind == LISTED:
        return row[S_START] + state.times[row[S_FIRST_TIME] + row[S_INDEX]]
    if kind == POISSON:
        due += draw_duration(state.random, row[S_GAP_STREAM], ERLANG, row[S_GAP_MEAN], 1)
        row[S_DUE] = due
        return due
    # The step is a whole number and a rest in S_STEP_UNIT parts, added up without rounding.
    row[S_DUE] = due + row[S_STEP]
    row[S_DUE_REST] += row[S_STEP_REST]
    if row[S_DUE_REST] >= row[S_STEP_UNIT]:
        row[S_DUE_REST] -= row[S_STEP_UNIT]
        row[S_DUE] += 1
    return due


@kernel
def _begin(state, sender):
    """Return when the coming write call begins, or NEVER where there is none."""
    row = state.senders[sender]
    if row[S_LIMIT] != UNLIMITED and row[S_INDEX] >= row[S_LIMIT]:
        return NEVER
    due = _due(state, sender)
    free = row[S_FREE]
    begin = max(due, free)
    if row[S_KIND] == BURSTS and row[S_INDEX] > 0 and free <= due:
        # The rate is reached: wait for the first tick at which it no longer is.
        start, tick = row[S_START], row[S_TICK]
        begin = start + ((due - start) // tick + 1) * tick
    if begin >= row[S_STOP]:
        return NEVER
    return begin


@kernel
def plan_call(state, sender):
    """Set the event of the coming write call."""
    row = state.senders[sender]
    row[S_NEXT] = _begin(state, sender)
    row[S_PHASE] = FINISHED if row[S_NEXT] == NEVER else CALLS


@kernel
def _pass_over(state, sender, begin):
    """Drop the datagram of the write that begins now: its call fails, and costs its time."""
    row = state.senders[sender]
    row[S_SOCKET_DROPS] += 1
    row[S_INDEX] += 1
    row[S_FREE] = work_until(state, row[S_STALLS], begin, _cost(state, sender))


@kernel
def call_write(state, sender, now):
    """Begin the write that is due: enter, be blocked, or drop."""
    row = state.senders[sender]
    row[S_WRITTEN] += 1
    row[S_BEGIN] = now
    if row[S_CHARGED] < row[S_BUFFER]:
        row[S_NEXT] = work_until(state, row[S_STALLS], now, _cost(state, sender))
        row[S_PHASE] = ENTERS
    elif row[S_DROPS]:
        _pass_over(state, sender, now)
        plan_call(state, sender)
    else:
        row[S_NEXT] = NEVER
        row[S_PHASE] = BLOCKED


@kernel
def release(state, sender, charge, now):
    """Take ``charge`` bytes off the socket; a blocked write goes on where there is room."""
    row = state.senders[sender]
    row[S_CHARGED] -= charge
    if row[S_PHASE] == BLOCKED and row[S_CHARGED] < row[S_BUFFER]:
        row[S_NEXT] = work_until(state, row[S_STALLS], now, _cost(state, sender))
        row[S_PHASE] = ENTERS


@kernel
def after_entry(state, sender):
    """Note that the write's datagram is in the queue, and set the event of the next write."""
    row = state.senders[sender]
    row[S_FREE] = row[S_NEXT]
    row[S_INDEX] += 1
    plan_call(state, sender)


@kernel
def _take_back(row, held):
    """Take the oldest frame off the socket's charge and return when it was sent."""
    place = row[RING_START] + (row[RING_READ] & row[RING_MASK])
    row[S_CHARGED] -= held[place, HELD_SIZE]
    row[RING_READ] += 1
    return held[place, HELD_UNTIL]


@kernel
def plan_entry(state, sender):
    """Set when the next datagram enters, knowing when every frame of this socket is sent."""
    row = state.senders[sender]
    held = state.held
    while True:
        begin = _begin(state, sender)
        if begin == NEVER:
            row[S_NEXT] = NEVER
            row[S_PHASE] = FINISHED
            return
        row[S_WRITTEN] += 1
        while row[RING_READ] != row[RING_WRITTEN]:
            place = row[RING_START] + (row[RING_READ] & row[RING_MASK])
            if held[place, HELD_UNTIL] > begin:
                break
            _take_back(row, held)
        room = begin
        if row[S_CHARGED] >= row[S_BUFFER]:
            if row[S_DROPS]:
                _pass_over(state, sender, begin)
                continue
            while row[S_CHARGED] >= row[S_BUFFER]:
                room = _take_back(row, held)
        row[S_BEGIN] = begin
        row[S_NEXT] = work_until(state, row[S_STALLS], room, _cost(state, sender))
        row[S_PHASE] = ENTERS
        return
