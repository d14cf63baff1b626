"""mausezahn: frames of a chosen size with a delay between them, past the network stack."""

from dataclasses import dataclass

PORT = 5001
# Linux rounds a sleep up to its timer slack unless told otherwise (prctl(2), PR_SET_TIMERSLACK).
TIMER_SLACK_US = 50


@dataclass(frozen=True)
class Ends:
    """Between which hosts frames go: the talker's card, both IPv4 addresses, the listener's MAC."""

    device: str
    source: str
    target: str
    target_mac: str


def delay_us(rate_pps: float) -> int:
    """Return the whole microseconds of delay that a script gives mausezahn for a rate.

    As the documents' scripts did: the reciprocal, cut to the resolution of the tool.
    """
    return max(1, int(1e6 / rate_pps))


def udp(
    ends: Ends, payload_bytes: int, frames: int, delay_us: int, *, port: int = PORT
) -> list[str]:
    """Return the command that sends UDP frames with a delay after each.

    Parameters
    ----------
    ends
        Between which hosts. The target's MAC address is given, so that no reply is needed.
    payload_bytes
        UDP payload of each frame.
    frames
        How many; mausezahn takes 0 for ever.
    delay_us
        Delay in whole microseconds, the finest that mausezahn takes; 0 sends without a pause.
    port
        UDP port, source and destination.

    Raises
    ------
    ValueError
        ``frames`` is not positive, which would send without end.
    """
    if frames < 1:
        raise ValueError(f"{frames} frames: mausezahn would send without end")
    ports = f"sp={port},dp={port}"
    return [
        *("mausezahn", ends.device, "-q", "-c", str(frames), "-d", str(delay_us)),
        *("-b", ends.target_mac, "-A", ends.source, "-B", ends.target),
        *("-P", "0" * payload_bytes, "-t", "udp", ports),
    ]
