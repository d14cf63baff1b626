"""Time stamps that a network card puts on what arrives, as ethtool -T and hwstamp_ctl(8) tell them.

A card stamps every frame only where its driver knows the receive filter ``all`` and is told to use
it (HWTSTAMP_FILTER_ALL); a program that asks for its stamps by SO_TIMESTAMPING does not tell it.
"""

import re

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.rack.shell import Shell

# linux/net_tstamp.h
_EVERY_FRAME = 1
_CAPABILITIES = ("hardware-transmit", "hardware-receive", "hardware-raw-clock")
_FILTERS = re.compile(r"Hardware Receive Filter Modes:(.*)", re.DOTALL)
_POLICY = re.compile(r"current settings:\s+tx_type\s+(\d+)\s+rx_filter\s+(\d+)")


def lacking(told: str, *, every_frame: bool) -> list[str]:
    """Return what a card's time stamps lack, by what ``ethtool -T`` told.

    Datagrams are stamped where every frame is.
    """
    lacks = [word for word in _CAPABILITIES if not re.search(rf"^\s+{word}\b", told, re.MULTILINE)]
    filters = _FILTERS.search(told)
    stamped = re.findall(r"^\s+([\w-]+)", filters[1], re.MULTILINE) if filters else []
    if every_frame and "all" not in stamped:
        lacks.append("receive filter `all`")
    return lacks


def refuse_without(shell: Shell, card: str) -> None:
    """Refuse a card that cannot stamp every frame that arrives.

    Raises
    ------
    TestbedError
        It names what the card lacks.
    """
    done = shell.ask(["ethtool", "-T", card])
    if lacks := lacking(done.stdout if done.exit_status == 0 else "", every_frame=True):
        raise TestbedError(
            f"{card} cannot stamp what arrives: it has no {', '.join(lacks)}",
            shell.name,
            "Take another card, or set `rx_timestamping: software`",
        )


def policy(shell: Shell, card: str) -> list[int]:
    """Return how a card stamps now: transmit type and receive filter, as the kernel numbers them.

    Raises
    ------
    TestbedError
        hwstamp_ctl of linuxptp is not there, or tells something else.
    """
    printed = shell.read(["hwstamp_ctl", "-i", card])
    found = _POLICY.search(printed)
    if found is None:
        raise TestbedError(
            f"hwstamp_ctl tells no time stamping of {card}: {printed.strip()[:200]!r}", shell.name
        )
    return [int(found[1]), int(found[2])]


def set_policy(shell: Shell, card: str, wanted: list[int]) -> None:
    """Let a card stamp as :func:`policy` told."""
    transmit, receive = map(str, wanted)
    shell.change(["hwstamp_ctl", "-i", card, "-t", transmit, "-r", receive])


def stamp_every_frame(shell: Shell, card: str) -> None:
    """Let a card stamp whatever arrives; what it sends is stamped as before.

    Raises
    ------
    TestbedError
        The driver took another filter.
    """
    transmit, _ = policy(shell, card)
    set_policy(shell, card, [transmit, _EVERY_FRAME])
    if not shell.dry and (now := policy(shell, card)[1]) != _EVERY_FRAME:
        raise TestbedError(
            f"{card} was told to stamp every frame and has receive filter {now}",
            shell.name,
            "Set `rx_timestamping: software`",
        )
