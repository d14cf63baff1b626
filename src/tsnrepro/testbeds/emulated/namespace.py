"""Hosts made of namespaces that cannot outlive the program.

Each host is one process in network, process, mount and host-name namespaces of its own. Nothing
names those namespaces, so the kernel removes them, the devices and eBPF programs in them and
every process started in them as soon as that one process is gone; and the kernel ends that
process when ours ends, even by ``kill -9``.
"""

import os
import subprocess
import time
from pathlib import Path

from tsnrepro.common.errors import TestbedError

_START_SECONDS = 5

# A /sys that shows the namespace's own devices, and a /run of its own for sshd's keys.
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
    """A host's namespaces, held open by one process.

    Raises
    ------
    TestbedError
        The kernel refuses namespaces or the mounts in them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._holder = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("unshare", "--net", "--pid", "--mount", "--uts"),
                *("--fork", "--kill-child=KILL", "--mount-proc"),
                *("sh", "-c", _SET_UP, "sh", name),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline().strip() != "ready":
            said = self._holder.stderr.read().strip()
            self.close()
            raise TestbedError(
                f"no namespaces for this host: {said}",
                name,
                "The emulated testbed needs root; `tsnrepro testbeds` tells what else can run",
            )
        self.pid = self._child()

    def _child(self) -> int:
        """Return the process inside: the one child of the ``unshare`` that we started."""
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if numbers := children.read_text().split():
                return int(numbers[0])
            time.sleep(0.01)
        raise TestbedError("the process that holds the namespaces is gone", self.name)

    def enter(self, argv: list[str]) -> list[str]:
        """Return the command that runs ``argv`` inside."""
        spaces = ["--net", "--pid", "--mount", "--uts"]
        return ["nsenter", "--target", str(self.pid), *spaces, "--", *argv]

    def file(self, path: str) -> Path:
        """Return the path under which this process sees an absolute path of the host."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def network_inode(self) -> int:
        """Return the inode number of the network namespace, as the kernel's tracing names it."""
        return os.stat(f"/proc/{self.pid}/ns/net").st_ino

    def is_gone(self) -> bool:
        """Tell whether the host has ended by itself, with everything that ran in it."""
        return not Path(f"/proc/{self.pid}/ns").exists()

    def close(self) -> None:
        """End the host with everything that runs in it."""
        if self._holder.poll() is None:
            self._holder.kill()
        self._holder.wait()
        for stream in (self._holder.stdout, self._holder.stderr):
            if stream:
                stream.close()
