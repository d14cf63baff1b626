"""Where what is built once for guests lies: in the Python environment, as other builds do."""

import sys
from pathlib import Path


def folder(name: str) -> Path:
    """Return a folder of the cache, made when it is missing."""
    path = Path(sys.prefix) / "libexec" / "tsnrepro" / "guest" / name
    path.mkdir(parents=True, exist_ok=True)
    return path
