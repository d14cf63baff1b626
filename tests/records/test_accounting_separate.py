"""Accounting on separate hosts: losses without a counter are attributed to a location."""

import json

import pytest

from tsnrepro.common.errors import ToolError
from tsnrepro.records.accounting import BEHIND_CARD, SOCKET_BUFFER, TALKER_SOCKET
from tsnrepro.records.accounting_separate import account_separate_hosts, refuse_gains
from tsnrepro.tools import host_counters
from tsnrepro.tools.host_counters import read_host
from tsnrepro.tools.snapshot import Snapshot

PORTS = {"talker": ("eth0",), "listener": ("eth0",), "sw1": ("p0", "m0", "m1")}
PORTS["sw2"] = PORTS["sw1"]
NOTHING = dict.fromkeys(("UdpRcvbufErrors", "UdpNoPorts", "UdpInCsumErrors", "IpReasmFails"), 0)


def frames(number):
    return {"frames": number, "bytes": 0, "stream_frames": number, "stream_fragments": 0}


def printed(host: str, counts: dict, dropped: dict, stack: dict, cards: dict) -> str:
    """Return the output of a host; a count of None is a port without a counter."""
    ports = {
        port: {
            way: None
            if counts.get((host, port, way), 0) is None
            else frames(counts.get((host, port, way), 0))
            for way in ("in", "out")
        }
        for port in PORTS[host]
    }
    station = {"ports": ports}
    for place in ("eliminated", "rogue", "tagless"):
        station[place] = frames(counts.get((host, place), 0))
    queues = [
        {"dev": p, "root": True, "packets": 0, "bytes": 0, "qlen": 0}
        | {"drops": dropped.get((host, p), 0)}
        for p in PORTS[host]
    ]
    links = [
        {"ifname": p, "ifindex": n}
        | {"stats64": {"tx": {"dropped": 0}, "rx": cards.get((host, p), {})}}
        for n, p in enumerate(PORTS[host])
    ]
    values = NOTHING | stack
    lines = []
    for prefix in ("Udp", "Ip"):
        names = [name for name in values if name.startswith(prefix)]
        lines.append(f"{prefix}: {' '.join(name.removeprefix(prefix) for name in names)}")
        lines.append(f"{prefix}: {' '.join(str(values[name]) for name in names)}")
    parts = [json.dumps(station), json.dumps(queues), json.dumps(links), "\n".join(lines)]
    return host_counters.SEPARATOR.join(parts)


def snapshot(counts=None, dropped=None, stack=None, cards=None) -> Snapshot:
    given = [each or {} for each in (counts, dropped, stack, cards)]
    hosts = {host: read_host(printed(host, *given)) for host in PORTS}
    return Snapshot(hosts, {}, None, apart=True)


WHOLE = {
    ("talker", "eth0", "out"): 1000,
    ("sw1", "p0", "in"): 1000,
    **{("sw1", m, "out"): 1000 for m in ("m0", "m1")},
    **{("sw2", m, "in"): 1000 for m in ("m0", "m1")},
    ("sw2", "eliminated"): 1000,
    ("sw2", "p0", "out"): 1000,
    ("listener", "eth0", "in"): 1000,
}
UNCOUNTED = {
    ("sw1", "m0", "out"): None,
    ("sw1", "m1", "out"): None,
    ("sw2", "p0", "out"): None,
}


def accounted(changes, received=1000, dropped=None, stack=None, cards=None):
    counts = WHOLE | changes
    none = {place: None for place, count in counts.items() if count is None}
    after = snapshot(counts, dropped, stack, cards)
    found = account_separate_hosts(snapshot(none), after, 1000, received)
    assert found.unaccounted == 0
    return found, {place: lost for place, lost in found.drops.items() if lost}


@pytest.mark.parametrize("changes", [{}, UNCOUNTED], ids=["counted", "not counted"])
def test_nothing_is_lost(changes):
    found, drops = accounted(changes)
    assert (found.copies, found.eliminated, drops) == (1000, 1000, {})


@pytest.mark.parametrize("changes", [{}, UNCOUNTED], ids=["counted", "not counted"])
@pytest.mark.parametrize(
    ("lost", "received", "place"),
    [
        ({("sw2", "m1", "in"): 990, ("sw2", "eliminated"): 990}, 1000, "between sw1 m1 and sw2 m1"),
        ({("listener", "eth0", "in"): 990}, 990, "between sw2 and listener"),
    ],
)
def test_losses_between_two_stations_are_named_after_both(changes, lost, received, place):
    found, drops = accounted(changes | lost, received)
    assert drops == {place: 10}
    # A datagram that arrives over the other path is not lost.
    assert found.network_lost == 1000 - received


def test_a_loss_that_a_queue_counts():
    lost = {("sw2", "m1", "in"): 990, ("sw2", "eliminated"): 990}
    _, drops = accounted(lost, dropped={("sw1", "m1"): 7})
    assert drops == {"sw1 queue m1": 7, "between sw1 m1 and sw2 m1": 3}


def test_a_queue_cannot_have_dropped_more_than_is_missing():
    """It also drops frames of other traffic."""
    _, drops = accounted({}, dropped={("sw1", "m1"): 7})
    assert drops == {}


LOST_AT = {
    ("sw1", "p0"): (
        {place: 990 for place, count in WHOLE.items() if place[0] != "talker" and count == 1000},
        "between talker and sw1",
        "card of sw1 p0",
    ),
    ("sw2", "m1"): (
        {("sw2", "m1", "in"): 990, ("sw2", "eliminated"): 990},
        "between sw1 m1 and sw2 m1",
        "card of sw2 m1",
    ),
    ("listener", "eth0"): (
        {("listener", "eth0", "in"): 990},
        "between sw2 and listener",
        "card of listener",
    ),
}


@pytest.mark.parametrize("port", LOST_AT, ids="-".join)
def test_a_loss_that_a_card_counts(port):
    """Limited to the missing frames: it also counts those of other traffic."""
    lost, between, card = LOST_AT[port]
    received = 1000 if port == ("sw2", "m1") else 990
    _, drops = accounted(lost, received, cards={port: {"missed_errors": 4, "errors": 1}})
    assert drops == {f"{card}, no room": 4, f"{card}, damaged": 1, between: 5}
    _, drops = accounted(lost, received, cards={port: {"fifo_errors": 700, "errors": 700}})
    assert drops == {f"{card}, no room": 10}
    _, drops = accounted({}, cards={port: {"missed_errors": 4}})
    assert drops == {}


def test_a_listener_too_slow_for_its_card_is_not_a_network_loss():
    lost = LOST_AT["listener", "eth0"][0]
    slow, _ = accounted(lost, 990, cards={("listener", "eth0"): {"missed_errors": 10}})
    assert (slow.host_lost, slow.network_lost) == (10, 0)
    cable, _ = accounted(lost, 990, cards={("listener", "eth0"): {"errors": 10}})
    assert (cable.host_lost, cable.network_lost) == (0, 10)


def test_losses_in_the_hosts():
    found, drops = accounted({}, 980, stack={"UdpRcvbufErrors": 15})
    assert drops == {SOCKET_BUFFER: 15, BEHIND_CARD: 5}
    assert (found.host_lost, found.network_lost) == (20, 0)
    less = {place: 995 for place, count in WHOLE.items() if count == 1000}
    found, drops = accounted(less, 995)
    assert drops == {TALKER_SOCKET: 5}


def test_counts_before_the_trial_do_not_count():
    found = account_separate_hosts(snapshot(WHOLE), snapshot(WHOLE), 0, 0)
    assert set(found.drops.values()) == {0}


def test_frames_of_another_sender_are_refused():
    """They balance, so only a location that gains frames shows them."""
    more = {place: 23_870 for place, count in WHOLE.items() if place[0] != "listener"}
    found, drops = accounted(more)
    assert drops[TALKER_SOCKET] == -22_870
    with pytest.raises(ToolError, match=r"22870 frames more .*'talker socket'.*frer-one"):
        refuse_gains(found, "frer-one")
    refuse_gains(accounted({})[0], "frer-one")
