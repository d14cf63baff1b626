"""dumpcap, Wireshark's capture program: frames of one device into a pcapng file."""

import re
from dataclasses import dataclass

from tsnrepro.common.errors import ToolError

# It prints this line last before it captures.
READY = "File:"
# How long it may hold back what the kernel has captured (its CAP_READ_TIMEOUT), doubled.
FLUSH_SECONDS = 0.5
# A capture's own errors go where its readiness is read.
COMMAND = 'exec dumpcap -q "$@" 2>&1'

_TOTALS = re.compile(r"received/dropped on interface '[^']*': (\d{1,18})/(\d{1,18})\b")


@dataclass(frozen=True)
class Totals:
    """Frames that came to the capture, and those of them that it missed."""

    received: int
    dropped: int


def capture(
    device: str, path: str, source: str, *, snap_bytes: int, buffer_mib: int, file_mib: int
) -> list[str]:
    """Return the command that captures the frames with a source address into a pcapng file.

    The filter goes by address, not by direction: frames that the kernel had taken before the
    filter was in place are filtered by libpcap itself, which knows no direction and drops all.
    The capture ends by itself when the file has ``file_mib``, so that it cannot fill the memory.
    """
    limits = ["-s", str(snap_bytes), "-B", str(buffer_mib), "-a", f"filesize:{file_mib * 1024}"]
    arguments = ["-i", device, "-f", f"ether src {source}", *limits, "-w", path]
    return ["sh", "-c", COMMAND, "dumpcap", *arguments]


def parse_totals(text: str) -> Totals:
    """Return the totals that it prints at its end.

    Raises
    ------
    ToolError
        It ended without them.
    """
    found = _TOTALS.search(text)
    if found is None:
        raise ToolError(f"dumpcap printed no totals but: {text.strip()[:300] or 'nothing'}")
    return Totals(int(found[1]), int(found[2]))
