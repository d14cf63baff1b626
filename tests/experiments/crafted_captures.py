"""Crafted captures: frames, pcap and pcapng files, and a trial's captures with faults."""

import struct
from dataclasses import dataclass, field

from plain_recovery import VectorRecovery

from tsnrepro.config.frer import RECOVERY_COUNTERS, FrerSettings
from tsnrepro.experiments.capture.capture_file import Capture, read_capture
from tsnrepro.experiments.capture.counters import MemberCounts, TrialCounters
from tsnrepro.experiments.capture.report import WireReport, report_captures
from tsnrepro.tools.frerctl import StreamFilter

TALKER = bytes.fromhex("020000000001")
LISTENER = bytes.fromhex("020000000002")
PORT = 5201
STREAM = StreamFilter("udp", PORT, 16)
EPOCH_NS = 1_700_000_000_000_000_000
R_TAG = 0xF1C1


def udp(payload: bytes, port: int = PORT, ip_id: int = 0) -> bytes:
    """Return EtherType, IPv4 and UDP headers and payload, without checksums of UDP."""
    datagram = struct.pack("!HHHH", 40_000, port, 8 + len(payload), 0) + payload
    head = struct.pack(
        "!BBHHHBBHII", 0x45, 0, 20 + len(datagram), ip_id, 0x4000, 64, 17, 0, 0x0A006401, 0x0A006402
    )
    return struct.pack("!H", 0x0800) + head + datagram


def frame(behind: bytes, sequence: int | None = None, reserved: int = 0) -> bytes:
    """Return a frame; ``behind`` starts with its EtherType, and the R-TAG is before it."""
    tag = b"" if sequence is None else struct.pack("!HHH", R_TAG, reserved, sequence & 0xFFFF)
    return LISTENER + TALKER + tag + behind


def pcap(
    records: list[tuple[int, bytes]],
    *,
    order: str = "<",
    nanoseconds: bool = True,
    snap: int = 65_535,
) -> bytes:
    """Return a pcap file of (time in ns, frame) records."""
    magic, tick = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    out = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, 1)]
    for time_ns, data in records:
        seconds, rest = divmod(time_ns, 10**9)
        kept = data[:snap]
        out += [struct.pack(f"{order}IIII", seconds, rest // tick, len(kept), len(data)), kept]
    return b"".join(out)


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return one pcapng block, padded."""
    body += b"\0" * (-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(
    order: str, resolution: int | None = 9, offset_s: int = 0, link_type: int = 1
) -> bytes:
    body = struct.pack(f"{order}HHI", link_type, 0, 0)
    if resolution is not None:
        body += option(order, 9, bytes([resolution]))
    if offset_s:
        body += option(order, 14, struct.pack(f"{order}q", offset_s))
    return block(order, 1, body + option(order, 0, b""))


def packet(order: str, ticks: int, data: bytes, number: int = 0) -> bytes:
    head = struct.pack(
        f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)
    )
    return block(order, 6, head + data + b"\0" * (-len(data) % 4))


def statistics(order: str, received: int, dropped: int, number: int = 0) -> bytes:
    options = option(order, 4, struct.pack(f"{order}Q", received))
    options += option(order, 5, struct.pack(f"{order}Q", dropped))
    return block(
        order, 5, struct.pack(f"{order}III", number, 0, 0) + options + option(order, 0, b"")
    )


@dataclass
class MadeTrial:
    """A trial's frames at each point, to be altered, and the counters of its switches.

    Path 1 is ``skew_ns`` behind path 0, and the second switch recovers in the order of time.
    """

    numbers: list[int] = field(default_factory=lambda: list(range(200)))
    skew_ns: int = 650
    spacing_ns: int = 12_000
    history_length: int = 8

    def __post_init__(self) -> None:
        self.paths = [
            [
                (EPOCH_NS + n * self.spacing_ns + path * self.skew_ns, frame(self.content(n), n))
                for n in self.numbers
            ]
            for path in range(2)
        ]
        self.listener = [
            (EPOCH_NS + n * self.spacing_ns + 30_000, frame(self.content(n))) for n in self.numbers
        ]
        self.counted = self.as_counted()

    @staticmethod
    def content(number: int) -> bytes:
        return udp(
            struct.pack("!IQ", number, 5_000 + number).ljust(64, b"."), ip_id=number & 0xFFFF
        )

    def as_counted(self) -> TrialCounters:
        """Return the counters by the plain recovery function, over the paths' current frames."""
        recovery = VectorRecovery(self.history_length, 2_000_000_000)
        arrivals = sorted(
            (time_ns, path, data)
            for path, records in enumerate(self.paths)
            for time_ns, data in records
        )
        for time_ns, _, data in arrivals:
            tagged = data[12:14] == struct.pack("!H", R_TAG)
            recovery.accept(struct.unpack("!H", data[16:18])[0] if tagged else None, time_ns)
        assert set(recovery.counters) == set(RECOVERY_COUNTERS)
        count = len(self.numbers)
        return TrialCounters(
            frer=True,
            numbered_before=0,
            numbered=max(self.numbers) + 1,
            members={
                f"m{path}": MemberCounts(len(records), 0, len(records))
                for path, records in enumerate(self.paths)
            },
            recovery=dict(recovery.counters),
            variables=FrerSettings(history_length=self.history_length, reset_ms=2000),
            listener_frames=count,
            listener_fragments=0,
            host_queue_dropped=0,
            received=count,
        )

    def captures(self) -> tuple[dict[str, Capture], Capture]:
        members = {
            f"m{path}": read_capture(pcap(records, snap=128))
            for path, records in enumerate(self.paths)
        }
        return members, read_capture(pcap(self.listener, snap=128))

    def report(self, counted: TrialCounters | None = None) -> WireReport:
        return report_captures(*self.captures(), STREAM, counted or self.counted)

    def report_without_counters(self) -> WireReport:
        return report_captures(*self.captures(), STREAM)
