"""Streams through FRER on the emulated testbed."""

import numpy as np
import pytest

from tsnrepro.native import streams
from tsnrepro.native.streams import command, log
from tsnrepro.native.streams.command import Pacing, StopCondition
from tsnrepro.native.streams.delivery import deliver, one_way
from tsnrepro.testbeds.hosts import clocks
from tsnrepro.testbeds.hosts.clocks import ClockSync
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

PORT = 6100
COUNT = 20_000
DEADLINE_SECONDS = 60
LOG = "/run/arrivals"


def exchange(testbed, pacing: Pacing, **options):
    """Return both reports and the arrivals of one stream from talker to listener."""
    talker, listener = testbed.hosts["talker"], testbed.hosts["listener"]
    argv = command.listener(
        str(streams.listener()),
        [PORT],
        StopCondition(seconds=40),
        log=LOG,
        quiet_ms=1000,
        timestamps="software",
        buffer_bytes=32_000_000,
    )
    process = listener.start(argv, deadline_s=DEADLINE_SECONDS)
    assert process.read_line() == command.READY
    argv = command.talker(
        str(streams.talker()),
        testbed.address("listener"),
        PORT,
        pacing,
        StopCondition(count=COUNT),
        **options,
    )
    done = talker.run(argv, deadline_s=DEADLINE_SECONDS)
    sent = command.parse_talker(done.stdout)
    got = command.parse_listener(process.wait().check().stdout)
    printed = listener.run(command.show_log(LOG), deadline_s=DEADLINE_SECONDS).check()
    return sent, got, log.read_listener_log(log.decode_log(printed.stdout))


def test_frer_delivers_every_datagram_once(testbed):
    """Two copies of 20,000 datagrams are sent; the listener's switch lets one through."""
    testbed.configure("frer", StreamFilter("udp", PORT))
    before = testbed.snapshot()
    sent, got, arrivals = exchange(testbed, Pacing(100_000), payload_bytes=18)
    after = testbed.snapshot()
    stream = got.stream(PORT)
    assert (sent.sent, sent.send_errors) == (COUNT, {})
    assert (stream.unique, stream.duplicates, stream.socket_drops) == (COUNT, 0, 0)
    found = deliver(sent.sent, arrivals)
    assert (found.lost, found.duplicated, found.reordered) == (0, 0, 0)
    counters = [s.hosts["sw2"].station["recovery"] for s in (before, after)]
    assert counters[1]["passed"] - counters[0]["passed"] >= COUNT
    assert counters[1]["discarded"] - counters[0]["discarded"] >= COUNT


def test_one_way_latency_is_measured_by_one_clock(testbed):
    hosts = testbed.hosts["talker"], testbed.hosts["listener"]
    before = clocks.compare_clocks(*hosts, (str(streams.talker()), str(streams.listener())))
    testbed.configure("frer", StreamFilter("udp", PORT))
    sent, got, arrivals = exchange(testbed, Pacing(100_000), payload_bytes=1472)
    after = clocks.compare_clocks(*hosts, (str(streams.talker()), str(streams.listener())))
    assert isinstance(before, ClockSync)
    assert before.method == "one kernel, one clock"
    assert sent.sent == COUNT
    whole, kernel = one_way(arrivals), one_way(arrivals, "kernel")
    assert kernel.missing_stamps == got.stream(PORT).missing_stamps < COUNT / 10
    smallest = float(min(whole.latency_ns.min(), kernel.latency_ns.min()))
    assert clocks.why_not_one_way(smallest, before, after) is None
    assert np.median(kernel.latency_ns) < np.median(whole.latency_ns)


def test_a_datagram_too_long_to_send_whole_is_an_error_by_its_name(testbed):
    """1473 bytes are one more than an Ethernet frame of 1500 bytes holds."""
    argv = command.talker(
        str(streams.talker()),
        testbed.address("listener"),
        PORT,
        Pacing(1000),
        StopCondition(count=5),
        payload_bytes=1473,
        dont_fragment=True,
    )
    done = testbed.hosts["talker"].run(argv, deadline_s=DEADLINE_SECONDS)
    assert done.exit_status == 1
    assert "accepted none of 5 datagrams" in done.stderr
    assert command.parse_talker(done.stdout).send_errors == {"EMSGSIZE": 5}
