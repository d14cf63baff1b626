"""How closely the doctor compares the clocks of hosts with this machine's."""

import time

import pytest

from tsnrepro.testbed.hardware.doctor import PASS, WARN, _clock_of


class Shell:
    """A host whose clock is off, and whose ``date`` may know whole seconds only."""

    def __init__(self, ahead_s, whole):
        self._ahead_s, self._whole = ahead_s, whole

    def read(self, argv):
        assert argv[0] == "date"
        now = time.time() + self._ahead_s
        return f"{int(now)}.%N\n" if self._whole else f"{now:.9f}\n"


@pytest.mark.parametrize(
    ("ahead_s", "whole", "verdict"),
    [
        *((0.0, False, PASS), (0.05, False, PASS), (-0.3, False, WARN), (0.3, False, WARN)),
        *((0.0, True, PASS), (1.7, True, WARN), (-1.7, True, WARN), (3600.0, True, WARN)),
    ],
)
def test_a_clock_that_is_off_is_found_as_closely_as_it_can_be_read(ahead_s, whole, verdict):
    found = _clock_of("sw1", Shell(ahead_s, whole))
    assert found.verdict == verdict
    assert "known within" in found.found
