"""ethtool(8): offloads and time stamping of a network card."""

import re
from itertools import pairwise

OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "sg": "scatter-gather",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "txvlan": "tx-vlan-offload",
    "rxvlan": "rx-vlan-offload",
}
"""Features that are off while measuring: names in ``ethtool -K`` and in ``ethtool -k``."""

_FEATURE = re.compile(r"^([\w-]+): (on|off)( \[fixed\])?", re.MULTILINE)
_CAPABILITIES = ("hardware-transmit", "hardware-receive", "hardware-raw-clock")
# Formerly, and since ethtool 6.14.
_CLOCK = re.compile(r"(?:PTP Hardware Clock|provider index):\s*(\d+)")
_RX_FILTERS = re.compile(r"Hardware Receive Filter Modes:(.*)", re.DOTALL)


def disable_offloads(port: str) -> list[str]:
    """Return the command that disables a port's offloads.

    Each packet is then one frame, where a segment of many frames would get one sequence number;
    and a VLAN tag is in the frame when it is sent.
    """
    return ["ethtool", "-K", port, *(word for name in OFFLOADS for word in (name, "off"))]


def parse_features(text: str) -> dict[str, tuple[bool, bool]]:
    """Return whether each feature in ``ethtool -k`` is on, and whether it is fixed."""
    found = _FEATURE.findall(text)
    return {name: (value == "on", bool(fixed)) for name, value, fixed in found}


def changeable_features(text: str) -> dict[str, bool]:
    """Return whether each feature in ``ethtool -k`` that can be changed is on.

    Those that sum up others are left out: set to on, they turn on all of them, also what a card's
    driver has off, such as ``tx-tcp-mangleid-segmentation``.
    """
    lines = text.splitlines()
    sums = {one for one, below in pairwise(lines) if below[:1].isspace() and not one[:1].isspace()}
    singles = "\n".join(line.strip() for line in lines if line not in sums)
    return {name: on for name, (on, fixed) in parse_features(singles).items() if not fixed}


def clock_index(text: str) -> int | None:
    """Return the index of a card's hardware clock from its ``ethtool -T``; None if it has none."""
    found = _CLOCK.search(text)
    return int(found[1]) if found else None


def missing_timestamping(text: str, *, every_frame: bool) -> list[str]:
    """Return the hardware time stamping that a card lacks, by its ``ethtool -T``.

    ``every_frame`` requires time stamps of all received frames, not only of PTP's.
    """
    missing = [
        name for name in _CAPABILITIES if not re.search(rf"^\s+{name}\b", text, re.MULTILINE)
    ]
    section = _RX_FILTERS.search(text)
    filters = re.findall(r"^\s+([\w-]+)", section[1], re.MULTILINE) if section else []
    if every_frame and "all" not in filters:
        missing.append("receive filter `all`")
    return missing
