"""Files of a data set: selected by pattern, read once, NUL bytes removed and counted.

Regular files below the folder are read, and links to such files inside the folder. Other entries
(links to folders, to nothing or out of the folder, FIFOs, sockets, devices, names that are not
printable UTF-8) are never opened; the report lists them.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.screening import HEAD_BYTES, NoMeasurementError, generated_mark
from tsnrepro.records.files import Batch

# Some shells write UTF-16 when a tool's output is redirected to a file.
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF_32_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
_FOR_TERMINALS = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# Spaces of tables and of web pages, from which outputs are copied.
_SPACES = {ord("\t"): " ", ord("\u00a0"): " "}
_LINE_ENDS = re.compile(r"\r+\n?")
_IGNORED_FOLDERS = (".git", "__pycache__")
# Packet logs are read in blocks that fit into the processor's cache, other files as a whole.
_BLOCK_BYTES = 1 << 21
_MAX_LINE_BYTES = 1 << 24
_MAX_WHOLE_BYTES = 1 << 26
# The content of larger files is released as soon as they are read.
_MAX_KEPT_BYTES = 1 << 22


class SourceFile:
    """One file: its path, content and SHA-256.

    Parameters
    ----------
    path
        The file.
    relative
        Its path below the data set's folder, with ``/`` between parts.

    Raises
    ------
    RecordError
        It is not a regular file, or cannot be opened.
    """

    def __init__(self, path: Path, relative: str) -> None:
        self.path, self.relative = path, relative
        self.parsed: dict[str, Any] = {}
        """Parsed content, for the next table that reads the same file."""
        with self._opened() as file:
            self._state = _state(file.fileno())
            self._first = file.read(HEAD_BYTES)

    def _opened(self):
        try:
            # Without O_NONBLOCK, opening a FIFO blocks until it has a writer.
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise RecordError(f"cannot be read: {error.strerror}", self.relative) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise RecordError("it is not a regular file", self.relative)
        return os.fdopen(handle, "rb", buffering=0)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._state[0]

    @cached_property
    def data(self) -> bytes:
        """The whole file.

        Raises
        ------
        NoMeasurementError
            It is larger than 64 MiB, which no file of a format that is read whole needs.
        """
        with self._opened() as file:
            data = file.read(_MAX_WHOLE_BYTES + 1)
            if len(data) > _MAX_WHOLE_BYTES:
                limit = f"{_MAX_WHOLE_BYTES >> 20} MiB"
                raise NoMeasurementError(f"it is larger than {limit}", "", "Split it")
            self._check_same(file.fileno())
        return data

    def _check_same(self, handle: int) -> None:
        if _state(handle) != self._state:
            raise RecordError(
                "the file changed while it was read",
                self.relative,
                "Import again when it is complete",
            )

    @cached_property
    def sha256(self) -> str:
        """The checksum of the file as it is, NUL bytes included."""
        if "data" in self.__dict__:
            return hashlib.sha256(self.data).hexdigest()
        with self._opened() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def known_sha256(self) -> str | None:
        """The checksum; None for a large file that was not read."""
        if "sha256" in self.__dict__ or self.size <= _MAX_WHOLE_BYTES:
            return self.sha256
        return None

    @property
    def _wide(self) -> str:
        """UTF-16 or UTF-32, if the file begins with a byte order mark of it; else empty."""
        if self._first[:4] in _UTF_32_MARKS:
            return "utf-32"
        return "utf-16" if self._first[:2] in _UTF_16_MARKS else ""

    @cached_property
    def nul_bytes(self) -> int:
        """The number of NUL bytes in a text, as left by a crash or a full disk."""
        if self._wide or ("data" not in self.__dict__ and self.size > _MAX_WHOLE_BYTES):
            return 0
        return self.data.count(0)

    @cached_property
    def clean(self) -> bytes:
        """The content as UTF-8 or ASCII without NUL bytes."""
        return self._cleaned(self.data)

    def _cleaned(self, data: bytes) -> bytes:
        if self._wide:
            return data.decode(self._wide, "replace").removeprefix("\ufeff").encode()
        return data.translate(None, b"\0")

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB, cleaned."""
        return self._cleaned(self._first)

    def blocks(self) -> Iterator[bytes]:
        """Yield the file in blocks of whole lines, cleaned.

        A second thread reads the next block and computes the checksum.

        Raises
        ------
        NoMeasurementError
            A line is longer than 16 MiB.
        """
        if self._wide == "utf-32":
            yield self.clean
            return
        digest, nul_bytes, rest = hashlib.sha256(), 0, b""
        wide = self._first[:2] if self._wide else b""
        with self._opened() as file, ThreadPoolExecutor(1) as pool:

            def read() -> bytes:
                raw = file.read(_BLOCK_BYTES)
                digest.update(raw)
                return raw

            ahead = pool.submit(read)
            while raw := ahead.result():
                ahead = pool.submit(read)
                if not wide and b"\0" in raw:
                    nul_bytes, raw = nul_bytes + raw.count(0), raw.translate(None, b"\0")
                if end := _line_end(raw, wide):
                    whole, rest = rest + raw[:end], raw[end:]
                    yield _narrow(whole, wide)
                    continue
                rest += raw
                if len(rest) > _MAX_LINE_BYTES:
                    raise NoMeasurementError("it has a line of more than 16 MiB")
            if rest:
                yield _narrow(rest, wide)
            self._check_same(file.fileno())
        self.__dict__ |= {"sha256": digest.hexdigest(), "nul_bytes": nul_bytes}

    def text(self, encoding: str = "utf-8") -> str:
        """Return the text without NUL bytes and byte order mark.

        Raises
        ------
        RecordError
            The bytes are not text in this encoding.
        """
        wide = encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32", "utf16", "utf32"))
        try:
            if wide or self._wide:
                text = self.data.decode(encoding if wide else self._wide)
            else:
                text = self.clean.decode(encoding)
            return text.removeprefix("\ufeff")
        except (ValueError, LookupError) as error:
            raise RecordError(
                f"not text in {encoding}: {error}"[:300],
                self.relative,
                "Set its encoding in the mapping (csv: {encoding: latin-1}), or store it as UTF-8",
            ) from error

    def tool_output(self) -> str:
        """Return the text of a tool's output, without what is for terminals alone.

        Bytes that are not UTF-8 are replaced, and spaces and ends of lines of other kinds.
        """
        text = self.clean.decode("utf-8", "replace").removeprefix("\ufeff")
        text = _FOR_TERMINALS.sub("", text) if "\x1b" in text else text
        text = _LINE_ENDS.sub("\n", text) if "\r" in text else text
        return text.translate(_SPACES) if "\t" in text or "\u00a0" in text else text

    def release(self) -> None:
        """Release the content of a large file; checksum and count of NUL bytes stay."""
        if self.size > _MAX_KEPT_BYTES and "data" in self.__dict__:
            _ = self.sha256, self.nul_bytes
            for name in ("data", "clean"):
                self.__dict__.pop(name, None)
        self.parsed.clear()

    def add_to(self, batch: Batch, final: Path) -> None:
        """Add the file, as it was read, to a batch.

        Raises
        ------
        RecordError
            The file has changed since it was read.
        """
        if "data" in self.__dict__:
            batch.file(final, self.data)
        else:
            with self._opened() as file:
                batch.copy(final, file)
                self._check_same(file.fileno())

    @cached_property
    def generated_mark(self) -> str | None:
        """The part of the file or its path that declares it generated, or None."""
        path = self.relative.replace("_", " ")
        return generated_mark(path) or generated_mark(self.head.decode("utf-8", "replace"))


def _state(handle: int) -> tuple[int, int, int]:
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns, found.st_ino


def _line_end(raw: bytes, wide: bytes) -> int:
    """Return where the last whole line of a block ends, 0 where none does."""
    if not wide:
        return raw.rfind(b"\n") + 1
    newline = "\n".encode("utf-16-le" if wide == _UTF_16_MARKS[0] else "utf-16-be")
    end = raw.rfind(newline)
    while end % 2 and end > 0:
        end = raw.rfind(newline, 0, end)
    return end + 2 if end >= 0 and end % 2 == 0 else 0


def _narrow(block: bytes, wide: bytes) -> bytes:
    if not wide:
        return block
    order = "utf-16-le" if wide == _UTF_16_MARKS[0] else "utf-16-be"
    return block.decode(order, "replace").removeprefix("\ufeff").encode()


def printable(name: str) -> str:
    """Return a name with all that is not printable UTF-8 escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def list_files(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the files of a data set, and the entries that are not read.

    Returns
    -------
    tuple
        The paths of files that can be read, relative to the folder, sorted, with ``/`` between
        parts; and the reason for each other entry.
    """
    top, found, others = os.path.realpath(folder), [], {}
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(top, below)))
        except OSError as error:
            others[printable(below)] = f"cannot be read: {error.strerror}"
            continue
        for entry in entries:
            relative = f"{below}/{entry.name}" if below else entry.name
            if printable(entry.name) != entry.name:
                others[printable(relative)] = "its name is not printable UTF-8"
            elif entry.is_dir(follow_symlinks=False):
                waiting += [relative] if entry.name not in _IGNORED_FOLDERS else []
            elif reason := _why_not_read(entry, top):
                others[relative] = reason
            else:
                found.append(relative)
    return sorted(found), others


def _why_not_read(entry: os.DirEntry, top: str) -> str | None:
    """Return why an entry that is not a folder is not read, else None."""
    if not entry.is_symlink():
        return None if entry.is_file() else "it is not a regular file (a FIFO, socket or device)"
    target = os.path.realpath(entry.path)
    if target != top and not target.startswith(top + os.sep):
        return "it is a link out of the data set's folder"
    if os.path.isdir(target):
        return "it is a link to a folder"
    return None if os.path.isfile(target) else "it is a link to nothing that can be read"


def matching_paths(paths: list[str], patterns: list[str]) -> list[str]:
    """Return the paths that fit one of the patterns (``*``, ``?``, ``[...]``, ``**``)."""
    pieces = [pattern.split("/") for pattern in patterns]
    return [path for path in paths if any(_fits(path.split("/"), one) for one in pieces)]


def _fits(path: list[str], pattern: list[str]) -> bool:
    # The parts of the path that the pattern can have reached: bounded time for any pattern.
    reached = {0}
    for piece in pattern:
        if piece == "**":
            reached = set(range(min(reached), len(path) + 1))
        else:
            reached = {i + 1 for i in reached if i < len(path) and fnmatchcase(path[i], piece)}
        if not reached:
            return False
    return len(path) in reached
