"""The result of a search for throughput, in one form for all methods."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tsnrepro.experiments.rfc2544 import rates
from tsnrepro.experiments.rfc2544.load_trial import LimitedBy, LoadTrial, Series

TRIAL_SECONDS = 60.0
"""Shortest trial of a benchmark's final result (RFC 2544, 24)."""
NO_THROUGHPUT = "no throughput was found for this configuration and size"
"""Why a benchmark that starts from the throughput has no result."""


@dataclass(frozen=True)
class ThroughputResult:
    """What a search found; all rates named ``pps`` are datagrams a second.

    Attributes
    ----------
    method, goal
        The search, and which of its goals.
    criterion
        When a trial passes, in words.
    loss_percent
        Loss up to which a trial passes.
    lower_pps
        Highest load that passed by the method's rule, never more than was really offered there;
        None where no load passed.
    upper_pps
        Lowest load above it that did not pass; None where none was found.
    offered_pps, delivered_pps
        Rates sent and received at the lower bound, over its trials.
    limited_by
        What keeps the result from being higher.
    threshold
        Rate at which half of the trials lose something, with its interval (systematic only).
    conditional_pps
        MLRsearch's conditional throughput: the lower bound less the loss it allowed.
    compliant, reasons
        Whether the trials are those of RFC 2544, and if not, what is not.
    """

    method: str
    goal: str
    criterion: str
    loss_percent: float
    lower_pps: float | None
    upper_pps: float | None
    offered_pps: float | None
    delivered_pps: float | None
    limited_by: LimitedBy
    series: Series
    reasons: tuple[str, ...]
    threshold: dict[str, Any] | None = None
    conditional_pps: float | None = None

    @property
    def compliant(self) -> bool:
        """Whether nothing keeps the result from being a throughput of RFC 2544, 26.1."""
        return not self.reasons

    def as_record(self) -> dict[str, Any]:
        """Return the result as plain values, without the trials (they are the search's)."""
        sut = self.series.sut
        names = ("method", "goal", "criterion", "loss_percent", "lower_pps", "upper_pps")
        more = ("offered_pps", "delivered_pps", "limited_by", "threshold", "conditional_pps")
        record = {name: getattr(self, name) for name in (*names, *more)}
        tagged = sut.configuration == "frer"
        for name in ("offered", "delivered"):
            pps = record[f"{name}_pps"]
            at = rates.at_layers(sut.payload_bytes, pps) if pps is not None else None
            record[name] = asdict(at) if at else None
        lower = self.offered_pps
        path = (
            rates.at_layers(sut.payload_bytes, lower, tagged=tagged).wire_mbps
            if lower is not None
            else None
        )
        return record | {
            "path_wire_mbps": path,
            "ceiling_pps": self.series.ceiling.pps,
            "line_pps": sut.line_pps,
            "path_pps": sut.path_pps,
            "compliant": self.compliant,
            "reasons": list(self.reasons),
        }


def record_of_search(results: Sequence[ThroughputResult]) -> dict[str, Any]:
    """Return one search for a trial's ``values``: its results by goal, and all its load trials."""
    series = results[0].series
    sut = series.sut
    return {
        "configuration": sut.configuration,
        "payload_bytes": sut.payload_bytes,
        "frames_bytes": list(rates.frames(sut.payload_bytes)),
        "link_rate_mbps": sut.link_rate_mbps,
        "load_trials": len(series.trials),
        "sending_s": series.sending_s,
        "search_s": series.search_s,
        "results": {result.goal: result.as_record() for result in results},
        "trials": [trial.as_record() for trial in series.trials],
    }


def offered_at(trials: Sequence[LoadTrial]) -> tuple[float, float]:
    """Return the offered and the delivered rate over trials, in datagrams a second."""
    seconds = sum(trial.outcome.sending_s for trial in trials)
    offered = sum(trial.outcome.sent for trial in trials)
    received = sum(trial.outcome.unique for trial in trials)
    return offered / seconds, received / seconds


def departures(shortest_s: float, loss_percent: float, *others: str) -> tuple[str, ...]:
    """Return what keeps a search from being RFC 2544's: trial length (24), loss (26.1), others."""
    found = []
    if shortest_s < TRIAL_SECONDS:
        found.append(f"trials of {shortest_s:g} s, not 60 s (RFC 2544, 24)")
    if loss_percent > 0:
        found.append(f"passes with up to {loss_percent:g} % loss, not 0 (RFC 2544, 26.1)")
    return (*found, *others)
