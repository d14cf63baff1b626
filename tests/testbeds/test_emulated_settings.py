"""The emulated testbed with other settings than the default ones."""

import socket
import struct
import time

import pytest

from tsnrepro.common.errors import CommandError, ToolError
from tsnrepro.testbeds.emulated.testbed import LISTENER, TALKER
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

STREAM = StreamFilter("udp", 9000)
SO_SNDBUFFORCE = 32


def test_a_link_carries_its_rate_on_the_wire(bring_up, sockets):
    """Preamble, gap and FCS count: 1000 bytes of payload are 1066 on the wire."""
    rate_mbps, datagrams, wire_bytes = 10, 200, 1066
    testbed = bring_up(link_rate_mbps=rate_mbps)
    receiver = sockets.udp(testbed, LISTENER, 9000, receive_bytes=4_000_000)
    sender = sockets.udp(testbed, TALKER)
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4_000_000)  # sending shall not wait
    receiver.settimeout(5)
    target = (testbed.address(LISTENER), 9000)
    testbed.configure("control", STREAM)
    sender.sendto(b"they know each other's address now", target)
    receiver.recv(64)
    time.sleep(0.05)  # the buckets are full
    for index in range(datagrams):
        sender.sendto(struct.pack("!I", index).ljust(1000, b"."), target)
    times = []
    for _ in range(datagrams):
        receiver.recv(2048)
        times.append(time.monotonic())
    # The burst goes at once; from there on the link's rate is all there is.
    first = testbed.settings.burst_bytes // wire_bytes + 1
    seconds = times[-1] - times[first]
    measured_mbps = (datagrams - 1 - first) * wire_bytes * 8 / seconds / 1e6
    assert measured_mbps == pytest.approx(rate_mbps, rel=0.03)


def test_the_smallest_queue_bounds_what_waits(bring_up, sockets):
    testbed = bring_up(member_link_rate_mbps=10, queue_bytes=20_000, burst_bytes=2000)
    receiver = sockets.udp(testbed, LISTENER, 9000, receive_bytes=4_000_000)
    sender = sockets.udp(testbed, TALKER)
    testbed.configure("control", STREAM)
    testbed.hosts[TALKER].run(["ping", "-c1", testbed.address(LISTENER)], deadline_s=5).check()
    for _ in range(100):
        sender.sendto(b"." * 1000, (testbed.address(LISTENER), 9000))
    time.sleep(testbed.transit_seconds)
    queues = {host: testbed.snapshot().hosts[host].queues for host in (TALKER, "sw1")}
    # A host's own queue is longer: what its talker sends waits there rather than be dropped.
    assert queues[TALKER]["eth0"].dropped == 0
    waiting = queues["sw1"]["m0"]
    assert 100 - 20_000 // 1066 - 5 <= waiting.dropped <= 100 - 20_000 // 1066
    receiver.close()


def test_a_tracer_that_dies_costs_one_trial(bring_up):
    testbed = bring_up(paths=1)
    testbed._tracer.stop()
    testbed._tracer.wait()
    with pytest.raises((CommandError, ToolError), match="frerctl drops"):
        testbed.snapshot()
    testbed.configure("frer", STREAM)
    assert testbed.snapshot().drops is not None


def test_a_delay_line_that_dies_costs_one_trial(bring_up):
    testbed = bring_up(paths=2, delay_us=[0, 500])
    testbed.hosts["delay"].run(["pkill", "delayline"], deadline_s=5).check()
    with pytest.raises((CommandError, ToolError), match="delayline"):
        testbed.snapshot()
    testbed.configure("frer", STREAM)
    assert set(testbed.snapshot().delays) == {"m1"}
