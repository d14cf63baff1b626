"""Elimination by IEEE Std 802.1CB-2017: sequence recovery and latent error detection.

Sequence recovery (7.4.3) has the vector and the match algorithm and the counters of clause 10.
Latent error detection (7.4.4) reports member paths that are down: where n member paths deliver
every packet, (n - 1) x passed packets are discarded; the difference between the two is compared,
every period, with its value at the last reset.

The functions work on records in one flat array of integers (the memory of
:mod:`tsnrepro.model.layout`), both in Python and compiled by numba. Times are in any unit, the same
for all functions.

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
- *Resets* counts each reset of a running function: by its timer, or because its switch was
  restarted. The first start counts in the data plane only, before any trial.
- The reset timer expires at the instant ``last reload + timeout``; a frame that arrives at that
  very instant finds the function reset.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.model import layout
from tsnrepro.model.compiled import words_of

SEQUENCE_SPACE: Final = 65_536
"""Numbers an R-TAG can carry (IEEE Std 802.1CB-2017, 7.8)."""

NO_SEQUENCE: Final = -1
"""Argument of :func:`recover` for a frame without an R-TAG."""

NEVER: Final = -1
"""Deadline of a reset timer that does not run."""

MAX_ALARMS: Final = 1024
"""Alarms of latent error detection whose times are kept; further ones are only counted."""


@register_jitable
def signed_distance(seq: int, last: int) -> int:
    """Return how far ``seq`` is ahead of ``last``, in -32768 ... 32767, modulo 2^16.

    Source: IEEE Std 802.1CB-2017, 7.4.3.4 (the difference taken as a signed number of the width
    of the sequence space).
    """
    return ((seq - last + 32_768) & 0xFFFF) - 32_768


def lost_before_start(history_length: int, highest_ahead: int) -> int:
    """Return the part of the lost counter that is due to numbers before the first accepted one.

    ``highest_ahead`` is the distance from the number accepted first to the highest one passed
    since. The cleared history has ``history_length - 1`` zeros; those shifted out count.
    """
    return min(history_length - 1, max(0, highest_ahead))


def recovery_fields(
    history_length: int,
    reset_timeout: int | None,
    *,
    match: bool = False,
    take_no_sequence: bool = False,
    individual: bool = False,
) -> dict[str, int]:
    """Return the fields of a freshly started recovery function's record, except ``history``.

    ``reset_timeout`` is in the unit of the times given to :func:`recover`.
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
    """Return the memory of one recovery function (:func:`recovery_fields`) at address 0."""
    words = words_of(layout.RECOVERY)
    memory = np.zeros(words + history_length, np.int64)
    function = layout.recovery(memory, 0)
    function.history = words
    for name, value in recovery_fields(history_length, reset_timeout, **options).items():
        function[name] = value
    return memory


def read_counters(memory: npt.NDArray[np.int64], address: int = 0) -> dict[str, int]:
    """Return the clause 10 counters of the recovery function at an address, by name."""
    function = layout.recovery(memory, address)
    return {name: int(function[name]) for name in RECOVERY_COUNTERS}


@register_jitable
def expire(memory: Any, address: int, now: int) -> None:
    """Advance the reset timer of the function at an address to ``now``."""
    function = layout.recovery(memory, address)
    if function.deadline != NEVER and now >= function.deadline:
        _reset(function)


@register_jitable
def restart(memory: Any, address: int, now: int) -> None:
    """Restart the function at an address at ``now``, as its switch does; counters are kept.

    It counts as a reset, after one that was due before.
    """
    expire(memory, address, now)
    _reset(layout.recovery(memory, address))


@register_jitable
def _reset(function: Any) -> None:
    function.resets += 1
    function.take_any = 1
    function.last = SEQUENCE_SPACE - 1
    function.deadline = NEVER


@register_jitable
def recover(memory: Any, address: int, seq: int, now: int) -> bool:
    """Return whether the frame numbered ``seq`` passes the function at an address, and count it.

    ``memory`` is an int64 array (in compiled code, or its pointer), ``seq`` is 0 ... 65535 or
    :data:`NO_SEQUENCE`, ``now`` must not decrease. The history is a ring with the newest element at
    the head, so a frame in order needs no shift.
    """
    expire(memory, address, now)
    function = layout.recovery(memory, address)
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


@register_jitable
def _take_any(memory: Any, function: Any, seq: int) -> None:
    function.take_any = 0
    function.last = seq
    function.head = 0
    for bit in range(function.length):
        memory[function.history + bit] = 0
    memory[function.history] = 1


@register_jitable
def _match(function: Any, seq: int) -> bool:
    delta = signed_distance(seq, function.last)
    if delta == 0:
        function.discarded += 1
        return False
    if delta != 1:
        function.out_of_order += 1
    function.last = seq
    return True


@register_jitable
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
        # The element after the head is the oldest, which a shift discards.
        function.lost += 1 - memory[history + head]
        memory[history + head] = 0
    memory[history + head] = 1
    function.head = head
    function.last = seq
    return True


# --- latent errors and restarts ---------------------------------------------------------------


def latent_fields(
    paths: int, difference: int, period: int, reset_period: int, stop: int
) -> dict[str, int]:
    """Return the fields of a detection's record, except ``rows``; it ends at ``stop``."""
    return {
        "period": period,
        "reset_period": reset_period,
        "next_test": period,
        "next_reset": reset_period,
        "stop": stop,
        "paths": paths,
        "difference": difference,
    }


@register_jitable
def detect_latent_errors(memory: Any, address: int, function: Any, now: int) -> None:
    """Run LatentErrorTest (7.4.4.4) and LatentErrorReset (7.4.4.3) as often as due by ``now``.

    ``address`` is that of the detection's record; ``now`` must not decrease. ``function`` is the
    record of the recovery function, whose counters must not have changed since the earliest due
    call.
    """
    detection = layout.latent(memory, address)
    last = min(now, detection.stop)
    while min(detection.next_test, detection.next_reset) <= last:
        missing = function.passed * (detection.paths - 1) - function.discarded
        if detection.next_test <= detection.next_reset:
            moved = missing - detection.normal
            if abs(moved) > detection.difference:
                if detection.alarms < MAX_ALARMS:
                    alarm = layout.alarm(
                        memory, detection.rows + detection.alarms * layout.ALARM_WORDS
                    )
                    alarm.time, alarm.moved = detection.next_test, moved
                detection.alarms += 1
            detection.tests += 1
            detection.next_test += detection.period
        else:
            detection.normal = missing
            detection.next_reset += detection.reset_period


def read_alarms(
    memory: npt.NDArray[np.int64], address: int
) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the number of tests, of alarms, and the first alarms as (time, moved)."""
    detection = layout.latent(memory, address)
    kept = min(int(detection.alarms), MAX_ALARMS)
    end = detection.rows + kept * layout.ALARM_WORDS
    alarms = memory[detection.rows : end].view(layout.ALARM).tolist()
    return int(detection.tests), int(detection.alarms), alarms


@register_jitable
def run_due_events(memory: Any, address: int, now: int) -> None:
    """Run latent error detection and restarts of the elimination at an address up to ``now``.

    ``now`` must not decrease. The first of the elimination's functions is the compound one; its
    counters must not have changed since the earliest due event.
    """
    elimination = layout.elimination(memory, address)
    first = elimination.functions
    if elimination.latent != layout.NONE:
        detect_latent_errors(
            memory, elimination.latent, layout.recovery(memory, memory[first]), now
        )
    while elimination.restart < elimination.restarts_end:
        time = memory[elimination.restart]
        if time > now:
            break
        for place in range(first, first + elimination.function_count):
            restart(memory, memory[place], time)
        elimination.restart += 1
