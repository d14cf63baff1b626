"""Frame loss rate (RFC 2544, 26.3), downward from the line's limit and at given loads."""

from dataclasses import dataclass

from tsnrepro.experiments.rfc2544 import rates
from tsnrepro.experiments.rfc2544.load_trial import NEAR_THE_LINE, TRIES, BenchmarkResult, Series
from tsnrepro.experiments.rfc2544.settings import FrameLossSettings
from tsnrepro.experiments.rfc2544.throughput import departures

_CLEAN_TRIALS_TO_STOP = 2
_COARSEST_STEP_PERCENT = 10.0


@dataclass(frozen=True)
class FrameLossPoint:
    """Loss at one load.

    ``asked_percent`` and ``offered_percent`` are relative to the line's limit for the size; a load
    above it cannot be sent, so the offered load stands beside the target, the line's at most: what
    exceeds it waits at the talker's own port;
    ``generator_limited``: not even the line's limit was reached.
    """

    asked_percent: float
    offered_percent: float
    asked_payload_mbps: float
    offered_payload_mbps: float
    offered_frame_mbps: float
    offered_wire_mbps: float
    offered: int
    lost: int
    loss_percent: float
    generator_limited: bool


@dataclass(frozen=True)
class FrameLossResult(BenchmarkResult):
    """The points of one procedure, in the order they were measured.

    ``complete``: in the downward procedure, two loads in a row lost nothing.
    """

    procedure: str
    points: tuple[FrameLossPoint, ...]
    complete: bool


def downward(series: Series, settings: FrameLossSettings) -> FrameLossResult:
    """Measure at 100 % of the line's limit and below, until two loads in a row lose nothing.

    Raises
    ------
    ValueError
        The settings leave this part out.
    ToolError
        An outcome cannot be, see :meth:`Series.run`.
    """
    if settings.step_percent is None:
        raise ValueError("the downward procedure needs a step_percent")
    points: list[FrameLossPoint] = []
    complete = False
    for number in range(round(100 / settings.step_percent)):
        points.append(_point(series, 100 - number * settings.step_percent, settings.duration_s))
        last = points[-_CLEAN_TRIALS_TO_STOP:]
        if len(last) == _CLEAN_TRIALS_TO_STOP and not any(point.lost for point in last):
            complete = True
            break
    others = []
    if settings.step_percent > _COARSEST_STEP_PERCENT:
        others.append(f"steps of {settings.step_percent:g} %, not 10 % (RFC 2544, 26.3)")
    if not complete:
        others.append("no two loads in a row were free of loss (RFC 2544, 26.3)")
    if points[0].generator_limited:
        others.append("the generator did not reach the line's limit")
    reasons = departures(settings.duration_s, 0, *others, *series.departures)
    return FrameLossResult("downward", tuple(points), complete, reasons=reasons)


def at_loads(series: Series, settings: FrameLossSettings) -> FrameLossResult:
    """Measure at the given loads, as the documents did (50 ... 110 % of the line's limit).

    The first load that the generator does not reach is tried up to three times, in case that its
    host stood still; those beyond are likely out of its reach.

    Raises
    ------
    ToolError
        An outcome cannot be, see :meth:`Series.run`.
    """
    points: list[FrameLossPoint] = []
    for percent in settings.loads_percent:
        point = _point(series, percent, settings.duration_s)
        beyond_reach = series.from_line_rate or (bool(points) and points[-1].generator_limited)
        for _ in range(0 if beyond_reach else TRIES - 1):
            if not point.generator_limited:
                break
            point = _point(series, percent, settings.duration_s)
        points.append(point)
    reasons = departures(
        settings.duration_s,
        0,
        "given loads, not downward from 100 % (RFC 2544, 26.3)",
        *series.departures,
    )
    return FrameLossResult("at_loads", tuple(points), True, reasons=reasons)


def _point(series: Series, percent: float, duration_s: float) -> FrameLossPoint:
    """Run one trial and return the loss at its load."""
    line_pps = series.sut.line_pps
    trial = series.run(line_pps * percent / 100, duration_s, purpose="frame loss")
    payload = trial.load.payload_bytes
    target = rates.at_layers(payload, trial.load.rate_pps)
    offered_pps = min(trial.outcome.offered_pps, line_pps)
    offered = rates.at_layers(payload, offered_pps)
    return FrameLossPoint(
        asked_percent=100 * trial.load.rate_pps / line_pps,
        offered_percent=100 * offered_pps / line_pps,
        asked_payload_mbps=target.payload_mbps,
        offered_payload_mbps=offered.payload_mbps,
        offered_frame_mbps=offered.frame_mbps,
        offered_wire_mbps=offered.wire_mbps,
        offered=trial.outcome.sent,
        lost=trial.outcome.lost,
        loss_percent=trial.outcome.loss_percent,
        generator_limited=trial.short and trial.outcome.offered_pps < NEAR_THE_LINE * line_pps,
    )
