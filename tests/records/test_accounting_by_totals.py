"""Accounting by the kernel's totals, without a trace of drops, and over three paths."""

import pytest

from tsnrepro.records.accounting import REASSEMBLY, SOCKET_BUFFER, STACK

pytestmark = pytest.mark.namespaces

REASSEMBLY_SECONDS = 1.6
SLOW = ("10mbit", 2000, 5000)


@pytest.fixture(scope="module")
def plain_testbed(bring_up):
    return bring_up(trace_drops=False, paths=3)


@pytest.fixture
def untraced(make_bench, plain_testbed):
    bench = make_bench(plain_testbed)
    bench.configure("frer")
    return bench


def test_three_paths_make_two_copies(untraced, drop_locations):
    found = untraced.trial()
    assert (found.received, found.copies, found.eliminated) == (400, 800, 800)
    assert drop_locations(found) == {}
    assert found.unaccounted == 0


@pytest.mark.parametrize("path", ["m0", "m2"])
def test_a_path_drops(untraced, drop_locations, path):
    with untraced.throttled("sw1", path, *SLOW):
        found = untraced.trial()
    assert found.received == 400
    assert drop_locations(found) == {f"sw1 queue {path}": 800 - found.eliminated}
    assert found.unaccounted == 0


def test_other_traffic_that_the_queue_dropped_is_not_the_streams(untraced, drop_locations):
    """Three frames of each datagram are dropped; the datagram counts once, by its first frame."""
    with untraced.throttled("sw1", "m0", "10mbit", 1000, 5000):
        untraced.run("talker", "sh", "-c", "ping -c 3 -i 0.05 -s 1200 10.0.100.2 >/dev/null")
        found = untraced.trial(datagrams=50, payload_bytes=4400, settle_s=REASSEMBLY_SECONDS)
    assert (found.received, drop_locations(found)) == (50, {"sw1 queue m0": 50})
    assert found.unaccounted == 0


def test_listener_socket_buffer(untraced, drop_locations):
    found = untraced.trial(receive_bytes=20_000)
    assert drop_locations(found) == {SOCKET_BUFFER: 400 - found.received}
    assert found.unaccounted == 0


def test_no_listener(untraced, drop_locations):
    found = untraced.trial(datagrams=100, listen=False)
    assert (drop_locations(found), found.unaccounted) == ({STACK: 100}, 0)


def test_drops_without_a_total_stay_unaccounted(untraced, drop_locations):
    """Closing a socket with unread datagrams increments no counter of the kernel."""
    found = untraced.trial(datagrams=100, read=False)
    assert (drop_locations(found), found.unaccounted) == ({}, 100)


def test_a_datagram_without_its_first_fragment_counts_at_the_queue(untraced, drop_locations):
    """The kernel also counts a failed reassembly; the datagram counts once."""
    with untraced.throttled("sw2", "p0", "1000mbit", 1200, 100_000):
        found = untraced.trial(datagrams=20, payload_bytes=2000, settle_s=REASSEMBLY_SECONDS)
    assert (found.received, drop_locations(found)) == (0, {"sw2 queue p0": 20})
    assert found.unaccounted == 0


def test_a_datagram_without_its_last_fragment_counts_in_reassembly(untraced, drop_locations):
    """The first fragment takes the tokens, the second fills the queue, the third is dropped."""
    with untraced.throttled("sw2", "p0", "10mbit", 1600, 1600):
        found = untraced.trial(
            datagrams=20, payload_bytes=4000, pause_s=0.01, settle_s=REASSEMBLY_SECONDS
        )
    drops = drop_locations(found)
    assert found.received == 0
    assert drops[REASSEMBLY] >= 10
    assert drops[REASSEMBLY] + drops.get("sw2 queue p0", 0) == 20
    assert found.unaccounted == 0
