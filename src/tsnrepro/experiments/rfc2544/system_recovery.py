"""System recovery (RFC 2544, 26.5): how long frames are lost after an overload has ended."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsnrepro.errors import ToolError
from tsnrepro.experiments.rfc2544.load_trial import RateStep, Series
from tsnrepro.settings.rfc2544 import SystemRecoverySettings

OVERLOAD_SECONDS = 60.0
OVERLOAD_PERCENT, RECOVERY_PERCENT = 110.0, 50.0


@dataclass(frozen=True)
class SystemRecoveryResult:
    """One repetition; ``recovery_s`` is None where the overload lost nothing to recover from.

    ``stepped_s`` is timestamp A of RFC 2544 and ``last_lost_s`` timestamp B, both in seconds of
    sending time since the first datagram.
    """

    overload_pps: float
    recovery_pps: float
    stepped_s: float
    last_lost_s: float | None
    recovery_s: float | None
    lost: int
    reasons: tuple[str, ...]

    @property
    def compliant(self) -> bool:
        """Whether nothing keeps the result from being one of RFC 2544, 26.5."""
        return not self.reasons

    def as_record(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self) | {"compliant": self.compliant}


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
        An outcome cannot be, or does not tell when the rate fell.
    """
    line = series.subject.line_pps
    overload = min(line, throughput_pps * settings.overload_percent / 100)
    recovery = overload * settings.recovery_percent / 100
    trial = series.run(
        overload,
        settings.overload_s,
        purpose="system recovery",
        then=RateStep(recovery, settings.recovery_s),
    )
    outcome = trial.outcome
    if outcome.stepped_s is None or (trial.lost and outcome.last_lost_s is None):
        raise ToolError(
            "the trial does not tell when the rate fell and when the last datagram was lost",
            f"{trial.load.configuration}, {trial.load.payload_bytes} B",
            "Measure it with times for every datagram",
        )
    recovery_s = None
    if outcome.last_lost_s is not None:
        recovery_s = max(0.0, outcome.last_lost_s - outcome.stepped_s)
    return SystemRecoveryResult(
        overload_pps=overload,
        recovery_pps=recovery,
        stepped_s=outcome.stepped_s,
        last_lost_s=outcome.last_lost_s,
        recovery_s=recovery_s,
        lost=trial.lost,
        reasons=_reasons(settings, trial.short, outcome.last_lost_s),
    )


def _reasons(
    settings: SystemRecoverySettings, short: bool, last_lost_s: float | None
) -> tuple[str, ...]:
    found = []
    if settings.overload_s < OVERLOAD_SECONDS:
        found.append(f"overload of {settings.overload_s:g} s, not 60 s (RFC 2544, 26.5)")
    if settings.overload_percent != OVERLOAD_PERCENT:
        found.append(f"overload of {settings.overload_percent:g} %, not 110 % (RFC 2544, 26.5)")
    if settings.recovery_percent != RECOVERY_PERCENT:
        found.append(f"down to {settings.recovery_percent:g} %, not 50 % (RFC 2544, 26.5)")
    if short:
        found.append("the generator did not reach the overload")
    if last_lost_s is None:
        found.append("the overload lost nothing, so there is nothing to recover from")
    return tuple(found)


def sending_times_of_lost(
    sequences: ArrayLike, sent_s: ArrayLike, offered: int
) -> NDArray[np.float64]:
    """Return when the lost datagrams of a trial were sent, in order, from what arrived.

    A lost datagram leaves no record at the listener, but those around it carry their sending
    times: between two of them the times are interpolated, and before the first or after the last
    they go on at the mean gap of what arrived.

    Parameters
    ----------
    sequences
        Sequence numbers (from 0) of the datagrams received, any order, repeats allowed, shape (m,).
    sent_s
        Their sending times in seconds, shape (m,).
    offered
        Datagrams that were sent: numbers 0 ... offered - 1.

    Raises
    ------
    ValueError
        Fewer than two different datagrams arrived, or a number is beyond what was sent.
    """
    numbers, first = np.unique(np.asarray(sequences, dtype=np.int64), return_index=True)
    times = np.asarray(sent_s, dtype=np.float64)[first]
    if numbers.size < 2:
        raise ValueError(f"{numbers.size} datagrams arrived: times need two of them")
    if numbers[0] < 0 or numbers[-1] >= offered:
        raise ValueError(f"sequence numbers {numbers[0]} ... {numbers[-1]} of {offered} sent")
    missing = np.setdiff1d(np.arange(offered), numbers, assume_unique=True)
    gap = (times[-1] - times[0]) / (numbers[-1] - numbers[0])
    before = np.minimum(missing - numbers[0], 0) * gap
    after = np.maximum(missing - numbers[-1], 0) * gap
    return np.interp(missing, numbers, times) + before + after
