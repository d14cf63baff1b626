"""Files that an audit reads again and again: parsed once as long as they do not change."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

_Content = TypeVar("_Content")


def cached_by_change(read: Callable[[Path], _Content]) -> Callable[[Path], _Content]:
    """Return a reader that reads a file again only when its time of change is another."""

    @lru_cache(maxsize=256)
    def cached(path: Path, _changed_ns: int) -> _Content:
        return read(path)

    @wraps(read)
    def reader(path: Path) -> _Content:
        return cached(path, path.stat().st_mtime_ns if path.is_file() else 0)

    return reader


def twice(names: Iterable[str]) -> list[str]:
    """Return the names that stand more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)
