"""Files of a record: written whole or not at all, read checked.

A record may come from elsewhere, in a deposit, so names that it contains are only resolved inside
its own folder.
"""

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tsnrepro.common.errors import RecordError

PARTIAL_PREFIX = ".partial-"
# Of a run of 100,000 trials; a record that comes from elsewhere may be any file.
_MAX_JSON_BYTES = 64 << 20
_MAX_NAME_BYTES = 255  # NAME_MAX of Linux's file systems


def canonical_json(value: object) -> bytes:
    """Return the one JSON text that equal values have."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def bounded_bytes(path: Path, what: str, remedy: str = "") -> bytes:
    """Return the content of a file that is read into memory.

    Raises RecordError with the message ``what`` if it has over 64 MiB.
    """
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise RecordError(f"{what}: it has over {_MAX_JSON_BYTES >> 20} MiB", str(path), remedy)
    return path.read_bytes()


def read_json_object(path: Path, what: str, remedy: str = "") -> dict[str, Any]:
    """Return the object in a JSON file.

    ``what``: message of the error if the file has no JSON object; ``remedy``: remedy of that error.
    Raises RecordError if the file is missing, cannot be read, or is not a JSON object.
    """
    try:
        document = json.loads(bounded_bytes(path, what, remedy))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{what}: {error}", str(path), remedy) from error
    if not isinstance(document, dict):
        raise RecordError(f"{what}: it is not a JSON object", str(path), remedy)
    return document


def is_file_name(name: object) -> bool:
    """Return whether a value is the name of a file or folder, not a path to another folder."""
    if not isinstance(name, str) or "\0" in name or "/" in name or name in ("", ".", ".."):
        return False
    try:
        return len(os.fsencode(name)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file durably, or replace it; readers see the old content or the new one.

    Processes that write the same file at once do not disturb each other.
    """
    partial = path.with_name(f"{PARTIAL_PREFIX}{os.getpid()}-{path.name}")
    try:
        write_and_sync(partial, data)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def write_and_sync(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with _named(path), path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors: of a full disk the kernel tells while writing, without a name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def new_partial_folder(final: Path) -> Path:
    """Return an empty folder beside ``final``, to be renamed to it once it is complete."""
    partial = final.with_name(f"{PARTIAL_PREFIX}{final.name}")
    try:
        partial.mkdir(parents=True)
    except FileExistsError:
        shutil.rmtree(partial)  # what an interruption left is no record
        partial.mkdir()
    return partial


class Batch:
    """Files and folders that are written together: none has its name before all are on the disk.

    One flush of the file system replaces those of every file, so that an import of a hundred trials
    is as fast as one of a single trial. An interruption leaves temporary names only.

    ``folder``: a folder of the file system in question; created if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._moves: list[tuple[Path, Path]] = []

    def file(self, final: Path, data: bytes) -> None:
        """Add one file."""
        with _named(final):
            self._new(final).write_bytes(data)

    def copy(self, final: Path, source: BinaryIO) -> None:
        """Add a copy of an open file."""
        with _named(final), self._new(final).open("wb") as target:
            while os.sendfile(target.fileno(), source.fileno(), None, 1 << 30):
                pass

    def folder(self, final: Path, files: dict[str, bytes]) -> None:
        """Add a folder of files."""
        partial = new_partial_folder(final)
        for name, data in files.items():
            with _named(final), open(f"{partial}/{name}", "wb") as file:
                file.write(data)
        self._moves.append((partial, final))

    def _new(self, final: Path) -> Path:
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(f"{PARTIAL_PREFIX}{final.name}")
        self._moves.append((partial, final))
        return partial

    def commit(self) -> None:
        """Make everything durable, then rename it.

        Raises OSError if the disk refused; nothing has its name yet.
        """
        _sync_file_system(self._folder)
        for partial, final in self._moves:
            partial.rename(final)
        _sync_file_system(self._folder)
        self._moves.clear()


def _sync_file_system(folder: Path) -> None:
    """Wait until all that was written to a folder's file system is on its disk.

    ``syncfs`` is specific to Linux; unlike ``sync`` it reports errors (syncfs(2), since Linux 5.8).
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "syncfs"):
            os.sync()
        elif libc.syncfs(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(handle)
