"""The software bridge over real ports: where frames go, in which class, and where they end."""

import json
import os
import random
import signal
import socket
import struct
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from gate_lists import two_windows

from tsnrepro.native.bridge.settings_file import PTP_QUEUE, BridgeSettings, PortSettings, Shaper

pytestmark = pytest.mark.namespaces

BROADCAST = b"\xff" * 6
OTHERS = [0, 1, 2, 3, 4, 6, 7]
SO_TIMESTAMPNS, PACKET_OUTGOING = 35, 4


def frame(to, source, *, pcp=None, vlan=10, ethertype=0x88B5, size=100, number=0):
    tag = b"" if pcp is None else struct.pack("!HH", 0x8100, pcp << 13 | vlan)
    head = to + source + tag + struct.pack("!HI", ethertype, number)
    return head.ljust(size, b"\0")


def classes(port):
    return {queue.queue: queue.sent for queue in port.queues if queue.sent}


# --- where frames go


def test_an_unknown_destination_is_flooded_and_a_known_one_is_not(bridge):
    bridge.start()
    one, two, three = bridge.stations
    first = frame(two.mac, one.mac)
    one.send(first)
    assert two.heard() == [first]
    assert three.heard() == [first]
    answer = frame(one.mac, two.mac)
    two.send(answer)
    assert one.heard() == [answer]
    assert three.heard(0.1) == []
    again = frame(BROADCAST, one.mac)
    one.send(again)
    assert [station.heard() for station in (two, three)] == [[again], [again]]
    assert {row["mac"][-2:]: row["port"] for row in json.loads(bridge.query("addresses"))} == {
        "01": "p0",
        "02": "p1",
    }
    done = bridge.end()
    assert (done.port("p0").received, done.port("p0").extra_copies) == (2, 2)
    assert done.unaccounted == 0


def test_addresses_are_learned_by_vlan_pinned_and_forgotten(bridge):
    one, two, three = bridge.stations
    settings = BridgeSettings(addresses=[("02:00:00:00:00:03", 10, "p2")], ageing_s=1)
    bridge.start(settings)
    two.send(frame(one.mac, two.mac, pcp=0, vlan=20))
    assert len(one.heard()) == len(three.heard()) == 1
    # Known in VLAN 20, not in 10; the third is known in 10 without having sent.
    for vlan, to, counts in ((20, two, [1, 0]), (10, two, [1, 1]), (10, three, [0, 1])):
        one.send(frame(to.mac, one.mac, pcp=0, vlan=vlan))
        assert [len(two.heard(0.2)), len(three.heard(0.2))] == counts
    end = time.monotonic() + 5
    while len(rows := json.loads(bridge.query("addresses"))) > 1 and time.monotonic() < end:
        time.sleep(0.1)
    assert [(row["mac"], row["static"]) for row in rows] == [("02:00:00:00:00:03", True)]


def test_a_port_that_goes_down_loses_what_was_on_it_and_comes_back(bridge):
    bridge.start(BridgeSettings(PortSettings(rate_mbps=0.5)))
    one, two, three = bridge.stations
    two.send(frame(one.mac, two.mac))
    one.heard()
    three.heard()
    # Half a megabit a second: 20 frames of 1000 bytes take 320 ms.
    for _ in range(20):
        one.send(frame(two.mac, one.mac, size=1000))
    bridge.set_link("p1", "down")
    bridge.wait_until(lambda now: not now.port("p1").up)
    lost = bridge.counters().port("p1").port_down
    assert 10 < lost <= 20
    assert three.heard(0.1) == []
    one.send(frame(two.mac, one.mac))  # its address is forgotten: to all that are up
    assert len(three.heard()) == 1
    bridge.set_link("p1", "up")
    bridge.wait_until(lambda now: now.port("p1").up)
    one.send(frame(two.mac, one.mac, number=7))
    assert frame(two.mac, one.mac, number=7) in two.heard()
    done = bridge.end()
    assert (done.port("p1").port_down, done.unaccounted) == (lost, 0)


def test_a_port_that_goes_down_takes_nothing_of_others(bridge):
    bridge.start(BridgeSettings(PortSettings(rate_mbps=0.5)))
    one, two, three = bridge.stations
    for station in (two, three):
        station.send(frame(one.mac, station.mac))
    one.heard()
    two.heard(0.1)
    three.heard(0.1)
    # As much for each of two ports as they send in 320 ms.
    for number in range(20):
        for to in (two, three):
            one.send(frame(to.mac, one.mac, size=1000, number=number))
    bridge.set_link("p1", "down")
    assert three.heard() == [frame(three.mac, one.mac, size=1000, number=n) for n in range(20)]
    done = bridge.end()
    assert done.port("p1").port_down > 10
    assert (done.port("p2").port_down, done.unaccounted) == (0, 0)


@pytest.mark.parametrize(
    "threads",
    [{"threads": 2}, {"threads": 0, "burst": 1}, {"receivers": "each", "sleep_us": 1000}],
)
def test_threads_share_the_work(bridge, threads):
    """Every frame of both directions arrives once and in order, whoever receives and sends."""
    bridge.start(BridgeSettings(PortSettings(ahead_us=100), **threads))
    one, two, three = bridge.stations
    for station in (one, two):
        station.send(frame(three.mac, station.mac))
    three.heard()
    one.heard(0.1)
    two.heard(0.1)
    for number in range(500):
        one.send(frame(two.mac, one.mac, number=number))
        two.send(frame(one.mac, two.mac, number=number))
    for to, source in ((one, two), (two, one)):
        assert to.heard() == [frame(to.mac, source.mac, number=n) for n in range(500)]
    assert bridge.end().unaccounted == 0


# --- classes


def test_vlan_and_pcp_give_the_class_and_tags_stay(bridge):
    bridge.start(BridgeSettings(classes=[(20, 0, 6), (None, 7, 1)]))
    one, two, _ = bridge.stations
    frames = [frame(two.mac, one.mac, pcp=pcp) for pcp in range(8)]
    frames += [frame(two.mac, one.mac, pcp=0, vlan=20), frame(two.mac, one.mac)]
    frames.append(frame(two.mac, one.mac, ethertype=0x88F7))
    for each in frames:
        one.send(each)
    assert sorted(two.heard()) == sorted(frames)
    expected = dict.fromkeys(range(7), 1) | {PTP_QUEUE: 1}
    expected[0] += 1  # the untagged one
    expected[1] += 1  # PCP 7
    expected[6] += 1  # VLAN 20
    assert classes(bridge.end().port("p1")) == expected


def test_ptp_overtakes_what_waits(bridge):
    bridge.start(BridgeSettings(PortSettings(rate_mbps=2)))
    one, two, _ = bridge.stations
    for number in range(10):
        one.send(frame(two.mac, one.mac, pcp=7, size=1000, number=number))
    peer_delay = b"\x01\x80\xc2\x00\x00\x0e"
    one.send(frame(peer_delay, one.mac, ethertype=0x88F7))
    order = [int.from_bytes(each[12:14], "big") for each in two.heard()]
    assert len(order) == 11
    assert order.index(0x88F7) <= 3


# --- gates and credit on real frames


def stamped(station, seconds):
    """Return when the kernel had each frame, in nanoseconds, and its PCP."""
    station.raw.settimeout(seconds)
    found = []
    try:
        while True:
            _, extra, _, address = station.raw.recvmsg(2048, 512)
            if address[2] == PACKET_OUTGOING:
                continue
            for level, kind, content in extra:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    second, nanosecond = struct.unpack("qq", content[:16])
            tags = [c for level, kind, c in extra if (level, kind) == (263, 8)]
            found.append((second * 10**9 + nanosecond, tags[0][17] >> 5))
    except TimeoutError:
        return np.array(found)


@pytest.mark.parametrize("cycle_ms", [2, 10])
def test_frames_leave_in_their_windows(bridge, cycle_ms):
    """Both classes wait at any time of the cycle; hardly any frame leaves beside its window."""
    half = cycle_ms * 500_000
    gates = two_windows(half, half, scheduled=5, others=OTHERS)
    bridge.start(BridgeSettings(PortSettings(rate_mbps=100, gates=gates), sleep_us=200))
    one, two, _ = bridge.stations
    two.raw.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    random.seed(cycle_ms)
    for number in range(300):
        one.send(frame(two.mac, one.mac, pcp=5 * (number % 2), size=400))
        time.sleep(random.uniform(0, cycle_ms / 1000 / 4))
    rows = stamped(two, 0.3)
    assert len(rows) == 300
    # The bridge goes by TAI, the stamp by UTC: whole seconds apart, and cycles divide a second.
    phase = rows[:, 0] % (2 * half)
    slack = 20_000  # bridge and network stack, from handing over to the stamp
    outside = np.where(rows[:, 1] == 5, phase > half + slack, (phase < half) & (phase > slack))
    assert outside.mean() <= 0.05
    done = bridge.end()
    # Two waves of frames, each of which took its turn; nothing was lost.
    assert {*classes(done.port("p1"))} == {0, 5}
    assert done.unaccounted == 0


def test_credit_holds_a_class_to_its_rate(bridge):
    """A backlog of 60 frames at 2 Mb/s beside a class without credit that gets the rest."""
    bridge.start(BridgeSettings(PortSettings(rate_mbps=100, ahead_us=500, shapers={5: Shaper(2)})))
    one, two, _ = bridge.stations
    two.raw.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    for _ in range(60):
        one.send(frame(two.mac, one.mac, pcp=5, size=1000))
    for _ in range(30):
        one.send(frame(two.mac, one.mac, pcp=0, size=1000))
    rows = stamped(two, 0.5)
    stream = rows[rows[:, 1] == 5][:, 0]
    assert len(rows) == 90
    wire_bits = (1000 + 24) * 8
    rate = (len(stream) - 1) * wire_bits / (stream[-1] - stream[0]) * 1000
    assert rate == pytest.approx(2.0, rel=0.02)
    others = rows[rows[:, 1] == 0][:, 0]
    assert others[-1] - others[0] < 0.1e9


def test_settings_change_while_frames_wait(bridge):
    bridge.start(BridgeSettings(PortSettings(rate_mbps=0.1)))
    one, two, _ = bridge.stations
    for number in range(20):
        one.send(frame(two.mac, one.mac, size=1000, number=number))
    time.sleep(0.3)
    assert len(two.heard(0.01)) < 10
    (bridge.folder / "fast").write_text(BridgeSettings(PortSettings(rate_mbps=100)).text())
    assert bridge.query("settings", str(bridge.folder / "fast")) == "{}\n"
    assert len(two.heard(0.5)) > 10
    done = bridge.end()
    assert (classes(done.port("p1")), done.unaccounted) == ({0: 20}, 0)


# --- where frames end


def test_what_is_no_frame_is_counted_and_stops_nothing(bridge):
    bridge.start()
    one, two, three = bridge.stations
    two.send(frame(one.mac, two.mac))
    one.heard()
    three.heard()
    for wrong in (
        frame(two.mac, one.mac, size=1560),  # too long
        frame(two.mac, BROADCAST),  # from a group
        frame(b"\x01\x80\xc2\x00\x00\x00", one.mac),  # for the bridge alone
        frame(one.mac, one.mac),  # to where it came from
    ):
        one.send(wrong)
    random.seed(1)
    for _ in range(300):
        one.send(random.randbytes(random.randint(14, 1500)))
    good = frame(two.mac, one.mac, number=99)
    one.send(good)
    assert good in two.heard()
    done = bridge.end()
    came = done.port("p0")
    assert came.received == 305
    assert min(came.oversized, came.bad_source, came.reserved, came.unswitched) >= 1
    assert came.bad_source > 100  # of random addresses, half are a group's
    assert done.unaccounted == 0


def test_frames_of_any_length_are_forwarded_or_counted(bridge):
    """From one that is a header alone to the longest; a tag that is cut off stops nothing."""
    bridge.start(BridgeSettings(PortSettings(ahead_us=1000)))
    one, two, _ = bridge.stations
    whole = [frame(two.mac, one.mac, size=18 + n)[: 14 + n] for n in range(1505)]
    cut = [frame(two.mac, one.mac, pcp=5)[:size] for size in range(14, 18)]
    for place in range(0, len(whole), 50):  # fewer than a port's ring has room for
        for each in [*cut, *whole[place : place + 50]]:
            one.send(each)
        time.sleep(0.01)
    heard = two.heard()
    assert heard == whole  # all but those whose tag is cut off
    assert bridge.end().unaccounted == 0


def test_a_loop_does_not_stop_it(bridge):
    """A cable from one port to another: a broadcast goes round for ever, and others still pass."""
    bridge.loop("l0", "l1")
    bridge.start(BridgeSettings(PortSettings(rate_mbps=20)))
    one, two, _ = bridge.stations
    two.send(frame(one.mac, two.mac))
    one.send(frame(BROADCAST, one.mac))
    time.sleep(0.2)
    before = bridge.counters().port("l0").received
    assert before > 100
    good = frame(two.mac, b"\x02\0\0\0\0\x09", pcp=7, number=99)
    one.send(good)
    time.sleep(0.2)
    assert good in two.heard_now()
    assert bridge.counters().port("l0").received > before + 100
    assert bridge.end().unaccounted == 0


# --- how it ends


def traces():
    """Return what DPDK keeps on disk, where it keeps it."""
    places = (Path("/run"), Path("/tmp"), Path("/dev/shm"), Path("/dev/hugepages"))
    names = ("*dpdk*/**", "tsn-bridge*")
    return {path for place in places for name in names for path in place.glob(name)}


def test_killed_it_leaves_nothing(bridge):
    before = traces(), bridge.devices()
    bridge.start(BridgeSettings(PortSettings(rate_mbps=1)))
    one, two, _ = bridge.stations
    assert bridge.devices() != before[1]  # it hears what is sent to others
    for number in range(20):
        one.send(frame(two.mac, one.mac, size=1000, number=number))
    bridge.end(signal.SIGKILL)
    assert (traces(), bridge.devices()) == before
    two.heard()
    # The next one starts on the same ports, under the same name.
    bridge.start()
    one.send(frame(two.mac, one.mac))
    assert len(two.heard()) == 1


def test_a_second_one_of_the_same_name_is_refused(bridge):
    bridge.start()
    first = bridge.process
    with pytest.raises(AssertionError, match="a bridge named tsn-bridge already runs"):
        bridge.start()
    bridge.process = first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BridgeSettings(PortSettings(longest_bytes=20_000)), "longest_bytes is at most 9000"),
        (BridgeSettings(addresses=[("02:00:00:00:00:01", 0, "p9")]), "p9, which is none of"),
    ],
)
def test_settings_it_cannot_apply_are_reported(bridge, settings, message):
    with pytest.raises(AssertionError, match=message):
        bridge.start(settings)


def test_a_missing_port_is_reported(bridge):
    before = traces()
    bridge.ports = ("p0", "p9")
    with pytest.raises(AssertionError, match=r"tsn-bridge: port p9: .*No such device"):
        bridge.start()
    assert traces() == before


def test_its_memory_stays_flat(bridge):
    """Ten thousand frames of every size change nothing about how much it holds."""
    bridge.start()
    one, two, _ = bridge.stations
    pages = Path(f"/proc/{bridge.process.pid}/statm")

    def load(count):
        for number in range(count):
            one.send(frame(two.mac, one.mac, size=60 + number % 1400))
        return int(pages.read_text().split()[1])

    load(5_000)
    before = load(2_000)
    assert load(10_000) - before < 500 * 4096 // os.sysconf("SC_PAGE_SIZE")
    assert bridge.end().port("p0").received <= 17_000


@pytest.mark.long
def test_a_soak_leaves_its_memory_as_it_was(bridge):
    """Anything a station can send, beside a loop, new settings and a port that comes and goes.

    More addresses than its table holds, and more frames than its pool has by far: what was not
    given back would be missing.
    """
    bridge.loop("l0", "l1")
    bridge.start(soak_settings(50))
    one, two, _ = bridge.stations
    pages = Path(f"/proc/{bridge.process.pid}/statm")
    rng, held = random.Random(3), []
    for turn in range(60):
        (bridge.folder / "next").write_text(soak_settings(rng.choice([10, 50, 200])).text())
        assert bridge.query("settings", str(bridge.folder / "next")) == "{}\n"
        if turn % 5 == 3:
            bridge.set_link("p1", "down")
        if turn % 5 == 4:
            bridge.set_link("p1", "up")
        for _ in range(4000):
            one.send(anything(rng, two.mac))
        time.sleep(0.2)
        held.append(int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    bridge.set_link("l0", "down")
    time.sleep(0.5)
    two.heard_now()
    good = frame(two.mac, one.mac, pcp=7, number=99)
    one.send(good)
    assert good in two.heard()
    assert held[-1] - held[19] < 1_000_000, held
    done = bridge.end()
    assert done.port("p0").received > 100_000
    assert done.port("p0").oversized > 1000
    assert done.table_full > 0
    assert done.port("p1").port_down > 0
    assert done.unaccounted == 0


def soak_settings(rate_mbps):
    gates = two_windows(300_000, 700_000, scheduled=5, others=OTHERS)
    port = PortSettings(
        rate_mbps=rate_mbps,
        queue_bytes=20_000,
        ahead_us=50,
        gates=gates,
        shapers={4: Shaper(rate_mbps / 4), 5: Shaper(rate_mbps / 4)},
    )
    return BridgeSettings(port, ageing_s=1)


def anything(rng, known):
    """Return a frame to one, all or nobody, of any source, class, length and content."""
    to = rng.choice([known, BROADCAST, rng.randbytes(6)])
    kind = rng.choice([0x88B5, 0x88F7, 0x8100, 0x0000, 0xFFFF])
    pcp, vlan = rng.choice([None, *range(8)]), rng.randrange(4096)
    made = frame(to, rng.randbytes(6), pcp=pcp, vlan=vlan, ethertype=kind, size=1590)
    return made[: rng.randint(14, 1590)]


@pytest.mark.long
def test_linuxptp_finds_its_master_through_a_full_bridge(bridge):
    """ptp4l at two stations: what overflows is the load beside it, whatever its class."""
    bridge.start(BridgeSettings(PortSettings(rate_mbps=50, queue_bytes=100_000)))
    one, two, _ = bridge.stations
    common = ["ptp4l", "-2", "-S", "-m", "-q", "-i", "eth0", "--free_running=1"]
    quick = ["--logSyncInterval=-3", "--logAnnounceInterval=-1", "--logMinDelayReqInterval=-3"]
    slave_output, number = [], 0
    with (
        until_its_end(one.host, ["timeout", "12", *common, *quick, "--priority1=1"]),
        until_its_end(two.host, ["timeout", "12", *common, *quick, "-s"], slave_output),
    ):
        end = time.monotonic() + 11
        while time.monotonic() < end:
            # About the line's rate, so that the load's own queue is rarely empty.
            for _ in range(50):
                one.send(frame(two.mac, one.mac, pcp=7, size=1400, number=number))
                number += 1
            time.sleep(0.01)
    master = "selected best master clock 020000.fffe.000001"
    assert any(master in line for line in slave_output), "".join(slave_output)
    done = bridge.end()
    assert done.port("p1").queues[7].dropped > 0
    assert done.port("p1").queues[PTP_QUEUE].dropped == 0
    assert done.port("p0").ptp > 20


@contextmanager
def until_its_end(host, argv, output=None):
    """Run a program that ends by itself beside the block; ``output`` gets its lines."""
    process = subprocess.Popen(host.enter(argv), stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        lines = process.communicate()[0].splitlines(keepends=True)
        if output is not None:
            output += lines
