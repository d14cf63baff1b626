"""frerctl, the control program of our FRER data plane."""

import json
from collections import Counter
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tsnrepro.common.errors import ConfigurationError, ToolError
from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.config.frer import LatentSettings
from tsnrepro.tools.parsing import Count, count

_MAX_STREAMS = 16
_AS_PRINTED = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class StreamFilter:
    """The frames of a stream, for the counters of all stations and switches."""

    protocol: str
    """``udp`` or ``tcp``."""
    port: int
    min_payload_bytes: int = 0
    last_port: int | None = None
    """Last destination port of a range that begins with ``port``."""

    @property
    def name(self) -> str:
        """The stream in frerctl's syntax: ``udp:9000`` or ``udp:9000-9003``."""
        last = "" if self.last_port is None else f"-{self.last_port}"
        return f"{self.protocol}:{self.port}{last}"

    def options(self) -> list[str]:
        """Return frerctl's options for this stream."""
        return ["--stream", self.name, "--min-payload", str(self.min_payload_bytes)]

    def line(self) -> str:
        """Return the input line of a running ``frerctl drops``."""
        return f"{self.name} {self.min_payload_bytes}"


@dataclass(frozen=True)
class SwitchStream:
    """One of several streams: its frames, and its treatment by the switches.

    ``control`` sends the stream's frames untagged over the first path. ``individual`` adds a
    recovery function of that algorithm at each member port before the compound one (IEEE Std
    802.1CB-2017, 7.4.2), with the same history length and reset time.
    """

    filter: StreamFilter
    configuration: Configuration = "frer"
    frer: FrerSettings | None = None
    """``None`` for the testbed's settings."""
    individual: Literal["off", "vector", "match"] = "off"

    def options(self, default: FrerSettings) -> list[str]:
        """Return the options of ``frerctl streams`` for this stream."""
        return [
            *self.filter.options(),
            *("--frer", "on" if self.configuration == "frer" else "off"),
            *frer_options(self.frer or default),
            *("--individual", self.individual),
        ]


@dataclass(frozen=True)
class FrameCounts:
    """Counts of frames; ``stream_frames`` excludes later fragments."""

    frames: int
    bytes: int
    stream_frames: int
    stream_fragments: int

    def __sub__(self, before: "FrameCounts") -> "FrameCounts":
        return FrameCounts(*(a - b for a, b in zip(astuple(self), astuple(before), strict=True)))


@dataclass(frozen=True)
class Drops:
    """Frames of a stream that the kernel dropped, by function and reason."""

    __pydantic_config__ = _AS_PRINTED

    function: str
    reason: str
    ifindex: Count
    netns: Count
    later_fragment: bool
    frames: Count
    stream: Count = 0
    """Index of the stream; with several streams, that of a later fragment is unknown."""


@dataclass(frozen=True)
class FrerctlAlarm:
    """A latent error that a switch detected (IEEE Std 802.1CB-2017, 7.4.4)."""

    __pydantic_config__ = _AS_PRINTED

    time_ns: Count
    """CLOCK_TAI of the switch at the end of the tested period."""
    stream: Count
    difference: int
    base: int
    passed: Count
    discarded: Count


_DROPS, _ALARM = TypeAdapter(list[Drops]), TypeAdapter(FrerctlAlarm)


def configure(
    program: str, port: str, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
) -> list[str]:
    """Return the command that configures a running switch and resets its recovery.

    All frames belong to the one stream; its filter selects those to count.
    """
    return [
        *(program, "set", port, "--frer", "on" if configuration == "frer" else "off"),
        *frer_options(frer),
        *("--individual", "off"),
        *stream.options(),
    ]


def configure_streams(
    program: str, port: str, frer: FrerSettings, streams: list[SwitchStream]
) -> list[str]:
    """Return the command that sets the streams of a running switch or station.

    Raises ConfigurationError if there is no stream, or there are more than a switch supports.
    """
    if not 1 <= len(streams) <= _MAX_STREAMS:
        raise ConfigurationError(
            f"{len(streams)} streams", "streams", f"A switch supports 1 to {_MAX_STREAMS} streams"
        )
    return [program, "streams", port, *(word for s in streams for word in s.options(frer))]


def reset(program: str, port: str) -> list[str]:
    """Return the command that resets a switch's recovery functions.

    IEEE Std 802.1CB-2017, 7.4.3.3: SequenceRecoveryReset.
    """
    return [program, "reset", port]


def frer_options(frer: FrerSettings) -> list[str]:
    """Return the options for the variables of the recovery function."""
    return [
        *("--algorithm", frer.algorithm, "--history", str(frer.history_length)),
        *("--reset-ms", str(frer.reset_ms)),
        *("--take-no-sequence", "on" if frer.take_no_sequence else "off"),
    ]


def fault(program: str, port: str, drop_ppm: int = 0, duplicate_ppm: int = 0) -> list[str]:
    """Return the command that loses and duplicates frames at random on a member link.

    Frames received at ``port`` are lost, frames sent from it are duplicated.
    """
    limits = ["--drop-ppm", str(drop_ppm), "--duplicate-ppm", str(duplicate_ppm)]
    return [program, "fault", port, *limits]


def stuck_generator(program: str, port: str, stream: int, stuck: bool) -> list[str]:
    """Return the command that stops or releases a stream's sequence generator."""
    index = ["--stream-index", str(stream)]
    return [program, "generator", port, *index, "--stuck", "on" if stuck else "off"]


def restart(program: str, port: str) -> list[str]:
    """Return the command that resets a switch's generators and recovery, as a restart would."""
    return [program, "restart", port]


def latent(program: str, port: str, settings: LatentSettings, paths: int) -> list[str]:
    """Return the command that detects latent errors of all FRER streams until terminated."""
    return [
        *(program, "latent", port, "--period-ms", str(settings.period_ms)),
        *("--reset-ms", str(settings.reset_ms), "--difference", str(settings.difference)),
        *("--paths", str(paths)),
    ]


def parse_alarms(text: str) -> list[FrerctlAlarm]:
    """Return the alarms in the output of ``frerctl latent``.

    Raises ToolError if a line is not frerctl's.
    """
    alarms = []
    for line in text.splitlines():
        try:
            values = json.loads(line)
            if values.pop("event") == "latent error":
                # Strict pydantic accepts an object only from JSON.
                alarms.append(_ALARM.validate_json(json.dumps(values)))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            raise ToolError(f"frerctl latent printed: {line.strip()[:300]}") from error
    return alarms


def parse_counters(text: str) -> dict:
    """Return the JSON of ``frerctl counters``, with :class:`FrameCounts`.

    Raises ToolError if it is not frerctl's output.
    """
    try:
        document = json.loads(text, object_hook=_to_counts)
    except (ValueError, RecursionError, TypeError) as error:
        raise ToolError(f"frerctl counters printed no JSON: {text.strip()[:300]}") from error
    if not isinstance(document, dict):
        raise ToolError(f"frerctl counters printed no counters: {text.strip()[:300]}")
    return document


def _to_counts(values: dict[str, Any]) -> "dict[str, Any] | FrameCounts":
    """Convert a JSON object to :class:`FrameCounts` if it is one.

    All numbers are counts except CurBaseDifference of latent error detection, which is signed
    (IEEE Std 802.1CB-2017, 7.4.4).
    """
    for name, value in values.items():
        if name != "base" and isinstance(value, int | float) and not isinstance(value, bool):
            count(value, f"frerctl's {name}")
    return FrameCounts(**values) if "stream_fragments" in values else values


def parse_drops(text: str) -> list[Drops]:
    """Return the drops in a line of ``frerctl drops``, since its start.

    frerctl prints a row for each location in the kernel's code; rows of one function are added.

    Raises ToolError if the line is not frerctl's.
    """
    try:
        rows = _DROPS.validate_json(text)
    except ValidationError as error:
        raise ToolError(f"frerctl drops printed: {text.strip()[:300] or 'nothing'}") from error
    sums: Counter[Drops] = Counter()
    for row in rows:
        sums[replace(row, frames=0)] += row.frames
    return [replace(row, frames=frames) for row, frames in sums.items()]
