"""Settings of the experiment ``traffic``."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsnrepro.config.base import (
    CONFIGURATIONS,
    ConfigModel,
    Configurations,
    Name,
    Named,
    PacketsPerSecond,
    RateMbps,
    Repetitions,
    Seconds,
    SocketBufferBytes,
)
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment

_MOST_STREAMS = 16
# Most datagrams of one call of our talker, and most trains that it stores.
_LONGEST_TRAIN = 1024
_MOST_TRAINS = 256
_Payload = Annotated[int, Field(ge=16, le=1472)]
_PictureBytes = Annotated[int, Field(ge=1, le=_LONGEST_TRAIN * 1472)]


class _Source(ConfigModel):
    name: Name
    """Name of the source in results."""
    count: Annotated[int, Field(ge=1, le=_MOST_STREAMS)] = 1
    """Number of such streams at once."""


class _Trains(_Source):
    """Trains of datagrams at even intervals, each sent at once."""

    @property
    def trains(self) -> tuple[int, ...]:
        """Datagrams of each train, in a cycle."""
        raise NotImplementedError

    @property
    def trains_per_s(self) -> float:
        """Trains per second."""
        raise NotImplementedError

    @property
    def rate_pps(self) -> float:
        """Datagrams per second on average."""
        return sum(self.trains) / len(self.trains) * self.trains_per_s

    @model_validator(mode="after")
    def _trains_can_be_sent(self) -> Self:
        if max(self.trains) > _LONGEST_TRAIN:
            raise ValueError(
                f"the longest train of {self.name} has {max(self.trains)} datagrams, of at most "
                f"{_LONGEST_TRAIN}"
            )
        return self


class Camera(_Trains):
    """Pictures at even intervals, each a train of full datagrams sent at once."""

    kind: Literal["camera"] = "camera"
    pictures_per_s: Annotated[float, Field(ge=0.1, le=1000)]
    """Pictures per second."""
    picture_bytes: (
        _PictureBytes | Annotated[list[_PictureBytes], Field(min_length=1, max_length=_MOST_TRAINS)]
    )
    """Size of every picture, in bytes, or of each in a group of pictures that repeats: an I picture
    and the smaller P pictures after it, as encoders of variable bit rate produce them."""
    payload_bytes: _Payload = 1472
    """UDP payload of full datagrams, in bytes."""

    @field_validator("picture_bytes")
    @classmethod
    def _as_a_group(cls, value: int | list[int]) -> list[int]:
        # Trials of different cameras stand in one column of a table, which has one type.
        return value if isinstance(value, list) else [value]

    @property
    def trains(self) -> tuple[int, ...]:
        """Datagrams of each picture of a group."""
        assert isinstance(self.picture_bytes, list)
        return tuple(-(-picture // self.payload_bytes) for picture in self.picture_bytes)

    @property
    def trains_per_s(self) -> float:
        """Pictures per second."""
        return self.pictures_per_s


class Lidar(_Trains):
    """Scans in sectors, each a train of datagrams sent at once."""

    kind: Literal["lidar"] = "lidar"
    scans_per_s: Annotated[float, Field(ge=0.1, le=100)]
    """Scans per second."""
    sectors: Annotated[int, Field(ge=1, le=1000)]
    """Sectors of a scan."""
    scan_bytes: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Size of a whole scan, in bytes, spread evenly over its sectors."""
    payload_bytes: _Payload
    """UDP payload, in bytes."""

    @property
    def trains(self) -> tuple[int, ...]:
        """Datagrams of a sector."""
        return (-(-self.scan_bytes // (self.sectors * self.payload_bytes)),)

    @property
    def trains_per_s(self) -> float:
        """Sectors per second."""
        return self.sectors * self.scans_per_s


class Constant(_Source):
    """Evenly spaced datagrams of one size."""

    kind: Literal["constant"] = "constant"
    """Datagrams at even intervals."""
    rate_mbps: RateMbps
    """Payload rate, in Mb/s."""
    payload_bytes: _Payload
    """UDP payload, in bytes."""

    @property
    def rate_pps(self) -> float:
        """Datagrams per second."""
        return self.rate_mbps * 1e6 / 8 / self.payload_bytes


class Random(_Source):
    """Datagrams at the times of a Poisson process, such as V2X messages."""

    kind: Literal["random"] = "random"
    """Datagrams at random intervals (a Poisson process)."""
    rate_pps: PacketsPerSecond
    """Datagrams per second on average."""
    payload_bytes: _Payload
    """UDP payload, in bytes."""


Source = Annotated[Camera | Lidar | Constant | Random, Field(discriminator="kind")]


class Mix(ConfigModel):
    """Streams that are sent at the same time."""

    name: Name
    """Name of the mix in results."""
    sources: Named[Source]
    """Its streams, by kind of source."""
    repetitions: Repetitions | None = None
    """Trials of this mix and a configuration, by default as many as of each mix."""

    @model_validator(mode="after")
    def _can_be_distinguished(self) -> "Mix":
        if sum(source.count for source in self.sources) > _MOST_STREAMS:
            raise ValueError(f"a mix has at most {_MOST_STREAMS} streams")
        return self


class TrafficSettings(ConfigModel):
    """The sensors of a car, sending together."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each mix and configuration, where the mix has none of its own."""
    duration_s: Seconds
    """Duration of a trial, in seconds."""
    mixes: Named[Mix]
    """Mixes to measure, one after the other."""
    receive_buffer_bytes: SocketBufferBytes | None = None
    """Receive buffer of each listener's socket, on the scale of net.core.rmem_default; by default
    the testbed's."""


_SOURCE = "traffic.*.*.{control,frer}"

EXPERIMENT = Experiment(
    TrafficSettings,
    title="Traffic of a car",
    kinds=(EMULATED, MODEL, RACK, BENCH),
    several_streams=True,
    order=7,
    tables=("by-source",),
    figures={
        "latency-*": "One-way latency by source",
        "lost-by-source": "Datagrams lost by source",
    },
    # The first word is a mix, the second one of its sources.
    keys=(
        f"{_SOURCE}.{{lost.percent,offered.mbps,late.percent,sent.count}}",
        f"{_SOURCE}.{{p50,p99,max}}.us",
        f"{_SOURCE}.pictures.{{sent.count,incomplete.percent,p50.us,p99.us}}",
        "traffic.*.*.{p50,p99}.difference.{us,percent}",
        "traffic.*.*.pictures.p50.difference.percent",
        "traffic.*.*.{payload_bytes,streams.count,trains_per_s}",
        "traffic.*.*.{train,smallest_train,group}.count",
        "traffic.{duration_s,receive_buffer.mb,trials.count}",
    ),
)
