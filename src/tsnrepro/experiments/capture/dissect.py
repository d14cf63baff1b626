"""Dissection of captured frames: addresses, tags, IP, ports, payload.

Sources: Ethernet header and EtherType, IEEE Std 802.3-2022, 3.2; C-TAG and S-TAG, IEEE Std
802.1Q-2022, 9.5 and 9.6; R-TAG, IEEE Std 802.1CB-2017, 7.8; IPv4, RFC 791, 3.1; IPv6 and its
fragment header, RFC 8200, 3 and 4.5; UDP, RFC 768; TCP, RFC 9293, 3.1.
"""

from typing import Final

import numpy as np
from numba import njit

from tsnrepro.common.ethernet import R_TAG_BYTES, VLAN_TAG_BYTES
from tsnrepro.experiments.capture.capture_file import Capture
from tsnrepro.tools.frerctl import StreamFilter

FRAME: Final = np.dtype(
    [
        ("destination", "u8"),
        ("source", "u8"),
        ("sequence", "i4"),  # of the first R-TAG; -1: none
        ("fragment_offset", "i4"),  # bytes; -1: no IP
        ("source_port", "i4"),  # -1: none, or in another fragment
        ("destination_port", "i4"),
        ("payload_bytes", "i4"),  # of UDP or TCP, from the headers; -1: unknown
        ("ethertype", "u2"),  # after all tags
        ("reserved", "u2"),  # of the first R-TAG
        ("vid", "i2"),  # outer VLAN tag; -1: none
        ("protocol", "i2"),  # after the IP header; -1: no IP
        ("pcp", "i1"),
        ("vlan_tags", "u1"),
        ("r_tags", "u1"),
        ("cut", "?"),  # a header was not captured completely
    ],
    align=True,
)
"""One row per frame; what is signed may be unknown. Addresses are numbers, as on the wire."""

OTHER_TRAFFIC, STREAM_FRAME, STREAM_FRAGMENT = 0, 1, 2

_C_TAG, _S_TAG, R_TAG = 0x8100, 0x88A8, 0xF1C1
_IPV4, _IPV6 = 0x0800, 0x86DD
TCP, UDP = 6, 17
_IPV6_FRAGMENT = 44
_UDP_HEADER_BYTES = 8
_DIGEST_BYTES: Final = 80
"""Bytes after the tags that identify a frame: IPv6, TCP and some payload."""


def mac(address: str) -> int:
    """Return an address in the form ``02:00:00:00:00:01`` as a number."""
    return int(address.replace(":", "").replace("-", ""), 16)


def dissect(capture: Capture) -> np.ndarray:
    """Return the header fields of each frame, an array of :data:`FRAME`."""
    frames = np.zeros(len(capture), FRAME)
    for name in FRAME.fields or ():
        if FRAME[name].kind == "i":
            frames[name] = -1
    _dissect(capture.data, capture.offset, capture.captured_bytes, frames)
    return frames


@njit(cache=True, nogil=True)
def _u16(data, at):
    return np.int64(data[at]) << 8 | np.int64(data[at + 1])


@njit(cache=True, nogil=True)
def _u32(data, at):
    return _u16(data, at) << 16 | _u16(data, at + 2)


@njit(cache=True, nogil=True)
def _u48(data, at):
    return _u16(data, at) << 32 | _u32(data, at + 2)


@njit(cache=True, nogil=True)
def _dissect(data, offset, captured, frames):
    for i in range(len(frames)):
        frame = frames[i]
        start = offset[i]
        end = start + np.int64(captured[i])
        at = _ethernet(data, start, end, frame)
        if frame.cut:
            continue
        if frame.ethertype == _IPV4:
            _ipv4(data, at, end, frame)
        elif frame.ethertype == _IPV6:
            _ipv6(data, at, end, frame)


@njit(cache=True, nogil=True)
def _ethernet(data, at, end, frame):
    """Read addresses and tags, in any order of the tags; return the offset of what follows."""
    if at + 14 > end:
        frame.cut = True
        return at
    frame.destination = _u48(data, at)
    frame.source = _u48(data, at + 6)
    ethertype = _u16(data, at + 12)
    at += 14
    while ethertype in (_C_TAG, _S_TAG, R_TAG):
        length = R_TAG_BYTES if ethertype == R_TAG else VLAN_TAG_BYTES
        if at + length > end:
            frame.cut = True
            break
        if ethertype == R_TAG:
            if frame.r_tags == 0:
                frame.reserved = _u16(data, at)
                frame.sequence = _u16(data, at + 2)
            frame.r_tags += 1
        else:
            if frame.vlan_tags == 0:
                control = _u16(data, at)
                frame.pcp, frame.vid = control >> 13, control & 0xFFF
            frame.vlan_tags += 1
        ethertype = _u16(data, at + length - 2)
        at += length
    frame.ethertype = ethertype
    return at


@njit(cache=True, nogil=True)
def _ipv4(data, at, end, frame):
    if at + 20 > end:
        frame.cut = True
        return
    header = np.int64(data[at] & 0x0F) * 4
    if data[at] >> 4 != 4 or header < 20:
        return
    frame.fragment_offset = (_u16(data, at + 6) & 0x1FFF) * 8
    frame.protocol = data[at + 9]
    if frame.fragment_offset == 0:
        inside = _u16(data, at + 2) - header
        _transport(data, at + header, end, inside, frame)


@njit(cache=True, nogil=True)
def _ipv6(data, at, end, frame):
    if at + 40 > end:
        frame.cut = True
        return
    frame.protocol = data[at + 6]
    frame.fragment_offset = 0
    inside = _u16(data, at + 4)
    at += 40
    if frame.protocol == _IPV6_FRAGMENT:
        if at + 8 > end:
            frame.cut = True
            return
        frame.protocol = data[at]
        frame.fragment_offset = _u16(data, at + 2) & 0xFFF8
        inside -= 8
        at += 8
    if frame.fragment_offset == 0:
        _transport(data, at, end, inside, frame)


@njit(cache=True, nogil=True)
def _transport(data, at, end, inside, frame):
    """Read ports and payload; ``inside`` is the length of the IP payload."""
    if frame.protocol not in (TCP, UDP):
        return
    header = _UDP_HEADER_BYTES if frame.protocol == UDP else 20
    if at + header > end:
        frame.cut = True
        return
    frame.source_port = _u16(data, at)
    frame.destination_port = _u16(data, at + 2)
    if frame.protocol == UDP:
        frame.payload_bytes = _u16(data, at + 4) - _UDP_HEADER_BYTES
    else:
        header = np.int64(data[at + 12] >> 4) * 4
        frame.payload_bytes = inside - header


# --- the stream -------------------------------------------------------------------------------


def classify_stream(frames: np.ndarray, stream: StreamFilter) -> np.ndarray:
    """Return the class of each frame, by the filter that the stations of the testbed use.

    :data:`STREAM_FRAME` is a whole datagram or its first fragment, :data:`STREAM_FRAGMENT` a later
    one, which has no ports, so that all of the stream's protocol count.
    """
    protocol = {"udp": UDP, "tcp": TCP}[stream.protocol]
    of_protocol = frames["protocol"] == protocol
    last = stream.port if stream.last_port is None else stream.last_port
    port = frames["destination_port"]
    whole = of_protocol & (port >= stream.port) & (port <= last)
    if stream.protocol == "udp":
        whole &= frames["payload_bytes"] >= stream.min_payload_bytes
    later = of_protocol & (frames["fragment_offset"] > 0)
    return np.where(later, STREAM_FRAGMENT, np.where(whole, STREAM_FRAME, OTHER_TRAFFIC)).astype(
        np.uint8
    )


# --- digests --------------------------------------------------------------------------------


def digests(capture: Capture, frames: np.ndarray) -> np.ndarray:
    """Return a 64-bit digest of each frame that does not depend on its R-TAG.

    It covers the addresses and up to :data:`_DIGEST_BYTES` bytes after the tags, and is zero for a
    frame that was not captured far enough.
    """
    found = np.zeros(len(frames), np.uint64)
    lengths = (capture.captured_bytes, capture.original_bytes)
    _digests(capture.data, capture.offset, *lengths, frames, found)
    return found


@njit(cache=True, nogil=True)
def _mixed(state, word):
    # The finalizer of MurmurHash3 (public domain): every bit of the word reaches every bit.
    state ^= word
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xFF51AFD7ED558CCD)
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ state >> np.uint64(33)


@njit(cache=True, nogil=True)
def _word(data, at):
    word = np.uint64(0)
    for k in range(8):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


@njit(cache=True, nogil=True)
def _digests(data, offset, captured, original, frames, found):  # noqa: PLR0917
    for i in range(len(frames)):
        frame = frames[i]
        head = 14 + VLAN_TAG_BYTES * frame.vlan_tags + R_TAG_BYTES * frame.r_tags
        behind = min(np.int64(original[i]) - head, _DIGEST_BYTES)
        if frame.cut or behind < 0 or head + behind > np.int64(captured[i]):
            continue
        state = _mixed(np.uint64(0x9E3779B97F4A7C15), frame.destination)
        state = _mixed(state, frame.source)
        vlan = np.int64(frame.vid) << 16 | np.int64(frame.pcp) & 0xFFFF
        state = _mixed(state, np.uint64(vlan))
        state = _mixed(state, np.uint64(frame.ethertype))
        at = offset[i] + head
        whole = behind // 8
        for k in range(whole):
            state = _mixed(state, _word(data, at + 8 * k))
        for k in range(8 * whole, behind):
            state = _mixed(state, np.uint64(data[at + k]))
        found[i] = state if state != 0 else np.uint64(1)
