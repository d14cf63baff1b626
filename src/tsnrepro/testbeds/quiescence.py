"""After a test's end: wait until nothing of it is on its way any more."""

import re
import time

from tsnrepro.common.errors import ToolError
from tsnrepro.common.ethernet import ip_packets
from tsnrepro.common.topology import LISTENER
from tsnrepro.testbeds.host import RemoteHost
from tsnrepro.testbeds.protocol import HostTestbed

# IP reassembly gives up on a datagram after ipfrag_time, a second here, and its timer is late.
_REASSEMBLY_SECONDS = 1.6
_LOOK_EVERY_SECONDS = 0.05
_COMMAND_SECONDS = 5
_SOCKSTAT = ["cat", "/proc/net/sockstat"]
_INCOMPLETE = re.compile(r"^FRAG: inuse (\d+)", re.MULTILINE)


def settle(testbed: HostTestbed, payload_bytes: int, at_least_s: float = 0.0) -> None:
    """Wait until a test's last datagrams have arrived or were given up.

    Where they are fragmented that may take reassembly a second and more; but where the listener has
    no datagram whose fragments are incomplete, there is nothing to give up.

    Raises
    ------
    CommandError
        The listener could not be asked.
    ToolError
        Its answer cannot be read.
    """
    time.sleep(max(testbed.transit_seconds, at_least_s))
    if len(ip_packets(payload_bytes)) == 1:
        return
    end = time.monotonic() + _REASSEMBLY_SECONDS
    while incomplete_datagrams(testbed.hosts[LISTENER]) and time.monotonic() < end:
        time.sleep(_LOOK_EVERY_SECONDS)


def incomplete_datagrams(host: RemoteHost) -> int:
    """Return how many IPv4 datagrams a host has some fragments of, but not all.

    Raises
    ------
    CommandError
        The host could not be asked.
    ToolError
        Its answer cannot be read.
    """
    said = host.run(_SOCKSTAT, deadline_s=_COMMAND_SECONDS).check().stdout
    if not (found := _INCOMPLETE.search(said)):
        raise ToolError("it does not tell of fragments", " ".join(_SOCKSTAT))
    return int(found[1])
