"""Tarballs without times, owners or order of this machine: equal files give equal bytes."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from tsnrepro.common.errors import PublishError

_READ_ALL = 0o644

# tarfile lets what stands in a damaged header come up as whatever it stumbles over.
BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError)
"""What reading a damaged tarball raises."""


def write_tarball(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """Write files as a compressed tarball, in the order of their places.

    Parameters
    ----------
    target
        Where it goes.
    files
        Content, or the file that holds it, by place in the tarball.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    write_in_order(target, {place: files[place] for place in sorted(files)})


def write_in_order(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """Write files as a compressed tarball, in the order in which they are given."""
    with (
        gzip.GzipFile(filename="", fileobj=target, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for place, content in files.items():
            entry = tarfile.TarInfo(place)
            entry.mode = _READ_ALL
            if isinstance(content, Path):
                entry.size = content.stat().st_size
                with content.open("rb") as opened:
                    archive.addfile(entry, opened)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def read_tarball(path: Path) -> dict[str, bytes]:
    """Return the content of a tarball's files by their places.

    Raises
    ------
    PublishError
        It is no tarball, or a broken one.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            entries = [entry for entry in archive if entry.isfile()]
            return {entry.name: _content(archive, entry) for entry in entries}
    except BROKEN as error:
        raise PublishError(f"no tarball: {error}", str(path)) from error


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(entry)
    return opened.read() if opened else b""
