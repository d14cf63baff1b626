"""Programs and queueing disciplines of this machine; light, as every workflow checks them."""

import os
import shutil
import subprocess
from pathlib import Path

from tsnrepro.common.errors import TestbedError

# Not the caller's PATH: a user's often lacks the folders of what only root runs, such as depmod.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Debian packages of programs that have another name.
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
_PROBE_SECONDS = 20
# Adds each to a veth pair, in a namespace that is removed with the command.
PROBE = """\
ip link add one numtxqueues 8 type veth peer name other numtxqueues 8 || exit 1
try() {
    name=$1
    shift
    "$@" >/dev/null 2>&1 || echo "$name"
    tc qdisc del dev one root >/dev/null 2>&1
}
queues='1@0 1@1 1@2 1@3 1@4 1@5 1@6 1@7'
map='0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0'
try mqprio tc qdisc add dev one root mqprio num_tc 8 map $map queues $queues hw 0
try taprio tc qdisc add dev one root taprio num_tc 8 map $map queues $queues \\
    base-time 0 sched-entry S ff 1000000 clockid CLOCK_TAI
try cbs tc qdisc add dev one root cbs idleslope 20000 sendslope -980000 hicredit 30 locredit -1470
try etf tc qdisc add dev one root etf clockid CLOCK_TAI delta 300000
try 802.1Q ip link add link one name one.10 type vlan id 10
echo tried
"""


def has(program: str) -> bool:
    """Return whether this machine has a program, by name or absolute path."""
    return shutil.which(program, path=SEARCH_PATH) is not None


def find(program: str) -> Path:
    """Return the path of a program on this machine, by name or absolute path.

    Raises TestbedError if it is not installed; the message names its Debian package.
    """
    found = shutil.which(program, path=SEARCH_PATH)
    if found is None:
        package = _DEBIAN_PACKAGES.get(program, program)
        raise TestbedError(
            f"the program {program}, which a job or its guest needs, is not installed",
            "testbeds guest and emulated",
            f"Install the package {package}",
        )
    return Path(found)


def require_none_missing(missing: list[str], testbed: str) -> None:
    """Refuse a testbed whose requirements this machine does not meet.

    Raises TestbedError if requirements are missing; the message lists them.
    """
    if missing:
        raise TestbedError(
            f"this machine lacks {', '.join(missing)}",
            f"testbed {testbed}",
            "`tsnrepro testbeds` lists the testbeds that are available here",
        )


def missing_qdiscs() -> list[str]:
    """Return which of mqprio, taprio, cbs, etf and 802.1Q this machine's kernel lacks.

    Raises TestbedError if there is no network namespace or no veth pair to try them on.
    """
    # Without root, a user namespace allows to create a network namespace, if it is permitted.
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", *user, "--net", "sh", "-c", PROBE]
    try:
        completed = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise TestbedError(f"cannot be probed: {error}", "queueing disciplines") from error
    *missing, last = completed.stdout.split() or [""]
    if last != "tried":
        raise TestbedError(
            f"cannot be probed: {completed.stderr.strip()}",
            "queueing disciplines of this machine's kernel",
            "Run as root, on a kernel with network namespaces and veth",
        )
    return missing
