"""Settings of computers whose network cards cables join, each reached over SSH."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.config.base import DEVICE_NAME_LENGTH, ConfigModel, DeviceName
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.config.rack import Access, RackStation, ReachedHosts, refuse_networks_apart

Chip = Literal["i210", "i225", "other"]


class CardHost(RackStation):
    """Talker or listener: a Linux PC whose card is joined to the other one's by a cable."""

    chip: Chip = "other"
    """What queues the card has: i210 launch times and credit, i225 (and i226) gates and launch
    times. Of any other card the kernel's queueing disciplines are taken alone."""


class ShapingSwitch(Access):
    """A Microchip LAN966x board between the cards, whose port to the listener shapes."""

    driver: Literal["lan966x"] = "lan966x"
    talker_port: DeviceName
    loader_port: DeviceName
    listener_port: DeviceName
    """The port that shapes."""
    bridge: DeviceName = "br0"
    """Made for a campaign over the three ports; the board must not have it already."""
    vlan: Annotated[int, Field(ge=2, le=4094)] = 10
    """VLAN of the measured network, whose tag carries each frame's priority (PCP)."""

    @property
    def ports(self) -> dict[str, str]:
        """The ports by whom their cables lead to."""
        return {
            "talker": self.talker_port,
            "loader": self.loader_port,
            "listener": self.listener_port,
        }

    @model_validator(mode="after")
    def _ports_differ(self) -> "ShapingSwitch":
        named = [*self.ports.values(), self.bridge]
        if len(set(named)) != len(named):
            raise ValueError(f"ports and bridge are one twice among {', '.join(named)}")
        return self


class CardHosts(ConfigModel):
    """The hosts by their roles."""

    talker: CardHost
    listener: CardHost
    sw: ShapingSwitch | None = None
    """The switch that the cables lead to; null where one cable joins talker and listener. With it
    the bridges of ``shaping`` are measured, without it the end stations."""
    loader: RackStation | None = None
    """Sends the load through the switch."""

    @model_validator(mode="after")
    def _switch_and_loader(self) -> "CardHosts":
        if (self.sw is None) != (self.loader is None):
            raise ValueError(
                "sw and loader belong together: what loads a switch's port is a host of its own"
            )
        return self


class CardsSettings(ReachedHosts):
    """A talker and a listener with network cards that a cable joins, or cables to a switch."""

    kind: Literal["cards"] = "cards"
    hosts: CardHosts
    ptp: PtpSettings | None = PtpSettings()
    """None where the hosts' clocks are kept together otherwise, or are one."""

    @model_validator(mode="after")
    def _one_network(self) -> "CardsSettings":
        hosts = self.hosts
        refuse_networks_apart(hosts.talker, hosts.listener)
        if hosts.loader is not None:
            refuse_networks_apart(hosts.talker, hosts.loader)
            refuse_networks_apart(hosts.listener, hosts.loader)
        return self

    @model_validator(mode="after")
    def _vlan_devices_have_names(self) -> "CardsSettings":
        hosts = self.hosts
        for host in (hosts.talker, hosts.listener, hosts.loader):
            if hosts.sw and host and len(f"{host.card}.{hosts.sw.vlan}") > DEVICE_NAME_LENGTH:
                raise ValueError(
                    f"card {host.card}: with its VLAN device {host.card}.{hosts.sw.vlan} the name "
                    f"has more than {DEVICE_NAME_LENGTH} characters: rename the card (ip link)"
                )
        return self

    @model_validator(mode="after")
    def _gates_go_by_a_clock(self) -> "CardsSettings":
        if self.hosts.sw and self.ptp and self.ptp.time_stamping != "hardware":
            raise ValueError(
                "ptp.time_stamping: a switch's gates go by its own clock, which only hardware "
                "time stamps keep"
            )
        return self

    @property
    def concealed(self) -> dict[str, str] | None:
        """What stands for addresses in records; None where they are to be there."""
        hosts = self.hosts
        names = {hosts.talker.ipv4: "talker", hosts.listener.ipv4: "listener"}
        if hosts.loader is not None:
            names[hosts.loader.ipv4] = "loader"
        return None if self.record_addresses else names
