"""Configuration: what may be set, its unit and its default, in one place.

Every model refuses keys it does not know. Files are YAML; an error names the file and the key.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tsnrepro.errors import ConfigurationError

Configuration = Literal["control", "frer"]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]
# Below this iperf3 has no room for the sequence number it counts losses by.
UdpPayload = Annotated[int, Field(ge=16, le=65507)]


class Strict(BaseModel):
    """A model whose unknown keys are errors and whose values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FrerSettings(Strict):
    """IEEE 802.1CB-2017 clause 10 variables of the recovery function."""

    algorithm: Literal["vector", "match"] = "vector"
    history_length: Annotated[int, Field(ge=2, le=2048)] = 512
    reset_ms: PositiveInt = 2000
    take_no_sequence: bool = False


class EmulatedSettings(Strict):
    """The testbed of network namespaces on this machine."""

    kind: Literal["emulated"] = "emulated"
    link_rate_mbps: PositiveInt = 1000
    """Wire rate of every link: preamble, gap and FCS are counted."""
    queue_bytes: PositiveInt = 262144
    """Limit of each egress queue."""
    burst_bytes: PositiveInt = 64000
    """What a link may send at once after being idle (token bucket depth).

    It bridges the lateness of the kernel's timers: with 16,000 bytes (0.13 ms) a busy machine
    of two processors carried half of the line rate, with 64,000 bytes nearly all of it.
    """
    paths: Annotated[int, Field(ge=1, le=8)] = 2
    frer: FrerSettings = FrerSettings()
    locate_drops: bool = True
    """Trace the kernel's drops of the stream by function and reason."""
    processors: dict[Literal["talker", "listener"], int] = {}
    """Processor that a host's measuring tool is bound to; empty lets the kernel choose."""


class SweepPart(Strict):
    """Loads to try at one payload."""

    payload_bytes: UdpPayload
    rates_mbps: Annotated[list[PositiveFloat], Field(min_length=1)]
    duration_s: PositiveInt


class SweepSettings(Strict):
    """Loss against offered load, by ``iperf3 -u``."""

    configurations: list[Configuration] = ["control", "frer"]
    repetitions: PositiveInt
    parts: Annotated[list[SweepPart], Field(min_length=1)]


class TcpSettings(Strict):
    """TCP goodput by iperf3; the durations stand for the documents' 10, 30 and 60 s."""

    configurations: list[Configuration] = ["control", "frer"]
    repetitions: PositiveInt
    durations_s: Annotated[list[PositiveInt], Field(min_length=1)]


class LatencySettings(Strict):
    """Half round trip by ``sockperf ping-pong``, one request at a time."""

    configurations: list[Configuration] = ["control", "frer"]
    repetitions: PositiveInt
    payloads_bytes: Annotated[list[Annotated[int, Field(ge=14, le=65507)]], Field(min_length=1)]
    duration_s: PositiveInt


class Campaign(Strict):
    """The experiments of one campaign, with durations, loads and repetitions."""

    description: str
    seed: int = 1
    """Seeds the random order of trials within each repetition."""
    attempts: PositiveInt = 2
    """How often a trial that failed is tried, over all runs of the campaign."""
    sweep: SweepSettings | None = None
    tcp: TcpSettings | None = None
    latency: LatencySettings | None = None


class Selection(Strict):
    """The top of the configuration: which testbed, which campaign, which papers."""

    testbed: str = "auto"
    campaign: str = "quick"
    papers: list[str] = ["frer-udp"]


Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], values: object, where: str) -> Model:
    """Return ``values`` as a checked model.

    Raises
    ------
    ConfigurationError
        Naming each key that is unknown, missing or out of range.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors()
        )
        known = ", ".join(model.model_fields)
        raise ConfigurationError(problems, where, f"Known keys: {known}") from error


def load(model: type[Model], path: Path) -> Model:
    """Read a YAML file as a checked model.

    Raises
    ------
    ConfigurationError
        The file is missing, is not YAML, or does not fit the model.
    """
    if not path.is_file():
        others = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ConfigurationError(f"no such file; there are: {others}", str(path))
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}", str(path)) from error
    return parse(model, values, str(path))
