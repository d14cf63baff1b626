"""A member path that is longer than the other."""

import statistics
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import EmulatedSettings, parse
from tsnrepro.native import frer
from tsnrepro.records.accounting import account
from tsnrepro.testbeds.emulated.testbed import LISTENER, TALKER
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

PORT = 9000
STREAM = StreamFilter("udp", PORT)
DELAY_US = 4000
JITTER_US = 20_000
# What a busy machine of two processors may add to a program's wake-up, in the median.
LATE_US = 1500
PACKET_OUTGOING = 4


@pytest.fixture
def longer(bring_up):
    """Return a testbed whose second path is longer."""
    testbed = bring_up(delay_us=[0, DELAY_US])
    yield testbed
    testbed.faults.clear()


class Flow:
    """Datagrams with their times, from talker to listener."""

    def __init__(self, testbed, sockets) -> None:
        self._to = (testbed.address(LISTENER), PORT)
        self._sender = sockets.udp(testbed, TALKER)
        self._receiver = sockets.udp(testbed, LISTENER, PORT, receive_bytes=4_000_000)

    def one_way_us(self, count: int) -> list[float]:
        """Send one datagram after the other and return the time each was on its way."""
        self._receiver.settimeout(2)
        times = []
        for index in range(count):
            began = time.monotonic_ns()
            self._sender.sendto(struct.pack("!I", index), self._to)
            assert struct.unpack("!I", self._receiver.recv(64))[0] == index
            times.append((time.monotonic_ns() - began) / 1000)
        return times

    def send(self, count: int) -> None:
        for index in range(count):
            self._sender.sendto(struct.pack("!I", index).ljust(200, b"."), self._to)
            if index % 20 == 19:
                time.sleep(0.001)

    def received(self) -> list[int]:
        """Return the numbers that came, sorted: two processors may let frames change places."""
        self._receiver.setblocking(False)
        found = []
        while True:
            try:
                found.append(struct.unpack("!I", self._receiver.recv(2048)[:4])[0])
            except BlockingIOError:
                return sorted(found)


def leaving(port, macs: bytes, count: int):
    """Yield the next frames between two addresses that leave a port, as they leave."""
    port.settimeout(2)
    while count:
        frame, sender = port.recvfrom(4096)
        if sender[2] == PACKET_OUTGOING and frame.startswith(macs):
            yield frame
            count -= 1


def test_the_longer_path_takes_that_much_longer(longer, sockets):
    flow = Flow(longer, sockets)
    longer.configure("frer", STREAM)
    longer.pin_neighbours()
    short = statistics.median(flow.one_way_us(50))
    longer.faults.cut(0)
    long = statistics.median(flow.one_way_us(50))
    assert short < LATE_US
    assert DELAY_US <= long < DELAY_US + LATE_US


def test_jitter_is_uniform_on_top_of_the_delay(bring_up, sockets):
    """Datagrams one after the other, so that none waits for the one before it."""
    testbed = bring_up(delay_us=[0, DELAY_US], jitter_us=[0, JITTER_US])
    flow = Flow(testbed, sockets)
    testbed.configure("frer", STREAM)
    testbed.pin_neighbours()
    testbed.faults.cut(0)
    assert min(flow.one_way_us(400)) >= DELAY_US
    testbed.faults.clear()
    # The delay line's own times: the programs at both ends may wake up late.
    found = testbed.snapshot().delays["m1"]["forth"]
    assert (found.wanted_us, found.jitter_us) == (DELAY_US, JITTER_US)
    for share, quantile_us in ((0, found.min_us), (0.5, found.p50_us), (0.9, found.p90_us)):
        off = quantile_us - DELAY_US - share * JITTER_US
        assert -0.1 * JITTER_US < off < 0.1 * JITTER_US + LATE_US


def test_jitter_keeps_the_order_of_frames(bring_up, sockets):
    testbed = bring_up(delay_us=[0, DELAY_US], jitter_us=[0, JITTER_US])
    entrance, exit_port = sockets.raw(testbed, "sw1", "m1"), sockets.raw(testbed, "delay", "b1")
    macs = b"\x02\x00\x00\x00\x00\x0a" + b"\x02\x00\x00\x00\x00\x0b"
    for number in range(200):
        entrance.send(macs + struct.pack("!HI", 0x88B5, number) + bytes(42))
        time.sleep(0.0005)
    assert list(leaving(exit_port, macs, 200)) == [
        macs + struct.pack("!HI", 0x88B5, number) + bytes(42) for number in range(200)
    ]


def test_the_delay_is_measured_in_both_directions(longer):
    longer.configure("frer", STREAM)
    longer.hosts[TALKER].run(
        ["ping", "-c", "20", "-i", "0.02", longer.address(LISTENER)], deadline_s=10
    ).check()
    time.sleep(0.05)
    snapshot = longer.snapshot()
    assert set(snapshot.delays) == {"m1"}
    for way, port in (("forth", "sw1"), ("back", "sw2")):
        found = snapshot.delays["m1"][way]
        assert found.wanted_us == DELAY_US
        # The hosts speak IPv6 unasked, also between the two readings.
        assert 20 <= snapshot.hosts[port].station["ports"]["m1"]["out"].frames <= found.frames
        assert found.lost == 0
        assert DELAY_US <= found.min_us <= found.max_us
        assert DELAY_US <= found.p50_us <= found.p99_us <= found.max_us + 1
        assert found.p50_us < DELAY_US + LATE_US


def test_copies_over_the_longer_path_are_eliminated_and_accounted_for(longer, sockets):
    flow = Flow(longer, sockets)
    longer.configure("frer", STREAM)
    before = longer.snapshot()
    flow.send(2000)
    time.sleep(0.1)
    received = flow.received()
    after = longer.snapshot()
    assert received == list(range(2000))
    found = account(before, after, 2000, 2000, longer.host_of)
    assert found.unaccounted == 0
    assert found.eliminated == 2000


def test_a_path_longer_than_the_history_is_rogue(longer, sockets):
    """8 numbers behind is too far: at 2000 datagrams in 0.1 s, 4 ms are 80 numbers."""
    flow = Flow(longer, sockets)
    longer.configure("frer", STREAM)
    history = [longer.frerctl, "set", "p0", "--history", "8"]
    longer.hosts["sw2"].run(history, deadline_s=5).check()
    before = longer.snapshot().hosts["sw2"].station["recovery"]["rogue"]
    flow.send(2000)
    time.sleep(0.1)
    assert flow.received() == list(range(2000))
    after = longer.snapshot().hosts["sw2"].station["recovery"]["rogue"]
    assert after - before > 1000


def test_a_stray_frame_with_an_old_number_starts_no_recovery(longer, sockets):
    """Frames that a host sends unasked are on their way, numbered, when streams start afresh."""
    flow, stray = Flow(longer, sockets), sockets.raw(longer, TALKER, "eth0")
    frame = bytes.fromhex("02000000000a02000000000b88b5") + b"." * 46
    ended = threading.Event()

    def send_unasked() -> None:
        while not ended.wait(0.0005):
            stray.send(frame)

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_unasked)
        try:
            for _ in range(5):
                longer.configure("frer", STREAM)
                flow.send(300)
                time.sleep(0.1)
                assert flow.received() == list(range(300))
        finally:
            ended.set()
        sending.result()


def test_a_cut_of_the_longer_path_is_one_at_both_ends(longer, sockets):
    flow = Flow(longer, sockets)
    longer.configure("frer", STREAM)
    longer.faults.cut(1)
    for switch in ("sw1", "sw2"):
        flags = longer.hosts[switch].run(["ip", "link", "show", "m1"], deadline_s=5).stdout
        assert "state DOWN" in flags
    flow.send(100)
    time.sleep(0.05)
    assert flow.received() == list(range(100))
    longer.faults.repair(1)
    before = longer.snapshot().hosts["sw2"].station["eliminated"]
    flow.send(100)
    time.sleep(0.1)
    after = longer.snapshot().hosts["sw2"].station["eliminated"]
    # Of the stream: the hosts' own frames go both ways too.
    assert (after - before).stream_frames == 100


def test_what_is_on_its_way_at_a_cut_is_accounted_for(longer, sockets):
    flow = Flow(longer, sockets)
    longer.configure("frer", STREAM)
    before = longer.snapshot()
    flow.send(1000)
    longer.faults.cut(1)
    flow.send(1000)
    longer.faults.repair(1)
    flow.send(1000)
    time.sleep(0.1)
    received = flow.received()
    found = account(before, longer.snapshot(), 3000, len(received), longer.host_of)
    assert received == sorted([*range(1000)] * 3)
    assert found.unaccounted == 0
    assert found.drops["sw1 queue m1"] + found.drops["delay line"] + found.eliminated == 3000
    assert found.drops["sw1 queue m1"] >= 1000


def test_no_byte_changes_on_the_way(longer, sockets):
    """Frames of all lengths, with and without VLAN and R-TAG, in order."""
    entrance = sockets.raw(longer, "sw1", "m1")
    macs = b"\x02\x00\x00\x00\x00\x0a" + b"\x02\x00\x00\x00\x00\x0b"
    r_tag, c_tag = struct.pack("!HHH", 0xF1C1, 0, 513), struct.pack("!HH", 0x8100, 5 << 13 | 42)
    sent = [
        macs + tags + struct.pack("!H", 0x88B5) + bytes(index % 251 for index in range(length))
        for length in (46, 100, 1500)
        for tags in (b"", r_tag, c_tag, c_tag + r_tag)
    ]
    exit_port = sockets.raw(longer, "delay", "b1")
    for frame in sent:
        entrance.send(frame)
    assert list(leaving(exit_port, macs, len(sent))) == sent


@pytest.mark.parametrize("key", ["delay_us", "jitter_us"])
def test_a_delay_without_a_path_is_refused(key):
    with pytest.raises(ConfigurationError, match=f"{key} names 3 paths of 2"):
        parse(EmulatedSettings, {key: [0, 1, 2]}, "testbed.yaml")


def test_wrong_words_are_named(longer):
    def said(*words: str) -> str:
        done = longer.hosts["delay"].run([str(frer.delayline()), *words], deadline_s=5)
        assert done.exit_status == 1
        return done.stderr

    assert "two devices and a delay are needed" in said("a1", "b1")
    assert "unknown option '-1'" in said("a1", "b1", "-1")
    assert "DELAY_NS takes a whole number from 0 to 100000000" in said("a1", "b1", "100000001")
    assert "no network device 'a7'" in said("a7", "b1", "1")
