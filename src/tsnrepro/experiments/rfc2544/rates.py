"""Frame sizes, and one load named at its layers: payload, frame, wire.

A payload rate (goodput) counts UDP payload, a frame rate adds headers and FCS, a wire rate adds
preamble and gap (IEEE Std 802.3-2022, 3.1.1 and 4.4.2). A payload above 1472 bytes is sent as
several frames (RFC 791, 3.2), so datagrams and frames are counted apart.
"""

from dataclasses import dataclass

from tsnrepro.common.ethernet import R_TAG_BYTES, udp_frames, udp_payload, wire_bytes

_MEGA = 1e6


@dataclass(frozen=True)
class Rates:
    """One load at all its layers."""

    datagrams_per_s: float
    frames_per_s: float
    payload_mbps: float
    frame_mbps: float
    wire_mbps: float


def payload_of_frame(frame_bytes: int, *, tag_counts: bool = False) -> int:
    """Return the UDP payload of a frame of a size (with FCS) of RFC 2544, 9.1.

    ``tag_counts`` makes the R-TAG part of the size. A frame of 64 bytes cannot carry one, for the
    talker pads what is shorter before it is tagged: its payload is that of 58 bytes then, and
    :func:`tsnrepro.common.ethernet.udp_frames` returns the 70 bytes that are sent.

    Raises
    ------
    ValueError
        The frame is shorter than the minimum, or longer than one frame can be.
    """
    if not 64 <= frame_bytes <= 1518:
        raise ValueError(f"frame of {frame_bytes} bytes: an untagged frame has 64 ... 1518")
    return udp_payload(frame_bytes) - (R_TAG_BYTES if tag_counts else 0)


def limit_pps(payload_bytes: int, link_rate_mbps: float, *, tagged: bool = False) -> float:
    """Return the datagrams a second that a link carries (RFC 2544, 20: maximum frame rate)."""
    frames = udp_frames(payload_bytes, tagged=tagged)
    return link_rate_mbps * _MEGA / 8 / sum(map(wire_bytes, frames))


def at_layers(payload_bytes: int, datagrams_per_s: float, *, tagged: bool = False) -> Rates:
    """Return a load in datagrams a second as frames a second and Mb/s at each layer."""
    sizes = udp_frames(payload_bytes, tagged=tagged)
    bits = 8 * datagrams_per_s / _MEGA
    return Rates(
        datagrams_per_s=datagrams_per_s,
        frames_per_s=datagrams_per_s * len(sizes),
        payload_mbps=bits * payload_bytes,
        frame_mbps=bits * sum(sizes),
        wire_mbps=bits * sum(map(wire_bytes, sizes)),
    )


def pps_of_payload_rate(payload_bytes: int, payload_mbps: float) -> float:
    """Return the datagrams a second of a payload rate (the target of ``iperf3 -u -b``)."""
    return payload_mbps * _MEGA / (8 * payload_bytes)
