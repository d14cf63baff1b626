"""Temporary folders, which another process removes if this one is killed."""

import atexit
import os
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.processes import start_after_exit

# sun_path of struct sockaddr_un (include/uapi/linux/un.h) has 108 bytes, and the last one is zero.
LONGEST_SOCKET_PATH = 107
_REMEDY = "Free space there, or let TMPDIR name another folder"


@contextmanager
def temporary_folder(socket: str = "") -> Iterator[str]:
    """Make a folder that is removed after the ``with`` block, or soon after a kill within it.

    ``socket``: the longest name of a Unix socket in it. Raises ConfigurationError if no folder can
    be made, or the path of a socket in it would exceed the kernel's limit.
    """
    try:
        name = f"{_prefix(os.getpid())}{secrets.token_hex(4)}"
        folder = os.path.join(tempfile.gettempdir(), name)
        # Register before creating: a kill between the two would leave the folder behind.
        remove_at_exit(folder)
        os.mkdir(folder, 0o700)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"no temporary folder: {reason}", "TMPDIR", _REMEDY) from error
    try:
        length = len(f"{folder}/{socket}".encode()) if socket else 0
        if length > LONGEST_SOCKET_PATH:
            raise ConfigurationError(
                f"a socket's path of {length} bytes is longer than the kernel's "
                f"{LONGEST_SOCKET_PATH}",
                folder,
                "Let TMPDIR name a folder with a shorter path",
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(pid: int) -> str:
    return f"tsnrepro-{pid}-"


# A notebook's kernel outlives its killed parent for a moment, and would write its connection file,
# whose path is an argument of it, once more. grep reads the folders from its input, so that it does
# not find itself.
_REMOVE = """
while read -r folder; do set -- "$@" "$folder"; done
while [ $# -gt 0 ] && printf '%s\\n' "$@" | grep -qsFf - /proc/[0-9]*/cmdline; do sleep 0.1; done
exec rm -rf -- "$@"
"""
_remover: list[IO[str]] = []


def remove_at_exit(folder: str | os.PathLike[str]) -> None:
    """Have a folder removed when this process has ended, even if it was killed.

    So must have all processes with a path in the folder among their arguments.
    """
    if not _remover:
        stdin = start_after_exit(_REMOVE).stdin
        assert stdin is not None
        _remover.append(stdin)
    with suppress(BrokenPipeError):  # the remover alone was killed
        _remover[0].write(f"{os.fspath(folder)}\n")
        _remover[0].flush()


def remove_temporary_folders() -> None:
    """Have all that libraries create by :mod:`tempfile` removed when this process has ended."""
    folder = Path(tempfile.gettempdir(), f"{_prefix(os.getpid())}{uuid.uuid4().hex}")
    remove_at_exit(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with suppress(OSError):  # whoever needs a folder reports it
        folder.mkdir(mode=0o700)
        tempfile.tempdir = str(folder)
