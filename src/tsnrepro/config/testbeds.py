"""Settings of testbeds: one model per kind."""

from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.topology import TestbedKind
from tsnrepro.config.base import (
    CURRENT_KINDS,
    BurstBytes,
    ConfigModel,
    LinkRateMbps,
    Paths,
    QueueBytes,
    SocketBufferBytes,
    formerly,
    parse,
)
from tsnrepro.config.bench import BenchSettings
from tsnrepro.config.frer import Elimination, FrerSettings
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import RackSettings
from tsnrepro.config.yaml_files import read_yaml

# Times of the model's hosts: from far below a nanosecond to a day.
_Positive = Annotated[float, Field(ge=1e-6, le=86_400_000)]


def _delays_have_paths(settings: Any) -> Any:
    for name in ("delay_us", "jitter_us"):
        if (named := len(getattr(settings, name))) > settings.paths:
            raise ValueError(f"{name} names {named} paths of {settings.paths}")
    return settings


class EmulatedSettings(ConfigModel):
    """Talker, two FRER switches and listener in network namespaces of this machine."""

    kind: Literal["emulated"] = "emulated"
    """Network namespaces of this machine."""
    link_rate_mbps: LinkRateMbps = 1000
    """Wire rate of every link, in Mb/s; preamble, gap and FCS count."""
    member_link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of the member paths, in Mb/s; by default ``link_rate_mbps``. If it is lower, the
    first switch's queues drop what exceeds it, unless ``queue_bytes`` is more than the talker's
    send buffer (net.core.wmem_default) lets wait: the kernel then slows the talker down, and a
    search for the throughput ends at the generator's limit."""
    queue_bytes: QueueBytes = 262144
    """Limit of each egress queue, in bytes. The default holds 2 ms at 1 Gb/s. Hosts' queues hold at
    least 131,072 bytes, what a talker catches up with after a stall."""
    burst_bytes: BurstBytes = 64000
    """Depth of each link's token bucket, in bytes: what an idle link may send at once.

    The default covers the lateness of the kernel's timers. With 16,000 bytes (0.13 ms) a busy
    machine of two processors carried half of the line rate, with 64,000 bytes nearly all of it.
    """
    paths: Paths = 2
    """Number of member paths."""
    delay_us: list[Annotated[float, Field(ge=0, le=100_000)]] = []
    """Added one-way delay of each member path, in microseconds; paths beyond the list have none.

    A delayed path leads through a host that forwards frames when they are due. This costs
    processor time and adds some ten microseconds to the delay.
    """
    jitter_us: list[Annotated[float, Field(ge=0, le=100_000)]] = []
    """Jitter of each member path, in microseconds: every frame takes up to this much longer than
    ``delay_us``, uniformly distributed, and frames keep their order. Paths beyond the list have
    none. Its costs are those of a delay.
    """
    frer: FrerSettings = FrerSettings()
    """The recovery function of the switches."""
    elimination: Elimination = "switch"
    """Where copies are eliminated. With ``listener`` the second switch forwards all copies, so the
    one link to the listener carries them all."""
    receive_buffer_bytes: SocketBufferBytes | None = None
    """Receive buffer of the listener's socket, on the scale of net.core.rmem_default (twice the
    value given to SO_RCVBUF); by default that default.

    Our own listener gets any size, iperf3 at most twice net.core.rmem_max.
    """
    listener_sched_fifo: Annotated[bool, formerly("realtime_listener")] = False
    """Run the listener under SCHED_FIFO, ahead of all ordinary programs."""
    trace_drops: Annotated[bool, formerly("locate_drops")] = True
    """Trace where in the kernel frames of the stream are dropped, by function and reason. False
    relies on the kernel's totals, where tracing is not permitted."""

    _delays_have_paths = model_validator(mode="after")(_delays_have_paths)

    @property
    def delayed_paths(self) -> dict[int, tuple[float, float]]:
        """Delay and jitter of each member path that has any, in microseconds."""
        both = zip_longest(self.delay_us, self.jitter_us, fillvalue=0.0)
        return {path: times for path, times in enumerate(both) if any(times)}

    @property
    def longest_delay_s(self) -> float:
        """The longest time that a member path may add, in seconds."""
        return max(map(sum, self.delayed_paths.values()), default=0.0) / 1e6


class Range(ConfigModel):
    """A parameter known only to a range: each repetition takes another value of it.

    Values are spread evenly over the logarithm of the range, so that a result's interval over
    repetitions covers the range.
    """

    low: _Positive
    """Lower end."""
    high: _Positive
    """Upper end."""

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
    """The sending host. config/testbeds/model.yaml cites the sources of its values."""

    send_us: Uncertain
    """Processor time to send one datagram, in microseconds."""
    send_buffer_bytes: SocketBufferBytes = 212992
    """Send buffer of the socket, in bytes of truesize; the default is net.core.wmem_default."""


class ModelListener(ConfigModel):
    """The receiving host. config/testbeds/model.yaml cites the sources of its values."""

    receive_us: Uncertain
    """Processor time of the program to read one datagram, in microseconds."""
    stack_us: Uncertain
    """Processor time of the network stack for one frame, in microseconds."""
    receive_buffer_bytes: SocketBufferBytes = 212992
    """Receive buffer of the socket, in bytes of truesize; the default is net.core.rmem_default."""


class ModelStalls(ConfigModel):
    """Stalls of a host's programs: the scheduler runs another task. Both times are exponential."""

    interval_s: Uncertain
    """Mean time from one stall to the next, in seconds."""
    length_ms: Uncertain
    """Mean length of a stall, in milliseconds."""


class ModelSettings(ConfigModel):
    """Talker, two FRER switches and listener as compiled queues."""

    kind: Literal["model"] = "model"
    """The simulated network."""
    link_rate_mbps: LinkRateMbps = 1000
    """Wire rate of every link, in Mb/s; preamble, gap and FCS count."""
    member_link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of the member paths, in Mb/s; by default ``link_rate_mbps``."""
    queue_bytes: QueueBytes = 262144
    """Limit of each egress queue, in bytes of frames with FCS."""
    propagation_delay_ns: Annotated[float, Field(ge=0, le=1e9), formerly("cable_ns")] = 25.0
    """Propagation delay of each cable, in ns. The default is 5 m at 5 ns/m."""
    forwarding_delay_us: Annotated[Uncertain, formerly("switch_us")]
    """Time from the arrival of a frame's last bit to its place in the egress queue, in
    microseconds."""
    paths: Paths = 2
    """Number of member paths."""
    delay_us: list[Annotated[float, Field(ge=0, le=1e6)]] = []
    """Added one-way delay of each member path, in microseconds; paths beyond the list have none."""
    jitter_us: list[Annotated[float, Field(ge=0, le=1e6)]] = []
    """Jitter of each member path, in microseconds: every frame takes up to this much longer than
    ``delay_us``, uniformly distributed, and frames keep their order. Paths beyond the list have
    none."""
    frer: FrerSettings = FrerSettings()
    """The recovery function of the switches."""
    elimination: Elimination = "switch"
    """Where copies are eliminated: at the second ``switch`` or at the ``listener``."""
    talker: ModelTalker
    """The sending host."""
    listener: ModelListener
    """The receiving host."""
    stalls: ModelStalls | None = None
    """Stalls of both hosts; by default none."""

    _delays_have_paths = model_validator(mode="after")(_delays_have_paths)


class GuestSettings(ConfigModel):
    """Network namespaces in a qemu guest of this machine."""

    kind: Literal["guest"] = "guest"
    """A virtual machine with a kernel of its own."""
    acceleration: Literal["auto", "kvm", "tcg"] = "auto"
    """Accelerator of qemu. ``kvm`` runs in real time, ``tcg`` in virtual time, 1 ns per
    instruction. ``auto`` takes KVM if a test boot under it succeeds."""
    kernel_package: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")] | None = None
    """Debian package of the guest's kernel; by default the distribution's smallest."""
    epoch: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$")] = (
        "2026-01-01T00:00:00"
    )
    """The guest's clock at boot, in UTC, if time is virtual."""


TestbedSettings = (
    EmulatedSettings
    | ModelSettings
    | GuestSettings
    | RackSettings
    | NicPairSettings
    | BenchSettings
)
_MODELS: dict[str, Any] = {
    model.model_fields["kind"].default: model for model in get_args(TestbedSettings)
}


def load_testbed(path: Path) -> TestbedSettings:
    """Read a testbed's file; its ``kind`` decides which keys it has.

    Raises ConfigurationError if the file is missing, is not YAML, names no known kind, or does not
    fit its kind.
    """
    values = read_yaml(path)
    kind = values.get("kind") if isinstance(values, dict) else None
    model = _MODELS.get(CURRENT_KINDS.get(kind, kind)) if isinstance(kind, str) else None
    if model is None:
        known = ", ".join(get_args(TestbedKind))
        raise ConfigurationError(
            f"unknown kind of testbed {kind!r}", f"{path}, kind", f"There are: {known}"
        )
    return parse(model, values, str(path))
