"""dumpcap(1), Wireshark's capture program: frames of a device into a pcapng file."""

import re
from dataclasses import dataclass

from tsnrepro.common.errors import ToolError

# The last line that it prints before it captures.
READY = "File:"
# Twice the longest time that it may buffer captured frames (its CAP_READ_TIMEOUT).
FLUSH_SECONDS = 0.5
# Errors go to standard output, where the line of readiness is expected.
COMMAND = 'exec dumpcap -q "$@" 2>&1'

_TOTALS = re.compile(r"received/dropped on interface '[^']*': (\d{1,18})/(\d{1,18})\b")


@dataclass(frozen=True)
class Totals:
    """Frames received by the capture, and those of them that it dropped."""

    received: int
    dropped: int


def capture(
    device: str, path: str, source: str, *, snap_bytes: int, buffer_mib: int, file_mib: int
) -> list[str]:
    """Return the command that captures the frames of a source address into a pcapng file.

    The filter is by address, not by direction: libpcap itself filters the frames that the kernel
    received before the filter was set, and by direction it would drop them all. The capture ends
    when the file has ``file_mib``, so that it cannot exhaust the memory.
    """
    limits = ["-s", str(snap_bytes), "-B", str(buffer_mib), "-a", f"filesize:{file_mib * 1024}"]
    arguments = ["-i", device, "-f", f"ether src {source}", *limits, "-w", path]
    return ["sh", "-c", COMMAND, "dumpcap", *arguments]


def parse_totals(text: str) -> Totals:
    """Return the totals in its final output; ToolError if there are none."""
    found = _TOTALS.search(text)
    if found is None:
        raise ToolError(f"dumpcap printed no totals: {text.strip()[:300] or 'nothing'}")
    return Totals(int(found[1]), int(found[2]))
