"""The software bridge: its programs, see :func:`tsnrepro.native.programs.program`."""

from pathlib import Path

from tsnrepro.native import programs


def tsn_bridge() -> Path:
    """Return the path of the bridge; it needs DPDK."""
    return programs.program("tsn-bridge")


def bridge_replay() -> Path:
    """Return the path of bridge-replay."""
    return programs.program("bridge-replay")


def tagger() -> Path:
    """Return the path of the eBPF object that tags a host's frames."""
    return programs.program("tag.bpf.o")
