"""Talker, listener and stall meter, see :func:`tsnrepro.native.programs.program`."""

from pathlib import Path

from tsnrepro.native import programs


def talker() -> Path:
    """Return the path of the talker."""
    return programs.program("talker")


def listener() -> Path:
    """Return the path of the listener."""
    return programs.program("listener")


def stallmeter() -> Path:
    """Return the path of the stall meter."""
    return programs.program("stallmeter")
