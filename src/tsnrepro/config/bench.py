"""Settings of benches: ports of this machine, with a device under test between them."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.config.base import (
    BurstBytes,
    ConfigModel,
    DeviceName,
    Distinct,
    LinkRateMbps,
    QueueBytes,
    SocketBufferBytes,
)
from tsnrepro.config.frer import Elimination, FrerSettings

CABLE = "none"
"""The device of a bench whose ports are cabled to each other."""
_Ports = Annotated[Distinct[DeviceName], Field(min_length=1, max_length=8)]


class BenchPorts(ConfigModel):
    """Network interfaces of this machine, which a campaign moves into namespaces of its own.

    The n-th port of the talker leads to the n-th of the listener. With one port each the device is
    measured without FRER (control); with two or more, each pair is a member path, and frames are
    replicated and eliminated by our eBPF at the two ends.
    """

    talker: _Ports
    """Ports that the talker sends on."""
    listener: _Ports
    """Ports that the listener receives on."""

    @model_validator(mode="after")
    def _in_pairs(self) -> "BenchPorts":
        if len(self.talker) != len(self.listener):
            raise ValueError(
                f"talker has {len(self.talker)} ports and listener {len(self.listener)}: the n-th "
                "of one leads to the n-th of the other"
            )
        if twice := [port for port in self.talker if port in self.listener]:
            raise ValueError(f"{', '.join(twice)}: a port is the talker's or the listener's")
        return self


class BenchSettings(ConfigModel):
    """Ports of this machine, and a cable or any device between them."""

    kind: Literal["bench"] = "bench"
    device: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,63}$")]
    """What lies between the ports: ``none`` is a cable, ``unmanaged`` a device without a name;
    otherwise its name, as records and reports show it. The campaign does not configure it."""
    ports: BenchPorts
    """Ports by role."""
    virtual_ports: bool = False
    """Accept ports that are no network card's, such as veth devices, whose speed is not checked."""
    link_rate_mbps: LinkRateMbps = 1000
    """Wire rate of every port, in Mb/s. A card at another speed is refused."""
    queue_bytes: QueueBytes = 262144
    """Limit of the queue before each port, in bytes. The default holds 2 ms at 1 Gb/s."""
    burst_bytes: BurstBytes = 64000
    """Depth of the token bucket before each port, in bytes: what an idle port may send at once."""
    frer: FrerSettings = FrerSettings()
    """The recovery function at the listener's end."""
    receive_buffer_bytes: SocketBufferBytes | None = None
    """Receive buffer of the listener's socket, on the scale of net.core.rmem_default; by default
    that default."""
    listener_sched_fifo: bool = False
    """Run the listener under SCHED_FIFO, ahead of all ordinary programs."""

    @property
    def paths(self) -> int:
        """Number of member paths: pairs of ports."""
        return len(self.ports.talker)

    # What only namespaces without cards have.

    @property
    def member_link_rate_mbps(self) -> None:
        """Rate of the member paths: that of every port."""
        return

    @property
    def delayed_paths(self) -> dict[int, tuple[float, float]]:
        """Member paths with an added delay: none."""
        return {}

    @property
    def longest_delay_s(self) -> float:
        """The added delay of the longest path, in seconds: none."""
        return 0.0

    @property
    def elimination(self) -> Elimination:
        """Where copies are eliminated: before the listener's own port."""
        return "switch"

    @property
    def trace_drops(self) -> bool:
        """Whether drops are traced: the device's cannot be."""
        return False
