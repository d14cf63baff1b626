"""Capture files: pcap and pcapng, read into columns.

A file is memory-mapped and read in one pass; the columns have offsets into the file, so that memory
grows only with the number of records.

Sources: the pcap format as in draft-ietf-opsawg-pcap, sections 4 and 5; pcapng as in
draft-ietf-opsawg-pcapng, sections 4.1 (section header), 4.2 (interface description), 4.3
(enhanced packet) and 4.6 (interface statistics).
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numba import njit

from tsnrepro.common.errors import RecordError

_ETHERNET: Final = 1  # LINKTYPE_ETHERNET
_CONVERT: Final = "Convert it: editcap -F nsecpcap OLD NEW"

_PCAP_HEADER_BYTES: Final = 24
# Byte order and nanoseconds per tick, by the first four bytes.
_PCAP_MAGIC: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
# MAXIMUM_SNAPLEN of libpcap: longer records are invalid.
_MAX_RECORD_BYTES: Final = 262_144

_SECTION_HEADER: Final = 0x0A0D0D0A
_INTERFACE_DESCRIPTION, _ENHANCED_PACKET, _INTERFACE_STATISTICS = 1, 6, 5
_UNSUPPORTED: Final = {2: "packet blocks of the obsolete kind", 3: "packets without a time stamp"}
_BYTE_ORDER: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_IF_TSRESOL, _IF_TSOFFSET = 9, 14
_ISB_IFDROP, _ISB_OSDROP = 5, 7
_NANOSECONDS: Final = 1_000_000_000
_LATEST_S: Final = 9_223_372_036  # nanoseconds since the epoch have 63 bits
# A finer binary resolution would overflow 64 bits in the conversion to nanoseconds.
_FINEST_BINARY_RESOLUTION: Final = 33


@dataclass(frozen=True)
class Capture:
    """The records of a capture file, in file order; arrays of shape (records,).

    ``data`` is the whole file; the frame of record i starts at ``offset[i]`` and has
    ``captured_bytes[i]`` of its ``original_bytes[i]`` bytes. ``time_ns`` is since the epoch.
    """

    where: str
    data: np.ndarray
    time_ns: np.ndarray
    captured_bytes: np.ndarray
    original_bytes: np.ndarray
    offset: np.ndarray
    truncated_bytes: int
    """Bytes after the last complete record, as left by an interrupted capture."""
    dropped: int | None
    """Frames that the capture missed, as recorded in a pcapng file; None if not recorded."""

    def __len__(self) -> int:
        return len(self.offset)

    def frame(self, index: int) -> bytes:
        """Return the captured bytes of one frame."""
        start = int(self.offset[index])
        return self.data[start : start + int(self.captured_bytes[index])].tobytes()


def read_capture(source: Path | str | bytes, where: str = "") -> Capture:
    """Read a capture of Ethernet frames.

    ``source`` is a path (``.gz`` is decompressed into memory, other files are mapped) or the bytes
    of a file. A truncated last record is left out and counted in ``truncated_bytes``.

    Raises RecordError if it is not a capture of Ethernet frames, it is damaged, or it has an
    unsupported type of packet block.
    """
    data = _bytes_of(source)
    name = where or (str(source) if not isinstance(source, bytes) else "capture")
    magic = data[:4].tobytes()
    if magic in _PCAP_MAGIC:
        return _read_pcap(data, name)
    if magic == struct.pack("<I", _SECTION_HEADER):
        return _PcapngReader(data, name).read()
    raise RecordError("neither pcap nor pcapng", name, _CONVERT)


def _bytes_of(source: Path | str | bytes) -> np.ndarray:
    if isinstance(source, bytes):
        return np.frombuffer(source, np.uint8)
    path = Path(source)
    try:
        if path.suffix == ".gz":
            return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)
        if path.stat().st_size == 0:
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r").view(np.ndarray)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"the capture cannot be read: {error}", str(path)) from error


# --- pcap -------------------------------------------------------------------------------------


def _read_pcap(data: np.ndarray, where: str) -> Capture:
    order, tick_ns = _PCAP_MAGIC[data[:4].tobytes()]
    if len(data) < _PCAP_HEADER_BYTES:
        raise RecordError("the file ends within its header", where)
    (link_type,) = struct.unpack_from(f"{order}I", data.data, 20)
    _check_link_type(link_type & 0xFFFF, where)
    nothing = np.empty((0, 4), np.int64)
    big = order == ">"
    count, end, _ = _walk_pcap(data, _PCAP_HEADER_BYTES, big, tick_ns, nothing)
    table = np.empty((count, 4), np.int64)
    _, end, invalid = _walk_pcap(data, _PCAP_HEADER_BYTES, big, tick_ns, table)
    if invalid:
        raise RecordError(
            f"record {count + 1}, at byte {end}, has an impossible length: the file is damaged",
            where,
        )
    return _capture(where, data, table, len(data) - end)


@njit(cache=True, nogil=True)
def _unsigned(data, at, big):
    """Return the 32-bit number at an offset."""
    a, b = np.int64(data[at]), np.int64(data[at + 1])
    c, d = np.int64(data[at + 2]), np.int64(data[at + 3])
    return (a << 24 | b << 16 | c << 8 | d) if big else (d << 24 | c << 16 | b << 8 | a)


@njit(cache=True, nogil=True)
def _walk_pcap(data, start, big, tick_ns, table):
    """Fill the table's rows: time_ns, captured, original, offset; an empty table only counts.

    Returns the number of complete records, their end, and whether an invalid one follows.
    """
    at, count, size = start, 0, len(data)
    while at + 16 <= size:
        captured = _unsigned(data, at + 8, big)
        if captured > _MAX_RECORD_BYTES:
            return count, at, True
        if at + 16 + captured > size:
            break
        if len(table):
            seconds, ticks = _unsigned(data, at, big), _unsigned(data, at + 4, big)
            table[count, 0] = seconds * _NANOSECONDS + ticks * tick_ns
            table[count, 1] = captured
            table[count, 2] = _unsigned(data, at + 12, big)
            table[count, 3] = at + 16
        at += 16 + captured
        count += 1
    return count, at, False


def _capture(
    where: str, data: np.ndarray, table: np.ndarray, truncated: int, dropped: int | None = None
) -> Capture:
    return Capture(
        where,
        data,
        time_ns=table[:, 0].copy(),
        captured_bytes=table[:, 1].astype(np.uint32),
        original_bytes=table[:, 2].astype(np.uint32),
        offset=table[:, 3].copy(),
        truncated_bytes=truncated,
        dropped=dropped,
    )


def _check_link_type(link_type: int, where: str) -> None:
    if link_type != _ETHERNET:
        raise RecordError(
            f"its frames have link type {link_type}, not Ethernet (1)",
            where,
            "Capture on the Ethernet device itself, not on `any`",
        )


# --- pcapng -----------------------------------------------------------------------------------


@dataclass
class _Interface:
    """Time format of an interface of a pcapng section, from the options of its description."""

    resolution: int = 6  # if_tsresol: microseconds by default
    offset_s: int = 0

    def nanoseconds(self, ticks: np.ndarray, where: str) -> np.ndarray:
        """Return ticks (uint64) as nanoseconds since the epoch (int64)."""
        exponent = self.resolution & 0x7F
        base = 2.0 if self.resolution & 0x80 else 10.0
        latest_s = float(ticks.max()) / base**exponent if len(ticks) else 0.0
        if max(latest_s, abs(self.offset_s), latest_s + self.offset_s) > _LATEST_S:
            raise RecordError("time stamps after the year 2262: the file is damaged", where)
        if self.resolution & 0x80:
            if exponent > _FINEST_BINARY_RESOLUTION:
                raise RecordError(f"time stamps of 2^-{exponent} s are too fine", where, _CONVERT)
            fraction = ticks & np.uint64((1 << exponent) - 1)
            whole = (ticks >> np.uint64(exponent)) * np.uint64(_NANOSECONDS)
            scaled = whole + (fraction * np.uint64(_NANOSECONDS) >> np.uint64(exponent))
        elif exponent <= 9:
            scaled = ticks * np.uint64(10 ** (9 - exponent))
        elif exponent <= 19:
            scaled = ticks // np.uint64(10 ** (exponent - 9))
        else:
            raise RecordError(f"time stamps of 10^-{exponent} s are too fine", where, _CONVERT)
        return scaled.astype(np.int64) + self.offset_s * _NANOSECONDS


class _PcapngReader:
    """Walks the blocks of a file; sequences of packet blocks in compiled code."""

    def __init__(self, data: np.ndarray, where: str) -> None:
        self.data, self.where = data, where
        self.order = "<"
        self.at = 0
        # Interfaces are numbered per section in the file, and over all sections here.
        self.interfaces: list[_Interface] = []
        self.first_interface = 0
        self.parts: list[np.ndarray] = []
        # Statistics of an interface are cumulative: a later block replaces an earlier one.
        self.dropped: dict[int, int] = {}

    def read(self) -> Capture:
        while self.at + 12 <= len(self.data):
            kind, length = self._block()
            if self.at + length > len(self.data):
                break
            if self._u32(self.at + length - 4) != length:
                self._damaged("a block with two different lengths")
            self._handle(kind, length)
        rows = np.concatenate([np.empty((0, 5), np.int64), *self.parts])
        for number, interface in enumerate(self.interfaces):
            own = rows[:, 4] == number
            rows[own, 0] = interface.nanoseconds(rows[own, 0].view(np.uint64), self.where)
        dropped = sum(self.dropped.values()) if self.dropped else None
        left = len(self.data) - self.at
        return _capture(self.where, self.data, rows, left, dropped)

    def _u32(self, at: int) -> int:
        return struct.unpack_from(f"{self.order}I", self.data.data, at)[0]

    def _block(self) -> tuple[int, int]:
        kind, length = self._u32(self.at), self._u32(self.at + 4)
        if kind == _SECTION_HEADER:
            magic = self.data[self.at + 8 : self.at + 12].tobytes()
            if magic not in _BYTE_ORDER:
                self._damaged("a section without a byte order")
            self.order = _BYTE_ORDER[magic]
            length = self._u32(self.at + 4)
        if length < 12 or length % 4:
            self._damaged(f"a block of {length} bytes")
        return kind, length

    def _damaged(self, what: str) -> None:
        raise RecordError(f"{what} at byte {self.at}: the file is damaged", self.where)

    def _handle(self, kind: int, length: int) -> None:
        if kind == _ENHANCED_PACKET:
            self._packets()
            return
        if kind in _UNSUPPORTED:
            raise RecordError(f"it has {_UNSUPPORTED[kind]}", self.where, _CONVERT)
        if kind == _SECTION_HEADER:
            self.first_interface = len(self.interfaces)
        elif kind == _INTERFACE_DESCRIPTION:
            self._interface(length)
        elif kind == _INTERFACE_STATISTICS:
            self._statistics(length)
        self.at += length

    def _options(self, start: int, length: int) -> dict[int, bytes]:
        """Return the options of the current block, which begin at ``start`` within it."""
        found, at, end = {}, self.at + start, self.at + length - 4
        while at + 4 <= end:
            code, size = struct.unpack_from(f"{self.order}HH", self.data.data, at)
            if code == 0:
                break
            found[code] = self.data[at + 4 : at + 4 + size].tobytes()
            at += 4 + (size + 3 & ~3)
        return found

    def _interface(self, length: int) -> None:
        (link_type,) = struct.unpack_from(f"{self.order}H", self.data.data, self.at + 8)
        _check_link_type(link_type, self.where)
        options, interface = self._options(16, length), _Interface()
        if resolution := options.get(_IF_TSRESOL):
            interface.resolution = resolution[0]
        if len(offset := options.get(_IF_TSOFFSET, b"")) >= 8:
            (interface.offset_s,) = struct.unpack(f"{self.order}q", offset[:8])
        self.interfaces.append(interface)

    def _statistics(self, length: int) -> None:
        number = self._u32(self.at + 8)
        options = self._options(20, length)
        counts = [
            struct.unpack(f"{self.order}Q", options[code])[0]
            for code in (_ISB_IFDROP, _ISB_OSDROP)
            if len(options.get(code, b"")) == 8
        ]
        if counts:
            # dumpcap reports the kernel's drops as the interface's too: they are the same frames.
            self.dropped[self.first_interface + number] = max(counts)

    def _packets(self) -> None:
        big, known = self.order == ">", len(self.interfaces) - self.first_interface
        nothing = np.empty((0, 5), np.int64)
        count, end, _ = _walk_enhanced(self.data, self.at, big, known, nothing)
        rows = np.empty((count, 5), np.int64)
        count, end, invalid = _walk_enhanced(self.data, self.at, big, known, rows)
        if invalid or not count:
            self.at = end
            self._damaged("a packet of an unknown interface or with wrong lengths")
        rows[:, 4] += self.first_interface
        self.parts.append(rows)
        self.at = end


@njit(cache=True, nogil=True)
def _walk_enhanced(data, start, big, interfaces, rows):
    """Fill rows with time in ticks, captured, original, offset and interface; see `_walk_pcap`.

    The walk ends at the first block of another kind or a truncated one.
    """
    at, count, size = start, 0, len(data)
    while at + 32 <= size and _unsigned(data, at, big) == _ENHANCED_PACKET:
        length = _unsigned(data, at + 4, big)
        if at + length > size:
            break
        captured, number = _unsigned(data, at + 20, big), _unsigned(data, at + 8, big)
        if captured + 32 > length or length % 4 or number >= interfaces:
            return count, at, True
        if _unsigned(data, at + length - 4, big) != length:
            return count, at, True
        if len(rows):
            rows[count, 0] = _unsigned(data, at + 12, big) << 32 | _unsigned(data, at + 16, big)
            rows[count, 1] = captured
            rows[count, 2] = _unsigned(data, at + 24, big)
            rows[count, 3] = at + 28
            rows[count, 4] = number
        at += length
        count += 1
    return count, at, False
