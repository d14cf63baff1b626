"""System recovery (RFC 2544, 26.5): how long frames are lost after an overload has ended."""

from dataclasses import dataclass

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.rfc2544.load_trial import BenchmarkResult, Series
from tsnrepro.experiments.rfc2544.settings import SystemRecoverySettings
from tsnrepro.experiments.rfc2544.throughput import NO_THROUGHPUT
from tsnrepro.runner.load import RateStep

_OVERLOAD_SECONDS = 60.0
# A loss in this last part of the window means that recovery was not over when sending ended.
_END_SHARE = 0.01
_OVERLOAD_PERCENT, _RECOVERY_PERCENT = 110.0, 50.0


@dataclass(frozen=True)
class SystemRecoveryResult(BenchmarkResult):
    """One repetition; ``recovery_s`` is None where the overload lost nothing to recover from.

    ``at_least``: frames were still lost when the window ended: recovery takes longer.
    ``stepped_s`` is timestamp A of RFC 2544 and ``last_lost_s`` timestamp B, both in seconds of
    sending time since the first datagram.
    """

    overload_pps: float | None
    recovery_pps: float | None
    stepped_s: float | None
    last_lost_s: float | None
    recovery_s: float | None
    at_least: bool
    lost: int


def without_throughput() -> SystemRecoveryResult:
    """Return the result where no throughput was found, so that there is no rate to start from."""
    return SystemRecoveryResult(None, None, None, None, None, False, 0, reasons=(NO_THROUGHPUT,))


def measure(
    series: Series, settings: SystemRecoverySettings, throughput_pps: float
) -> SystemRecoveryResult:
    """Overload the network, halve the load, and time the last loss.

    The overload is 110 % of the throughput or the line's limit, whichever is lower, for 60 s; the
    rate then falls to half of it. Time runs from the fall (A) to the sending of the last datagram
    that was lost (B), and is 0 where that one was sent before the fall.

    Raises
    ------
    ToolError
        An outcome is impossible, or does not have the number of the datagram that was lost last.
    """
    line = series.sut.line_pps
    overload = min(line, throughput_pps * settings.overload_percent / 100)
    recovery = overload * settings.recovery_percent / 100
    trial = series.run(
        overload,
        settings.overload_s,
        purpose="system recovery",
        then=RateStep(recovery, settings.recovery_s),
    )
    outcome = trial.outcome
    try:
        stepped_s, last_lost_s = outcome.step_and_last_loss(trial.load)
    except ValueError as error:
        raise ToolError(
            f"unknown when the rate fell or when the last datagram was lost: {error}",
            f"{trial.load.configuration}, {trial.load.payload_bytes} B",
            "Measure it with times for every datagram",
        ) from error
    recovery_s = None if last_lost_s is None else max(0.0, last_lost_s - stepped_s)
    unfinished = recovery_s is not None and recovery_s >= (1 - _END_SHARE) * settings.recovery_s
    return SystemRecoveryResult(
        overload_pps=overload,
        recovery_pps=recovery,
        stepped_s=stepped_s,
        last_lost_s=last_lost_s,
        recovery_s=recovery_s,
        at_least=unfinished,
        lost=outcome.lost,
        reasons=(
            *_reasons(settings, trial.short, last_lost_s, unfinished),
            *series.departures,
        ),
    )


def _reasons(
    settings: SystemRecoverySettings, short: bool, last_lost_s: float | None, unfinished: bool
) -> tuple[str, ...]:
    found = []
    if settings.overload_s < _OVERLOAD_SECONDS:
        found.append(f"overload of {settings.overload_s:g} s, not 60 s (RFC 2544, 26.5)")
    if settings.overload_percent != _OVERLOAD_PERCENT:
        found.append(f"overload of {settings.overload_percent:g} %, not 110 % (RFC 2544, 26.5)")
    if settings.recovery_percent != _RECOVERY_PERCENT:
        found.append(f"down to {settings.recovery_percent:g} %, not 50 % (RFC 2544, 26.5)")
    if short:
        found.append("the generator did not reach the overload")
    if last_lost_s is None:
        found.append("the overload lost nothing, so there is nothing to recover from")
    if unfinished:
        still = f"frames were still lost {settings.recovery_s:g} s after the fall"
        found.append(f"{still}, when sending ended")
    return tuple(found)
