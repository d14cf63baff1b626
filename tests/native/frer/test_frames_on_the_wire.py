"""What a third party's dissector sees on the links while real traffic passes."""

import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from captures import captured, dissected

from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

PORT = 9000
STREAM = StreamFilter("udp", PORT)
DATAGRAMS = 300
PAYLOADS_BYTES = (18, 200, 1472)
R_TAG = "0xf1c1"
EXPERIMENTAL = 0x88B5  # IEEE Std 802, local experimental EtherType 1: nobody answers it
R_TAG_BYTES = 6
SENDING, RECEIVING = ("talker", "eth0"), ("listener", "eth0")
MEMBERS = [("sw1", "m0"), ("sw1", "m1")]
BACK = [("sw2", "m0"), ("sw2", "m1")]
EVERYWHERE = [SENDING, *MEMBERS, *BACK, RECEIVING]


def number(frame: dict[str, str]) -> int:
    return int(frame["ieee8021cb.seq"], 0)


def datagram(frame: dict[str, str]) -> int:
    """Return the number that the sending test wrote into a datagram of the stream."""
    return int(frame["data.data"][:8], 16)


def is_datagram(frame: dict[str, str]) -> bool:
    return frame["udp.dstport"] == str(PORT)


def send_datagrams(testbed, sockets, count: int) -> None:
    sender = sockets.udp(testbed, "talker")
    for index in range(count):
        payload = struct.pack("!I", index).ljust(PAYLOADS_BYTES[index % len(PAYLOADS_BYTES)], b".")
        sender.sendto(payload, (testbed.address("listener"), PORT))
        if index % 10 == 9:
            time.sleep(0.001)


def address(testbed, host: str) -> dict[str, str]:
    """Return a host's MAC and its link-local IPv6 address, once it may be used."""
    script = "cat /sys/class/net/eth0/address; ip -6 -o addr show dev eth0 scope link -tentative"
    end = time.monotonic() + 10
    while True:
        found = testbed.hosts[host].run(["sh", "-c", script], deadline_s=10).stdout.split()
        if "inet6" in found:
            return {"mac": found[0], "ipv6": found[found.index("inet6") + 1].split("/")[0]}
        assert time.monotonic() < end, f"{host} has no IPv6 address: {found}"
        time.sleep(0.2)


def ping(testbed, *argv: str) -> None:
    testbed.hosts["talker"].run(["ping", "-c", "1", "-W", "2", *argv], deadline_s=10).check()


def everything_at_once(testbed, sockets, configuration: str) -> None:
    """Send the stream, and IPv4, IPv6 and ARP besides, in both directions."""
    listener = address(testbed, "listener")
    address(testbed, "talker")  # while its own is tentative, it sends nothing from it
    testbed.configure(configuration, STREAM)
    ping(testbed, testbed.address("listener"))
    testbed.hosts["talker"].run(["ip", "neigh", "flush", "dev", "eth0"], deadline_s=10).check()
    ping(testbed, testbed.address("listener"))
    ping(testbed, "-6", f"{listener['ipv6']}%eth0")
    with sockets.udp(testbed, "listener", PORT, receive_bytes=4_000_000) as receiver:
        receiver.settimeout(5)
        send_datagrams(testbed, sockets, DATAGRAMS)
        for _ in range(DATAGRAMS):
            receiver.recv(2048)


class Seen:
    """The frames at every place, and the hosts' addresses."""

    def __init__(self, testbed, files) -> None:
        self.macs = {host: address(testbed, host)["mac"] for host in ("talker", "listener")}
        with ThreadPoolExecutor() as pool:
            self.frames = dict(zip(files, pool.map(dissected, files.values()), strict=True))

    def sent_by(self, host: str, place) -> list[dict[str, str]]:
        return [frame for frame in self.frames[place] if frame["eth.src"] == self.macs[host]]


def while_captured(frames: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the frames from the first ping to the last datagram: no capture lacks one of those.

    The captures do not begin and end in one moment, and hosts send unasked.
    """
    first = next(i for i, frame in enumerate(frames) if frame["ip.proto"] == "1")
    last = max(i for i, frame in enumerate(frames) if is_datagram(frame))
    return frames[first : last + 1]


# --- FRER ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frer(testbed, module_sockets, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frer")
    testbed.configure("frer", STREAM)
    with captured(testbed, folder, EVERYWHERE) as files:
        everything_at_once(testbed, module_sockets, "frer")
        hosts = testbed.snapshot().hosts
    seen = Seen(testbed, files)
    seen.numbered = {s: hosts[s].station["generator"]["numbered"] for s in ("sw1", "sw2")}
    return seen


def since_configured(seen, host: str, switch: str, place) -> list[dict[str, str]]:
    """Return what left a member port since the sequence generator started afresh."""
    frames = seen.sent_by(host, place)
    starts = [i for i, frame in enumerate(frames) if frame["ieee8021cb.seq"] and not number(frame)]
    assert starts, "no frame carries sequence number 0"
    return frames[starts[-1] :]


@pytest.mark.parametrize(
    ("host", "switch", "places"),
    [("talker", "sw1", MEMBERS), ("listener", "sw2", BACK)],
    ids=["forth", "back"],
)
def test_numbers_are_0_1_2_on_both_paths(frer, host, switch, places):
    for place in places:
        frames = since_configured(frer, host, switch, place)
        assert [number(frame) for frame in frames] == list(range(len(frames)))
        assert len(frames) >= frer.numbered[switch] > 0
        assert {frame["eth.type"] for frame in frames} == {R_TAG}
        # Nothing else than tagged frames leaves a member port, whatever the frame carries.
        assert all(frame["ieee8021cb.etype"] in ("0x0800", "0x86dd", "0x0806") for frame in frames)


def test_both_paths_carry_the_same_frame_under_a_number(frer):
    one, other = (while_captured(frer.sent_by("talker", place)) for place in MEMBERS)
    assert one == other


def test_every_kind_of_frame_is_tagged_and_arrives_untagged(frer):
    kinds = {
        "datagrams": (is_datagram, DATAGRAMS),
        "ping": (lambda f: f["ip.proto"] == "1", 1),
        "ping -6": (lambda f: f["icmpv6.type"] == "128", 1),
        "ARP": (lambda f: bool(f["arp.opcode"]), 1),
    }
    for kind, (is_kind, at_least) in kinds.items():
        sent = [f for f in while_captured(frer.sent_by("talker", SENDING)) if is_kind(f)]
        assert len(sent) >= at_least, kind
        for place in MEMBERS:
            tagged = [f for f in while_captured(frer.sent_by("talker", place)) if is_kind(f)]
            assert len(tagged) == len(sent), (kind, place)
            assert all(f["eth.type"] == R_TAG for f in tagged), (kind, place)
            assert [f["ieee8021cb.etype"] for f in tagged] == [f["eth.type"] for f in sent]
        out = [f for f in while_captured(frer.sent_by("talker", RECEIVING)) if is_kind(f)]
        assert out == sent, kind


def test_the_listener_sees_one_copy_of_each_datagram(frer):
    copies = [f for f in frer.sent_by("talker", RECEIVING) if is_datagram(f)]
    assert [datagram(f) for f in copies] == list(range(DATAGRAMS))
    assert not any(f["ieee8021cb.seq"] for f in frer.frames[RECEIVING])


def test_a_tagged_frame_is_six_bytes_longer(frer):
    lengths = {place: [] for place in (SENDING, *MEMBERS, RECEIVING)}
    for place, found in lengths.items():
        found += [int(f["frame.len"]) for f in frer.sent_by("talker", place) if is_datagram(f)]
    expected = [PAYLOADS_BYTES[i % len(PAYLOADS_BYTES)] + 42 for i in range(DATAGRAMS)]
    assert lengths[SENDING] == lengths[RECEIVING] == expected
    for place in MEMBERS:
        assert lengths[place] == [length + R_TAG_BYTES for length in expected]


# --- control ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def control(testbed, module_sockets, tmp_path_factory):
    # Before the capture too: hosts speak IPv6 unasked, and that shall be untagged already.
    testbed.configure("control", STREAM)
    with captured(testbed, tmp_path_factory.mktemp("control"), EVERYWHERE) as files:
        everything_at_once(testbed, module_sockets, "control")
    return Seen(testbed, files)


def test_control_sends_the_same_frames_untagged_over_the_first_path_alone(control):
    sent = [f for f in control.sent_by("talker", SENDING) if is_datagram(f)]
    assert [datagram(f) for f in sent] == list(range(DATAGRAMS))
    for place in (MEMBERS[0], RECEIVING):
        assert [f for f in control.sent_by("talker", place) if is_datagram(f)] == sent
    for place in (MEMBERS[1], BACK[1]):
        assert control.frames[place] == []
    assert not any(f["ieee8021cb.seq"] for f in control.frames[MEMBERS[0]])


# --- VLAN -------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", ["frer", "control"])
def test_the_tag_follows_the_c_tag(testbed, sockets, tmp_path, configuration):
    """IEEE Std 802.1CB-2017, 7.8: with a C-TAG, the R-TAG stands behind it."""
    raw = sockets.raw(testbed, "talker", "eth0")
    macs = b"\x02\x00\x00\x00\x00\x0a" + b"\x02\x00\x00\x00\x00\x0b"
    testbed.configure(configuration, STREAM)
    places = [MEMBERS[0], RECEIVING]
    with captured(testbed, tmp_path, places) as files:
        for priority in range(8):
            c_tag = struct.pack("!HH", 0x8100, priority << 13 | 42)
            raw.send(macs + c_tag + struct.pack("!H", EXPERIMENTAL) + b"." * 46)
    member, end = (
        dissected(files[place], lambda f: f["eth.src"] == "02:00:00:00:00:0b") for place in places
    )
    for frames in (member, end):
        assert [f["vlan.priority"] for f in frames] == [str(priority) for priority in range(8)]
        assert {(f["eth.type"], f["vlan.id"]) for f in frames} == {("0x8100", "42")}
    behind = [(f["vlan.etype"], f["ieee8021cb.etype"], int(f["frame.len"])) for f in member]
    assert {(f["vlan.etype"], f["frame.len"]) for f in end} == {("0x88b5", "64")}
    tagged = (R_TAG, "0x88b5", 64 + R_TAG_BYTES)
    assert set(behind) == {tagged if configuration == "frer" else ("0x88b5", "", 64)}


# --- the wrap of the sequence number ----------------------------------------------------------


def configured_in_silence(testbed) -> dict:
    """Configure FRER and return the stations' state before any frame has been numbered.

    Hosts speak IPv6 unasked: what passes before the first snapshot takes zeros of the empty history
    along that it then cannot show.
    """
    for _ in range(20):
        testbed.configure("frer", STREAM)
        hosts = testbed.snapshot().hosts
        if not hosts["sw1"].station["generator"]["numbered"]:
            return hosts
    raise AssertionError("the talker does not fall silent")


def test_traffic_passes_the_wrap_of_the_sequence_number(testbed, sockets):
    """More than 65,536 datagrams, each received once.

    In order by the hundred: within them two processors may let frames change places. The first goes
    alone, so that recovery starts with the lowest number.
    """
    total, max_parallel = 67_001, 100
    receiver = sockets.udp(testbed, "listener", PORT, receive_bytes=4_000_000)
    receiver.settimeout(5)
    sender = sockets.udp(testbed, "talker")
    sender.connect((testbed.address("listener"), PORT))
    before = configured_in_silence(testbed)

    def passed(datagrams: range) -> list[int]:
        for index in datagrams:
            sender.send(struct.pack("!I", index).ljust(20, b"."))
        return sorted(struct.unpack("!I", receiver.recv(64)[:4])[0] for _ in datagrams)

    received = passed(range(1))
    for first in range(1, total, max_parallel):
        received += passed(range(first, first + max_parallel))
    assert received == list(range(total))
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(64)  # no copy is left over
    after = testbed.snapshot().hosts
    recovery, earlier = (hosts["sw2"].station["recovery"] for hosts in (after, before))
    grown = {name: recovery[name] - earlier[name] for name in ("passed", "discarded", "rogue")}
    assert after["sw1"].station["generator"]["numbered"] >= total
    assert grown["passed"] == grown["discarded"] >= total
    assert grown["rogue"] == 0
    # The start's empty history is all that ever counts as lost.
    assert recovery["lost"] - earlier["lost"] == testbed.settings.frer.history_length - 1
