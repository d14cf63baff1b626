"""Quiescence: waiting until traffic has drained after a test."""

import re
import time

from tsnrepro.common.errors import ToolError
from tsnrepro.common.ethernet import ip_packets
from tsnrepro.common.topology import LISTENER
from tsnrepro.testbeds.hosts.host import RemoteHost
from tsnrepro.testbeds.protocol import HostTestbed

# IP reassembly of a datagram times out after ipfrag_time, 1 s here, and its timer is late.
_REASSEMBLY_SECONDS = 1.6
_POLL_SECONDS = 0.05
_COMMAND_SECONDS = 5
_SOCKSTAT = ["cat", "/proc/net/sockstat"]
_INCOMPLETE = re.compile(r"^FRAG: inuse (\d+)", re.MULTILINE)


def settle(testbed: HostTestbed, payload_bytes: int, at_least_s: float = 0.0) -> None:
    """Wait until a test's last datagrams have been received, or dropped by reassembly.

    Reassembly of fragments takes more than a second to time out. If the listener has no incomplete
    datagram, there is no need to wait for it.

    Raises CommandError if the listener could not be queried. Raises ToolError if its output cannot
    be read.
    """
    time.sleep(max(testbed.transit_seconds, at_least_s))
    if len(ip_packets(payload_bytes)) == 1:
        return
    end = time.monotonic() + _REASSEMBLY_SECONDS
    while incomplete_datagrams(testbed.hosts[LISTENER]) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def incomplete_datagrams(host: RemoteHost) -> int:
    """Return the number of incomplete IPv4 datagrams in a host's reassembly.

    Raises CommandError if the host could not be queried. Raises ToolError if its output cannot be
    read.
    """
    output = host.run(_SOCKSTAT, deadline_s=_COMMAND_SECONDS).check().stdout
    if not (found := _INCOMPLETE.search(output)):
        raise ToolError("there is no line of fragments", " ".join(_SOCKSTAT))
    return int(found[1])
