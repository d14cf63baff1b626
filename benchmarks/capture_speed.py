"""Speed of the capture analysis beside tshark's dissection of the same files, in one run.

Three captures stand for one trial with FRER: two member ports and the listener, of a million frames
together or as many as asked for. tshark prints the fields that the analysis rests on. Both run as
whole processes, and besides the analysis is timed inside one, where its compiled code is loaded.

- ``dissection``: tshark reads one member's capture into fields; we read it into columns.
- ``trial``: tshark reads all three, one after the other; we do that and all that follows: order,
  gaps, first copies, path delays, copies at the listener, replay of the recovery function.

The counts are compared; unlike counts are an error. Each time is the best of several, in turn.

    python benchmarks/capture_speed.py [--frames 1000000] [--best-of 3]
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FRAMES, BEST_OF = 1_000_000, 3
PAYLOAD_BYTES, SNAP_BYTES, RATE_HZ = 1472, 128, 80_000
PORT = 5201
TALKER, LISTENER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
SKEW_NS = 650
FIELDS = (
    *("frame.time_epoch", "frame.len", "eth.dst", "eth.src", "eth.type", "vlan.id"),
    *("ieee8021cb.seq", "ieee8021cb.etype", "ip.src", "ip.dst", "ip.id"),
    *("ip.frag_offset", "ip.proto", "udp.srcport", "udp.dstport", "udp.length"),
)

# Each process prints how long its work took once the modules and the compiled code were there.
DISSECT = """
import json, sys, time
import numpy as np
from tsnrepro.experiments.capture.capture_file import read_capture
from tsnrepro.experiments.capture.dissect import dissect
def work(path):
    frames = dissect(read_capture(path))
    return len(frames), int((frames["r_tags"] > 0).sum())
work(sys.argv[2])
began = time.perf_counter()
count, tagged = work(sys.argv[1])
print(json.dumps([time.perf_counter() - began, count, tagged]))
"""
REPORT = """
import json, sys, time
from tsnrepro.config.frer import FrerSettings
from tsnrepro.tools.frerctl import StreamFilter
from tsnrepro.experiments.capture.capture_file import read_capture
from tsnrepro.experiments.capture.counters import TrialCounters, MemberCounts
from tsnrepro.experiments.capture.report import report_captures
def work(m0, m1, listener, frames):
    variables = FrerSettings()
    link = MemberCounts(frames, 0, frames)
    lost = variables.history_length - 1
    recovery = {"out_of_order": 0, "rogue": 0, "passed": frames, "discarded": frames,
                "lost": min(lost, frames - 1), "tagless": 0, "resets": 0}
    counted = TrialCounters(True, 0, frames, {"m0": link, "m1": link}, recovery, variables,
                            frames, 0, 0, frames)
    captures = {"m0": read_capture(m0), "m1": read_capture(m1)}
    return report_captures(captures, read_capture(listener), StreamFilter("udp", 5201, 16), counted)
work(*sys.argv[5:8], int(sys.argv[8]))
began = time.perf_counter()
report = work(*sys.argv[1:4], int(sys.argv[4]))
took = time.perf_counter() - began
wrong = [f"{f.where} {f.name}" for f in report.disagreements()]
count = sum(p.frames for p in report.paths) + report.listener_stream_frames
print(json.dumps([took, count, sum(p.tagged for p in report.paths), wrong]))
"""


def frames_of(count: int, tagged: bool) -> np.ndarray:
    """Return the captured bytes of a stream's frames, shape (count, SNAP_BYTES)."""
    tag = struct.pack("!HHH", 0xF1C1, 0, 0) if tagged else b""
    ip = struct.pack(
        "!BBHHHBBHII", 0x45, 0, PAYLOAD_BYTES + 28, 0, 0x4000, 64, 17, 0, 0x0A006401, 0x0A006402
    )
    udp = struct.pack("!HHHH", 40_000, PORT, PAYLOAD_BYTES + 8, 0)
    head = LISTENER + TALKER + tag + struct.pack("!H", 0x0800) + ip + udp
    frames = np.zeros((count, SNAP_BYTES), np.uint8)
    frames[:, : len(head)] = np.frombuffer(head, np.uint8)
    number = np.arange(count)
    at = 14 + len(tag)
    if tagged:
        frames[:, 16:18] = number.astype(">u2").view(np.uint8).reshape(count, 2)
    frames[:, at + 4 : at + 6] = number.astype(">u2").view(np.uint8).reshape(count, 2)
    payload = number.astype(">u4").view(np.uint8).reshape(count, 4)
    frames[:, len(head) : len(head) + 4] = payload
    return frames


def write_capture(path: Path, count: int, *, tagged: bool, late_ns: int) -> None:
    """Write a pcap file with time stamps in nanoseconds."""
    record = np.dtype([("head", "<u4", 4), ("data", "u1", SNAP_BYTES)])
    records = np.empty(count, record)
    time_ns = 1_700_000_000_000_000_000 + np.arange(count) * (10**9 // RATE_HZ) + late_ns
    records["head"][:, 0], records["head"][:, 1] = time_ns // 10**9, time_ns % 10**9
    records["head"][:, 2] = SNAP_BYTES
    records["head"][:, 3] = PAYLOAD_BYTES + 42 + (6 if tagged else 0)
    records["data"] = frames_of(count, tagged)
    header = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP_BYTES, 1)
    path.write_bytes(header + records.tobytes())


def make_trial(folder: Path, count: int) -> list[str]:
    """Write the captures of one trial with ``count`` frames at each point."""
    folder.mkdir()
    paths = [folder / f"{name}.pcap" for name in ("m0", "m1", "listener")]
    for late, path in enumerate(paths):
        write_capture(path, count, tagged=path.stem != "listener", late_ns=late * SKEW_NS)
    return [str(path) for path in paths]


def tshark(paths: list[str]) -> tuple[float, int, int]:
    """Return seconds, frames and tagged frames of tshark's dissection."""
    options = [word for field in FIELDS for word in ("-e", field)]
    began = time.perf_counter()
    count = tagged = 0
    for path in paths:
        argv = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "separator=|", *options]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        for line in process.stdout:
            count += 1
            tagged += line.split(b"|")[6] != b""
        if process.wait():
            raise SystemExit(f"tshark failed on {path}")
    return time.perf_counter() - began, count, tagged


def ours(code: str, *arguments: str) -> tuple[float, float, int, int]:
    """Return the seconds of a process and of its work, frames and tagged frames."""
    began = time.perf_counter()
    command = [sys.executable, "-c", code, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    took = time.perf_counter() - began
    work, count, tagged, *wrong = json.loads(said)
    if any(wrong):
        raise SystemExit(f"the report disagrees with what was generated: {wrong}")
    return took, work, count, tagged


def compare(title: str, paths: list[str], code: str, arguments: list[str], best_of: int) -> None:
    theirs, mine = [], []
    for _ in range(best_of):
        theirs.append(tshark(paths))
        mine.append(ours(code, *arguments))
    counts = {row[1:] for row in theirs} | {row[2:] for row in mine}
    if len(counts) != 1:
        raise SystemExit(f"{title}: unlike counts of frames and of R-TAGs: {sorted(counts)}")
    ((frames, tagged),) = counts
    reference = frames / min(row[0] for row in theirs)
    print(f"{title}: {frames:,} frames, {tagged:,} with an R-TAG, counts agree")
    for name, seconds in (
        ("tshark, process", min(row[0] for row in theirs)),
        ("tsnrepro, process", min(row[0] for row in mine)),
        ("tsnrepro, loaded", min(row[1] for row in mine)),
    ):
        rate = frames / seconds
        print(f"  {name:18}{seconds:9.3f} s{rate:14,.0f} frames/s{rate / reference:9.1f} x tshark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=FRAMES, help="of all captures together")
    parser.add_argument("--best-of", type=int, default=BEST_OF)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "member.pcap"
        write_capture(large, arguments.frames, tagged=True, late_ns=0)
        few = 1000
        small = make_trial(Path(folder) / "small", few)
        best_of = arguments.best_of
        compare("dissection", [str(large)], DISSECT, [str(large), small[0]], best_of)
        large.unlink()
        each = arguments.frames // 3
        trial = make_trial(Path(folder) / "trial", each)
        compare("trial", trial, REPORT, [*trial, str(each), *small, str(few)], best_of)


if __name__ == "__main__":
    main()
