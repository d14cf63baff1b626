"""What the network lost, what the hosts lost, and what was merely not read in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.records.accounting import (
    HOST_PLACES,
    SOCKET_BUFFER,
    SOCKET_CLOSED,
    TALKER_QUEUE,
    Accounting,
)

SLOW = ("10mbit", 2000, 5000)
BOTH = pytest.mark.parametrize("configuration", ["frer", "control"])
PLACES = (*HOST_PLACES, SOCKET_CLOSED, "sw1 queue m0", "sw1 queue m1", "recovery: rogue")
COUNTS = st.integers(0, 10**6)


@given(COUNTS, COUNTS, COUNTS, st.dictionaries(st.sampled_from(PLACES), COUNTS))
def test_what_was_not_received_is_the_sum_of_four_parts(copies, received, eliminated, drops):
    found = Accounting(10**6, copies, received, eliminated, drops)
    parts = ("network_lost", "host_lost", "unread", "unaccounted")
    assert found.sent - found.received == sum(found.document()[name] for name in parts)


@pytest.fixture(scope="module")
def slow_members(bring_up):
    return bring_up(member_link_rate_mbps=20, queue_bytes=60_000, burst_bytes=2000)


@pytest.mark.namespaces
@BOTH
def test_slow_member_links_make_the_network_lose(make_bench, slow_members, places, configuration):
    """The talker's link carries what a member link cannot: its queue is where the rest ends."""
    bench = make_bench(slow_members)
    bench.configure(configuration)
    before = slow_members.snapshot().hosts["sw1"].queues
    found = bench.trial(settle_s=0.4)
    after = slow_members.snapshot().hosts["sw1"].queues
    dropped = {
        f"sw1 queue {path}": after[path].dropped - before[path].dropped
        for path in (("m0", "m1") if configuration == "frer" else ("m0",))
    }
    assert places(found) == dropped
    assert found.network_lost == found.sent - found.received > 0
    assert (found.host_lost, found.unread, found.unaccounted) == (0, 0, 0)


@pytest.mark.namespaces
def test_a_datagram_that_one_path_dropped_is_not_lost(bench, places):
    bench.configure("frer")
    with bench.throttled("sw1", "m0", *SLOW):
        found = bench.trial()
    assert set(places(found)) == {"sw1 queue m0"}
    assert (found.network_lost, found.host_lost, found.unaccounted) == (0, 0, 0)


@pytest.mark.namespaces
@BOTH
def test_hosts_lose_in_their_queue_and_their_socket(bench, places, configuration):
    bench.configure(configuration)
    with bench.throttled("talker", "eth0", "10mbit", 2000, 50_000):
        found = bench.trial(receive_bytes=5_000, settle_s=0.3)
    assert set(places(found)) == {TALKER_QUEUE, SOCKET_BUFFER}
    assert found.host_lost == found.sent - found.received > 0
    assert (found.network_lost, found.unread, found.unaccounted) == (0, 0, 0)


@pytest.mark.namespaces
@BOTH
def test_the_last_queue_is_the_networks_and_the_unread_is_nobodys(bench, places, configuration):
    bench.configure(configuration)
    with bench.throttled("sw2", "p0", *SLOW):
        found = bench.trial(read=False)
    assert set(places(found)) == {"sw2 queue p0", SOCKET_CLOSED}
    assert found.network_lost == found.drops["sw2 queue p0"]
    assert found.unread == 400 - found.network_lost > 0
    assert (found.host_lost, found.unaccounted) == (0, 0)
