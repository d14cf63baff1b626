"""Reading captures: both formats, both byte orders, every resolution, damaged files."""

import gzip
import struct
import subprocess

import pytest
from crafted_captures import (
    EPOCH_NS,
    block,
    frame,
    interface,
    packet,
    pcap,
    section,
    statistics,
    udp,
)
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.capture.capture_file import read_capture

RECORDS = st.lists(
    st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(min_size=0, max_size=200)), max_size=20
)
ORDERS = st.sampled_from("<>")


@given(RECORDS, ORDERS, st.booleans(), st.integers(0, 100))
def test_pcap_is_read_as_written(records, order, nanoseconds, snap):
    read = read_capture(pcap(records, order=order, nanoseconds=nanoseconds, snap=snap))
    tick = 1 if nanoseconds else 1000
    assert read.time_ns.tolist() == [time - time % tick for time, _ in records]
    assert [read.frame(i) for i in range(len(read))] == [data[:snap] for _, data in records]
    assert read.original_bytes.tolist() == [len(data) for _, data in records]
    assert (read.truncated_bytes, read.dropped) == (0, None)


@given(RECORDS, ORDERS, st.integers(1, 400))
def test_a_truncated_pcap_keeps_its_complete_records(records, order, cut):
    data = pcap(records, order=order)
    kept = data[: max(24, len(data) - cut)]
    read = read_capture(kept)
    ends = [24]
    for _, body in records:
        ends.append(ends[-1] + 16 + len(body))
    whole = sum(end <= len(kept) for end in ends) - 1
    assert len(read) == whole
    assert read.truncated_bytes == len(kept) - ends[whole]


@given(
    st.lists(st.tuples(st.integers(0, 2**61), st.binary(min_size=14, max_size=99)), max_size=9),
    ORDERS,
    st.sampled_from([None, 0, 3, 6, 9, 12, 0x80 | 20]),
    st.integers(-100, 100),
)
def test_pcapng_is_read_as_written(records, order, resolution, offset_s):
    def ticks_of(time_ns: int) -> int:
        if resolution is not None and resolution & 0x80:
            return time_ns * 2 ** (resolution & 0x7F) // 10**9
        return time_ns * 10 ** (6 if resolution is None else resolution) // 10**9

    def time_of(ticks: int) -> int:
        if resolution is not None and resolution & 0x80:
            return ticks * 10**9 // 2 ** (resolution & 0x7F)
        return ticks * 10**9 // 10 ** (6 if resolution is None else resolution)

    # 64 bits of the finest resolution here are 200 days.
    all_ticks = [ticks_of(time % 2**53) for time, _ in records]
    blocks = [
        packet(order, ticks, data) for ticks, (_, data) in zip(all_ticks, records, strict=True)
    ]
    # Blocks of other kinds between packets are skipped.
    other = block(order, 4, b"\0\0\0\0")
    data = section(order) + interface(order, resolution, offset_s) + other.join([b"", *blocks])
    read = read_capture(data)
    assert read.time_ns.tolist() == [time_of(ticks) + offset_s * 10**9 for ticks in all_ticks]
    assert [read.frame(i) for i in range(len(read))] == [data for _, data in records]
    assert read.truncated_bytes == 0


@pytest.mark.parametrize("order", "<>")
def test_pcapng_sections_have_separate_interfaces(order):
    other = {"<": ">", ">": "<"}[order]
    data = section(order) + interface(order, 6) + interface(order, 9)
    data += packet(order, 7, b"a" * 14, 0) + packet(order, 7, b"b" * 15, 1)
    data += statistics(order, 2, 3, 1)
    data += section(other) + interface(other, 3) + packet(other, 7, b"c" * 16, 0)
    data += statistics(other, 1, 1, 0) + statistics(other, 1, 2, 0)
    read = read_capture(data)
    assert read.time_ns.tolist() == [7_000, 7, 7_000_000]
    assert [len(read.frame(i)) for i in range(3)] == [14, 15, 16]
    assert read.dropped == 3 + 2, "each interface's last word on its drops"


def test_a_truncated_pcapng_keeps_its_complete_packets():
    head = section("<") + interface("<")
    packets = [packet("<", i, bytes([i]) * 60) for i in range(3)]
    data = head + b"".join(packets)
    for cut in range(1, len(packets[2])):
        read = read_capture(data[:-cut])
        assert (len(read), read.truncated_bytes) == (2, len(packets[2]) - cut)


@pytest.mark.parametrize("suffix", ["pcap", "pcapng"])
def test_tshark_reads_the_same_times_and_lengths(tmp_path, suffix):
    records = [(EPOCH_NS + 1_000_000_007 * i, frame(udp(b"x" * (i + 16)), i)) for i in range(20)]
    if suffix == "pcap":
        data = pcap(records, order=">", snap=70)
    else:
        data = section(">") + interface(">") + b"".join(packet(">", *r) for r in records)
    path = tmp_path / f"capture.{suffix}"
    path.write_bytes(data)
    fields = ["-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len"]
    argv = ["tshark", "-r", str(path), "-T", "fields", *fields]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    expected = []
    for line in said.splitlines():
        time, length, captured = line.split("\t")
        seconds, nanoseconds = time.split(".")
        expected.append((int(seconds) * 10**9 + int(nanoseconds), int(length), int(captured)))
    read = read_capture(path)
    columns = (read.time_ns.tolist(), read.original_bytes.tolist(), read.captured_bytes.tolist())
    assert list(zip(*columns, strict=True)) == expected
    assert len(expected) == len(records)
    packed = tmp_path / f"capture.{suffix}.gz"
    packed.write_bytes(gzip.compress(data))
    assert read_capture(packed).time_ns.tolist() == columns[0]


def test_unreadable_files_are_named(tmp_path):
    good = pcap([(EPOCH_NS, b"x" * 60), (EPOCH_NS, b"y" * 60)])
    long = bytearray(good)
    struct.pack_into("<I", long, 24 + 76 + 8, 300_000)
    simple = section("<") + interface("<") + block("<", 3, struct.pack("<I", 4) + b"abcd")
    for data, said in (
        (b"", "neither pcap nor pcapng"),
        (b"GIF89a", r"neither pcap nor pcapng.*editcap"),
        (good[:20], "ends within its header"),
        (good[:20] + struct.pack("<I", 113) + good[24:], "link type 113, not Ethernet"),
        (bytes(long), r"record 2, at byte 100, has an impossible length"),
        (simple, r"without a time stamp.*editcap"),
        (section("<") + interface("<", link_type=276), "link type 276"),
        (section("<") + packet("<", 1, b"x" * 60), r"unknown interface.*|damaged"),
        (section("<")[:-4] + struct.pack("<I", 7), "two different lengths at byte 0"),
        (section("<") + struct.pack("<III", 4, 7, 7), "a block of 7 bytes at byte 28"),
        (
            section("<") + interface("<") + packet("<", 1, b"x" * 60)[:-4] + b"abcd",
            "two different lengths",
        ),
        (section("<") + interface("<", 0x80 | 60) + packet("<", 1, b"x" * 60), "too fine"),
    ):
        path = tmp_path / "capture.pcap"
        path.write_bytes(data)
        with pytest.raises(RecordError, match=said):
            read_capture(path)
    with pytest.raises(RecordError, match="cannot be read"):
        read_capture(tmp_path / "none.pcap")
