"""The talker of a ping-pong: it waits for the answer to its request, but not for ever.

Between the entry of a request and its answer (or time-out) the sender is in the phase *waits*; its
event is then the time-out. An answer comes up from the receiving side of the host at the time at
which the process has read it; one that comes at the very instant of the time-out is in time.
"""

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import kernel
from tsnrepro.model.rows import count_time, log_answer
from tsnrepro.model.senders import plan_call


@kernel
def await_answer(sender):
    """Wait, now that the request is in the queue."""
    sender.phase = at.WAITS
    sender.next += sender.timeout


@kernel
def _go_on(memory, sender, now):
    sender.free = now
    sender.due = sender.begin + sender.step
    sender.index += 1
    plan_call(memory, sender)


@kernel
def give_up(memory, sender, now):
    """Go on to the next request without an answer to this one."""
    sender.timeouts += 1
    _go_on(memory, sender, now)


@kernel
def on_answer(memory, sender, now, ident):
    """Take in an answer that the process has read."""
    if sender.phase != at.WAITS or sender.index != ident:
        sender.disregarded += 1
        return
    sender.answered += 1
    sent = sender.begin
    count_time(memory, sender.round_trip, now - sent)
    if sender.logged:
        log_answer(memory, sender.number, ident, sent, now)
    _go_on(memory, sender, now)
