"""What a machine needs for the guest testbed, and which queueing disciplines its kernel lacks."""

import os
import platform
import subprocess

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.guest import initramfs, kernel, machine
from tsnrepro.testbeds.guest.programs import has

# What puts the guest's file system together and starts it.
PROGRAMS = ("depmod", "ldd", "setpriv", machine.QEMU)
FETCHERS = ("apt-cache", "apt-get", "dpkg-deb")
_PROBE_SECONDS = 20

# Each tried on a veth pair of a namespace that ends with the command: nothing of it stays.
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


def lacking_qdiscs() -> list[str]:
    """Return which of mqprio, taprio, cbs, etf and 802.1Q this machine's kernel lacks.

    Found by trying each in a network namespace that goes with the trial.

    Raises
    ------
    TestbedError
        The machine gives no network namespace or no veth pair, so nothing could be tried.
    """
    # Without root, a user namespace gives the right to make a network namespace, where allowed.
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", *user, "--net", "sh", "-c", PROBE]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise TestbedError(f"nothing could be tried: {error}", "queueing disciplines") from error
    *lacks, last = done.stdout.split() or [""]
    if last != "tried":
        raise TestbedError(
            f"nothing could be tried: {done.stderr.strip()}",
            "queueing disciplines of this machine's kernel",
            "Run as root, on a kernel with network namespaces and veth",
        )
    return lacks


def missing() -> list[str]:
    """Return what this machine lacks for the guest testbed, each as a short phrase."""
    if platform.machine() != "x86_64":
        return ["an x86-64 processor"]
    programs = (*PROGRAMS, initramfs.SHELL, *initramfs.PROGRAMS)
    lacks = [f"the program {name}" for name in programs if not has(name)]
    try:
        if not kernel.present():
            lacks += [f"the program {name}" for name in FETCHERS if not has(name)]
    except TestbedError as error:
        lacks.append(f"a kernel for the guest ({error.what})")
    return lacks
