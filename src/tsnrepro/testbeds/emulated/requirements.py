"""What a machine needs for the emulated testbed; light, because every start of a workflow asks."""

import os
import shutil

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.emulated.namespace import NamespaceHost

SSHD = "/usr/sbin/sshd"
# Where Debian keeps what only root runs, such as tc: it is installed, though a user's PATH leaves
# it out.
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
PROGRAMS = ("ip", "tc", "ethtool", "unshare", "nsenter", "setpriv", "clang", "iperf3", "sockperf")


def refuse(lacks: list[str], testbed: str) -> None:
    """Refuse a testbed for which this machine lacks something.

    Raises
    ------
    TestbedError
        There is something on the list; the message names it all.
    """
    if lacks:
        raise TestbedError(
            f"this machine lacks {', '.join(lacks)}",
            f"testbed {testbed}",
            "`tsnrepro testbeds` tells what else can run here",
        )


def missing() -> list[str]:
    """Return what this machine lacks for the emulated testbed, each as a short phrase."""
    lacks = [] if os.geteuid() == 0 else ["root (run with sudo)"]
    search = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"
    lacks += [f"the program {name}" for name in PROGRAMS if not shutil.which(name, path=search)]
    if not os.access(SSHD, os.X_OK):
        lacks.append("the OpenSSH server")
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        lacks.append("a kernel with BTF (CONFIG_DEBUG_INFO_BTF)")
    if lacks:
        return lacks
    try:
        NamespaceHost("probe").close()
    except TestbedError as error:
        return [f"network namespaces ({error.what})"]
    return []
