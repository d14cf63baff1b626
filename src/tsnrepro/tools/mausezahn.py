"""mausezahn: frames of a chosen size with a delay between them, past the network stack."""

PORT = 5001
UDP_IP_HEADERS_BYTES = 28
# Linux rounds a sleep up to its timer slack unless told otherwise (prctl(2), PR_SET_TIMERSLACK).
TIMER_SLACK_US = 50


def udp(device: str, source: str, target: str, target_mac: str, payload: int, frames: int, us: int):
    """Return the command that sends UDP frames with a delay after each.

    Parameters
    ----------
    device
        The talker's card.
    source, target
        IPv4 addresses; no reply is expected, so ``target_mac`` is given and not asked for.
    payload
        UDP payload of each frame in bytes.
    frames
        How many; mausezahn takes 0 for ever.
    us
        Delay in whole microseconds, the finest that mausezahn takes; 0 sends without a pause.

    Raises
    ------
    ValueError
        ``frames`` is not positive, which would send without end.
    """
    if frames < 1:
        raise ValueError(f"{frames} frames: mausezahn would send without end")
    ports = f"sp={PORT},dp={PORT}"
    return [
        *("mausezahn", device, "-q", "-c", str(frames), "-d", str(us)),
        *("-b", target_mac, "-A", source, "-B", target),
        *("-P", "0" * payload, "-t", "udp", ports),
    ]
