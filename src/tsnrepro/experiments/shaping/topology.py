"""Hosts and links of a part of shaping on hosts: which ports shape, and who sends what.

A part's shaped port is the talker's own or a switch's::

    talker eth0 --- eth0 listener

    talker eth0 --- p1 sw p0 --- eth0 listener
    loader eth0 --- p2

The software bridge can stand for the talker's own port too, with stream and load from one host::

    talker eth0 --- p1 port p0 --- eth0 listener

With FRER each member path has a shaped port and a load of its own; ``sw1`` copies and ``sw2``
recovers::

    talker eth0 --- p0 sw1 m0 --- p1 gate p0 ---- m0 sw2 p0 --- eth0 listener
                  loader eth0 --- p2
                           m1 --- p1 gate1 p0 --- m1
                 loader1 eth0 --- p2

veth sends at no rate, so the shaped port holds its frames to the link rate itself. Nothing else
does: behind it a second limit of the same rate would keep every frame that once waits there, and
before it one would hold loads below what the campaign says. A board between cards is the switch
``sw`` of a bridge; its forwarding is set up before a trial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.ethernet import R_TAG_BYTES
from tsnrepro.common.topology import (
    CARD,
    HOST_PORT,
    INLINE_SWITCH,
    LISTENER,
    LOADER,
    SWITCHES,
    TALKER,
    member_names,
)
from tsnrepro.experiments.shaping.steps import nth
from tsnrepro.testbeds.jobs.job import Bridge, Link, LinkEnd, Vlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tsnrepro.experiments.shaping.settings import Mode, ShapingPart
    from tsnrepro.native.streams.command import Stamps
    from tsnrepro.testbeds.jobs.job import Cable, CabledSwitch

MEMBERS = tuple(member_names(2))
VLAN_ID = 10

_OWN_PORT = "port"
_SHAPED, _FROM_TALKER, _FROM_LOADER = "p0", "p1", "p2"
_MTU = 1504  # a tagged frame of a full packet
_MEMBER_MTU = _MTU + R_TAG_BYTES

Port = tuple[str, str]
"""Host and device."""


@dataclass(frozen=True)
class Wiring:
    """Links and bridges of a kind of part, where its shaped ports are, and who sends the loads."""

    links: tuple[Link, ...]
    bridges: tuple[Bridge, ...]
    shaped: tuple[Port, ...]
    """One, or one a member path."""
    loaders: tuple[str, ...]
    """The host whose load each shaped port has."""
    to: str = "10.0.0.2"
    """The listener's address."""
    stamps: Stamps = "software"
    """What stamps the stream's arrivals."""
    ends: tuple[LinkEnd, ...] = ()
    """Ports whose cables lead to a board."""
    board: CabledSwitch | None = None

    @property
    def switched(self) -> bool:
        """Whether a switch shapes, and not the talker itself."""
        return self.shaped[0][0] != TALKER

    @property
    def replicated(self) -> bool:
        """Whether FRER sends the stream over several shaped ports."""
        return len(self.shaped) > 1

    @property
    def senders(self) -> tuple[str, ...]:
        """Every host that sends, each once."""
        return tuple(dict.fromkeys((TALKER, *self.loaders)))

    def devices(self, host: str) -> list[str]:
        """Return the names of a host's ports, in the order of the links."""
        return [end.device for end in self._ends() if end.host == host]

    @property
    def listener(self) -> LinkEnd:
        """The listener's port."""
        return next(end for end in self._ends() if end.host == LISTENER)

    def _ends(self) -> Iterator[LinkEnd]:
        of_links = chain.from_iterable((link.one, link.other) for link in self.links)
        return chain(of_links, self.ends)


def of_cable(cable: Cable, part: ShapingPart) -> Wiring:
    """Return the hosts and the cables of a part; the talker's own card shapes, or a board's port.

    Raises ConfigurationError if the part needs a switch between the cards and there is none, or the
    other way round.
    """
    if (part.kind == "bridge") != (cable.switch is not None):
        stands = "a switch stands" if cable.switch else "no switch stands"
        raise ConfigurationError(
            f"{stands} between the cards, and the part is of kind {part.kind}",
            f"shaping part {part.name}",
            "A testbed of cards with `sw` measures bridges, one without it end stations",
        )
    if cable.switch is not None:
        return _of_board(cable, cable.switch)
    return Wiring(
        (Link(cable.talker, cable.listener),),
        (),
        shaped=((TALKER, cable.talker.device),),
        loaders=(TALKER,),
        to=cable.listener.addresses[0].partition("/")[0],
        stamps=cable.stamps,
    )


def _of_board(cable: Cable, board: CabledSwitch) -> Wiring:
    """Return the hosts around a board; a job sets up their cards, and of the board one queue."""
    assert cable.loader is not None
    return Wiring(
        (),
        (),
        shaped=((board.host, board.ports[LISTENER]),),
        loaders=(LOADER,),
        to=cable.listener.addresses[0].partition("/")[0],
        stamps=cable.stamps,
        ends=tuple(
            replace(end, addresses=(), vlans=(Vlan(board.vlan, end.addresses),), mtu=_MTU)
            for end in (cable.talker, cable.loader, cable.listener)
        ),
        board=board,
    )


def of_veth(part: ShapingPart, mode: Mode) -> Wiring:
    """Return the hosts and links of a part; ``direct`` has no switch.

    Raises ConfigurationError if the part has FRER, and nothing that could shape behind it.
    """
    if part.kind == "tas-frer":
        return _behind_frer(part)
    talker, listener = _card(part, TALKER, 1), _card(part, LISTENER, 2)
    if mode == "direct" or (part.kind == "end-station" and not part.software_bridge):
        return Wiring((Link(talker, listener),), (), ((TALKER, CARD),), (TALKER,))
    switch = _OWN_PORT if part.kind == "end-station" else INLINE_SWITCH
    links = [Link(talker, LinkEnd(switch, _FROM_TALKER, mtu=_MTU))]
    if switch == INLINE_SWITCH:
        links.append(_load_to(part, INLINE_SWITCH))
    links.append(Link(LinkEnd(switch, _SHAPED, mtu=_MTU), listener))
    ports = (_FROM_TALKER, _FROM_LOADER, _SHAPED)
    bridges = () if part.software_bridge else (Bridge(INLINE_SWITCH, ports),)
    loader = TALKER if switch == _OWN_PORT else LOADER
    return Wiring(tuple(links), bridges, ((switch, _SHAPED),), (loader,))


def _behind_frer(part: ShapingPart) -> Wiring:
    if not part.software_bridge:
        raise ConfigurationError(
            "on hosts only the software bridge shapes behind FRER",
            f"shaping part {part.name}",
            "Give it testbeds: {emulated: {switch: bridge}}, or {model: {}}",
        )
    one, other = SWITCHES
    links = [
        Link(_card(part, TALKER, 1), LinkEnd(one, HOST_PORT, mtu=_MTU)),
        Link(LinkEnd(other, HOST_PORT, mtu=_MTU), _card(part, LISTENER, 2)),
    ]
    gates = [nth("gate", place) for place, _ in enumerate(MEMBERS)]
    for place, (member, gate) in enumerate(zip(MEMBERS, gates, strict=True)):
        ends = (
            (LinkEnd(one, member, mtu=_MEMBER_MTU), LinkEnd(gate, _FROM_TALKER, mtu=_MEMBER_MTU)),
            (LinkEnd(gate, _SHAPED, mtu=_MEMBER_MTU), LinkEnd(other, member, mtu=_MEMBER_MTU)),
        )
        links += [Link(*ends[0]), _load_to(part, gate, place), Link(*ends[1])]
    return Wiring(
        tuple(links),
        (),
        shaped=tuple((gate, _SHAPED) for gate in gates),
        loaders=tuple(nth(LOADER, place) for place, _ in enumerate(MEMBERS)),
    )


def _load_to(part: ShapingPart, switch: str, place: int = 0) -> Link:
    """Return the link from the host of a load to the switch whose port it loads."""
    loader = _card(part, nth(LOADER, place), 3 + place)
    return Link(loader, LinkEnd(switch, _FROM_LOADER, mtu=_MTU))


def _card(part: ShapingPart, host: str, number: int) -> LinkEnd:
    address = (f"10.0.0.{number}/24",)
    if part.tagged and not part.software_bridge:
        return LinkEnd(host, CARD, vlans=(Vlan(VLAN_ID, address),), mtu=_MTU)
    return LinkEnd(host, CARD, address)
