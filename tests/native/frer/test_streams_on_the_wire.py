"""Several streams at once: each with sequence numbers, recovery and counters of its own.

tshark, whose R-TAG dissector knows nothing of ours, dissects what leaves each member port.
"""

import struct
import time

import pytest
from captures import captured, dissected

from tsnrepro.config import FrerSettings
from tsnrepro.records.accounting import account
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

pytestmark = pytest.mark.namespaces

FIRST, RANGE, CONTROL, BACKGROUND = 9000, (9001, 9002), 9100, 9500
STREAMS = [
    SwitchStream(StreamFilter("udp", FIRST)),
    SwitchStream(
        StreamFilter("udp", RANGE[0], last_port=RANGE[1]), "frer", FrerSettings(), "vector"
    ),
    SwitchStream(StreamFilter("udp", CONTROL), "control"),
]
PORTS = (FIRST, *RANGE, CONTROL, BACKGROUND)
OF_STREAM = {0: (FIRST,), 1: RANGE, 2: (CONTROL,)}
ROUNDS = 120
FRAGMENTED_BYTES = 4000
MEMBERS = [("sw1", "m0"), ("sw1", "m1")]
BACK = [("sw2", "m0"), ("sw2", "m1")]


def settle(testbed) -> None:
    """Wait until what was sent has come through or was dropped."""
    time.sleep(0.1)


class Seen:
    """What passed while every port got its datagrams in turn, and one was answered."""

    def __init__(self, testbed, sockets, folder) -> None:
        receivers = {
            port: sockets.udp(testbed, "listener", port, receive_bytes=8_000_000) for port in PORTS
        }
        sender = sockets.udp(testbed, "talker")
        testbed.configure_streams(STREAMS)
        self.before = testbed.snapshot()
        with captured(testbed, folder, [*MEMBERS, *BACK]) as files:
            for index in range(ROUNDS):
                for port in PORTS:
                    payload = struct.pack("!I", index).ljust(200, b".")
                    sender.sendto(payload, (testbed.address("listener"), port))
                time.sleep(0.001)
            for port in (FIRST, BACKGROUND):
                long = struct.pack("!I", ROUNDS).ljust(FRAGMENTED_BYTES, b".")
                sender.sendto(long, (testbed.address("listener"), port))
            settle(testbed)
            receivers[FIRST].sendto(b"an answer", sender.getsockname())
            sender.settimeout(5)
            self.answer = sender.recv(64)
            settle(testbed)
        self.after = testbed.snapshot()
        self.received = {port: self._drain(receiver) for port, receiver in receivers.items()}
        self.frames = {place: dissected(file) for place, file in files.items()}

    @staticmethod
    def _drain(receiver) -> list[int]:
        receiver.setblocking(False)
        found = []
        while True:
            try:
                found.append(struct.unpack("!I", receiver.recv(8192)[:4])[0])
            except BlockingIOError:
                return sorted(found)

    def to(self, place, *ports: int) -> list[dict[str, str]]:
        wanted = {str(port) for port in ports}
        return [frame for frame in self.frames[place] if frame["udp.dstport"] in wanted]

    def stream(self, host: str, index: int) -> tuple[dict, dict]:
        pair = (self.before, self.after)
        before, after = (s.of_stream(index).hosts[host].station for s in pair)
        return before, after


@pytest.fixture(scope="module")
def seen(testbed, module_sockets, tmp_path_factory):
    return Seen(testbed, module_sockets, tmp_path_factory.mktemp("streams"))


def test_each_datagram_is_received_once(seen):
    whole = list(range(ROUNDS))
    assert seen.received[FIRST] == seen.received[BACKGROUND] == [*whole, ROUNDS]
    for port in (*RANGE, CONTROL):
        assert seen.received[port] == whole


@pytest.mark.parametrize("place", MEMBERS)
def test_each_stream_counts_its_own_numbers(seen, place):
    # tshark knows the ports of the long datagram, three frames, with its last fragment.
    expected = {(FIRST,): [*range(ROUNDS), ROUNDS + 2], RANGE: list(range(2 * ROUNDS))}
    for ports, numbers in expected.items():
        frames = seen.to(place, *ports)
        assert [int(frame["ieee8021cb.seq"], 0) for frame in frames] == numbers
        assert {frame["eth.type"] for frame in frames} == {"0xf1c1"}


def test_later_fragments_go_the_way_of_the_first(seen):
    """Three frames of 4000 bytes: tagged on both paths, or untagged on the first alone."""
    for place in MEMBERS:
        tagged = [f for f in seen.frames[place] if f["ieee8021cb.seq"] and f["ip.frag_offset"]]
        later = [int(f["ieee8021cb.seq"], 0) for f in tagged if f["ip.frag_offset"] != "0"]
        assert later == [ROUNDS + 1, ROUNDS + 2]
    untagged = [f for f in seen.frames[MEMBERS[0]] if f["ip.frag_offset"] not in ("", "0")]
    assert len(untagged) == 4
    assert len([f for f in seen.frames[MEMBERS[1]] if f["ip.frag_offset"] not in ("", "0")]) == 2


def test_control_and_best_effort_are_untagged_on_the_first_path_alone(seen):
    for port, count in ((CONTROL, ROUNDS), (BACKGROUND, ROUNDS + 1)):
        frames = seen.to(MEMBERS[0], port)
        assert len(frames) == count
        assert {frame["eth.type"] for frame in frames} == {"0x0800"}
        assert seen.to(MEMBERS[1], port) == []
    assert not [f for f in seen.frames[MEMBERS[1]] if f["eth.type"] != "0xf1c1"]


def test_the_answer_to_a_stream_is_protected_like_the_stream(seen):
    assert seen.answer == b"an answer"
    for place in BACK:
        answers = [f for f in seen.frames[place] if f["udp.srcport"] == str(FIRST)]
        assert [int(f["ieee8021cb.seq"], 0) for f in answers] == [0]
    before, after = seen.stream("sw1", 0)
    assert after["recovery"]["passed"] - before["recovery"]["passed"] == 1


def test_each_stream_has_counters_of_its_own(seen):
    expected = {0: ROUNDS + 3, 1: 2 * ROUNDS, 2: 0}
    for index, frames in expected.items():
        before, after = seen.stream("sw2", index)
        grown = {
            name: after["recovery"][name] - before["recovery"][name]
            for name in ("passed", "discarded", "rogue", "tagless")
        }
        assert grown == {
            "passed": frames,
            "discarded": frames,
            "rogue": 0,
            "tagless": 0,
        }
        assert seen.stream("sw1", index)[1]["generator"]["numbered"] == frames


def test_individual_recovery_sees_one_path_each(seen):
    before, after = seen.stream("sw2", 1)
    for port in ("m0", "m1"):
        passed = after["individual"][port]["passed"] - before["individual"][port]["passed"]
        discarded = after["individual"][port]["discarded"]
        assert (passed, discarded - before["individual"][port]["discarded"]) == (2 * ROUNDS, 0)


def test_every_datagram_of_every_stream_is_accounted_for(seen, testbed):
    for index, ports in OF_STREAM.items():
        received = sum(len(seen.received[port]) for port in ports)
        found = account(
            seen.before.of_stream(index),
            seen.after.of_stream(index),
            received,  # all that was sent, as another test shows
            received,
            testbed.host_of,
        )
        assert found.unaccounted == 0
        assert found.copies == found.eliminated == (0 if index == 2 else received)
        assert not any(found.drops.values())


def test_the_document_of_all_traffic_is_the_sum(seen):
    for host in ("sw1", "sw2"):
        station = seen.after.hosts[host].station
        earlier = seen.before.hosts[host].station
        for port in ("p0", "m0", "m1"):
            for way in ("in", "out"):
                total = station["ports"][port][way] - earlier["ports"][port][way]
                parts = [
                    after["ports"][port][way] - before["ports"][port][way]
                    for after, before in zip(
                        [*station["streams"], station["best_effort"]],
                        [*earlier["streams"], earlier["best_effort"]],
                        strict=True,
                    )
                ]
                assert total.frames == sum(part.frames for part in parts)
                assert total.bytes == sum(part.bytes for part in parts)


def test_an_untagged_frame_of_a_stream_is_refused_as_its_own(testbed, sockets):
    """A datagram that reaches a member port without a tag counts as tagless for its stream."""
    testbed.configure_streams(STREAMS)
    before = testbed.snapshot()
    raw = sockets.raw(testbed, "sw1", "m0")
    for port in (FIRST, BACKGROUND):
        raw.send(udp_frame(port))
    settle(testbed)
    after = testbed.snapshot()
    pairs = [(s.of_stream(0).hosts["sw2"].station) for s in (before, after)]
    assert pairs[1]["recovery"]["tagless"] - pairs[0]["recovery"]["tagless"] == 1
    others = [s.of_stream(1).hosts["sw2"].station["recovery"]["tagless"] for s in (before, after)]
    assert others[0] == others[1]


def test_a_tagged_frame_of_no_stream_is_refused(testbed, sockets):
    testbed.configure_streams(STREAMS)
    before = testbed.snapshot().hosts["sw2"].station["unidentified"]
    raw = sockets.raw(testbed, "sw1", "m1")
    frame = udp_frame(BACKGROUND)
    raw.send(frame[:12] + struct.pack("!HHH", 0xF1C1, 0, 7) + frame[12:])
    settle(testbed)
    after = testbed.snapshot().hosts["sw2"].station["unidentified"]
    assert (after - before).frames == 1


def udp_frame(port: int) -> bytes:
    """Return a UDP datagram to a port in a frame to nobody."""
    macs = b"\x02\x00\x00\x00\x00\x0a" + b"\x02\x00\x00\x00\x00\x0b"
    udp = struct.pack("!HHHH", 40000, port, 8 + 20, 0) + b"." * 20
    addresses = bytes([10, 0, 100, 1, 10, 0, 100, 2])
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + addresses
    return macs + b"\x08\x00" + ip + udp
