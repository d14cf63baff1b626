"""Sequence recovery of IEEE Std 802.1CB-2017: vector and match, with the counters of clause 10.

Two writings of the same procedures stand side by side:

- :class:`VectorRecovery` and :class:`MatchRecovery` are plain and slow. The history is a list, a
  shift moves every element, and the text follows clause 7.4.3 step by step. They need nothing but
  Python and are the reference for anything faster.
- :func:`recover` does the same on a record in one flat array of integers (the memory of
  :mod:`tsnrepro.model.layout`), with a ring for the history, so that numba can compile it
  unchanged. The engine of the model runs this one.

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

from tsnrepro.model.compiled import words_of
from tsnrepro.model.layout import RECOVERY, recovery_at

__all__ = [
    "COUNTERS",
    "SEQUENCE_SPACE",
    "MatchRecovery",
    "VectorRecovery",
    "expire",
    "lost_before_start",
    "new_registers",
    "read_counters",
    "recover",
    "restart",
    "signed_distance",
    "started",
]


SEQUENCE_SPACE: Final = 65_536
"""Numbers an R-TAG can carry (IEEE Std 802.1CB-2017, 7.8)."""

COUNTERS: Final = (
    "out_of_order",
    "rogue",
    "passed",
    "discarded",
    "lost",
    "tagless",
    "resets",
)
"""Counter names in the order of IEEE Std 802.1CB-2017, 10.8."""

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


class _Reference:
    """What both plain recovery functions share: counters, the reset timer, untagged frames."""

    def __init__(
        self,
        reset_timeout_ns: int | None,
        take_no_sequence: bool,
        individual: bool,
    ) -> None:
        if reset_timeout_ns is not None and reset_timeout_ns <= 0:
            raise ValueError(
                f"reset_timeout_ns is {reset_timeout_ns}: give a positive time, or None for never"
            )
        self.reset_timeout_ns = reset_timeout_ns
        self.take_no_sequence = take_no_sequence
        self.individual = individual
        self.take_any = True
        self.last_seq = SEQUENCE_SPACE - 1
        self.counters: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self._deadline_ns: int | None = None

    def accept(self, seq: int | None, now_ns: int) -> bool:
        """Tell whether the frame that arrives at ``now_ns`` passes, and count it.

        ``seq`` is the number of its R-TAG, or None where it has none. Times must not go back.
        Raises ValueError for a number outside 0 ... 65535.
        """
        if seq is not None and not 0 <= seq < SEQUENCE_SPACE:
            raise ValueError(f"sequence number {seq} is outside 0 ... {SEQUENCE_SPACE - 1}")
        self.expire(now_ns)
        if seq is None:
            return self._accept_untagged(now_ns)
        if self.take_any:
            self.take_any = False
            self._take(seq)
            return self._pass(now_ns)
        return self._compare(seq, now_ns)

    def expire(self, now_ns: int) -> None:
        """Let the reset timer run up to ``now_ns``; call it before reading the counters."""
        if self._deadline_ns is not None and now_ns >= self._deadline_ns:
            self.reset()

    def reset(self) -> None:
        """Forget all numbers and take any next one (IEEE Std 802.1CB-2017, 7.4.3.3)."""
        self.counters["resets"] += 1
        self.take_any = True
        self.last_seq = SEQUENCE_SPACE - 1
        self._deadline_ns = None

    def _accept_untagged(self, now_ns: int) -> bool:
        self.counters["tagless"] += 1
        return self._pass(now_ns) if self.take_no_sequence else False

    def _pass(self, now_ns: int) -> bool:
        self.counters["passed"] += 1
        self._reload(now_ns)
        return True

    def _discard(self, counter: str, now_ns: int) -> bool:
        self.counters[counter] += 1
        if self.individual:
            self._reload(now_ns)
        return False

    def _reload(self, now_ns: int) -> None:
        if self.reset_timeout_ns is not None:
            self._deadline_ns = now_ns + self.reset_timeout_ns

    def _take(self, seq: int) -> None:
        raise NotImplementedError

    def _compare(self, seq: int, now_ns: int) -> bool:
        raise NotImplementedError


class VectorRecovery(_Reference):
    """Pass each number once, remembering the last ``history_length`` numbers.

    Source: IEEE Std 802.1CB-2017, 7.4.3.4 (VectorRecoveryAlgorithm) and 7.4.3.4.3
    (ShiftSequenceHistory). Plain Python, one list element a number: a reference, not for speed.
    Counters are in ``counters``, keyed as :data:`COUNTERS`.
    """

    def __init__(
        self,
        history_length: int = 64,
        reset_timeout_ns: int | None = None,
        *,
        take_no_sequence: bool = False,
        individual: bool = False,
    ) -> None:
        super().__init__(reset_timeout_ns, take_no_sequence, individual)
        if not 2 <= history_length <= SEQUENCE_SPACE // 2:
            raise ValueError(
                f"history_length is {history_length}: it must be 2 ... {SEQUENCE_SPACE // 2}"
            )
        self.history_length = history_length
        self.history = [0] * history_length

    def reset(self) -> None:
        """Forget all numbers, clear the history, and take any next number."""
        super().reset()
        self.history = [0] * self.history_length

    def _take(self, seq: int) -> None:
        self.history = [1] + [0] * (self.history_length - 1)
        self.last_seq = seq

    def _compare(self, seq: int, now_ns: int) -> bool:
        delta = signed_distance(seq, self.last_seq)
        if delta >= self.history_length or delta <= -self.history_length:
            return self._discard("rogue", now_ns)
        if delta <= 0:
            return self._look_back(-delta, now_ns)
        if delta != 1:
            self.counters["out_of_order"] += 1
        for _ in range(delta - 1):
            self._shift(0)
        self._shift(1)
        self.last_seq = seq
        return self._pass(now_ns)

    def _look_back(self, age: int, now_ns: int) -> bool:
        if self.history[age]:
            return self._discard("discarded", now_ns)
        self.history[age] = 1
        self.counters["out_of_order"] += 1
        return self._pass(now_ns)

    def _shift(self, newest: int) -> None:
        if self.history[-1] == 0:
            self.counters["lost"] += 1
        self.history = [newest, *self.history[:-1]]


class MatchRecovery(_Reference):
    """Drop a number only where it repeats the one accepted last.

    Source: IEEE Std 802.1CB-2017, 7.4.3.5 (MatchRecoveryAlgorithm). It never counts rogue or lost
    frames; both stay zero in ``counters``.
    """

    def __init__(
        self,
        reset_timeout_ns: int | None = None,
        *,
        take_no_sequence: bool = False,
        individual: bool = False,
    ) -> None:
        super().__init__(reset_timeout_ns, take_no_sequence, individual)

    def _take(self, seq: int) -> None:
        self.last_seq = seq

    def _compare(self, seq: int, now_ns: int) -> bool:
        if seq == self.last_seq:
            return self._discard("discarded", now_ns)
        if signed_distance(seq, self.last_seq) != 1:
            self.counters["out_of_order"] += 1
        self.last_seq = seq
        return self._pass(now_ns)


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
    words = words_of(RECOVERY)
    memory = np.zeros(words + history_length, np.int64)
    function = recovery_at(memory, 0)
    function.history = words
    for name, value in started(history_length, reset_timeout, **options).items():
        function[name] = value
    return memory


def read_counters(memory: npt.NDArray[np.int64], address: int = 0) -> dict[str, int]:
    """Return the clause 10 counters of the recovery function at an address, by name."""
    function = recovery_at(memory, address)
    return {name: int(function[name]) for name in COUNTERS}


def expire(memory: Any, address: int, now: int) -> None:
    """Let the reset timer of the function at an address run up to ``now``."""
    function = recovery_at(memory, address)
    if function.deadline != NEVER and now >= function.deadline:
        _reset(function)


def restart(memory: Any, address: int, now: int) -> None:
    """Start the function at an address anew at ``now``, as its switch does; counters go on.

    That counts as a reset, and one that was due before is made first.
    """
    expire(memory, address, now)
    _reset(recovery_at(memory, address))


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
    function = recovery_at(memory, address)
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
