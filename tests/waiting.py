"""Waiting for what another process or thread is about to do."""

import time


def soon(condition, within_s):
    """Tell whether a condition holds within some seconds."""
    end = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return bool(met)
