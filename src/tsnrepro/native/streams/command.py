"""Command lines of talker and listener, and the JSON that they print at the end."""

import json
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import Count, json_object

Clock = Literal["tai", "realtime", "monotonic"]
Stamps = Literal["software", "hardware"]
DepartureStamps = Stamps | Literal["queued"]
"""``queued``: when a datagram enters its device's queueing discipline, before any wait there."""
# Sequence number and send time; zeros follow.
_MIN_PAYLOAD_BYTES = 12
READY = "ready"
"""The line that a listener prints once its ports are open."""

T = TypeVar("T")
Amount = Annotated[float, Field(ge=0)]
REPORT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""A report has exactly its fields, of their types; only times of clocks may be negative."""


@dataclass(frozen=True)
class Pacing:
    """When a talker sends: ``burst`` datagrams per ``interval_ns``, or without pause.

    Of several ``burst`` each slot takes the next, in turn.

    ``interval_ns`` of ``None`` saturates the output. The first slot is at ``start_ns`` or, with
    ``cycle_ns``, at the next multiple of the cycle plus ``phase_ns``, both on the run's clock.
    After ``then_after`` datagrams slots are ``then_interval_ns`` apart. With ``poisson``, a seed,
    gaps are exponential with ``interval_ns`` as their mean.
    """

    interval_ns: int | None
    burst: int | tuple[int, ...] | None = None
    start_ns: int | None = None
    cycle_ns: int | None = None
    phase_ns: int | None = None
    spin_ns: int | None = None
    late_ns: int | None = None
    then_after: int | None = None
    then_interval_ns: int | None = None
    poisson: int | None = None

    @classmethod
    def at_rate(cls, rate_mbps: float, payload_bytes: int, burst: int = 1) -> "Pacing":
        """Return the pacing of a payload rate; the interval is rounded to whole nanoseconds."""
        return cls(round(payload_bytes * 8e3 * burst / rate_mbps), burst=burst)

    def options(self) -> list[str]:
        """Return the talker's options."""
        first = ["--saturate"] if self.interval_ns is None else []
        values = {field.name.replace("_", "-"): getattr(self, field.name) for field in fields(self)}
        if isinstance(self.burst, tuple):
            values["burst"] = ",".join(map(str, self.burst))
        return first + options(values)


@dataclass(frozen=True)
class StopCondition:
    """What ends a run: a count of datagrams, a time, whichever comes first, or else a signal."""

    count: int | None = None
    seconds: float | None = None


@checked_dataclass(frozen=True, config=REPORT)
class TalkerResult:
    """A talker's report; times are ns on ``clock``.

    ``late`` slots were sent more than ``late_tolerance_ns`` after their time; ``unsent`` are
    datagrams that were due when a talker that could not keep up ended. ``clock_step_ns`` is by how
    much the clock was set (not slewed) during the run, within the noise of reading two clocks.
    ``attempts`` = ``sent`` + the sum of ``send_errors``. ``refused_reports`` are ICMP messages of a
    host where no program listens.
    """

    clock: str
    tai_offset_s: int
    clock_step_ns: int
    stamp_clock: str
    ended_by: str
    payload_bytes: Count
    attempts: Count
    sent: Count
    send_errors: dict[str, Count]
    refused_reports: Count
    late: Count
    unsent: Count
    late_tolerance_ns: Count
    worst_late_ns: int
    txtime_missed: Count
    txtime_invalid: Count
    missing_stamps: Count
    start_ns: Count
    first_ns: Count | None
    last_ns: Count | None
    achieved_pps: Amount | None
    payload_mbps: Amount | None


@checked_dataclass(frozen=True, config=REPORT)
class PortReport:
    """A listener's report of one port; counts are datagrams, gaps are between arrivals.

    ``out_of_order`` counts first arrivals whose number is below the largest seen (RFC 4737,
    section 3.3); ``socket_drops`` are datagrams that the socket's buffer had no room for.
    ``buffer_bytes`` is that buffer as the kernel counts it, on the scale of net.core.rmem_default.
    """

    port: Count
    received: Count
    unique: Count
    duplicates: Count
    out_of_order: Count
    short_datagrams: Count
    bytes: Count
    first_ns: Count | None
    last_ns: Count | None
    longest_gap_ns: Count | None
    longest_gap_after: Count | None
    missing_stamps: Count
    socket_drops: Count
    buffer_bytes: Count


@checked_dataclass(frozen=True, config=REPORT)
class ListenerResult:
    """A listener's report; times are ns on ``clock``.

    ``stamp_clock`` is the clock of time stamps: ``clock``, ``phc`` (the card's own) or ``none``.
    ``realtime_priority`` is that of the reading thread under SCHED_FIFO, or 0.
    """

    clock: str
    tai_offset_s: int
    clock_step_ns: int
    stamp_clock: str
    ended_by: str
    logged: Count
    realtime_priority: Count
    receive_errors: dict[str, Count]
    streams: Annotated[list[PortReport], Field(min_length=1)]

    def stream(self, port: int) -> PortReport:
        """Return the report of a port; ToolError if the listener had no such port."""
        for stream in self.streams:
            if stream.port == port:
                return stream
        raise ToolError(
            f"the listener had no port {port}", f"ports {[s.port for s in self.streams]}"
        )


def talker(
    program: str,
    address: str,
    port: int,
    pacing: Pacing,
    stop: StopCondition,
    *,
    payload_bytes: int,
    clock: Clock = "tai",
    log: str | None = None,
    timestamps: DepartureStamps | None = None,
    stream: int | None = None,
    priority: int | None = None,
    txtime_ahead_ns: int | None = None,
    dont_fragment: bool = False,
    bind: str | None = None,
    device: str | None = None,
    send_buffer_bytes: int | None = None,
) -> list[str]:
    """Return the command of a talker, see its manual page.

    Raises ValueError if the payload has no room for sequence number and send time.
    """
    if payload_bytes < _MIN_PAYLOAD_BYTES:
        raise ValueError(f"a payload of {payload_bytes} bytes has no room for 12 bytes of head")
    flags = [*(["--txtime"] if txtime_ahead_ns else []), *(["--dont-fragment"] * dont_fragment)]
    values = {
        "address": address,
        "port": port,
        "payload": payload_bytes,
        "clock": clock,
        "count": stop.count,
        "seconds": stop.seconds,
        "log": log,
        "timestamps": timestamps,
        "stream": stream,
        "priority": priority,
        "txtime-ahead-ns": txtime_ahead_ns,
        "bind": bind,
        "device": device,
        "send-buffer": send_buffer_bytes,
    }
    return [program, *options(values), *pacing.options(), *flags]


def listener(
    program: str,
    ports: list[int],
    stop: StopCondition,
    *,
    clock: Clock = "tai",
    log: str | None = None,
    timestamps: Stamps | None = None,
    quiet_ms: int | None = None,
    buffer_bytes: int | None = None,
    realtime: int | None = None,
    bind: str | None = None,
    device: str | None = None,
) -> list[str]:
    """Return the command of a listener, see its manual page.

    ``buffer_bytes`` is the socket's buffer as the kernel counts it, twice the value of SO_RCVBUF;
    ``realtime`` is a SCHED_FIFO priority from 1 to 99 for the thread that reads.

    Raises ValueError if no port is given.
    """
    if not ports:
        raise ValueError("a listener needs at least one port")
    values = {
        "count": stop.count,
        "seconds": stop.seconds,
        "clock": clock,
        "log": log,
        "timestamps": timestamps,
        "quiet-ms": quiet_ms,
        "buffer-bytes": buffer_bytes,
        "realtime": realtime,
        "bind": bind,
        "device": device,
    }
    return [program, *(arg for port in ports for arg in ("--port", str(port))), *options(values)]


def show_log(path: str) -> list[str]:
    """Return the command that prints a log as base64, see :mod:`tsnrepro.native.streams.log`."""
    return ["base64", "--wrap=0", path]


def options(values: dict[str, Any]) -> list[str]:
    """Return long options of a command, without those that are ``None``."""
    return [
        argument
        for name, value in values.items()
        if value is not None
        for argument in (f"--{name}", str(value))
    ]


def parse_talker(text: str) -> TalkerResult:
    """Parse the output of a talker.

    Raises ToolError if the text is not a talker's report, or a field is missing or contradicts
    another.
    """
    result = read_report(TalkerResult, text, "talker")
    if result.attempts != result.sent + sum(result.send_errors.values()):
        raise ToolError(
            f"the talker tried {result.attempts} datagrams, sent {result.sent} and failed "
            f"{sum(result.send_errors.values())}"
        )
    return result


def parse_listener(text: str) -> ListenerResult:
    """Parse the output of a listener; a ``ready`` line before the report is skipped.

    Raises ToolError if the text is not a listener's report, or a field is missing or contradicts
    another.
    """
    result = read_report(ListenerResult, text, "listener")
    for stream in result.streams:
        if stream.received != stream.unique + stream.duplicates:
            raise ToolError(
                f"port {stream.port}: {stream.received} received are not {stream.unique} unique "
                f"and {stream.duplicates} duplicates"
            )
    return result


def read_report(kind: type[T], text: str, tool: str) -> T:
    """Return the report that a program printed, a dataclass with :data:`REPORT`.

    Raises ToolError if the text is not the report of this program, or a field is missing, unknown,
    or of another type.
    """
    document = json_object(text, f"the {tool}")
    if document.pop("tool", None) != tool:
        raise ToolError(f"this is not the report of a {tool}: {text.strip()[:200]}")
    try:
        return TypeAdapter(kind).validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise ToolError(f"the {tool}'s report lacks {name}") from error
        found = f"{name} is {first['input']!r}"[:200]
        raise ToolError(f"the {tool}'s {found}: {first['msg']}") from error
