"""How the kernels are compiled: once, cached on disk, and never from a stale cache.

numba's disk cache looks only at the file of the function it stores, so a kernel stored whole would
outlive a change in a kernel of another file that it calls. Here only entry points are stored, and
each is a closure over a digest of every source file of the model, which numba makes part of the
key.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

__all__ = ["SOURCE_DIGEST", "entry_point", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def _digest() -> int:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


SOURCE_DIGEST = _digest()
"""56 bits of the SHA-256 of the model's source files."""


def kernel(function: F) -> F:
    """Compile a function that other kernels call; it is stored as part of them."""
    return njit(function)


def entry_point(function: F) -> F:
    """Compile a closure over :data:`SOURCE_DIGEST` that Python calls, and store it on disk.

    Raises ValueError for a function that closes over nothing: it could be loaded stale.
    """
    cells = function.__closure__ or ()
    if SOURCE_DIGEST not in [cell.cell_contents for cell in cells]:
        raise ValueError(f"{function.__name__} must close over SOURCE_DIGEST")
    return njit(cache=True)(function)
