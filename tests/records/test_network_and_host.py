"""Losses of the network, losses of the hosts, and unread datagrams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.records.accounting import (
    HOST_LOCATIONS,
    SOCKET_BUFFER,
    SOCKET_CLOSED,
    TALKER_QUEUE,
    Accounting,
)

SLOW = ("10mbit", 2000, 5000)
BOTH = pytest.mark.parametrize("configuration", ["frer", "control"])
PLACES = (*HOST_LOCATIONS, SOCKET_CLOSED, "sw1 queue m0", "sw1 queue m1", "recovery: rogue")
COUNTS = st.integers(0, 10**6)


@given(COUNTS, COUNTS, COUNTS, st.dictionaries(st.sampled_from(PLACES), COUNTS))
def test_the_loss_is_the_sum_of_four_parts(copies, received, eliminated, drops):
    found = Accounting(10**6, copies, received, eliminated, drops)
    parts = ("network_lost", "host_lost", "unread", "unaccounted")
    assert found.sent - found.received == sum(found.document()[name] for name in parts)


@pytest.fixture(scope="module")
def slow_members(bring_up):
    return bring_up(member_link_rate_mbps=20, queue_bytes=60_000, burst_bytes=2000)


@pytest.mark.namespaces
@BOTH
def test_losses_at_slow_member_links_are_the_networks(
    make_bench, slow_members, drop_locations, configuration
):
    """The talker's link is faster than a member link, whose queue drops the rest."""
    bench = make_bench(slow_members)
    bench.configure(configuration)
    before = slow_members.snapshot().hosts["sw1"].queues
    found = bench.trial(settle_s=0.4)
    after = slow_members.snapshot().hosts["sw1"].queues
    dropped = {
        f"sw1 queue {path}": after[path].dropped - before[path].dropped
        for path in (("m0", "m1") if configuration == "frer" else ("m0",))
    }
    assert drop_locations(found) == dropped
    assert found.network_lost == found.sent - found.received > 0
    assert (found.host_lost, found.unread, found.unaccounted) == (0, 0, 0)


@pytest.mark.namespaces
def test_a_datagram_that_one_path_dropped_is_not_lost(bench, drop_locations):
    bench.configure("frer")
    with bench.throttled("sw1", "m0", *SLOW):
        found = bench.trial()
    assert set(drop_locations(found)) == {"sw1 queue m0"}
    assert (found.network_lost, found.host_lost, found.unaccounted) == (0, 0, 0)


@pytest.mark.namespaces
@BOTH
def test_hosts_lose_in_their_queue_and_their_socket(bench, drop_locations, configuration):
    bench.configure(configuration)
    with bench.throttled("talker", "eth0", "10mbit", 2000, 50_000):
        found = bench.trial(receive_bytes=5_000, settle_s=0.3)
    assert set(drop_locations(found)) == {TALKER_QUEUE, SOCKET_BUFFER}
    assert found.host_lost == found.sent - found.received > 0
    assert (found.network_lost, found.unread, found.unaccounted) == (0, 0, 0)


@pytest.mark.namespaces
@BOTH
def test_the_last_queue_is_the_networks_and_unread_is_neither(bench, drop_locations, configuration):
    bench.configure(configuration)
    with bench.throttled("sw2", "p0", *SLOW):
        found = bench.trial(read=False)
    assert set(drop_locations(found)) == {"sw2 queue p0", SOCKET_CLOSED}
    assert found.network_lost == found.drops["sw2 queue p0"]
    assert found.unread == 400 - found.network_lost > 0
    assert (found.host_lost, found.unaccounted) == (0, 0)
