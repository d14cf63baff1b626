"""Settings of the experiment ``traffic``."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    Name,
    OneOrMore,
    PacketsPerSecond,
    RateMbps,
    Repetitions,
    Seconds,
    SocketBufferBytes,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment

_MOST_STREAMS = 16
# What our talker hands over by one call, and how many trains it knows.
_LONGEST_TRAIN = 1024
_MOST_TRAINS = 256
_Payload = Annotated[int, Field(ge=16, le=1472)]
_PictureBytes = Annotated[int, Field(ge=1, le=_LONGEST_TRAIN * 1472)]


class _Source(ConfigModel):
    name: Name
    count: Annotated[int, Field(ge=1, le=_MOST_STREAMS)] = 1
    """How many streams of this kind there are at once."""


class _Trains(_Source):
    """Trains of datagrams in even intervals, each as fast as the talker sends."""

    @property
    def trains(self) -> tuple[int, ...]:
        """Datagrams of each train; after the last the first follows again."""
        raise NotImplementedError

    @property
    def trains_per_s(self) -> float:
        """Trains a second."""
        raise NotImplementedError

    @property
    def rate_pps(self) -> float:
        """Datagrams a second on average."""
        return sum(self.trains) / len(self.trains) * self.trains_per_s

    @model_validator(mode="after")
    def _trains_can_be_sent(self) -> Self:
        if max(self.trains) > _LONGEST_TRAIN:
            raise ValueError(
                f"the longest train of {self.name} has {max(self.trains)} datagrams; a train has "
                f"{_LONGEST_TRAIN} at most"
            )
        return self


class Camera(_Trains):
    """Pictures in even intervals, each a train of full datagrams as fast as the talker sends."""

    kind: Literal["camera"] = "camera"
    pictures_per_s: Annotated[float, Field(ge=0.1, le=1000)]
    picture_bytes: (
        _PictureBytes | Annotated[list[_PictureBytes], Field(min_length=1, max_length=_MOST_TRAINS)]
    )
    """Of every picture, or of each in a group of pictures that is sent over and over: an I picture
    and the smaller P pictures behind it, as encoders of variable bit rate make them."""
    payload_bytes: _Payload = 1472

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
        """Pictures a second."""
        return self.pictures_per_s


class Lidar(_Trains):
    """Scans in sectors: the points of a sector are sent together, a train of datagrams."""

    kind: Literal["lidar"] = "lidar"
    scans_per_s: Annotated[float, Field(ge=0.1, le=100)]
    sectors: Annotated[int, Field(ge=1, le=1000)]
    """Of a scan."""
    scan_bytes: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Points of a whole scan, spread evenly over its sectors."""
    payload_bytes: _Payload

    @property
    def trains(self) -> tuple[int, ...]:
        """Datagrams of a sector."""
        return (-(-self.scan_bytes // (self.sectors * self.payload_bytes)),)

    @property
    def trains_per_s(self) -> float:
        """Sectors a second."""
        return self.sectors * self.scans_per_s


class Constant(_Source):
    """Evenly spaced datagrams of one size."""

    kind: Literal["constant"] = "constant"
    rate_mbps: RateMbps
    """Payload rate."""
    payload_bytes: _Payload

    @property
    def rate_pps(self) -> float:
        """Datagrams a second."""
        return self.rate_mbps * 1e6 / 8 / self.payload_bytes


class Random(_Source):
    """Datagrams at independent times (a Poisson process): V2X messages, control."""

    kind: Literal["random"] = "random"
    rate_pps: PacketsPerSecond
    """On average."""
    payload_bytes: _Payload


Source = Annotated[Camera | Lidar | Constant | Random, Field(discriminator="kind")]


class Mix(ConfigModel):
    """Streams that are sent at the same time."""

    name: Name
    sources: OneOrMore[Source]

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> "Mix":
        names = [source.name for source in self.sources]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"source name used twice: {', '.join(twice)}")
        if sum(source.count for source in self.sources) > _MOST_STREAMS:
            raise ValueError(f"a switch tells {_MOST_STREAMS} streams apart; the mix has more")
        return self


class TrafficSettings(ConfigModel):
    """What the sensors of a car send, together."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    duration_s: Seconds
    mixes: OneOrMore[Mix]
    receive_buffer_bytes: SocketBufferBytes | None = None
    """Buffer of each receiving socket; null is what the testbed says."""

    @model_validator(mode="after")
    def _mixes_have_names(self) -> "TrafficSettings":
        names = [mix.name for mix in self.mixes]
        if len({*names}) < len(names):
            raise ValueError("two mixes have one name")
        return self


_SOURCE = "traffic.*.*.{control,frer}"

EXPERIMENT = Experiment(
    TrafficSettings,
    title="Traffic of a car",
    kinds=(EMULATED, MODEL, HARDWARE),
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
        "traffic.*.*.{p50,p99}.difference.percent",
        "traffic.*.*.pictures.p50.difference.percent",
        "traffic.*.*.{payload_bytes,streams.count,trains_per_s}",
        "traffic.*.*.{train,smallest_train,group}.count",
        "traffic.{duration_s,receive_buffer.mb,trials.count}",
    ),
)
