"""The wait after a test: as long as a datagram is incomplete, and no longer."""

import sys
import time

import pytest

from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.testbeds.quiescence import incomplete_datagrams, settle
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

# Two packets on a wire of 1500 bytes.
FRAGMENTED_BYTES = 1518
# Linux gives up on a datagram after ipfrag_time, a second on these hosts.
GIVES_UP_S = 1.0

FIRST_OF_TWO_FRAGMENTS = """
import socket, struct, sys
to = sys.argv[1]
more_fragments = 0x2000
header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 28, 77, more_fragments, 64, 17, 0,
                     bytes(4), socket.inet_aton(to))
udp = struct.pack('!HHHH', 9000, 9000, 24, 0)
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
sender.sendto(header + udp, (to, 0))
"""


@pytest.fixture
def quiet(testbed):
    testbed.configure("control", StreamFilter("udp", 9000))
    return testbed


def seconds_to_settle(testbed, payload_bytes, at_least_s=0.0):
    began = time.monotonic()
    settle(testbed, payload_bytes, at_least_s)
    return time.monotonic() - began


def test_nothing_incomplete_is_not_waited_for(quiet):
    assert incomplete_datagrams(quiet.hosts[LISTENER]) == 0
    assert seconds_to_settle(quiet, FRAGMENTED_BYTES) < quiet.transit_seconds + GIVES_UP_S / 2
    assert seconds_to_settle(quiet, 64, at_least_s=0.5) >= 0.5


def test_a_datagram_that_lacks_a_fragment_is_waited_for(quiet):
    argv = [sys.executable, "-c", FIRST_OF_TWO_FRAGMENTS, quiet.address(LISTENER)]
    quiet.hosts[TALKER].run(argv, deadline_s=10).check()
    time.sleep(quiet.transit_seconds)
    assert incomplete_datagrams(quiet.hosts[LISTENER]) == 1
    waited_s = seconds_to_settle(quiet, FRAGMENTED_BYTES)
    assert waited_s > GIVES_UP_S / 2
    assert incomplete_datagrams(quiet.hosts[LISTENER]) == 0
