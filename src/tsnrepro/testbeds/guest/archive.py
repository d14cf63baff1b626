"""Archives in cpio's ``newc`` format, which the Linux kernel unpacks as its initial file system.

The format: Linux documentation, "initramfs buffer format" (driver-api/early-userspace).
Inode numbers, owners and times are fixed, so the same content results in the same bytes. Archives
may be concatenated; a later one adds to an earlier one.
"""

import stat
from pathlib import PurePosixPath

_TRAILER = "TRAILER!!!"
_ALIGNMENT = 4
# The kernel expects the start of an archive at a multiple of this.
_BLOCK = 512


class Archive:
    """Files, folders and symbolic links of an archive.

    Paths are absolute paths in the guest; the parent folders of a path are added automatically.
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, bytes]] = {}

    def __contains__(self, path: str) -> bool:
        return path.strip("/") in self._entries

    def paths(self) -> list[str]:
        """Return all paths, including folders, in the order of the archive."""
        return [f"/{path}" for path in sorted(self._entries)]

    def folder(self, path: str) -> None:
        """Add a folder and its parents."""
        name = path.strip("/")
        for parent in [*reversed(PurePosixPath(name).parents), PurePosixPath(name)]:
            if str(parent) != ".":
                self._entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b""))

    def file(self, path: str, content: bytes, mode: int = 0o755) -> None:
        """Add a file, replacing one of the same path."""
        self._add(path, stat.S_IFREG | mode, content)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def _add(self, path: str, mode: int, content: bytes) -> None:
        self.folder(str(PurePosixPath(path).parent))
        self._entries[path.strip("/")] = (mode, content)

    def to_bytes(self) -> bytes:
        """Return the archive, padded to a whole number of blocks."""
        parts = [
            _entry(number, name, *self._entries[name])
            for number, name in enumerate(sorted(self._entries), start=1)
        ]
        parts.append(_entry(0, _TRAILER, 0, b""))
        return _padded(b"".join(parts), _BLOCK)


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    # inode, mode, uid, gid, nlink, mtime, size, device (2), rdevice (2), length of name, check
    fields = (inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + "".join(f"{value:08X}" for value in fields).encode()
    return _padded(header + encoded, _ALIGNMENT) + _padded(content, _ALIGNMENT)


def _padded(data: bytes, unit: int) -> bytes:
    return data + b"\0" * (-len(data) % unit)
