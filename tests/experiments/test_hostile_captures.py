"""Captures damaged in ten thousand ways: a clear error, or frames of the file."""

import gzip

import pytest
from crafted_captures import (
    EPOCH_NS,
    STREAM,
    MadeTrial,
    frame,
    interface,
    packet,
    pcap,
    section,
    statistics,
    udp,
)
from damage import NUMBERS, damaged_bytes, read_each, read_each_file

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.capture.capture_file import read_capture
from tsnrepro.experiments.capture.report import report_captures

FRAMES = [(EPOCH_NS + number * 1000, frame(udp(b"x" * 30), number)) for number in range(5)]


def pcapng(order):
    """Return two sections with packets, time stamps of two resolutions and statistics."""
    packets = b"".join(packet(order, time_ns, data) for time_ns, data in FRAMES)
    first = section(order) + interface(order, 9, 3) + packets + statistics(order, 5, 1)
    return first + section(order) + interface(order, None) + packet(order, 7, FRAMES[0][1])


CAPTURES = {
    "pcap": pcap(FRAMES),
    "pcap of microseconds": pcap(FRAMES, order=">", nanoseconds=False),
    "pcapng": pcapng("<"),
    "pcapng, most significant byte first": pcapng(">"),
}


def every_frame(content):
    """Read a capture: its frames have to be in the file."""
    capture = read_capture(content, "some.pcapng")
    assert (capture.time_ns >= -(10**18) * 10).all()
    for number in range(len(capture)):
        assert len(capture.frame(number)) == capture.captured_bytes[number]
        assert capture.frame(number) in content


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", CAPTURES)
def test_captures(name, number):
    every_frame(CAPTURES[name])
    assert read_each(damaged_bytes(CAPTURES[name], number), every_frame, names="some.pcapng")


@pytest.mark.parametrize("number", NUMBERS)
def test_compressed_captures(tmp_path, number):
    path = tmp_path / "some.pcap.gz"
    inputs = damaged_bytes(gzip.compress(pcap(FRAMES), mtime=0), number)
    assert read_each_file(inputs, path, lambda: read_capture(path))


@pytest.mark.parametrize("number", NUMBERS)
def test_reports_on_captures(number):
    """A member path's capture is damaged: contradictions to counters are reported, not raised."""
    made = MadeTrial(numbers=list(range(20)))
    members, listener = made.captures()

    def report(content):
        damaged = members | {"m1": read_capture(content, "some.pcapng")}
        report_captures(damaged, listener, STREAM, made.counted)

    report(pcap(made.paths[1], snap=128))
    assert read_each(damaged_bytes(pcap(made.paths[1], snap=128), number), report)


@pytest.mark.parametrize("options", [interface("<", 0), interface("<", 9, 2**62)])
def test_impossible_times_are_refused(options):
    content = section("<") + options + packet("<", 2**63, FRAMES[0][1])
    with pytest.raises(RecordError, match="after the year 2262"):
        read_capture(content)
