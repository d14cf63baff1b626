"""Dissection, frame by frame beside tshark's, whose R-TAG dissector knows nothing of ours."""

import struct
import subprocess

import numpy as np
import pytest
from crafted_captures import (
    EPOCH_NS,
    LISTENER,
    PORT,
    R_TAG,
    TALKER,
    frame,
    pcap,
    udp,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tsnrepro.captures.capture_file import read_capture
from tsnrepro.captures.dissect import (
    OTHER_TRAFFIC,
    STREAM_FRAGMENT,
    STREAM_FRAME,
    digests,
    dissect,
    mac,
    stream_class,
)
from tsnrepro.tools.frerctl import StreamFilter

U16, PORTS = st.integers(0, 0xFFFF), st.integers(1, 0xFFFF)
# Ports that tshark hands to no dissector which then rewrites what stands below it.
EPHEMERAL = st.integers(50_000, 59_999)
TAGS = {
    "c": st.builds(lambda tci: (0x8100, struct.pack("!H", tci)), U16),
    "s": st.builds(lambda tci: (0x88A8, struct.pack("!H", tci)), U16),
    "r": st.builds(lambda reserved, n: (R_TAG, struct.pack("!HH", reserved, n)), U16, U16),
}
# The orders of IEEE Std 802.1CB-2017, 7.8 and 802.1Q: S-TAG, C-TAG, R-TAG; and the R-TAG first.
TAG_ORDERS = st.sampled_from(["", "r", "c", "cr", "scr", "sc", "s", "rc"])


def tags(draw, behind: bytes) -> bytes:
    head = LISTENER + TALKER
    for kind in draw(TAG_ORDERS):
        ethertype, content = draw(TAGS[kind])
        head += struct.pack("!H", ethertype) + content
    return head + behind


@st.composite
def ipv4(draw) -> bytes:
    options = b"\x01" * (4 * draw(st.integers(0, 3)))
    offset, more = draw(st.sampled_from([(0, 0), (0, 1), (185, 1), (370, 0)]))
    protocol = draw(st.sampled_from([17, 6, 89]))
    payload = draw(st.binary(min_size=12, max_size=40))
    ports = struct.pack("!HH", draw(EPHEMERAL), draw(EPHEMERAL))
    if protocol == 17:
        inside = ports + struct.pack("!HH", 8 + len(payload), 0) + payload
    else:
        inside = ports + struct.pack("!IIBBHHH", 1, 2, 5 << 4, 0x10, 100, 0, 0) + payload
    fragment = more << 13 | offset
    head = struct.pack(
        "!BBHHHBBHII",
        0x40 | 5 + len(options) // 4,
        0,
        20 + len(options) + len(inside),
        draw(U16),
        fragment,
        64,
        protocol,
        0,
        draw(st.integers(1, 2**32 - 1)),
        draw(st.integers(1, 2**32 - 1)),
    )
    return tags(draw, struct.pack("!H", 0x0800) + head + options + inside)


@st.composite
def ipv6(draw) -> bytes:
    payload = draw(st.binary(min_size=12, max_size=40))
    inside = struct.pack("!HHHH", draw(EPHEMERAL), draw(EPHEMERAL), 8 + len(payload), 0) + payload
    following = 17
    if draw(st.booleans()):
        offset = draw(st.sampled_from([0, 1448]))
        inside = struct.pack("!BBHI", 17, 0, offset | 1, 99) + inside
        following = 44
    head = struct.pack("!IHBB", 6 << 28, len(inside), following, 64)
    addresses = bytes.fromhex("fd" + "00" * 14 + "01") + bytes.fromhex("fd" + "00" * 14 + "02")
    return tags(draw, struct.pack("!H", 0x86DD) + head + addresses + inside)


@st.composite
def other(draw) -> bytes:
    return tags(draw, struct.pack("!H", 0x88B5) + draw(st.binary(min_size=46, max_size=60)))


FIELDS = {
    "destination": "eth.dst",
    "source": "eth.src",
    "vid": "vlan.id",
    "pcp": "vlan.priority",
    "sequence": "ieee8021cb.seq",
    "ethertype": "eth.type",
    "ip_source": "ip.src",
    "ip_destination": "ip.dst",
    "ip_id": "ip.id",
    "fragment_offset": "ip.frag_offset",
    "more_fragments": "ip.flags.mf",
    "udp_source": "udp.srcport",
    "udp_destination": "udp.dstport",
    "udp_length": "udp.length",
    "tcp_source": "tcp.srcport",
    "tcp_destination": "tcp.dstport",
    "tcp_length": "tcp.len",
    "vlan_type": "vlan.etype",
    "s_type": "ieee8021ah.etype",
    "r_type": "ieee8021cb.etype",
    "protocol": "ip.proto",
    "protocols": "frame.protocols",
    "s_vid": "ieee8021ad.id",
    "s_pcp": "ieee8021ad.priority",
    "v6_offset": "ipv6.fraghdr.offset",
    "v6_more": "ipv6.fraghdr.more",
}


def by_tshark(path) -> list[dict[str, str]]:
    argv = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "separator=|"]
    # The fragments are read as they are, not as the datagrams they make.
    argv += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    argv += [word for name in FIELDS.values() for word in ("-e", name)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [dict(zip(FIELDS, line.split("|"), strict=True)) for line in said.splitlines()]


def number(text: str, default: int = -1) -> int:
    return int(text, 0) if text else default


def address(text: str) -> int:
    parts = [int(part) for part in text.split(".")] if text else []
    return int.from_bytes(bytes(parts))


def last(*texts: str) -> int:
    """Return the EtherType that tshark names last, which is what stands behind all tags."""
    return number([text.split(",")[-1] for text in texts if text][-1])


def assert_agree(ours: np.void, theirs: dict[str, str]) -> None:
    assert ours["destination"] == mac(theirs["destination"])
    assert ours["source"] == mac(theirs["source"])
    assert ours["sequence"] == number(theirs["sequence"])
    assert ours["r_tags"] == (theirs["sequence"] != "")
    outer = sorted([(ours["vid"], ours["pcp"]), (ours["inner_vid"], ours["inner_pcp"])])
    kinds = [("s_vid", "s_pcp"), ("vid", "pcp")]
    named = [(number(theirs[v]), number(theirs[p])) for v, p in kinds]
    assert outer == sorted(named)
    assert ours["vlan_tags"] == sum(v != -1 for v, _ in named)
    order = {"ieee8021cb": theirs["r_type"], "vlan": theirs["vlan_type"]}
    order["ieee8021ad"] = theirs["s_type"]
    behind = [order[p] for p in theirs["protocols"].split(":") if order.get(p)]
    assert ours["ethertype"] == last(theirs["ethertype"], *behind)
    assert_ip_agrees(ours, theirs)


def assert_ip_agrees(ours: np.void, theirs: dict[str, str]) -> None:
    version = 4 if theirs["ip_id"] else 6 if "ipv6" in theirs["protocols"] else 0
    assert ours["ip_version"] == version
    if version == 4:
        assert ours["ip_source"] == address(theirs["ip_source"])
        assert ours["ip_destination"] == address(theirs["ip_destination"])
        assert ours["ip_id"] == number(theirs["ip_id"])
        # tshark 4.0 gives offsets in units of 8 bytes, for both versions of IP.
        assert ours["fragment_offset"] == 8 * number(theirs["fragment_offset"])
        assert ours["more_fragments"] == (theirs["more_fragments"] in ("1", "True"))
        assert ours["protocol"] == number(theirs["protocol"])
    if version == 6:
        assert ours["fragment_offset"] == 8 * number(theirs["v6_offset"], 0)
        assert ours["more_fragments"] == (theirs["v6_more"] in ("1", "True"))
    tcp = theirs["tcp_source"] != ""
    prefix = "tcp" if tcp else "udp"
    assert ours["source_port"] == number(theirs[f"{prefix}_source"])
    assert ours["destination_port"] == number(theirs[f"{prefix}_destination"])
    if tcp and theirs["tcp_length"]:
        assert ours["payload_bytes"] == number(theirs["tcp_length"])
    elif theirs["udp_length"]:
        assert ours["payload_bytes"] == number(theirs["udp_length"]) - 8


@given(st.lists(st.one_of(ipv4(), ipv4(), ipv6(), other()), min_size=60, max_size=120))
@settings(
    max_examples=4,
    deadline=None,
    # One frame of many is named by itself; looking for a shorter list takes a tshark each time.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_tshark_agrees_frame_by_frame(tmp_path, frames):
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap([(EPOCH_NS + i, data) for i, data in enumerate(frames)]))
    ours, theirs = dissect(read_capture(path)), by_tshark(path)
    assert len(ours) == len(theirs) == len(frames)
    assert not ours["cut"].any()
    for mine, their in zip(ours, theirs, strict=True):
        assert_agree(mine, their)


def test_reserved_bits_of_the_tag_are_read():
    """tshark 4.0 has a field for them and leaves it empty: here they are read from the bytes."""
    for reserved in (0, 1, 0x8000, 0xFFFF):
        assert only(frame(udp(b"." * 20), 7, reserved))["reserved"] == reserved


def only(data: bytes, snap: int = 65_535) -> np.void:
    return dissect(read_capture(pcap([(EPOCH_NS, data)], snap=snap)))[0]


def test_a_frame_is_cut_where_its_headers_are_not_whole():
    data = frame(udp(b"." * 20), 7)
    whole = 14 + 6 + 20 + 8
    for snap in range(len(data)):
        found = only(data, snap)
        assert found["cut"] == (snap < whole), snap
        assert found["sequence"] == (7 if snap >= 20 else -1)
        assert found["destination_port"] == (PORT if snap >= whole else -1)


@pytest.mark.parametrize(
    ("stream", "behind", "expected"),
    [
        (StreamFilter("udp", PORT, 16), udp(b"." * 16), STREAM_FRAME),
        (StreamFilter("udp", PORT, 17), udp(b"." * 16), OTHER_TRAFFIC),
        (StreamFilter("udp", PORT, 16), udp(b"." * 16, port=PORT + 1), OTHER_TRAFFIC),
        (StreamFilter("tcp", PORT), udp(b"." * 16), OTHER_TRAFFIC),
        (StreamFilter("udp", PORT - 5, 0, PORT), udp(b"." * 16), STREAM_FRAME),
        (StreamFilter("udp", PORT - 5, 0, PORT - 1), udp(b"." * 16), OTHER_TRAFFIC),
    ],
)
def test_the_stream_is_what_the_filter_says(stream, behind, expected):
    frames = dissect(read_capture(pcap([(0, frame(behind)), (0, frame(behind, 9))])))
    assert stream_class(frames, stream).tolist() == [expected, expected]


def test_later_fragments_of_the_protocol_are_fragments_of_the_stream():
    behind = bytearray(udp(b"." * 40, port=1))
    struct.pack_into("!H", behind, 2 + 6, 185)
    frames = dissect(read_capture(pcap([(0, frame(bytes(behind)))])))
    assert frames["fragment_offset"][0] == 1480
    assert stream_class(frames, StreamFilter("udp", PORT, 16))[0] == STREAM_FRAGMENT
    assert stream_class(frames, StreamFilter("tcp", PORT))[0] == OTHER_TRAFFIC


@given(st.lists(st.binary(min_size=0, max_size=120), max_size=20))
@settings(max_examples=30, deadline=None)
def test_digests_tell_frames_apart_and_do_not_see_the_tag(payloads):
    behind = [udp(payload) for payload in payloads]
    tagged = read_capture(pcap([(0, frame(b, i)) for i, b in enumerate(behind)]))
    plain = read_capture(pcap([(0, frame(b)) for b in behind]))
    ours = digests(plain, dissect(plain))
    assert ours.tolist() == digests(tagged, dissect(tagged)).tolist()
    # What is told apart is addresses, headers and the first 50 bytes of payload.
    assert len(set(ours.tolist())) == len({b[:82] for b in behind})
    assert (ours != 0).all()


def test_a_frame_captured_too_short_has_no_digest():
    data = frame(udp(b"." * 200), 1)
    for snap, known in ((99, False), (100, True), (300, True)):
        capture = read_capture(pcap([(0, data)], snap=snap))
        assert bool(digests(capture, dissect(capture))[0]) == known
