"""mausezahn(8): frames of a size with a delay between them, bypassing the network stack."""

from collections.abc import Sequence
from dataclasses import dataclass

PORT = 5001
# Default timer slack of Linux, by which a sleep may be late (prctl(2), PR_SET_TIMERSLACK).
TIMER_SLACK_US = 50


@dataclass(frozen=True)
class Ends:
    """Ends of a flow: the talker's card, both IPv4 addresses, the listener's MAC address."""

    device: str
    source: str
    target: str
    target_mac: str


def delay_us(rate_pps: float) -> int:
    """Return mausezahn's delay for a rate, in whole microseconds.

    As in the documents' scripts: the reciprocal, truncated to the tool's resolution.
    """
    return max(1, int(1e6 / rate_pps))


def udp(
    ends: Ends, payload_bytes: int, frames: int, delay_us: int, *, port: int = PORT
) -> list[str]:
    """Return the command that sends UDP frames with a delay after each.

    Parameters
    ----------
    ends
        Ends of the flow. With the target's MAC address no reply is needed.
    payload_bytes
        UDP payload of each frame.
    frames
        Number of frames.
    delay_us
        Delay in whole microseconds, mausezahn's resolution; 0 for none.
    port
        UDP port, source and destination.

    Raises
    ------
    ValueError
        ``frames`` is not positive; mausezahn would send for ever.
    """
    if frames < 1:
        raise ValueError(f"{frames} frames: mausezahn would send for ever")
    ports = f"sp={port},dp={port}"
    return [
        *("mausezahn", ends.device, "-q", "-c", str(frames), "-d", str(delay_us)),
        *("-b", ends.target_mac, "-A", ends.source, "-B", ends.target),
        *("-P", "0" * payload_bytes, "-t", "udp", ports),
    ]


def frames_per_second(samples: Sequence[tuple[float, int]]) -> float:
    """Return the rate at which frames arrive, from the first sample to the last that has new ones.

    ``samples`` are pairs of a time in seconds and a count of frames, one at least.
    """
    moving = [samples[0]]
    for sample in samples[1:]:
        if sample[1] == moving[-1][1]:
            break
        moving.append(sample)
    # The last interval may hold the end of sending.
    if 2 < len(moving) < len(samples):
        moving.pop()
    seconds = moving[-1][0] - moving[0][0]
    return (moving[-1][1] - moving[0][1]) / seconds if seconds > 0 else 0.0
