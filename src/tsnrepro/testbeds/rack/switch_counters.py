"""Counters of a switch that frerctl does not run, in the shape of frerctl's."""

import json
from typing import Any

from tsnrepro.testbeds.rack.host import RackHost
from tsnrepro.testbeds.rack.shell import Shell
from tsnrepro.tools import kernel


def station(frames: int) -> dict[str, int]:
    """Return a count of the stream's frames; nobody counts its bytes there."""
    return {"frames": frames, "bytes": 0, "stream_frames": frames, "stream_fragments": 0}


def merge_kernel_counters(counters: dict[str, Any], shell: Shell, names: RackHost) -> str:
    """Return a switch's counters with its kernel's, as ``read_host`` of tools.counters reads them.

    ``names`` has the devices by the names of the topology, which stand for them in the kernel's.
    """
    # The kernel's part has an empty object in front, which is the switch's to fill.
    kernels = shell.read(kernel.snapshot("", "")).split(kernel.SEPARATOR, 1)[1]
    return f"{json.dumps(counters)}\n{kernel.SEPARATOR}{names.in_topology(kernels)}"
