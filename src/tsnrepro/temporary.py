"""Temporary folders whose lack is said in a sentence: no space, no permission, a path too long.

A folder's name tells whose it is, so that another process can remove what a killed one left.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tsnrepro.errors import ConfigurationError

# sun_path of struct sockaddr_un (include/uapi/linux/un.h) has 108 bytes, and the last one is zero.
LONGEST_SOCKET_PATH = 107
_REMEDY = "Free space there, or let TMPDIR name another folder"


@contextmanager
def temporary_folder(socket: str = "") -> Iterator[str]:
    """Make a folder that is gone after the ``with`` block.

    Parameters
    ----------
    socket
        The longest name that a socket in it will have.

    Raises
    ------
    ConfigurationError
        No folder can be made, or a socket in it would have a longer path than the kernel takes.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=_prefix(os.getpid()))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"no temporary folder: {reason}", "TMPDIR", _REMEDY) from error
    with made as folder:
        length = len(f"{folder}/{socket}".encode()) if socket else 0
        if length > LONGEST_SOCKET_PATH:
            raise ConfigurationError(
                f"a socket's path of {length} bytes is longer than the kernel's "
                f"{LONGEST_SOCKET_PATH}",
                folder,
                "Let TMPDIR name a folder with a shorter path",
            )
        yield folder


def remove_folders_of(pid: int) -> None:
    """Remove the temporary folders of a process that has ended, or is about to."""
    for path in Path(tempfile.gettempdir()).glob(f"{_prefix(pid)}*"):
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid():
                shutil.rmtree(path)


def _prefix(pid: int) -> str:
    return f"tsnrepro-{pid}-"
