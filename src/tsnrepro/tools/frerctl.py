"""frerctl, the control program of the emulated switch."""

import json
from dataclasses import asdict, dataclass

from tsnrepro.errors import ToolError
from tsnrepro.settings import Configuration, FrerSettings


@dataclass(frozen=True)
class StreamFilter:
    """Which frames count as the measured stream, at every station of the testbed."""

    protocol: str
    """``udp`` or ``tcp``."""
    port: int
    min_payload_bytes: int = 0

    def options(self) -> list[str]:
        """Return the options that name this stream to frerctl."""
        return [
            *("--stream", f"{self.protocol}:{self.port}"),
            *("--min-payload", str(self.min_payload_bytes)),
        ]

    def line(self) -> str:
        """Return the line that a running ``frerctl drops`` reads."""
        return f"{self.protocol}:{self.port} {self.min_payload_bytes}"


@dataclass(frozen=True)
class Station:
    """Frames counted at one place; ``stream_frames`` leaves out later fragments."""

    frames: int
    bytes: int
    stream_frames: int
    stream_fragments: int

    def __sub__(self, before: "Station") -> "Station":
        return Station(*(a - b for a, b in zip(_values(self), _values(before), strict=True)))


def _values(station: Station) -> list[int]:
    return list(asdict(station).values())


@dataclass(frozen=True)
class Drops:
    """Frames of the stream that the kernel freed, by its function and reason."""

    function: str
    reason: str
    ifindex: int
    netns: int
    later_fragment: bool
    frames: int


def configure(
    program: str, port: str, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
) -> list[str]:
    """Return the command that sets a running switch and starts its recovery afresh."""
    return [
        *(program, "set", port, "--frer", "on" if configuration == "frer" else "off"),
        *frer_options(frer),
        *stream.options(),
    ]


def frer_options(frer: FrerSettings) -> list[str]:
    """Return the options for the variables of the recovery function."""
    return [
        *("--algorithm", frer.algorithm, "--history", str(frer.history_length)),
        *("--reset-ms", str(frer.reset_ms)),
        *("--take-no-sequence", "on" if frer.take_no_sequence else "off"),
    ]


def parse_counters(text: str) -> dict:
    """Return the JSON of ``frerctl counters``, stations as :class:`Station`.

    Raises
    ------
    ToolError
        The text is not what frerctl prints.
    """
    try:
        document = json.loads(text, object_hook=_as_station)
    except (json.JSONDecodeError, TypeError) as error:
        raise ToolError(f"frerctl counters printed no JSON: {text.strip()[:300]}") from error
    return document


def _as_station(values: dict) -> "dict | Station":
    return Station(**values) if "stream_fragments" in values else values


def parse_drops(text: str) -> list[Drops]:
    """Return one line of ``frerctl drops``; counts grow from its start.

    Raises
    ------
    ToolError
        The line is not what frerctl prints.
    """
    try:
        return [Drops(**item) for item in json.loads(text)]
    except (json.JSONDecodeError, TypeError) as error:
        raise ToolError(f"frerctl drops printed: {text.strip()[:300] or 'nothing'}") from error
