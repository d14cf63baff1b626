"""Hosts made of namespaces that cannot outlive the program.

A host is one process in network, process, mount and UTS namespaces of its own. The namespaces
have no name, so the kernel removes them, with their devices, eBPF programs and processes, as soon
as that process has ended; and it kills that process when ours ends, even by ``kill -9``.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.processes import in_namespaces

_START_SECONDS = 5
SSHD = "/usr/sbin/sshd"
# Folders of what only root runs, such as tc: a user's PATH may lack them.
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
PROGRAMS = ("ip", "tc", "ethtool", "unshare", "nsenter", "setpriv", "clang", "iperf3", "sockperf")

# /sys shows the namespace's own devices; /run is private, for sshd's keys.
_SET_UP = """\
set -e
hostname "$1"
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/sshd
ip link set lo up
echo ready
exec sleep infinity
"""


class NamespaceHost:
    """A host's namespaces, which one process keeps open.

    Raises TestbedError if the kernel refuses the namespaces or the mounts in them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._holder = subprocess.Popen(
            in_namespaces(("net", "mount", "uts"), "sh", "-c", _SET_UP, "sh", name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline().strip() != "ready":
            reason = self._holder.stderr.read().strip()
            self.close()
            raise TestbedError(
                f"cannot create namespaces: {reason}",
                name,
                "The emulated testbed needs root; `tsnrepro testbeds` lists what is available",
            )
        self.pid = self._child()

    def _child(self) -> int:
        """Return the process inside: the only child of ``unshare``."""
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if numbers := children.read_text().split():
                return int(numbers[0])
            time.sleep(0.01)
        raise TestbedError("the process that keeps the namespaces has ended", self.name)

    def enter(self, argv: list[str]) -> list[str]:
        """Return the command that runs ``argv`` inside."""
        spaces = ["--net", "--pid", "--mount", "--uts"]
        return ["nsenter", "--target", str(self.pid), *spaces, "--", *argv]

    def file(self, path: str) -> Path:
        """Return the path by which this process sees an absolute path of the host."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def network_inode(self) -> int:
        """Return the inode number of the network namespace, its name in the kernel's traces."""
        return os.stat(f"/proc/{self.pid}/ns/net").st_ino

    def has_ended(self) -> bool:
        """Return whether the host has ended by itself."""
        return not Path(f"/proc/{self.pid}/ns").exists()

    def close(self) -> None:
        """Kill the host and everything that runs in it."""
        if self._holder.poll() is None:
            self._holder.kill()
        self._holder.wait()
        for stream in (self._holder.stdout, self._holder.stderr):
            if stream:
                stream.close()


def cable(one: NamespaceHost, port: str, other: NamespaceHost, other_port: str) -> None:
    """Cable a new port of a host to a new port of another, by a veth pair.

    Raises TestbedError if the kernel refuses it.
    """
    end = ["peer", "name", other_port, "netns", str(other.pid)]
    argv = ["ip", "link", "add", "name", port, "netns", str(one.pid), "type", "veth", *end]
    completed = subprocess.run(argv, capture_output=True, text=True, check=False)
    if completed.returncode:
        reason = completed.stderr.strip()
        raise TestbedError(f"cannot create a veth pair: {reason}", f"{one.name} {port}")


def missing_requirements() -> list[str]:
    """Return what this machine lacks for the emulated testbed, as short phrases."""
    missing = [] if os.geteuid() == 0 else ["root (run with sudo)"]
    search = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"
    missing += [f"the program {name}" for name in PROGRAMS if not shutil.which(name, path=search)]
    if not os.access(SSHD, os.X_OK):
        missing.append("the OpenSSH server")
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        missing.append("a kernel with BTF (CONFIG_DEBUG_INFO_BTF)")
    if missing:
        return missing
    try:
        NamespaceHost("probe").close()
    except TestbedError as error:
        return [f"network namespaces ({error.what})"]
    return []
