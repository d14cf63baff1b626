"""Latent error detection of IEEE Std 802.1CB-2017, 7.4.4: tell that a path is silently gone.

Where n member paths deliver every packet, (n - 1) x passed packets are discarded. The difference
between the two is compared, every period, with what it was when it was last taken as the base.

As in :mod:`tsnrepro.model.recovery` two writings stand side by side: :class:`LatentErrorDetection`
follows the text (LatentErrorTest, 7.4.4.4, and LatentErrorReset, 7.4.4.3), whoever calls them;
:func:`detect` works on a flat array, finds out by itself which calls are due, and is compiled.
Times are in whatever unit the caller uses, the same for all.
"""

from typing import Final

from tsnrepro.model.recovery import R_DISCARDED, R_PASSED, Registers

__all__ = ["MOST_ALARMS", "LatentErrorDetection", "detect", "new_latent", "read_alarms"]

MOST_ALARMS: Final = 1024
"""Alarms that are kept with their times; those beyond are counted only."""

# Registers of one detection, as offsets from its base in a flat array.
LE_PERIOD: Final = 0
LE_RESET_PERIOD: Final = 1
LE_NEXT_TEST: Final = 2
LE_NEXT_RESET: Final = 3
LE_STOP: Final = 4
LE_PATHS: Final = 5
LE_DIFFERENCE: Final = 6
LE_BASE: Final = 7
LE_TESTS: Final = 8
LE_ALARMS: Final = 9
LE_ROWS: Final = 10
ALARM_WORDS: Final = 2


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


def new_latent(paths: int, difference: int, period: int, reset_period: int, stop: int) -> list[int]:
    """Return the registers of one detection for :func:`detect`; it ends with ``stop``."""
    return [
        period,
        reset_period,
        period,
        reset_period,
        stop,
        paths,
        difference,
        *[0] * (LE_ROWS - LE_BASE + MOST_ALARMS * ALARM_WORDS),
    ]


def detect(registers: Registers, base: int, function: int, now: int) -> None:
    """Make all tests and resets that are due by ``now``, which must not go back.

    ``function`` is the base of the recovery function's registers in the same array; its counters
    must not have changed since the earliest call that is due.
    """
    last = min(now, registers[base + LE_STOP])
    while min(registers[base + LE_NEXT_TEST], registers[base + LE_NEXT_RESET]) <= last:
        passed, discarded = registers[function + R_PASSED], registers[function + R_DISCARDED]
        missing = passed * (registers[base + LE_PATHS] - 1) - discarded
        if registers[base + LE_NEXT_TEST] <= registers[base + LE_NEXT_RESET]:
            time = registers[base + LE_NEXT_TEST]
            moved = missing - registers[base + LE_BASE]
            if abs(moved) > registers[base + LE_DIFFERENCE]:
                kept = registers[base + LE_ALARMS]
                if kept < MOST_ALARMS:
                    row = base + LE_ROWS + kept * ALARM_WORDS
                    registers[row] = time
                    registers[row + 1] = moved
                registers[base + LE_ALARMS] = kept + 1
            registers[base + LE_TESTS] += 1
            registers[base + LE_NEXT_TEST] = time + registers[base + LE_PERIOD]
        else:
            registers[base + LE_BASE] = missing
            registers[base + LE_NEXT_RESET] += registers[base + LE_RESET_PERIOD]


def read_alarms(registers: Registers, base: int) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the number of tests, of alarms, and the first alarms as (time, moved)."""
    alarms = int(registers[base + LE_ALARMS])
    rows = range(base + LE_ROWS, base + LE_ROWS + min(alarms, MOST_ALARMS) * ALARM_WORDS, 2)
    kept = [(int(registers[row]), int(registers[row + 1])) for row in rows]
    return int(registers[base + LE_TESTS]), alarms, kept
