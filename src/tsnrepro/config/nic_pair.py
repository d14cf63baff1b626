"""Settings of NIC pairs: PCs whose network cards are cabled to each other or to one switch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.config.base import DEVICE_NAME_LENGTH, ConfigModel, DeviceName
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.config.rack import (
    Access,
    MeasuredHosts,
    RackStation,
    check_different_hosts,
    check_same_network,
)

Chip = Literal["i210", "i225", "other"]


class NicPairStation(RackStation):
    """Talker or listener: a Linux PC whose network card is cabled to the other one's."""

    chip: Chip = "other"
    """Network controller, which decides what its queues can do: i210 launch times and credit, i225
    (also i226) gates and launch times. ``other`` uses the kernel's queueing disciplines alone."""


class ShapingSwitch(Access):
    """A Microchip LAN966x board between the hosts, whose port to the listener shapes."""

    driver: Literal["lan966x"] = "lan966x"
    talker_port: DeviceName
    """Interface cabled to the talker."""
    loader_port: DeviceName
    """Interface cabled to the loader."""
    listener_port: DeviceName
    """Interface cabled to the listener; the one that shapes."""
    bridge: DeviceName = "br0"
    """Linux bridge of the three ports, created for a campaign; the board must not have it."""
    vlan: Annotated[int, Field(ge=2, le=4094)] = 10
    """VLAN of the measured network, whose tag carries the priority (PCP)."""

    @property
    def ports(self) -> dict[str, str]:
        """The ports by the role of the host that each is cabled to."""
        return {
            "talker": self.talker_port,
            "loader": self.loader_port,
            "listener": self.listener_port,
        }

    @model_validator(mode="after")
    def _ports_differ(self) -> "ShapingSwitch":
        named = [*self.ports.values(), self.bridge]
        if len(set(named)) != len(named):
            raise ValueError(f"ports and bridge need different names: {', '.join(named)}")
        return self


class NicPairHosts(ConfigModel):
    """The hosts by role."""

    talker: NicPairStation
    """The host with the talker's card."""
    listener: NicPairStation
    """The host with the listener's card."""
    sw: ShapingSwitch | None = None
    """Switch between the hosts; by default talker and listener are cabled to each other. With it
    ``shaping`` measures bridges, without it end stations."""
    loader: RackStation | None = None
    """Host that sends the load through the switch; it needs ``sw``."""

    @model_validator(mode="after")
    def _switch_and_loader(self) -> "NicPairHosts":
        if (self.sw is None) != (self.loader is None):
            raise ValueError("sw and loader need each other: a host of its own loads the switch")
        return self


class NicPairSettings(MeasuredHosts):
    """A talker and a listener whose network cards are cabled to each other or to one switch."""

    kind: Literal["nic-pair"] = "nic-pair"
    hosts: NicPairHosts
    """The hosts by role."""
    ptp: PtpSettings | None = PtpSettings()
    """Clock synchronisation of the hosts; null if they have one clock or something else
    synchronises them."""

    @model_validator(mode="after")
    def _hosts_fit(self) -> "NicPairSettings":
        hosts = self.hosts
        check_different_hosts(hosts)
        check_same_network(hosts.talker, hosts.listener)
        if hosts.loader is not None:
            check_same_network(hosts.talker, hosts.loader)
            check_same_network(hosts.listener, hosts.loader)
        for host in (hosts.talker, hosts.listener, hosts.loader):
            if not (hosts.sw and host):
                continue
            device = f"{host.interface}.{hosts.sw.vlan}"
            if len(device) > DEVICE_NAME_LENGTH:
                raise ValueError(
                    f"interface {host.interface}: its VLAN device {device} would have more than "
                    f"{DEVICE_NAME_LENGTH} characters; rename it (ip link set name)"
                )
        if hosts.sw and self.ptp and self.ptp.time_stamping != "hardware":
            raise ValueError(
                "ptp.time_stamping: a switch's gates follow its own clock, which needs hardware "
                "timestamps"
            )
        return self

    @property
    def concealed(self) -> dict[str, str] | None:
        """The role that replaces each address in records; None if addresses are recorded."""
        hosts = self.hosts
        names = {hosts.talker.ipv4: "talker", hosts.listener.ipv4: "listener"}
        if hosts.loader is not None:
            names[hosts.loader.ipv4] = "loader"
        return None if self.record_addresses else names
