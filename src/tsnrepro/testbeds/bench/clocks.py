"""The clocks of a bench's ports: which stamp frames, and which are set to the system's clock."""

from collections.abc import Mapping

from tsnrepro.common.topology import LISTENER, STATIONS
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.tools import ethtool

TOOLS = ("phc2sys", "hwstamp_ctl")
"""What sets a card's clock, and lets it stamp every frame; both are linuxptp's."""


def stamping_clocks(shown: Mapping[str, str]) -> dict[str, int]:
    """Return the indices of two ports' clocks by role, empty unless both ports stamp frames.

    Parameters
    ----------
    shown
        Output of ``ethtool -T`` by role. The listener's port must stamp all received frames.
    """
    found = {role: ethtool.clock_index(shown[role]) for role in STATIONS}
    lacking = [
        ethtool.missing_timestamping(shown[role], every_frame=role == LISTENER) for role in STATIONS
    ]
    indices = {role: index for role, index in found.items() if index is not None}
    return indices if len(indices) == len(STATIONS) and not any(lacking) else {}


def missing_tools(shell: Shell) -> list[str]:
    """Return those of ``TOOLS`` that a host lacks."""
    found = shell.query_all([["sh", "-c", 'command -v "$1"', "sh", tool] for tool in TOOLS])
    return [tool for tool, (status, _) in zip(TOOLS, found, strict=True) if status]


def one_port_each(clocks: Mapping[str, int]) -> list[str]:
    """Return a role for each clock: ports may share one, which is set over one of them."""
    roles: dict[int, str] = {}
    for role, index in clocks.items():
        roles.setdefault(index, role)
    return [*roles.values()]
