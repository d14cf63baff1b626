"""Temporary folders whose lack is said in a sentence: no space, no permission, a path too long.

A folder's name tells whose it is, and another process removes it where that one is killed.
"""

import atexit
import os
import secrets
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from tsnrepro.common.errors import ConfigurationError

# sun_path of struct sockaddr_un (include/uapi/linux/un.h) has 108 bytes, and the last one is zero.
LONGEST_SOCKET_PATH = 107
_REMEDY = "Free space there, or let TMPDIR name another folder"


@contextmanager
def temporary_folder(socket: str = "") -> Iterator[str]:
    """Make a folder that is gone after the ``with`` block, or soon after a kill in it.

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
        name = f"{_prefix(os.getpid())}{secrets.token_hex(4)}"
        folder = os.path.join(tempfile.gettempdir(), name)
        # Told first: a kill between the two would leave a folder that nobody knows.
        remove_after_this_process(folder)
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


# Reads folders to remove until whoever names them is gone, which nothing but a pipe tells at once.
_REMOVER = 'while read -r folder; do set -- "$@" "$folder"; done; exec rm -rf -- "$@"'
_told: list[IO[str]] = []


def remove_after_this_process(*folders: str | os.PathLike[str]) -> None:
    """Let folders be removed when this process has ended, also where it is killed."""
    if not _told:
        # In a session of its own: what ends this process and its group is not to end it.
        remover = subprocess.Popen(
            ["sh", "-c", _REMOVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        assert remover.stdin is not None
        _told.append(remover.stdin)
    with suppress(BrokenPipeError):  # somebody killed the remover alone
        _told[0].writelines(f"{os.fspath(folder)}\n" for folder in folders)
        _told[0].flush()


def gather_temporary_folders() -> None:
    """Let a library make its temporary folders in one that is removed after this process."""
    folder = Path(tempfile.gettempdir(), f"{_prefix(os.getpid())}{uuid.uuid4().hex}")
    remove_after_this_process(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with suppress(OSError):  # what needs a folder will say so
        folder.mkdir(mode=0o700)
        tempfile.tempdir = str(folder)


def remove_temporary_folders(workflow: Any) -> None:
    """Let Snakemake's own temporary folders be removed after it, however it ends.

    It has made them by now, so others are made where TMPDIR says again.
    """
    tempfile.tempdir = None
    runtime = workflow.sourcecache.runtime_cache_path
    remove_after_this_process(workflow.snakemake_tmp_dir, runtime)
