"""Files of a foreign data set: found by pattern, read once, their NUL bytes counted."""

import hashlib
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.refusal import HEAD_BYTES, says_generated

# What some shells write when a tool's output is redirected to a file.
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass
class SourceFile:
    """One file: where it is, its bytes and their SHA-256."""

    path: Path
    relative: str
    data: bytes = field(repr=False)
    """Empty after :meth:`release`."""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.data)

    @cached_property
    def sha256(self) -> str:
        """Return the checksum of the file as it is, NUL bytes included."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def is_wide(self) -> bool:
        """Tell whether every other byte is a NUL by the encoding and not by accident."""
        return self.data[:2] in _UTF_16_MARKS

    @cached_property
    def nul_bytes(self) -> int:
        """Count the NUL bytes that a crash or a full disk left in a text."""
        return 0 if self.is_wide else self.data.count(0)

    @cached_property
    def clean(self) -> bytes:
        """Return the bytes as UTF-8 or ASCII and without NUL bytes."""
        if self.is_wide:
            return self.data.decode("utf-16", "replace").encode()
        return self.data.translate(None, b"\0") if self.nul_bytes else self.data

    def text(self, encoding: str = "utf-8") -> str:
        """Return the text, without NUL bytes and byte order mark.

        Raises
        ------
        RecordError
            The bytes are no text in this encoding.
        """
        if encoding == "utf-8":
            encoding = "utf-8-sig"
        try:
            return self.clean.decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise RecordError(
                f"not text in {encoding}: {error}",
                self.relative,
                "Name its encoding in the mapping (csv: {encoding: latin-1}), or store it as UTF-8",
            ) from error

    def release(self) -> None:
        """Let go of the bytes; size, checksum and count of NUL bytes stay."""
        _ = self.sha256, self.nul_bytes
        self.data = b""
        self.__dict__.pop("clean", None)

    def again(self) -> bytes:
        """Return the bytes, read once more where they were let go.

        Raises
        ------
        RecordError
            The file is not what it was a moment ago.
        """
        if self.data or not self.size:
            return self.data
        data = self.path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise RecordError(
                "the file changed while it was read", self.relative, "Import again when it is still"
            )
        return data

    @cached_property
    def says_generated(self) -> str | None:
        """Return the words by which the file says that it was not measured, else None."""
        return says_generated(self.clean[:HEAD_BYTES].decode("utf-8", "replace"))

    def said(self) -> str:
        """Return what a tool printed; bytes that are no text become question marks."""
        return self.clean.decode("utf-8", "replace").removeprefix("\ufeff")


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, sorted, with ``/`` between parts."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "__pycache__")]
        below = Path(place).relative_to(folder).as_posix()
        found += [name if below == "." else f"{below}/{name}" for name in names]
    return sorted(found)


def matching(paths: list[str], patterns: list[str]) -> list[str]:
    """Return the paths that fit one of the patterns (``*``, ``?``, ``[...]``, ``**``)."""
    expressions = [re.compile(_expression(pattern)) for pattern in patterns]
    return [path for path in paths if any(one.fullmatch(path) for one in expressions)]


def _expression(pattern: str) -> str:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    return "".join(
        parts.get(word) or (word if word.startswith("[") and len(word) > 2 else re.escape(word))
        for word in words
    )
