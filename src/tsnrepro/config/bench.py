"""Settings of benches: ports of this machine, with a device under test between them."""

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tsnrepro.common.counts import plural
from tsnrepro.common.topology import (
    ADDRESSES,
    CARD,
    HOST_PORT,
    LISTENER,
    STATIONS,
    SWITCHES,
    TALKER,
    member_names,
)
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
from tsnrepro.config.rack import (
    EbpfSwitch,
    RackHosts,
    RackSettings,
    RackStation,
    RackSwitch,
    ReachedHosts,
)

CABLE = "none"
"""The device of a bench whose ports are cabled to each other."""
_OF_BOTH = ("link_rate_mbps", "frer", "receive_buffer_bytes", "listener_sched_fifo")
_OF_OUR_QUEUES = ("queue_bytes", "burst_bytes")
_Ports = Annotated[Distinct[DeviceName], Field(min_length=1, max_length=8)]


class BenchPorts(ConfigModel):
    """Network interfaces of this machine, which a campaign moves into namespaces of its own.

    The n-th port of the talker leads to the n-th of the listener. With one port each the device is
    measured without FRER (control); with two or more, each pair is a member path, and frames are
    replicated and eliminated by our eBPF at the two ends. With ``switches`` a role whose switch has
    a driver has one port, cabled to that switch.
    """

    talker: _Ports
    """Ports that the talker sends on."""
    listener: _Ports
    """Ports that the listener receives on."""

    @model_validator(mode="after")
    def _once(self) -> "BenchPorts":
        if twice := [port for port in self.talker if port in self.listener]:
            raise ValueError(f"{', '.join(twice)}: a port is the talker's or the listener's")
        return self


class BenchSwitches(ReachedHosts):
    """FRER switches between the ports, configured by their drivers as those of a rack are.

    A side without one has our eBPF on this machine's own ports.
    """

    sw1: RackSwitch | None = None
    """The switch cabled to the talker's port."""
    sw2: RackSwitch | None = None
    """The switch cabled to the listener's port."""

    @model_validator(mode="after")
    def _any(self) -> "BenchSwitches":
        if self.sw1 is None and self.sw2 is None:
            raise ValueError("neither sw1 nor sw2: leave switches out")
        return self


class BenchSettings(ConfigModel):
    """Ports of this machine, and a cable or any device between them."""

    kind: Literal["bench"] = "bench"
    device: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,63}$")]
    """What lies between the ports: ``none`` is a cable, ``unmanaged`` a device without a name;
    otherwise its name, as records and reports show it. The campaign does not configure it, unless
    ``switches`` names a driver."""
    baseline: str | None = None
    """The testbed of the same ports with a cable (``device: none``): what its campaign has stands
    beside in device reports, and its median latency is taken off."""
    ports: BenchPorts
    """Ports by role."""
    switches: BenchSwitches | None = None
    """Switches between the ports that campaigns configure; by default none."""
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

    @model_validator(mode="after")
    def _cabled(self) -> "BenchSettings":
        if self.switches is not None:
            self._check_switches()
        elif len(self.ports.talker) != len(self.ports.listener):
            raise ValueError(
                f"talker has {plural(len(self.ports.talker), 'port')} and listener "
                f"{len(self.ports.listener)}: the n-th of one leads to the n-th of the other"
            )
        return self

    def _check_switches(self) -> None:
        if self.device == CABLE:
            raise ValueError("device is none, a cable, and there are switches: name the device")
        fields = type(self).model_fields
        unused = [n for n in _OF_OUR_QUEUES if getattr(self, n) != fields[n].default]
        if unused:
            raise ValueError(
                f"{' and '.join(unused)}: with switches the ports' own queues are used"
            )
        for role, name in zip(STATIONS, SWITCHES, strict=True):
            count = len(getattr(self.ports, role))
            if self.driver_of(name) and count != 1:
                raise ValueError(f"{role} has {count} ports, and {name} is cabled to one of it")
        # Refuses what does not fit together.
        _ = self.rack

    def driver_of(self, switch: str) -> RackSwitch | None:
        """Return the settings of a switch with a driver, None of one on this machine's ports."""
        return getattr(self.switches, switch, None)

    @property
    def driven(self) -> tuple[str, ...]:
        """The switches that have a driver: they are reached over SSH, all other hosts are here."""
        return tuple(name for name in SWITCHES if self.driver_of(name))

    @cached_property
    def rack(self) -> RackSettings:
        """The rack that a bench with ``switches`` is, some of whose hosts are on this machine.

        Those have their role as address, which nothing connects to.
        """
        assert self.switches is not None

        def station(role: str) -> RackStation:
            return RackStation(address=role, interface=CARD, ipv4=ADDRESSES[role])

        def switch(name: str, role: str) -> RackSwitch:
            members = member_names(len(getattr(self.ports, role)))
            here = EbpfSwitch(address=name, host_port=HOST_PORT, member_ports=members)
            return self.driver_of(name) or here

        return RackSettings(
            hosts=RackHosts(
                talker=station(TALKER),
                sw1=switch("sw1", TALKER),
                sw2=switch("sw2", LISTENER),
                listener=station(LISTENER),
            ),
            **{name: getattr(self.switches, name) for name in ReachedHosts.model_fields},
            **{name: getattr(self, name) for name in _OF_BOTH},
            # Those of the stations are our own.
            record_addresses=True,
        )

    @property
    def paths(self) -> int:
        """Number of member paths: pairs of ports, or those of the switches."""
        return self.rack.paths if self.switches else len(self.ports.talker)

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
