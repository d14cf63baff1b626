"""Throughput by a systematic sweep: a grid of loads, and finer grids around what it shows."""

import math
from itertools import pairwise

from tsnrepro.experiments.rfc2544.load_trial import LoadTrial, Series
from tsnrepro.experiments.rfc2544.settings import SystematicSettings
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult, departures, offered_at
from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.thresholds import Sweep, highest_rate_without_loss, threshold

_METHOD = "systematic"


def search(series: Series, settings: SystematicSettings) -> ThroughputResult:
    """Sweep grid after grid and report two answers.

    The lower bound is the highest load such that no trial there or below lost anything, which is
    what RFC 2544 (26.1) asks of a rate; one stall anywhere below the limit decides it. The
    threshold is the rate at which loss sets in (:func:`tsnrepro.stats.thresholds.threshold`), by
    all trials of the last grid. A search is one repetition, for its trials share their hour: it has
    the range of loads at which some trials lose and others do not, and only further searches show
    how far thresholds scatter.
    Each later grid reaches one step of the one before to both sides of the load that best parts
    the trials so far (:func:`parting`).

    Raises
    ------
    ToolError
        An outcome cannot be, see :meth:`Series.run`.
    """
    ceiling = series.ceiling.pps
    tried: list[LoadTrial] = []
    latest: list[LoadTrial] = []
    low, high = 0.0, ceiling
    for _ in range(settings.max_refinements):
        step = (high - low) / settings.loads
        last = step <= settings.resolution_percent / 100 * (low + high) / 2
        latest = _grid(series, settings, low, high, last=last)
        tried += latest
        failed = _fails(tried, settings)
        if last or not any(failed):
            break
        centre = parting([trial.rate_pps for trial in tried], failed)
        low, high = max(0.0, centre - step), min(ceiling, centre + step)
    return _result(series, settings, tried, latest)


def _grid(
    series: Series, settings: SystematicSettings, low: float, high: float, *, last: bool
) -> list[LoadTrial]:
    """Run the trials of one grid; a load of nothing is left out."""
    step = (high - low) / settings.loads
    loads = [low + number * step for number in range(settings.loads)][low == 0 :]
    # Its own end and not a sum of steps, so that no load is above what can be offered.
    loads.append(high)
    if settings.direction == "down":
        loads.reverse()
    repetitions = settings.last_repetitions if last else settings.repetitions
    return [series.run(load, settings.duration_s) for load in loads for _ in range(repetitions)]


def _fails(trials: list[LoadTrial], settings: SystematicSettings) -> list[bool]:
    return [trial.outcome.loss_percent > settings.loss_percent for trial in trials]


def parting(rates: list[float], failed: list[bool]) -> float:
    """Return the load that best parts passing trials below from failing ones above.

    It contradicts the fewest trials; of several such loads it is the highest, for stalls make a
    trial fail and never pass. Where every trial failed it is the lowest load, where none did the
    highest.
    """
    if all(failed) or not any(failed):
        return min(rates) if all(failed) else max(rates)
    ordered = sorted(set(rates))
    best, fewest = ordered[0], len(rates) + 1
    for low, high in pairwise(ordered):
        wrong = sum(fails == (rate <= low) for rate, fails in zip(rates, failed, strict=True))
        if wrong <= fewest:
            best, fewest = (low + high) / 2, wrong
    return best


def _result(
    series: Series,
    settings: SystematicSettings,
    tried: list[LoadTrial],
    latest: list[LoadTrial],
) -> ThroughputResult:
    failed = _fails(tried, settings)
    lower = highest_rate_without_loss([trial.rate_pps for trial in tried], failed)
    there = [trial for trial in tried if trial.rate_pps == lower]
    offered, delivered = offered_at(there) if there else (None, None)
    lossy = [trial.rate_pps for trial, fails in zip(tried, failed, strict=True) if fails]
    return ThroughputResult(
        method=_METHOD,
        goal="systematic",
        criterion=(
            f"no trial at or below the load lost more than {settings.loss_percent:g} %, "
            f"trials of {settings.duration_s:g} s"
        ),
        loss_percent=settings.loss_percent,
        lower_pps=min(lower, offered) if lower is not None and offered is not None else None,
        upper_pps=min(lossy) if lossy else None,
        offered_pps=offered,
        delivered_pps=delivered,
        limited_by=series.limited_by(lower, lossy_above=bool(lossy)),
        series=series,
        reasons=departures(settings.duration_s, settings.loss_percent, *series.departures),
        threshold=_threshold(latest, settings),
    )


def _threshold(
    trials: list[LoadTrial], settings: SystematicSettings
) -> dict[str, float | str | int | None]:
    """Return the threshold of trials of one duration, which it belongs to.

    ``low`` is the highest load at and below which none fails, ``high`` the lowest at and above
    which all do; None where there is none.
    """
    loads, fails = [trial.rate_pps for trial in trials], _fails(trials, settings)
    estimate = threshold([Sweep(loads, fails)], unit="datagrams/s")
    passed = max((load for load, failed in zip(loads, fails, strict=True) if not failed), default=0)
    return {
        "value": estimate.value if math.isfinite(estimate.value) else None,
        "low": highest_rate_without_loss(loads, fails),
        "high": min((load for load in loads if load > passed), default=None),
        "method": f"{Limits.RANGE} of loads at which some trials lose; {estimate.method}",
        "trials": len(trials),
        "duration_s": trials[0].load.duration_s,
    }
