"""Parsed files, cached until they are modified."""

from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

_Content = TypeVar("_Content")


def cached_by_mtime(read: Callable[[Path], _Content]) -> Callable[[Path], _Content]:
    """Return a reader that parses a file again only after its modification time changed."""

    @lru_cache(maxsize=256)
    def cached(path: Path, _mtime_ns: int) -> _Content:
        return read(path)

    @wraps(read)
    def reader(path: Path) -> _Content:
        return cached(path, path.stat().st_mtime_ns if path.is_file() else 0)

    return reader
