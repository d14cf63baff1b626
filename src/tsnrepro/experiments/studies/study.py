"""Study files: parameters of a network, factors that vary, and the measure.

A study is a file of config/studies. Its points are numbered by part, then by combination of the
part's factors in the order of the file (the last factor changes fastest), then by replication. A
chunk is a number of consecutive points, which one job computes.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.ethernet import FULL_PAYLOAD_BYTES
from tsnrepro.common.repository import root
from tsnrepro.config import (
    ConfigModel,
    Configuration,
    FrerSettings,
    PositiveFloat,
    PositiveInt,
    UdpPayload,
    load,
)
from tsnrepro.config.base import formerly, named_file

_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
_PartName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
MAX_POINTS = 100_000
"""Most points of a study; the largest one of config/studies has some thousand."""
Value = bool | int | float | str


class PointParameters(ConfigModel):
    """One talker, two switches joined by two member paths, one listener, and one UDP stream.

    No value is fitted to a published result. Defaults are those of Linux and iperf3, if they have
    one; a study should vary values that depend on the machine.
    """

    configuration: Configuration = "control"
    """``frer`` replicates over both member paths, ``control`` uses the first one alone."""
    payload_bytes: UdpPayload = FULL_PAYLOAD_BYTES
    """UDP payload of a datagram, in bytes."""
    rate_mbps: PositiveFloat | None = None
    """Target payload rate of the talker; None if the measure searches for it."""
    pacing_timer_us: PositiveFloat = 1000.0
    """iperf3 --pacing-timer."""
    send_time_us: _NotNegative = 2.0
    """Processor time of one write."""
    link_rate_mbps: PositiveFloat = 1000.0
    """Rate on the wire of every link."""
    path_delay_us: _NotNegative = 0.5
    """Propagation on each member path: 100 m of cable."""
    path_skew_us: _NotNegative = 0.0
    """Additional propagation on the second member path."""
    path_loss_probability: Probability = 0.0
    """Probability that a frame is lost on a member path, independently."""
    switch_queue_bytes: Annotated[int, Field(ge=64)] = 262_144
    """Limit of every egress queue of both switches."""
    background_mbps: _NotNegative = 0.0
    """Payload rate of another talker's unfragmented datagrams, at random times (Poisson), over the
    first member path to another listener."""
    history_length: Annotated[int, Field(ge=2, le=2048)] = FrerSettings().history_length
    """frerSeqRcvyHistoryLength (IEEE Std 802.1CB-2017, 10.4.1.6)."""
    reset_ms: PositiveFloat = float(FrerSettings().reset_ms)
    """frerSeqRcvyResetMSec (10.4.1.7)."""
    receive_buffer_bytes: PositiveInt = 212_992
    """SO_RCVBUF in truesize, not payload, as the kernel counts it (net.core.rmem_default)."""
    receive_time_us: _NotNegative = 3.0
    """Processor time to read one datagram: select and read of iperf3."""
    stack_time_us: _NotNegative = 0.5
    """Processor time of the network stack for one frame."""
    nic_ring_frames: Annotated[int, Field(gt=0, le=65_536)] = 256
    """Receive descriptors of the listener's card (default of igb and of many others)."""
    stall_length_ms: _NotNegative = 0.0
    """Mean length of stalls of the reading process; 0: no stalls."""
    stall_interval_ms: PositiveFloat = 20.0
    """Mean time from the end of a stall to the next one, exponentially distributed."""
    stall_shape: Annotated[int, Field(ge=1, le=64)] = 16
    """Erlang shape of the length of stalls: coefficient of variation 1 / sqrt(shape)."""


FACTORS = tuple(PointParameters.model_fields)
_NAMED = Field(json_schema_extra={"propertyNames": {"enum": list(FACTORS)}})


class LossMeasure(ConfigModel):
    """Loss, its locations, rates and latency at the parameter ``rate_mbps``."""

    kind: Literal["loss"] = "loss"
    """Loss at one load."""


class ThresholdMeasure(ConfigModel):
    """The zero-loss threshold: the highest load with at most ``loss_ratio``, by bisection.

    Loads are tried between ``min_rate_mbps`` and the link's limit for the payload without R-TAG, in
    equal ratios, until the interval is ``precision`` of its lower end. All loads of a point have
    the same random numbers. As in every search of this kind (RFC 2544, 26.1), loss is assumed to
    increase with the load.
    """

    kind: Literal["threshold"] = "threshold"
    """The zero-loss threshold."""
    min_rate_mbps: Annotated[PositiveFloat, formerly("lowest_mbps")] = 1.0
    """Lowest load that is tried, in Mb/s of payload."""
    precision: Annotated[float, Field(gt=1e-6, lt=1)] = 0.005
    """Width of the final interval, as a share of its lower end."""
    loss_ratio: Probability = 0.0
    """Largest loss ratio that counts as none."""


class Part(ConfigModel):
    """A full factorial: every combination of the factors' values."""

    base: Annotated[dict[str, Value], _NAMED] = {}
    """Parameters that differ from the study's base in this part."""
    factors: Annotated[dict[str, Annotated[list[Value], Field(min_length=1)]], _NAMED]
    """Values of each parameter that varies."""

    @model_validator(mode="after")
    def _values_differ(self) -> Self:
        for name, values in self.factors.items():
            if len({repr(value) for value in values}) < len(values):
                raise ValueError(f"factor {name} has a value twice")
        if fixed := sorted(set(self.factors) & set(self.base)):
            raise ValueError(f"{', '.join(fixed)} is both in base and in factors")
        return self


class Study(ConfigModel):
    """A study file."""

    description: str
    """One line for lists and reports."""
    duration_s: PositiveFloat
    """Simulated time of one trial, before queues drain."""
    replications: PositiveInt
    """Number of seeds; each is used for all combinations, so that differences are paired."""
    seed: Annotated[int, Field(ge=0)] = 1
    """Seed of the first replication."""
    points_per_job: PositiveInt = 1
    """Points per job; a job has an overhead of some seconds."""
    measure: Annotated[LossMeasure | ThresholdMeasure, Field(discriminator="kind")]
    """What each point measures."""
    base: Annotated[dict[str, Value], _NAMED] = {}
    """Parameters of all parts, where they are not the defaults."""
    parts: Annotated[dict[_PartName, Part], Field(min_length=1)]
    """Parts of the study by name."""

    @model_validator(mode="after")
    def _number_of_points(self) -> Self:
        # Before any point is created: every factor multiplies their time and memory.
        combinations = sum(prod(map(len, part.factors.values())) for part in self.parts.values())
        if combinations * self.replications > MAX_POINTS:
            raise ValueError(
                f"{combinations * self.replications} points, more than the maximum of {MAX_POINTS}"
            )
        return self

    @model_validator(mode="after")
    def _parameters_are_known(self) -> Self:
        for name, part in self.parts.items():
            for key in (*self.base, *part.base, *part.factors):
                if key not in FACTORS:
                    raise ValueError(
                        f"part {name}: unknown parameter {key} (there are: {', '.join(FACTORS)})"
                    )
            for parameters in self._combinations(part):
                if (self.measure.kind == "loss") == (parameters.rate_mbps is None):
                    raise ValueError(
                        f"part {name}: measure loss needs rate_mbps, measure threshold finds it"
                    )
        return self

    def _combinations(self, part: Part) -> Iterator[PointParameters]:
        for values in product(*part.factors.values()):
            varied = dict(zip(part.factors, values, strict=True))
            yield PointParameters.model_validate(self.base | part.base | varied)

    def points(self) -> list["Point"]:
        """Return all points, in the order of their numbers."""
        replications = range(1, self.replications + 1)
        found: list[Point] = []
        for name, part in self.parts.items():
            for parameters in self._combinations(part):
                for replication in replications:
                    found.append(Point(len(found), name, replication, parameters))
        return found

    def chunk_count(self) -> int:
        """Return the number of chunks, which is that of jobs."""
        return -(-len(self.points()) // self.points_per_job)

    def chunk(self, number: int) -> list["Point"]:
        """Return the points of one job.

        Raises
        ------
        ConfigurationError
            There is no such chunk.
        """
        if not 0 <= number < self.chunk_count():
            raise ConfigurationError(
                f"no chunk {number}: the study has {self.chunk_count()}, counted from 0"
            )
        first = number * self.points_per_job
        return self.points()[first : first + self.points_per_job]

    @property
    def sha256(self) -> str:
        """Checksum of all keys of the file that affect the results."""
        values = self.recorded(exclude={"description", "points_per_job"})
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


@dataclass(frozen=True)
class Point:
    """One trial, or one search for a threshold: parameters and the replication, counted from 1."""

    number: int
    part: str
    replication: int
    parameters: PointParameters

    def factors(self) -> dict[str, Any]:
        """Return the columns that identify the point."""
        return {
            "point": self.number,
            "part": self.part,
            "replication": self.replication,
            **self.parameters.model_dump(exclude={"rate_mbps"}),
        }


def studies_folder() -> Path:
    """Return the folder of the study files."""
    return root() / "config" / "studies"


def load_study(name: str) -> Study:
    """Return the study of config/studies/NAME.yaml, or of a file given by its path.

    Raises
    ------
    ConfigurationError
        There is no such file, or it is not a study.
    """
    path = Path(name) if name.endswith(".yaml") else named_file(studies_folder(), name)
    return load(Study, path)
