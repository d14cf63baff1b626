"""Sequence recovery of IEEE Std 802.1CB-2017: vector and match, with the counters of clause 10.

The functions work on a record in one flat array of integers (the memory of
:mod:`tsnrepro.model.layout`), in Python and compiled by numba alike; the history is a ring.

Decisions where implementations differ, or where the text leaves a choice:

- A number ``delta`` away from the last one is *rogue* when ``delta >= L`` or ``delta <= -L`` for a
  history of length L. Rogue frames are discarded and counted as rogue only.
- *Discarded* counts repeats only, so that received = passed + discarded + rogue, plus tagless
  where untagged frames are not taken.
- An untagged frame counts as *tagless*. With ``take_no_sequence`` it is also passed, and as an
  accepted packet it reloads the reset timer.
- *Lost* counts zero bits that leave the history. Taking any number clears the history and sets its
  first bit only, so the L - 1 numbers before it count as lost once they are shifted out: the
  counter overstates by L - 1 after each start and each reset that more than L frames follow.
  :func:`lost_before_start` gives the overstatement.
- *Resets* counts each reset of a function that ran: by its timer, or because its switch was
  restarted. What starts a function for the first time counts in the data plane only, before any
  trial.
- The reset timer expires at the instant ``last reload + timeout``; a frame that arrives at that
  very instant finds the function reset.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.model import layout as at
from tsnrepro.model.compiled import words_of

SEQUENCE_SPACE: Final = 65_536
"""Numbers an R-TAG can carry (IEEE Std 802.1CB-2017, 7.8)."""

NO_SEQUENCE: Final = -1
"""What :func:`recover` takes for a frame without an R-TAG."""

NEVER: Final = -1
"""A reset timer that does not run."""


def signed_distance(seq: int, last: int) -> int:
    """Return how far ``seq`` is ahead of ``last``, in -32768 ... 32767, modulo 2^16.

    Source: IEEE Std 802.1CB-2017, 7.4.3.4 (the difference taken as a signed number of the width
    of the sequence space).
    """
    return ((seq - last + 32_768) & 0xFFFF) - 32_768


def lost_before_start(history_length: int, highest_ahead: int) -> int:
    """Return the lost count that only reflects numbers sent before the first accepted one.

    ``highest_ahead`` is the distance from the number accepted first to the highest one passed
    since. The cleared history holds ``history_length - 1`` zeros, of which those shifted out count.
    """
    return min(history_length - 1, max(0, highest_ahead))


def started(
    history_length: int,
    reset_timeout: int | None,
    *,
    match: bool = False,
    take_no_sequence: bool = False,
    individual: bool = False,
) -> dict[str, int]:
    """Return the fields of a recovery function's record, freshly started, but for ``history``.

    ``reset_timeout`` is in the same unit as the times given to :func:`recover`, whatever that is.
    """
    return {
        "match": int(match),
        "length": history_length,
        "timeout": NEVER if reset_timeout is None else reset_timeout,
        "take_no_sequence": int(take_no_sequence),
        "individual": int(individual),
        "take_any": 1,
        "last": SEQUENCE_SPACE - 1,
        "deadline": NEVER,
    }


def new_registers(
    history_length: int, reset_timeout: int | None = None, **options: bool
) -> npt.NDArray[np.int64]:
    """Return a memory of one recovery function at address 0, as :func:`started` describes it."""
    words = words_of(at.RECOVERY)
    memory = np.zeros(words + history_length, np.int64)
    function = at.recovery(memory, 0)
    function.history = words
    for name, value in started(history_length, reset_timeout, **options).items():
        function[name] = value
    return memory


def read_counters(memory: npt.NDArray[np.int64], address: int = 0) -> dict[str, int]:
    """Return the clause 10 counters of the recovery function at an address, by name."""
    function = at.recovery(memory, address)
    return {name: int(function[name]) for name in RECOVERY_COUNTERS}


def expire(memory: Any, address: int, now: int) -> None:
    """Let the reset timer of the function at an address run up to ``now``."""
    function = at.recovery(memory, address)
    if function.deadline != NEVER and now >= function.deadline:
        _reset(function)


def restart(memory: Any, address: int, now: int) -> None:
    """Start the function at an address anew at ``now``, as its switch does; counters go on.

    That counts as a reset, and one that was due before is made first.
    """
    expire(memory, address, now)
    _reset(at.recovery(memory, address))


def _reset(function: Any) -> None:
    function.resets += 1
    function.take_any = 1
    function.last = SEQUENCE_SPACE - 1
    function.deadline = NEVER


def recover(memory: Any, address: int, seq: int, now: int) -> bool:
    """Tell whether the frame numbered ``seq`` passes the function at an address, and count it.

    ``memory`` is an int64 array (in compiled code, or its pointer), ``seq`` is 0 ... 65535 or
    :data:`NO_SEQUENCE`, ``now`` must not go back. The history is a ring whose newest element stands
    at the head, so a frame in order costs one look and no shift.
    """
    expire(memory, address, now)
    function = at.recovery(memory, address)
    if seq == NO_SEQUENCE:
        function.tagless += 1
        passed = bool(function.take_no_sequence)
    elif function.take_any:
        _take_any(memory, function, seq)
        passed = True
    elif function.match:
        passed = _match(function, seq)
    else:
        passed = _vector(memory, function, seq)
    if passed:
        function.passed += 1
    reload = passed or (function.individual != 0 and seq != NO_SEQUENCE)
    if reload and function.timeout != NEVER:
        function.deadline = now + function.timeout
    return passed


def _take_any(memory: Any, function: Any, seq: int) -> None:
    function.take_any = 0
    function.last = seq
    function.head = 0
    for bit in range(function.length):
        memory[function.history + bit] = 0
    memory[function.history] = 1


def _match(function: Any, seq: int) -> bool:
    delta = signed_distance(seq, function.last)
    if delta == 0:
        function.discarded += 1
        return False
    if delta != 1:
        function.out_of_order += 1
    function.last = seq
    return True


def _vector(memory: Any, function: Any, seq: int) -> bool:
    length, history = function.length, function.history
    delta = signed_distance(seq, function.last)
    if delta >= length or delta <= -length:
        function.rogue += 1
        return False
    head = function.head
    if delta <= 0:
        place = history + (head + delta) % length
        if memory[place]:
            function.discarded += 1
            return False
        memory[place] = 1
        function.out_of_order += 1
        return True
    if delta != 1:
        function.out_of_order += 1
    for _ in range(delta):
        head += 1
        if head == length:
            head = 0
        # The element after the head is the oldest: the one a shift pushes out.
        function.lost += 1 - memory[history + head]
        memory[history + head] = 0
    memory[history + head] = 1
    function.head = head
    function.last = seq
    return True
