"""Settings of the testbeds: one model a kind."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config.base import (
    BurstBytes,
    ConfigModel,
    LinkRateMbps,
    Paths,
    QueueBytes,
    SocketBufferBytes,
    parse,
)
from tsnrepro.config.frer import Elimination, FrerSettings
from tsnrepro.config.nic_pair import CardsSettings
from tsnrepro.config.rack import HardwareSettings
from tsnrepro.config.yaml_files import read_yaml

# Times and sizes of hosts that are known to a range: from nothing that matters to a day.
_Positive = Annotated[float, Field(ge=1e-6, le=86_400_000)]


class EmulatedSettings(ConfigModel):
    """The testbed of network namespaces on this machine."""

    kind: Literal["emulated"] = "emulated"
    link_rate_mbps: LinkRateMbps = 1000
    """Wire rate of every link: preamble, gap and FCS are counted."""
    member_link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of the member paths where it is another: below ``link_rate_mbps`` the network
    itself drops what is too much, in the first switch's queues."""
    queue_bytes: QueueBytes = 262144
    """Limit of each egress queue."""
    burst_bytes: BurstBytes = 64000
    """What a link may send at once after being idle (token bucket depth).

    It bridges the lateness of the kernel's timers: with 16,000 bytes (0.13 ms) a busy machine
    of two processors carried half of the line rate, with 64,000 bytes nearly all of it.
    """
    paths: Paths = 2
    delay_us: list[Annotated[float, Field(ge=0, le=100_000)]] = []
    """Delay of each member path beyond its link's own, in both directions; 0 where none is named.

    A path with a delay goes through a host that hands frames on when they are due. That host costs
    processor time, and some ten microseconds more than the delay.
    """
    frer: FrerSettings = FrerSettings()
    elimination: Elimination = "switch"
    """Where copies are eliminated. With ``listener`` the second switch forwards every tagged copy
    as it is, so that the one link to the listener has to carry all of them."""
    receive_buffer_bytes: SocketBufferBytes | None = None
    """What the kernel sets aside for the socket of a measuring listener, on the scale of
    net.core.rmem_default (twice what SO_RCVBUF is given); by default that default.

    Our own listener gets any size, iperf3 up to twice net.core.rmem_max.
    """
    realtime_listener: bool = False
    """Whether a measuring listener runs under SCHED_FIFO, before every ordinary program."""
    locate_drops: bool = True
    """Trace the kernel's drops of the stream by function and reason."""

    @model_validator(mode="after")
    def _delays_have_paths(self) -> "EmulatedSettings":
        if len(self.delay_us) > self.paths:
            raise ValueError(f"delay_us names {len(self.delay_us)} paths of {self.paths}")
        return self

    @property
    def delayed_paths(self) -> dict[int, float]:
        """The delay of each member path that has one, in microseconds."""
        return {path: delay for path, delay in enumerate(self.delay_us) if delay > 0}

    @property
    def longest_delay_s(self) -> float:
        """The delay of the member path that has the longest, in seconds."""
        return max(self.delay_us, default=0.0) / 1e6


class Range(ConfigModel):
    """A parameter that is known to a range only: each repetition takes another value of it.

    Values are spread evenly over the logarithm of the range, so that the interval of a result over
    repetitions holds what the range leaves open.
    """

    low: _Positive
    high: _Positive

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self


def _number_or_range(value: object) -> str:
    return "range" if isinstance(value, dict | Range) else "number"


Uncertain = Annotated[
    Annotated[_Positive, Tag("number")] | Annotated[Range, Tag("range")],
    Discriminator(_number_or_range),
]


class ModelTalker(ConfigModel):
    """A host that sends. Sources of defaults stand in config/testbeds/model.yaml."""

    send_us: Uncertain
    """Processor time of one datagram's system call."""
    send_buffer_bytes: SocketBufferBytes = 212992


class ModelListener(ConfigModel):
    """A host that receives."""

    receive_us: Uncertain
    """Processor time of one datagram's system call and the program's work on it."""
    stack_us: Uncertain
    """Processor time of the network stack for one frame."""
    receive_buffer_bytes: SocketBufferBytes = 212992
    """``net.core.rmem_default``: what the socket's datagrams may take of memory, in truesize."""


class ModelStalls(ConfigModel):
    """When the scheduler takes the processor from a program; both times are exponential."""

    interval_s: Uncertain
    length_ms: Uncertain


class ModelSettings(ConfigModel):
    """The model testbed: talker, two FRER switches and listener as compiled queues."""

    kind: Literal["model"] = "model"
    link_rate_mbps: LinkRateMbps = 1000
    member_link_rate_mbps: LinkRateMbps | None = None
    """Rate of the member paths where it is another."""
    queue_bytes: QueueBytes = 262144
    """Limit of each egress queue, in frames with FCS."""
    cable_ns: Annotated[float, Field(ge=0, le=1e9)] = 25.0
    """Propagation time of each cable: 5 m at 5 ns a metre."""
    switch_us: Uncertain
    """Time from a frame's last bit to its place in the egress queue."""
    paths: Paths = 2
    delay_us: list[Annotated[float, Field(ge=0, le=1e6)]] = []
    """What each member path takes longer than its cable; paths beyond the list nothing."""
    frer: FrerSettings = FrerSettings()
    elimination: Elimination = "switch"
    """Where copies are eliminated, as on the emulated testbed."""
    talker: ModelTalker
    listener: ModelListener
    stalls: ModelStalls | None = None

    @model_validator(mode="after")
    def _delays_have_paths(self) -> "ModelSettings":
        if len(self.delay_us) > self.paths:
            raise ValueError(f"{len(self.delay_us)} path delays for {self.paths} paths")
        return self


class GuestSettings(ConfigModel):
    """The testbed inside a qemu guest of this machine."""

    kind: Literal["guest"] = "guest"
    acceleration: Literal["auto", "kvm", "tcg"] = "auto"
    """``kvm`` runs in real time; ``tcg`` in virtual time, one nanosecond an instruction;
    ``auto`` takes KVM where a trial boot under it ends."""
    kernel_package: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")] | None = None
    """Package (or metapackage) of the guest's kernel; by default the distribution's smallest."""
    epoch: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$")] = (
        "2026-01-01T00:00:00"
    )
    """The guest's UTC clock at its boot, where time is virtual."""


TestbedSettings = (
    EmulatedSettings | ModelSettings | GuestSettings | HardwareSettings | CardsSettings
)
_KINDS: dict[str, type[ConfigModel]] = {
    "cards": CardsSettings,
    "emulated": EmulatedSettings,
    "guest": GuestSettings,
    "hardware": HardwareSettings,
    "model": ModelSettings,
}


def load_testbed(path: Path) -> TestbedSettings:
    """Read a testbed's file; its ``kind`` says what may stand in it.

    Raises
    ------
    ConfigurationError
        The file is missing, is not YAML, names no known kind, or does not fit its kind.
    """
    values = read_yaml(path)
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigurationError(
            f"unknown kind of testbed {kind!r}", f"{path}, kind", f"There are: {', '.join(_KINDS)}"
        )
    return parse(_KINDS[kind], values, str(path))  # type: ignore[return-value]
