"""Kinds of testbeds, and the names of their hosts and ports: talker, two FRER switches, listener.

::

    talker eth0 --- p0 sw1 m0 === m0 sw2 p0 --- eth0 listener
                           m1 === m1            (one pair per member path)

On a pair of network cards, a single switch may be cabled between talker and listener, with a loader
on its third port.
"""

from typing import Literal

TestbedKind = Literal["emulated", "guest", "model", "rack", "nic-pair", "bench"]

TALKER, LISTENER = "talker", "listener"
STATIONS = (TALKER, LISTENER)
SWITCHES = ("sw1", "sw2")
HOSTS = (TALKER, *SWITCHES, LISTENER)
INLINE_SWITCH, LOADER = "sw", "loader"
HOST_PORT, CARD = "p0", "eth0"
ADDRESSES = {TALKER: "10.0.100.1", LISTENER: "10.0.100.2"}
"""Of talker and listener, where both are namespaces of this machine."""


def member_names(paths: int) -> list[str]:
    """Return the names of the member links, and of the ports of both switches to them."""
    return [f"m{path}" for path in range(paths)]
