"""Latent error detection of IEEE Std 802.1CB-2017, 7.4.4: tell that a path is silently gone.

Where n member paths deliver every packet, (n - 1) x passed packets are discarded. The difference
between the two is compared, every period, with what it was when it was last taken as the base.

As in :mod:`tsnrepro.model.recovery` two writings stand side by side: :class:`LatentErrorDetection`
follows the text (LatentErrorTest, 7.4.4.4, and LatentErrorReset, 7.4.4.3), whoever calls them;
:func:`detect` works on a record, finds out by itself which calls are due, and is compiled.
Times are in whatever unit the caller uses, the same for all.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tsnrepro.model.layout import ALARM_WORDS, alarm_at, latent_at

__all__ = ["MOST_ALARMS", "LatentErrorDetection", "detect", "read_alarms", "started"]

MOST_ALARMS: Final = 1024
"""Alarms that are kept with their times; those beyond are counted only."""


class LatentErrorDetection:
    """The procedures of 7.4.4 on the counters of a stream's recovery function.

    ``paths`` is frerSeqRcvyLatentErrorPaths, ``difference`` frerSeqRcvyLatentErrorDifference
    (10.4.1.12). ``alarms`` lists (time, how far the difference has moved) of each signal.
    """

    def __init__(self, paths: int, difference: int) -> None:
        self.paths = paths
        self.difference = difference
        self.base = 0
        self.alarms: list[tuple[int, int]] = []

    def _missing(self, counters: dict[str, int]) -> int:
        return counters["passed"] * (self.paths - 1) - counters["discarded"]

    def reset(self, counters: dict[str, int]) -> None:
        """Take the present difference as the base (LatentErrorReset)."""
        self.base = self._missing(counters)

    def test(self, counters: dict[str, int], now: int) -> bool:
        """Tell whether there is a latent error, and note it (LatentErrorTest)."""
        moved = self._missing(counters) - self.base
        if abs(moved) <= self.difference:
            return False
        self.alarms.append((now, moved))
        return True


def started(
    paths: int, difference: int, period: int, reset_period: int, stop: int
) -> dict[str, int]:
    """Return the fields of a detection's record, but for ``rows``; it ends with ``stop``."""
    return {
        "period": period,
        "reset_period": reset_period,
        "next_test": period,
        "next_reset": reset_period,
        "stop": stop,
        "paths": paths,
        "difference": difference,
    }


def detect(memory: Any, address: int, function: Any, now: int) -> None:
    """Make all tests and resets of the detection at an address that are due by ``now``.

    ``now`` must not go back. ``function`` is the record of the recovery function; its counters must
    not have changed since the earliest call that is due.
    """
    detection = latent_at(memory, address)
    last = min(now, detection.stop)
    while min(detection.next_test, detection.next_reset) <= last:
        missing = function.passed * (detection.paths - 1) - function.discarded
        if detection.next_test <= detection.next_reset:
            moved = missing - detection.normal
            if abs(moved) > detection.difference:
                if detection.alarms < MOST_ALARMS:
                    alarm = alarm_at(memory, detection.rows + detection.alarms * ALARM_WORDS)
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
    detection = latent_at(memory, address)
    kept = min(int(detection.alarms), MOST_ALARMS)
    rows = memory[detection.rows : detection.rows + kept * ALARM_WORDS].reshape(-1, ALARM_WORDS)
    alarms = [(int(time), int(moved)) for time, moved in rows]
    return int(detection.tests), int(detection.alarms), alarms
