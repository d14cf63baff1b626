"""FRER in eBPF: the programs, see :func:`tsnrepro.native.programs.program`."""

from pathlib import Path

from tsnrepro.native import programs


def frerctl() -> Path:
    """Return the path of frerctl, beside which its eBPF objects lie."""
    return programs.program("frerctl")


def delayline() -> Path:
    """Return the path of the delay line."""
    return programs.program("delayline")


def source_digest() -> str:
    """Return the SHA-256 (first 16 hex digits) over the sources of this folder."""
    return programs.source_digest("frer")
