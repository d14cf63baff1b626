"""Dissection against tshark's, frame by frame."""

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

from tsnrepro.experiments.capture.capture_file import read_capture
from tsnrepro.experiments.capture.dissect import (
    OTHER_TRAFFIC,
    STREAM_FRAGMENT,
    STREAM_FRAME,
    classify_stream,
    digests,
    dissect,
    mac,
)
from tsnrepro.tools.frerctl import StreamFilter

U16, PORTS = st.integers(0, 0xFFFF), st.integers(1, 0xFFFF)
# Ports without a dissector of tshark that changes the fields of lower layers.
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
    "ip_id": "ip.id",
    "fragment_offset": "ip.frag_offset",
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
}


def by_tshark(path) -> list[dict[str, str]]:
    argv = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "separator=|"]
    # Fragments are read without reassembly.
    argv += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    argv += [word for name in FIELDS.values() for word in ("-e", name)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [dict(zip(FIELDS, line.split("|"), strict=True)) for line in said.splitlines()]


def number(text: str, default: int = -1) -> int:
    return int(text, 0) if text else default


def last(*texts: str) -> int:
    """Return the last EtherType that tshark prints, which is the one after all tags."""
    return number([text.split(",")[-1] for text in texts if text][-1])


def assert_agree(found: np.void, expected: dict[str, str]) -> None:
    assert found["destination"] == mac(expected["destination"])
    assert found["source"] == mac(expected["source"])
    assert found["sequence"] == number(expected["sequence"])
    assert found["r_tags"] == (expected["sequence"] != "")
    kinds = [("s_vid", "s_pcp"), ("vid", "pcp")]
    named = [(number(expected[v]), number(expected[p])) for v, p in kinds]
    # An S-TAG is always the outer one.
    assert (found["vid"], found["pcp"]) == named[0 if named[0][0] != -1 else 1]
    assert found["vlan_tags"] == sum(v != -1 for v, _ in named)
    order = {"ieee8021cb": expected["r_type"], "vlan": expected["vlan_type"]}
    order["ieee8021ad"] = expected["s_type"]
    behind = [order[p] for p in expected["protocols"].split(":") if order.get(p)]
    assert found["ethertype"] == last(expected["ethertype"], *behind)
    assert_ip_agrees(found, expected)


def assert_ip_agrees(found: np.void, expected: dict[str, str]) -> None:
    version = 4 if expected["ip_id"] else 6 if "ipv6" in expected["protocols"] else 0
    if version == 4:
        # tshark 4.0 prints offsets in units of 8 bytes, for both versions of IP.
        assert found["fragment_offset"] == 8 * number(expected["fragment_offset"])
        assert found["protocol"] == number(expected["protocol"])
    if version == 6:
        assert found["fragment_offset"] == 8 * number(expected["v6_offset"], 0)
    tcp = expected["tcp_source"] != ""
    prefix = "tcp" if tcp else "udp"
    assert found["source_port"] == number(expected[f"{prefix}_source"])
    assert found["destination_port"] == number(expected[f"{prefix}_destination"])
    if tcp and expected["tcp_length"]:
        assert found["payload_bytes"] == number(expected["tcp_length"])
    elif expected["udp_length"]:
        assert found["payload_bytes"] == number(expected["udp_length"]) - 8


@given(st.lists(st.one_of(ipv4(), ipv4(), ipv6(), other()), min_size=60, max_size=120))
@settings(
    max_examples=4,
    deadline=None,
    # The failing frame is named; shrinking the list would run tshark each time.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_tshark_agrees_frame_by_frame(tmp_path, frames):
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap([(EPOCH_NS + i, data) for i, data in enumerate(frames)]))
    found, expected = dissect(read_capture(path)), by_tshark(path)
    assert len(found) == len(expected) == len(frames)
    assert not found["cut"].any()
    for mine, their in zip(found, expected, strict=True):
        assert_agree(mine, their)


def test_reserved_bits_of_the_tag_are_read():
    """tshark 4.0 leaves its field for them empty, so they are compared with the bytes."""
    for reserved in (0, 1, 0x8000, 0xFFFF):
        assert only(frame(udp(b"." * 20), 7, reserved))["reserved"] == reserved


def only(data: bytes, snap: int = 65_535) -> np.void:
    return dissect(read_capture(pcap([(EPOCH_NS, data)], snap=snap)))[0]


def test_a_frame_with_incomplete_headers_is_cut():
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
def test_frames_are_classified_by_the_filter(stream, behind, expected):
    frames = dissect(read_capture(pcap([(0, frame(behind)), (0, frame(behind, 9))])))
    assert classify_stream(frames, stream).tolist() == [expected, expected]


def test_later_fragments_of_the_protocol_are_fragments_of_the_stream():
    behind = bytearray(udp(b"." * 40, port=1))
    struct.pack_into("!H", behind, 2 + 6, 185)
    frames = dissect(read_capture(pcap([(0, frame(bytes(behind)))])))
    assert frames["fragment_offset"][0] == 1480
    assert classify_stream(frames, StreamFilter("udp", PORT, 16))[0] == STREAM_FRAGMENT
    assert classify_stream(frames, StreamFilter("tcp", PORT))[0] == OTHER_TRAFFIC


@given(st.lists(st.binary(min_size=0, max_size=120), max_size=20))
@settings(max_examples=30, deadline=None)
def test_digests_differ_by_frame_but_not_by_tag(payloads):
    behind = [udp(payload) for payload in payloads]
    tagged = read_capture(pcap([(0, frame(b, i)) for i, b in enumerate(behind)]))
    plain = read_capture(pcap([(0, frame(b)) for b in behind]))
    found = digests(plain, dissect(plain))
    assert found.tolist() == digests(tagged, dissect(tagged)).tolist()
    # Digests cover addresses, headers and the first 50 bytes of payload.
    assert len(set(found.tolist())) == len({b[:82] for b in behind})
    assert (found != 0).all()


def test_a_frame_captured_too_short_has_no_digest():
    data = frame(udp(b"." * 200), 1)
    for snap, known in ((99, False), (100, True), (300, True)):
        capture = read_capture(pcap([(0, data)], snap=snap))
        assert bool(digests(capture, dissect(capture))[0]) == known
