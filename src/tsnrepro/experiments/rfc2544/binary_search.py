"""Throughput by bisection (RFC 2544, 26.1), the way the documents searched."""

from tsnrepro.experiments.rfc2544.load_trial import LoadTrial, Series
from tsnrepro.experiments.rfc2544.settings import BinarySearchSettings
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult, departures, offered_at

_METHOD = "binary-search"


def search(series: Series, settings: BinarySearchSettings) -> ThroughputResult:
    """Halve the range from nothing to the highest load, a fixed number of times at most.

    A trial passes with at most ``loss_percent`` of loss. RFC 2544 (26.1) asks for none, in trials
    of 60 s. Each trial is believed: one stall of a host halves the range on the wrong side, and
    no later trial can correct it, so under random stalls the result falls short.

    A trial in which the generator falls behind is repeated, see
    :meth:`Series.run_again_if_short`. Where it still does without a loss, the rate it reached has
    passed and the one requested is out of reach; where something was lost, the load has failed.

    Raises
    ------
    ToolError
        An outcome cannot be, see :meth:`Series.run`.
    """
    low, high = 0.0, series.ceiling.pps
    best: LoadTrial | None = None
    # What ended the range at its upper end: a loss, or the generator; nothing until it was tried.
    lossy = short = False
    for _ in range(settings.steps):
        if _narrow(series, high - low, settings):
            break
        rate = (low + high) / 2
        trial = series.run_again_if_short(rate, settings.duration_s)
        if trial.outcome.loss_percent > settings.loss_percent:
            high, lossy, short = rate, True, False
            continue
        if trial.rate_pps > low:
            low, best = trial.rate_pps, trial
        if trial.short:
            high, lossy, short = rate, False, True
    offered, delivered = offered_at([best]) if best else (None, None)
    lower = min(best.load.rate_pps, best.outcome.offered_pps) if best else None
    return ThroughputResult(
        method=_METHOD,
        goal="binary_search",
        criterion=(
            f"at most {settings.loss_percent:g} % lost in one trial of {settings.duration_s:g} s, "
            f"{settings.steps} steps{_end(settings)}"
        ),
        loss_percent=settings.loss_percent,
        lower_pps=lower,
        upper_pps=high if lossy or short else None,
        offered_pps=offered,
        delivered_pps=delivered,
        limited_by=series.limited_by(lower, lossy_above=lossy, short_above=short),
        series=series,
        reasons=departures(settings.duration_s, settings.loss_percent, *series.departures),
    )


def _narrow(series: Series, width_pps: float, settings: BinarySearchSettings) -> bool:
    """Tell whether the range is as narrow as the search is to end with."""
    width_mbps = width_pps * series.sut.payload_bytes * 8 / 1e6
    return settings.resolution_mbps is not None and width_mbps <= settings.resolution_mbps


def _end(settings: BinarySearchSettings) -> str:
    ends = settings.resolution_mbps
    return "" if ends is None else f" at most, to {ends:g} Mb/s of payload"
