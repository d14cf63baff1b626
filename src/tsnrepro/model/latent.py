"""Latent error detection of IEEE Std 802.1CB-2017, 7.4.4: tell that a path is silently gone.

Where n member paths deliver every packet, (n - 1) x passed packets are discarded. The difference
between the two is compared, every period, with what it was when it was last taken as the base.

LatentErrorTest (7.4.4.4) and LatentErrorReset (7.4.4.3) work on a record, find out by themselves
when they are due, and are compiled.
Times are in whatever unit the caller uses, the same for all.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tsnrepro.model import layout as at

MOST_ALARMS: Final = 1024
"""Alarms that are kept with their times; those beyond are counted only."""


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
    detection = at.latent(memory, address)
    last = min(now, detection.stop)
    while min(detection.next_test, detection.next_reset) <= last:
        missing = function.passed * (detection.paths - 1) - function.discarded
        if detection.next_test <= detection.next_reset:
            moved = missing - detection.normal
            if abs(moved) > detection.difference:
                if detection.alarms < MOST_ALARMS:
                    alarm = at.alarm(memory, detection.rows + detection.alarms * at.ALARM_WORDS)
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
    detection = at.latent(memory, address)
    kept = min(int(detection.alarms), MOST_ALARMS)
    end = detection.rows + kept * at.ALARM_WORDS
    alarms = memory[detection.rows : end].view(at.ALARM).tolist()
    return int(detection.tests), int(detection.alarms), alarms
