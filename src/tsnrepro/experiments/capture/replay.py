"""Replay of the recovery function over the order of arrival in a capture.

Source: IEEE Std 802.1CB-2017, 7.4.3 and the counters of clause 10, as written in
:mod:`tsnrepro.model.recovery`; here compiled, for captures of millions of frames.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from tsnrepro.config.frer import RECOVERY_COUNTERS, FrerSettings
from tsnrepro.experiments.capture.counters import ReadingTimes
from tsnrepro.experiments.capture.sequence_numbers import Arrivals
from tsnrepro.model.compiled import SOURCE_DIGEST
from tsnrepro.model.recovery import expire, new_registers, read_counters, recover

# Possible delays of one path against the other between the capture and the recovery function.
_DELAYS_NS: Final = tuple(
    sign * delay for delay in (1_000, 10_000, 50_000, 200_000, 1_000_000) for sign in (1, -1)
)


def _make_replay(digest: int) -> Any:
    # Closed over the digest of the model's sources, so that numba never loads an outdated recovery
    # function from its cache.
    @njit(cache=True, nogil=True)
    def over(registers, sequence, time_ns):
        passed = np.zeros(len(sequence), np.bool_)
        if digest != 0:
            for i in range(len(sequence)):
                passed[i] = recover(registers, 0, sequence[i], time_ns[i])
        return passed

    return over


_replay = _make_replay(SOURCE_DIGEST)


def replay(
    arrivals: Arrivals, variables: FrerSettings, read_ns: int | None = None
) -> tuple[dict[str, int], np.ndarray]:
    """Return the counters of clause 10 and which of the arrivals pass (bool, shape (frames,)).

    ``read_ns`` is when the counters were read, on the captures' clock: the reset timer is advanced
    to that time. Without it, it stays as after the last frame.
    """
    registers = new_registers(
        variables.history_length,
        variables.reset_ms * 1_000_000,
        match=variables.algorithm == "match",
        take_no_sequence=variables.take_no_sequence,
    )
    passed = _replay(registers, arrivals.number & 0xFFFF, arrivals.time_ns)
    if read_ns is not None:
        expire(registers, 0, read_ns)
    return read_counters(registers), passed


def replay_orders(
    arrivals: Arrivals, variables: FrerSettings, paths: int, read: ReadingTimes | None = None
) -> list[dict[str, int]]:
    """Return the increments of the counters, for possible orders of arrival.

    A capture before the recovery function has the order of each path, but not the interleaving of
    two paths at the recovery function. Each path in turn is assumed to be up to 1 ms later, or
    earlier, than its time stamps. If nothing is missing or out of order on any path, the counters
    do not depend on it. Frames and expired timers during a reading of the counters may count or
    not.

    ``arrivals`` has all captured frames, including those after the last reading.
    """
    orders = [arrivals]
    for path in range(1, paths):
        orders += [arrivals.delayed(path, by) for by in _DELAYS_NS]
    return [counts for order in orders for counts in _increments(order, variables, read)]


def _increments(
    order: Arrivals, variables: FrerSettings, read: ReadingTimes | None
) -> list[dict[str, int]]:
    """Return the increments of the counters for the begin and the end of each reading."""
    if read is None:
        return [replay(order, variables)[0]]
    begins, ends = (
        [replay(order.until(at), variables, at)[0] for at in times]
        for times in (read.before_ns, read.after_ns)
    )
    return [{n: end[n] - begin[n] for n in RECOVERY_COUNTERS} for begin in begins for end in ends]
