"""What a program wrote to a terminal, as who sits before it reads it."""

import os
import select

CLEARED = "\r\x1b[K"


def said_to(terminal: int, *, until: str, times: int = 1) -> str:
    """Return what arrives, piece by piece, until a text stood there so many times."""
    said = ""
    while said.count(until) < times and select.select([terminal], [], [], 10)[0]:
        said += os.read(terminal, 10_000).decode()
    return said
