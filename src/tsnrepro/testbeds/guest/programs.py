"""Programs of this machine that make a guest, or become a part of one."""

import shutil
from pathlib import Path

from tsnrepro.common.errors import TestbedError

# Not the caller's PATH: a user's often leaves out what only root runs, such as depmod.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Which Debian package a program comes from, where it is not named after it.
_DEBIAN_PACKAGES = {
    **dict.fromkeys(("cat", "date", "mkdir", "sleep", "sync", "timeout", "uname"), "coreutils"),
    **dict.fromkeys(("apt-cache", "apt-get"), "apt"),
    **dict.fromkeys(("ip", "tc"), "iproute2"),
    **dict.fromkeys(("mount", "nsenter", "setpriv", "taskset", "unshare"), "util-linux"),
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "ldd": "libc-bin",
    "qemu-system-x86_64": "qemu-system-x86",
    "sysctl": "procps",
}


def has(program: str) -> bool:
    """Tell whether this machine has a program, by its name or absolute path."""
    return shutil.which(program, path=SEARCH_PATH) is not None


def find(program: str) -> Path:
    """Return where this machine has a program, by its name or absolute path.

    Raises
    ------
    TestbedError
        It is not installed; the message names its Debian package.
    """
    found = shutil.which(program, path=SEARCH_PATH)
    if found is None:
        package = _DEBIAN_PACKAGES.get(program, program)
        raise TestbedError(
            f"a job or its guest needs the program {program}, which is not installed here",
            "testbeds guest and emulated",
            f"Install the package {package}",
        )
    return Path(found)
