"""Sockets inside the network namespaces of hosts."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

CLONE_NEWNET = 0x40000000


def in_network_of(pid: int, make):
    """Return what ``make`` returns when the network namespace of a process surrounds it.

    A socket belongs to the namespace it was opened in, whoever uses it later; so a test sends and
    receives in the hosts at the price of one thread a socket.
    """

    def work():
        with open(f"/proc/{pid}/ns/net") as space:
            if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")
            return make()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
