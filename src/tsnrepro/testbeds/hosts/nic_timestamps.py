"""Hardware time stamping of received frames, set by hwstamp_ctl(8).

A network card stamps every frame only if its driver supports the receive filter ``all`` and it is
set (HWTSTAMP_FILTER_ALL); a program that reads the stamps by SO_TIMESTAMPING does not set it.
"""

import re

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.tools.ethtool import missing_timestamping

# HWTSTAMP_FILTER_ALL of linux/net_tstamp.h
_EVERY_FRAME = 1
_POLICY = re.compile(r"current settings:\s+tx_type\s+(\d+)\s+rx_filter\s+(\d+)")


def check_support(shell: Shell, card: str) -> None:
    """Refuse a card that cannot stamp every received frame.

    Raises TestbedError if it cannot; the message names what it lacks.
    """
    completed = shell.query(["ethtool", "-T", card])
    text = completed.stdout if completed.exit_status == 0 else ""
    if missing := missing_timestamping(text, every_frame=True):
        raise TestbedError(
            f"{card} cannot stamp received frames: it has no {', '.join(missing)}",
            shell.name,
            "Use another card, or set `rx_timestamping: software`",
        )


def policy(shell: Shell, card: str) -> list[int]:
    """Return a card's transmit type and receive filter, as numbered in linux/net_tstamp.h.

    Raises TestbedError if hwstamp_ctl of linuxptp is not installed, or its output is unknown.
    """
    output = shell.read(["hwstamp_ctl", "-i", card])
    found = _POLICY.search(output)
    if found is None:
        raise TestbedError(
            f"hwstamp_ctl prints no time stamping of {card}: {output.strip()[:200]!r}", shell.name
        )
    return [int(found[1]), int(found[2])]


def set_policy(shell: Shell, card: str, wanted: list[int]) -> None:
    """Set a card's transmit type and receive filter, see :func:`policy`."""
    transmit, receive = map(str, wanted)
    shell.change(["hwstamp_ctl", "-i", card, "-t", transmit, "-r", receive])


def stamp_every_frame(shell: Shell, card: str) -> None:
    """Let a card stamp every received frame; its transmit type stays.

    Raises TestbedError if the driver set another filter.
    """
    transmit, _ = policy(shell, card)
    set_policy(shell, card, [transmit, _EVERY_FRAME])
    if not shell.dry_run and (now := policy(shell, card)[1]) != _EVERY_FRAME:
        raise TestbedError(
            f"{card} has receive filter {now} instead of `all`",
            shell.name,
            "Set `rx_timestamping: software`",
        )
