"""Reproducible tarballs: without times and owners, so that equal files give equal bytes."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from tsnrepro.common.errors import PublishError

_READ_ALL, _EXECUTE_ALL = 0o644, 0o111
_EXECUTE_OWNER = 0o100

BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError)
"""The exceptions of reading a damaged tarball."""


def write_tarball(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """Write files as a gzip-compressed tarball, in the given order.

    ``files``: content, or the file that has it, by path in the tarball. Raises OSError if a file
    cannot be read.
    """
    with (
        gzip.GzipFile(filename="", fileobj=target, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode = _READ_ALL
            if isinstance(content, Path):
                status = content.stat()
                entry.size = status.st_size
                if status.st_mode & _EXECUTE_OWNER:
                    entry.mode |= _EXECUTE_ALL
                with content.open("rb") as opened:
                    archive.addfile(entry, opened)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def read_tarball(path: Path) -> dict[str, bytes]:
    """Return the content of the files of a tarball by path.

    Raises PublishError if it is not a tarball, or it is damaged.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            entries = [entry for entry in archive if entry.isfile()]
            return {entry.name: _content(archive, entry) for entry in entries}
    except BROKEN as error:
        raise PublishError(f"not a tarball: {error}", str(path)) from error


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(entry)
    return opened.read() if opened else b""
