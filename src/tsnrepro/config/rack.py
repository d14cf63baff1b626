"""Settings of racks: hosts reached over SSH, the role of each, and how their ports are cabled."""

from ipaddress import AddressValueError, IPv4Address, ip_address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, model_validator

from tsnrepro.common.counts import plural
from tsnrepro.config.base import (
    ConfigModel,
    DeviceName,
    Distinct,
    LinkRateMbps,
    SocketBufferBytes,
    current_kind,
    formerly,
)
from tsnrepro.config.frer import Elimination, FrerSettings
from tsnrepro.config.ptp import RackPtpSettings

_Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9_:][A-Za-z0-9_.:-]{0,252}(%[\w.-]{1,15})?$")]
"""Host name or IP address; behind a link-local one the device, such as ``fe80::1%eth0``."""
_User = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]


def _of_a_host(text: str) -> str:
    try:
        address = IPv4Address(text)
    except AddressValueError as error:
        raise ValueError(f"{text} is no IPv4 address: {error}") from error
    # The network's address and its broadcast address, of a /24.
    if address.packed[3] in (0, 255):
        raise ValueError(f"{text} is the address of a network, not of a host")
    if address.is_multicast or address.is_reserved or address.is_loopback or address.packed[0] == 0:
        raise ValueError(f"{text} is not the address of a host")
    return text


_Ipv4 = Annotated[str, Field(pattern=r"^(\d{1,3}\.){3}\d{1,3}$"), AfterValidator(_of_a_host)]
_TcpPort = Annotated[int, Field(ge=1, le=65535)]
_File = Annotated[str, Field(min_length=1, max_length=4096)]


class Access(ConfigModel):
    """How to reach a host over SSH. Passwords are not supported."""

    address: _Address
    """Host name or IP address of the SSH server, which is not on the measured network."""
    port: _TcpPort = 22
    """TCP port of the SSH server."""
    user: _User = "root"
    """Login name. Queues, links and eBPF programs need root."""
    key_file: _File | None = None
    """Private key without passphrase; by default the SSH agent's keys are used. Keys are neither
    copied nor recorded."""


class RackStation(Access):
    """An end station: a Linux PC with an interface for the measured network alone."""

    interface: Annotated[DeviceName, formerly("card")]
    """Network interface on the measured network."""
    ipv4: _Ipv4
    """Address on the measured network, a /24. It is added to the interface if it lacks it."""


class ComputerSwitch(Access):
    """A Linux PC as switch."""

    host_port: DeviceName
    """Interface cabled to the talker or listener."""
    member_ports: Annotated[Distinct[DeviceName], Field(min_length=1, max_length=8)]
    """Interfaces of the member paths; the n-th is cabled to the other switch's n-th."""


class EbpfSwitch(ComputerSwitch):
    """A Linux PC with our eBPF data plane: FRER without a TSN switch."""

    driver: Literal["ebpf"] = "ebpf"


class KernelSwitch(ComputerSwitch):
    """A Linux PC whose kernel forwards, set up by tc: FRER needs a kernel with the frer action.

    ``frer.history_length`` is at most 32 there.
    """

    driver: Literal["kernel"] = "kernel"


class Lan966xPort(ConfigModel):
    """A port of a LAN966x, by the names of Linux and of the chip."""

    device: DeviceName
    """Network interface in Linux."""
    chip_port: Annotated[int, Field(ge=0, le=8)]
    """Number of the port in the chip, by which VCAP rules match."""


class Lan966xSwitch(Access):
    """A Microchip LAN966x board with the Linux shell of Microchip's BSP."""

    driver: Literal["lan966x"] = "lan966x"
    host_port: Lan966xPort
    """Port cabled to the talker or listener."""
    member_ports: Annotated[Distinct[Lan966xPort], Field(min_length=1, max_length=2)]
    """Ports of the member paths; the n-th is cabled to the other switch's n-th. The chip splits a
    stream to two ports at most."""
    bridge: DeviceName = "br0"
    """Linux bridge that has the ports, created if there is none."""
    vlan: Annotated[int, Field(ge=2, le=4094)] = 10
    """VLAN of the measured network, without flooding and learning."""


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
    """The four hosts by role."""

    talker: RackStation
    """The host that sends."""
    sw1: RackSwitch
    """The switch at the talker."""
    sw2: RackSwitch
    """The switch at the listener."""
    listener: RackStation
    """The host that receives."""


class ReachedHosts(ConfigModel):
    """How hosts are reached over SSH and leased, whatever their roles."""

    known_hosts: _File = "~/.ssh/known_hosts"
    """File of known host keys (ssh(1)); a host whose key is not in it is refused."""
    jump_host: Annotated[Access | None, formerly("jump")] = None
    """Host through which all others are reached, as by ``ssh -J``; by default none."""
    lease_minutes: Annotated[int, Field(ge=1, le=10_080), formerly("reserved_minutes")] = 60
    """Time after which the lease of the hosts expires if its owner no longer renews it, in
    minutes."""


class MeasuredHosts(ReachedHosts):
    """Hosts that are reached over SSH, and the network that is measured between them."""

    link_rate_mbps: LinkRateMbps = 1000
    """Wire rate of every link, in Mb/s."""
    record_addresses: bool = False
    """Record the addresses of the measured network; by default roles take their place."""

    @model_validator(mode="before")
    @classmethod
    def _former_kind(cls, values: Any, info: ValidationInfo) -> Any:
        if isinstance(values, dict) and "kind" in values:
            return values | {"kind": current_kind(values["kind"], info)}
        return values


def check_same_network(talker: RackStation, listener: RackStation) -> None:
    """Refuse two stations that are not neighbours on one network.

    Raises ValueError if their addresses are equal or of different networks.
    """
    one, other = talker.ipv4, listener.ipv4
    if one == other or one.rpartition(".")[0] != other.rpartition(".")[0]:
        raise ValueError(f"{one} and {other} are not two addresses of one /24")


def _canonical(address: str) -> str:
    """Return the one spelling of an address; a host may still have several names."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address.lower().removesuffix(".")
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def check_different_hosts(hosts: ConfigModel) -> None:
    """Refuse two roles on one host, whose kernel would not send over the cables between them.

    Raises ValueError if two roles have one address and port.
    """
    roles: dict[tuple[str, int], str] = {}
    for role, host in hosts:
        if isinstance(host, Access):
            reached = _canonical(host.address), host.port
            if reached in roles:
                raise ValueError(f"{roles[reached]} and {role} are the same host: {host.address}")
            roles[reached] = role


class RackSettings(MeasuredHosts):
    """A rack: talker, two switches and listener, each reached over SSH."""

    kind: Literal["rack"] = "rack"
    hosts: RackHosts
    """The hosts by role."""
    ptp: RackPtpSettings | None = None
    """Clock synchronisation of talker and listener. Without it one-way latency is not measured,
    unless one machine has both."""
    frer: FrerSettings = FrerSettings()
    """The recovery function of the switches."""
    rx_timestamping: Annotated[Literal["software", "hardware"], formerly("receive_stamps")] = (
        "software"
    )
    """What timestamps arrivals for one-way latency: the listener's kernel (``software``), or its
    network card (``hardware``), which needs ``ptp``."""
    receive_buffer_bytes: SocketBufferBytes | None = None
    """Receive buffer of the listener's socket, on the scale of net.core.rmem_default; by default
    that default."""
    listener_sched_fifo: Annotated[bool, formerly("realtime_listener")] = False
    """Run the listener under SCHED_FIFO, ahead of all ordinary programs."""

    @model_validator(mode="after")
    def _one_network(self) -> "RackSettings":
        hosts = self.hosts
        if len(hosts.sw1.member_ports) != len(hosts.sw2.member_ports):
            raise ValueError(
                f"sw1 has {plural(len(hosts.sw1.member_ports), 'port')} in member_ports and sw2 "
                f"{len(hosts.sw2.member_ports)}: the n-th of one is cabled to the n-th of the other"
            )
        for name, switch in (("sw1", hosts.sw1), ("sw2", hosts.sw2)):
            ports = [_device(port) for port in (switch.host_port, *switch.member_ports)]
            if len(set(ports)) != len(ports):
                raise ValueError(f"{name} has one port twice among {', '.join(ports)}")
        check_different_hosts(hosts)
        check_same_network(hosts.talker, hosts.listener)
        self._check_ptp_interfaces()
        if self.rx_timestamping == "hardware" and (self.ptp is None or self.ptp.free_running):
            raise ValueError(
                "rx_timestamping: hardware needs ptp without free_running: a network card's "
                "timestamps are those of its own clock"
            )
        return self

    def _check_ptp_interfaces(self) -> None:
        if self.ptp is None:
            return
        for name, station in (("talker", self.hosts.talker), ("listener", self.hosts.listener)):
            if getattr(self.ptp.interfaces, name) == station.interface:
                raise ValueError(
                    f"ptp.interfaces.{name} is on the measured network, where PTP's frames would "
                    "be replicated and queued"
                )

    @property
    def stamping(self) -> dict[str, str]:
        """The interfaces that timestamp arrivals, by their hosts' roles."""
        hardware = self.rx_timestamping == "hardware"
        return {"listener": self.hosts.listener.interface} if hardware else {}

    @property
    def paths(self) -> int:
        """Number of member paths."""
        return len(self.hosts.sw1.member_ports)

    @property
    def others_data_planes(self) -> list[str]:
        """The switches without our data plane.

        They cannot distinguish streams, and only links can be made to fail there.
        """
        switches = {"sw1": self.hosts.sw1, "sw2": self.hosts.sw2}
        return [name for name, switch in switches.items() if not isinstance(switch, EbpfSwitch)]

    @property
    def concealed(self) -> dict[str, str] | None:
        """The role that replaces each address in records; None if addresses are recorded."""
        hosts = self.hosts
        names = {hosts.talker.ipv4: "talker", hosts.listener.ipv4: "listener"}
        return None if self.record_addresses else names

    @property
    def delayed_paths(self) -> dict[int, tuple[float, float]]:
        """Member paths with an added delay: none, a rack has its cables."""
        return {}

    @property
    def elimination(self) -> Elimination:
        """Where copies are eliminated: at the second switch."""
        return "switch"

    @property
    def longest_delay_s(self) -> float:
        """The added delay of the longest path, in seconds: none."""
        return 0.0


def _device(port: "str | Lan966xPort") -> str:
    return port if isinstance(port, str) else port.device
