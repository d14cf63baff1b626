"""The talker of a ping-pong: it waits for the answer to its request, but not for ever.

Between the entry of a request and its answer (or time-out) the sender is in the phase *waits*; its
event is then the time-out. An answer comes up from the receiving side of the host at the time at
which the process has read it; one that comes at the very instant of the time-out is in time.
"""

from tsnrepro.model.compiled import kernel
from tsnrepro.model.layout import (
    S_ANSWERED,
    S_BEGIN,
    S_DISREGARDED,
    S_DUE,
    S_FREE,
    S_INDEX,
    S_LOGGED,
    S_NEXT,
    S_NUMBER,
    S_PHASE,
    S_STEP,
    S_TIMEOUT,
    S_TIMEOUTS,
    S_TRIP_SUM,
    WAITS,
)
from tsnrepro.model.rows import count_time, log_answer
from tsnrepro.model.senders import plan_call

__all__ = ["await_answer", "give_up", "on_answer"]


@kernel
def await_answer(memory, sender):
    """Wait, now that the request is in the queue."""
    memory[sender + S_PHASE] = WAITS
    memory[sender + S_NEXT] += memory[sender + S_TIMEOUT]


@kernel
def _go_on(memory, sender, now):
    memory[sender + S_FREE] = now
    memory[sender + S_DUE] = memory[sender + S_BEGIN] + memory[sender + S_STEP]
    memory[sender + S_INDEX] += 1
    plan_call(memory, sender)


@kernel
def give_up(memory, sender, now):
    """Go on to the next request without an answer to this one."""
    memory[sender + S_TIMEOUTS] += 1
    _go_on(memory, sender, now)


@kernel
def on_answer(memory, sender, now, ident):
    """Take in an answer that the process has read."""
    if memory[sender + S_PHASE] != WAITS or memory[sender + S_INDEX] != ident:
        memory[sender + S_DISREGARDED] += 1
        return
    memory[sender + S_ANSWERED] += 1
    sent = memory[sender + S_BEGIN]
    count_time(memory, sender + S_TRIP_SUM, now - sent)
    if memory[sender + S_LOGGED]:
        log_answer(memory, memory[sender + S_NUMBER], ident, sent, now)
    _go_on(memory, sender, now)
