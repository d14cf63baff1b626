"""Temporary folders whose lack is said in a sentence: no space, no permission, a path too long."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tsnrepro.errors import ConfigurationError

# sun_path of struct sockaddr_un (include/uapi/linux/un.h) has 108 bytes, and the last one is zero.
LONGEST_SOCKET_PATH = 107
_REMEDY = "Free space there, or let TMPDIR name another folder"


@contextmanager
def temporary_folder(prefix: str, socket: str = "") -> Iterator[str]:
    """Make a folder that is gone after the ``with`` block.

    Parameters
    ----------
    prefix
        How its name begins.
    socket
        The longest name that a socket in it will have.

    Raises
    ------
    ConfigurationError
        No folder can be made, or a socket in it would have a longer path than the kernel takes.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=prefix)
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
