"""Settings of two computers whose network cards a cable joins, each reached over SSH."""

from typing import Literal

from pydantic import model_validator

from tsnrepro.settings.hardware import RackStation, ReachedHosts, refuse_networks_apart
from tsnrepro.settings.ptp import PtpSettings
from tsnrepro.settings.strict import Strict

Chip = Literal["i210", "i225", "other"]


class CardHost(RackStation):
    """Talker or listener: a Linux PC whose card is joined to the other one's by a cable."""

    chip: Chip = "other"
    """What queues the card has: i210 launch times and credit, i225 (and i226) gates and launch
    times. Of any other card the kernel's queueing disciplines are taken alone."""


class CardHosts(Strict):
    """The two hosts by their roles."""

    talker: CardHost
    listener: CardHost


class CardsSettings(ReachedHosts):
    """A talker and a listener with network cards that a cable joins: gates of real cards."""

    kind: Literal["cards"] = "cards"
    hosts: CardHosts
    ptp: PtpSettings | None = PtpSettings()
    """None where the hosts' clocks are kept together otherwise, or are one."""

    @model_validator(mode="after")
    def _one_network(self) -> "CardsSettings":
        refuse_networks_apart(self.hosts.talker, self.hosts.listener)
        return self

    @property
    def concealed(self) -> dict[str, str] | None:
        """What stands for addresses in records; None where they are to be there."""
        names = {self.hosts.talker.ipv4: "talker", self.hosts.listener.ipv4: "listener"}
        return None if self.record_addresses else names
