"""Sizes on the wire and in memory: frames, fragments, line limits, truesize.

Rates are payload rates (goodput) unless a name has another layer. A frame is counted with its frame
check sequence and without preamble and gap; its wire bytes include both.
"""

from collections.abc import Iterable
from typing import Any, Final

PREAMBLE_BYTES: Final = 8
"""Preamble and start frame delimiter (IEEE Std 802.3-2022, 3.1.1)."""

GAP_BYTES: Final = 12
"""Interpacket gap of 96 bit times (IEEE Std 802.3-2022, 4.4.2)."""

FCS_BYTES: Final = 4
"""Frame check sequence (IEEE Std 802.3-2022, 3.2.9)."""

VLAN_TAG_BYTES: Final = 4
"""EtherType, priority, identifier (IEEE Std 802.1Q-2022, 9.6)."""

MIN_FRAME_BYTES: Final = 64
"""minFrameSize (IEEE Std 802.3-2022, 4.4.2)."""

R_TAG_BYTES: Final = 6
"""EtherType, 16 reserved bits, sequence number (IEEE Std 802.1CB-2017, 7.8)."""

FULL_FRAME_BYTES: Final = 1518
"""maxBasicFrameSize (IEEE Std 802.3-2022, 4.4.2): an MTU of 1500, without tags."""

TCP_SEGMENT_BYTES: Final = 1448
"""Payload of a full segment with time stamps on an MTU of 1500 (RFC 7323, 3.2)."""

_HEADER_AND_FCS: Final = 14 + FCS_BYTES
_IPV4: Final = 20
_UDP: Final = 8
_TCP_WITH_TIMESTAMPS: Final = 20 + 12
_MTU: Final = 1500
_FRAGMENT: Final = (_MTU - _IPV4) // 8 * 8
FULL_PAYLOAD_BYTES: Final = _MTU - _IPV4 - _UDP
"""Largest UDP payload of a datagram that needs no fragments, on an MTU of 1500 (RFC 768, 791)."""

_MAX_UDP_PAYLOAD: Final = 65_535 - _IPV4 - _UDP

# Linux 5.10 ... 6.12 on 64-bit machines with cache lines of 64 bytes.
_SK_BUFF: Final = 256
_SHARED_INFO: Final = 320
_LINK_HEADROOM: Final = 16 + 15
_CACHE_LINE: Final = 64
_KMALLOC: Final = (64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)


def main_payload_bytes(tried: Iterable[int]) -> int:
    """Return the payload that results are given for: 1472 bytes, or else the largest tried."""
    payloads = set(tried)
    if not payloads or FULL_PAYLOAD_BYTES in payloads:
        return FULL_PAYLOAD_BYTES
    return max(payloads)


def ip_packets(payload_bytes: int) -> tuple[int, ...]:
    """Return the IPv4 packet sizes, in bytes, of a UDP datagram on an MTU of 1500, in order.

    A payload above 1472 bytes needs fragments of 1480 bytes each but the last (RFC 791, 3.2).
    Raises ValueError for a payload that no datagram can carry.
    """
    if not 0 <= payload_bytes <= _MAX_UDP_PAYLOAD:
        raise ValueError(
            f"payload of {payload_bytes} bytes: a UDP datagram carries 0 ... {_MAX_UDP_PAYLOAD}"
        )
    rest = payload_bytes + _UDP
    if rest + _IPV4 <= _MTU:
        return (rest + _IPV4,)
    sizes = []
    while rest > 0:
        piece = min(rest, _FRAGMENT)
        sizes.append(piece + _IPV4)
        rest -= piece
    return tuple(sizes)


def _frame(ip_bytes: int, vlan: bool) -> int:
    return max(MIN_FRAME_BYTES, ip_bytes + _HEADER_AND_FCS + (VLAN_TAG_BYTES if vlan else 0))


def udp_frames(payload_bytes: int, *, tagged: bool = False, vlan: bool = False) -> tuple[int, ...]:
    """Return the frame sizes, in bytes with FCS, of a UDP datagram, in order.

    ``tagged`` adds an R-TAG to every frame; short frames were padded by the talker before.
    """
    tag = R_TAG_BYTES if tagged else 0
    return tuple(_frame(size, vlan) + tag for size in ip_packets(payload_bytes))


def udp_payload(frame_bytes: int) -> int:
    """Return the payload, in bytes, of the UDP datagram that one frame of this size carries."""
    return frame_bytes - _HEADER_AND_FCS - _IPV4 - _UDP


def tcp_frame(segment_bytes: int = TCP_SEGMENT_BYTES, *, vlan: bool = False) -> int:
    """Return the frame size, in bytes, of a TCP segment with time stamps (RFC 7323).

    A segment of 0 bytes is an acknowledgement.
    """
    return _frame(segment_bytes + _TCP_WITH_TIMESTAMPS + _IPV4, vlan)


def wire_bytes(frame_bytes: int) -> int:
    """Return the bytes of a frame on the wire, with preamble and gap."""
    return frame_bytes + PREAMBLE_BYTES + GAP_BYTES


def payload_rate_mbps(datagrams: Any, payload_bytes: Any, seconds: Any = 1.0) -> Any:
    """Return the payload rate, in Mb/s, of datagrams of one payload sent in a time.

    Numbers or arrays; without ``seconds``, ``datagrams`` is a rate in datagrams a second.
    """
    return datagrams * payload_bytes * 8 / seconds / 1e6


def payload_rate_pps(rate_mbps: float, payload_bytes: float) -> float:
    """Return the datagrams a second of a payload rate in Mb/s."""
    return rate_mbps * 1e6 / 8 / payload_bytes


def payload_limit_mbps(
    payload_bytes: int,
    *,
    tagged: bool = False,
    vlan: bool = False,
    rate_mbps: float = 1000.0,
    copies: int = 1,
) -> float:
    """Return the highest UDP payload rate, in Mb/s, on a link of ``rate_mbps``.

    ``copies`` of each frame share the link, as after a switch that forwards the copies of all
    member paths to a listener that eliminates.
    """
    frames = udp_frames(payload_bytes, tagged=tagged, vlan=vlan)
    return rate_mbps * payload_bytes / (copies * sum(map(wire_bytes, frames)))


def tcp_limit_mbps(
    segment_bytes: int = TCP_SEGMENT_BYTES, *, tagged: bool = False, rate_mbps: float = 1000.0
) -> float:
    """Return the highest TCP payload rate, in Mb/s, on a link of ``rate_mbps``."""
    tag = R_TAG_BYTES if tagged else 0
    return rate_mbps * segment_bytes / wire_bytes(tcp_frame(segment_bytes) + tag)


def skb_truesize(ip_bytes: int) -> int:
    """Return the memory, in bytes, that Linux charges a socket for one IPv4 packet that it sends.

    The data area holds the packet and room for the link header, rounded up to a cache line;
    struct skb_shared_info (320 bytes) follows it, the sum is rounded up to a size of kmalloc,
    and struct sk_buff (256 bytes) is added: 768 bytes for 64 bytes of payload, 2304 for 1472.
    Source: __ip_append_data, __alloc_skb and SKB_TRUESIZE of Linux 5.10 to 6.12, 64 bit. A packet
    keeps this size over veth; a network card's driver may charge another, so hosts can override it.
    """
    data = -(-(ip_bytes + _LINK_HEADROOM) // _CACHE_LINE) * _CACHE_LINE + _SHARED_INFO
    for size in _KMALLOC:
        if data <= size:
            return size + _SK_BUFF
    raise ValueError(f"packet of {ip_bytes} bytes: larger than with an MTU of 1500")


def tcp_truesize(segment_bytes: int) -> int:
    """Return the truesize, in bytes, of a TCP segment; one of 0 bytes is an acknowledgement."""
    return skb_truesize(segment_bytes + _TCP_WITH_TIMESTAMPS + _IPV4)


def udp_truesizes(payload_bytes: int) -> tuple[int, ...]:
    """Return the truesize, in bytes, of each IP packet of a UDP datagram, in order.

    The receiver's socket is charged their sum, because reassembly keeps the fragments.
    """
    return tuple(skb_truesize(size) for size in ip_packets(payload_bytes))
