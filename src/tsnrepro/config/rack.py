"""Settings of a rack: hosts reached over SSH, what each is for, and which port leads where."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from tsnrepro.config.base import ConfigModel, DeviceName, Distinct, LinkRateMbps, SocketBufferBytes
from tsnrepro.config.frer import Elimination, FrerSettings
from tsnrepro.config.ptp import RackPtpSettings

_Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:-]{0,252}$")]
"""Host name or IP address."""
_User = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
_Ipv4 = Annotated[str, Field(pattern=r"^(\d{1,3}\.){3}\d{1,3}$")]
_TcpPort = Annotated[int, Field(ge=1, le=65535)]
_File = Annotated[str, Field(min_length=1, max_length=4096)]


class Access(ConfigModel):
    """How a host is reached over SSH. No password is taken anywhere."""

    address: _Address
    port: _TcpPort = 22
    user: _User = "root"
    """Who logs in: root, because queues, links and eBPF programs are root's."""
    key_file: _File | None = None
    """A private key without passphrase; ``~`` is the home of whoever measures. By default the SSH
    agent's keys are used. Neither is ever copied or recorded."""


class RackStation(Access):
    """Talker or listener: a Linux PC with a card of its own for the measured network."""

    card: DeviceName
    ipv4: _Ipv4
    """Address on the measured network, a /24; given to the card where it lacks it."""


class ComputerSwitch(Access):
    """A Linux PC as switch: its ports."""

    host_port: DeviceName
    member_ports: Annotated[Distinct[DeviceName], Field(min_length=1, max_length=8)]


class EbpfSwitch(ComputerSwitch):
    """A Linux PC whose ports our data plane joins: FRER without a TSN switch."""

    driver: Literal["ebpf"] = "ebpf"


class KernelSwitch(ComputerSwitch):
    """A Linux PC whose kernel alone forwards, by tc: control on any, FRER where it has the action.

    ``frer.history_length`` is at most 32 there.
    """

    driver: Literal["kernel"] = "kernel"


class Lan966xPort(ConfigModel):
    """A port of a LAN966x, under both its names."""

    device: DeviceName
    chip_port: Annotated[int, Field(ge=0, le=8)]
    """Number of the port in the chip, which the rules of its VCAP go by."""


class Lan966xSwitch(Access):
    """A Microchip LAN966x board with the Linux shell of Microchip's BSP."""

    driver: Literal["lan966x"] = "lan966x"
    host_port: Lan966xPort
    member_ports: Annotated[Distinct[Lan966xPort], Field(min_length=1, max_length=2)]
    """The chip splits a stream to two ports at most."""
    bridge: DeviceName = "br0"
    vlan: Annotated[int, Field(ge=2, le=4094)] = 10
    """VLAN of the measured network; nothing is flooded or learned in it."""


def _driver(value: object) -> str:
    if isinstance(value, dict):
        return str(value.get("driver"))
    return str(getattr(value, "driver", None))


RackSwitch = Annotated[
    Annotated[EbpfSwitch, Tag("ebpf")]
    | Annotated[KernelSwitch, Tag("kernel")]
    | Annotated[Lan966xSwitch, Tag("lan966x")],
    Discriminator(_driver),
]


class RackHosts(ConfigModel):
    """The four hosts by their roles."""

    talker: RackStation
    sw1: RackSwitch
    """The switch at the talker."""
    sw2: RackSwitch
    """The switch at the listener."""
    listener: RackStation


class ReachedHosts(ConfigModel):
    """How hosts are reached over SSH and reserved, whatever they are."""

    link_rate_mbps: LinkRateMbps = 1000
    """Wire rate of every link."""
    known_hosts: _File = "~/.ssh/known_hosts"
    """File with the host keys; a host whose key is not in it is refused."""
    jump: Access | None = None
    """A host through which all others are reached."""
    reserved_minutes: Annotated[int, Field(ge=1, le=10_080)] = 60
    """How long a reservation of the hosts outlives the last sign of whoever made it."""
    record_addresses: bool = False
    """Whether records hold the addresses of the measured network; else roles stand for them."""


def refuse_networks_apart(talker: RackStation, listener: RackStation) -> None:
    """Refuse two stations that are not neighbours on one network.

    Raises
    ------
    ValueError
        Their addresses are equal, or of two networks.
    """
    one, other = talker.ipv4, listener.ipv4
    if one == other or one.rpartition(".")[0] != other.rpartition(".")[0]:
        raise ValueError(f"{one} and {other} are not two addresses of one /24")


class HardwareSettings(ReachedHosts):
    """A rack: a talker, two switches and a listener, each reached over SSH."""

    kind: Literal["hardware"] = "hardware"
    hosts: RackHosts
    ptp: RackPtpSettings | None = None
    """Without it no one-way latency is stated, unless one machine has all hosts."""
    frer: FrerSettings = FrerSettings()
    receive_stamps: Literal["software", "hardware"] = "software"
    """What stamps the arrival of a datagram whose one-way latency is measured: the listener's
    kernel, or its card, whose clock phc2sys then keeps on the system's."""
    receive_buffer_bytes: SocketBufferBytes | None = None
    """As on the emulated testbed."""
    realtime_listener: bool = False
    """As on the emulated testbed."""

    @model_validator(mode="after")
    def _one_network(self) -> "HardwareSettings":
        hosts = self.hosts
        if len(hosts.sw1.member_ports) != len(hosts.sw2.member_ports):
            raise ValueError(
                f"sw1 has {len(hosts.sw1.member_ports)} member_ports and sw2 "
                f"{len(hosts.sw2.member_ports)}: the n-th of one is cabled to the n-th of the other"
            )
        for name, switch in (("sw1", hosts.sw1), ("sw2", hosts.sw2)):
            ports = [_device(port) for port in (switch.host_port, *switch.member_ports)]
            if len(set(ports)) != len(ports):
                raise ValueError(f"{name} has one port twice among {', '.join(ports)}")
        refuse_networks_apart(hosts.talker, hosts.listener)
        self._refuse_ptp_on_the_measured_network()
        if self.receive_stamps == "hardware" and (self.ptp is None or self.ptp.free_running):
            raise ValueError(
                "receive_stamps: hardware needs ptp, and clocks that it steers: a card's stamps "
                "are times of its own clock"
            )
        return self

    def _refuse_ptp_on_the_measured_network(self) -> None:
        if self.ptp is None:
            return
        for name, station in (("talker", self.hosts.talker), ("listener", self.hosts.listener)):
            if getattr(self.ptp.cards, name) == station.card:
                raise ValueError(
                    f"ptp.cards.{name} is the card of the measured network, where PTP's frames "
                    "would be replicated and queued"
                )

    @property
    def stamping(self) -> dict[str, str]:
        """The cards that stamp arrivals, by their hosts' roles."""
        return {"listener": self.hosts.listener.card} if self.receive_stamps == "hardware" else {}

    @property
    def paths(self) -> int:
        """Number of member paths."""
        return len(self.hosts.sw1.member_ports)

    @property
    def others_data_planes(self) -> list[str]:
        """The switches that our data plane does not run on.

        They tell no streams apart, and nothing but a link fails there on request.
        """
        switches = {"sw1": self.hosts.sw1, "sw2": self.hosts.sw2}
        return [name for name, switch in switches.items() if not isinstance(switch, EbpfSwitch)]

    @property
    def concealed(self) -> dict[str, str] | None:
        """What stands for addresses in records; None where they are to be there."""
        hosts = self.hosts
        names = {hosts.talker.ipv4: "talker", hosts.listener.ipv4: "listener"}
        return None if self.record_addresses else names

    @property
    def delayed_paths(self) -> dict[int, float]:
        """Member paths that are made longer: cables are as long as they are."""
        return {}

    @property
    def elimination(self) -> Elimination:
        """Where copies are eliminated: at the second switch, which the rack's drivers set up."""
        return "switch"

    @property
    def longest_delay_s(self) -> float:
        """What the longest path takes beyond the cable's own time: nothing."""
        return 0.0


def _device(port: "str | Lan966xPort") -> str:
    return port if isinstance(port, str) else port.device
