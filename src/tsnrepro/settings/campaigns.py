"""Settings of campaigns: which experiments, with which durations, loads and repetitions."""

from typing import Annotated

from pydantic import Field

from tsnrepro.settings.failure import FailureSettings, StreamsSettings
from tsnrepro.settings.rfc2544 import Rfc2544Settings
from tsnrepro.settings.shaping import ShapingSettings
from tsnrepro.settings.strict import Configuration, PositiveFloat, PositiveInt, Strict, UdpPayload
from tsnrepro.settings.wire import TagCaptureSettings


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


class MausezahnSettings(Strict):
    """A generator that sleeps between frames; the documents used 10 s and killed it at 40 s."""

    configurations: list[Configuration] = ["control", "frer"]
    repetitions: PositiveInt
    frames_bytes: Annotated[list[Annotated[int, Field(ge=64, le=1518)]], Field(min_length=1)]
    loads_percent: Annotated[list[Annotated[float, Field(gt=0, le=100)]], Field(min_length=1)]
    duration_s: PositiveInt
    deadline_s: PositiveInt
    """When a run that has not sent all its frames is ended; it is then a timeout."""


class Campaign(Strict):
    """The experiments of one campaign, with durations, loads and repetitions."""

    description: str
    seed: int = 1
    """Seeds the random order of trials within each repetition."""
    attempts: PositiveInt = 2
    """How often a trial that failed is tried, over all runs of the campaign."""
    study: str = "threshold"
    """The file of config/studies, on the model, that the first paper prints beside the trials."""
    warm_up: bool = False
    """Measure the first trial of each experiment once before it counts."""
    sweep: SweepSettings | None = None
    tcp: TcpSettings | None = None
    latency: LatencySettings | None = None
    mausezahn: MausezahnSettings | None = None
    failure: FailureSettings | None = None
    streams: StreamsSettings | None = None
    rfc2544: Rfc2544Settings | None = None
    tag_capture: TagCaptureSettings | None = None
    shaping: ShapingSettings | None = None


class Selection(Strict):
    """The top of the configuration: which testbed, which campaign, which papers."""

    testbed: str = "auto"
    campaign: str = "quick"
    papers: list[str] = []
    """Empty: all whose experiments the campaign has."""
    study: str = "threshold"
    """The file of config/studies that the target ``study`` computes."""
