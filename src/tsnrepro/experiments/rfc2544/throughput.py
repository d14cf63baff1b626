"""The result of a search for throughput, in one form for all methods."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tsnrepro.common.ethernet import udp_frames
from tsnrepro.experiments.rfc2544 import rates
from tsnrepro.experiments.rfc2544.load_trial import BenchmarkResult, LimitedBy, LoadTrial, Series

TRIAL_SECONDS = 60.0
"""Shortest trial of a benchmark's final result (RFC 2544, 24)."""
NO_THROUGHPUT = "no throughput was found for this configuration and size"
"""Why a benchmark that starts from the throughput has no result."""


@dataclass(frozen=True)
class ThroughputResult(BenchmarkResult):
    """What a search found; all rates named ``pps`` are datagrams a second.

    Attributes
    ----------
    method, goal
        The search, and which of its goals.
    criterion
        When a trial passes, as text.
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
    series
        The search's load trials; those of a record of one goal are the search's.
    threshold
        Rate at which half of the trials lose something, with its interval (systematic only).
    conditional_pps
        MLRsearch's conditional throughput: the lower bound less the loss it allowed.
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
    threshold: dict[str, Any] | None = None
    conditional_pps: float | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the result as plain values, without the trials (they are the search's)."""
        sut = self.series.sut
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        del record["series"]

        def layers(pps: float | None, *, tagged: bool = False) -> dict[str, float] | None:
            if pps is None:
                return None
            return asdict(rates.at_layers(sut.payload_bytes, pps, tagged=tagged))

        path = layers(self.offered_pps, tagged=sut.configuration == "frer")
        return record | {
            "offered": layers(self.offered_pps),
            "delivered": layers(self.delivered_pps),
            "path_wire_mbps": path and path["wire_mbps"],
            "ceiling_pps": self.series.ceiling.pps,
            "line_pps": sut.line_pps,
            "path_pps": sut.path_pps,
            "compliant": self.compliant,
            "reasons": list(self.reasons),
        }


def record_of_search(results: Sequence[ThroughputResult]) -> dict[str, Any]:
    """Return one search for a trial's ``values``: its results by goal, and all its load trials."""
    series = results[0].series
    return series.as_record() | {
        "frames_bytes": list(udp_frames(series.sut.payload_bytes)),
        "results": {result.goal: result.as_record() for result in results},
    }


def offered_at(trials: Sequence[LoadTrial]) -> tuple[float, float]:
    """Return the offered and the delivered rate over trials, in datagrams a second."""
    seconds = sum(trial.outcome.sending_s for trial in trials)
    offered = sum(trial.outcome.sent for trial in trials)
    received = sum(trial.outcome.received_unique for trial in trials)
    return offered / seconds, received / seconds


def departures(shortest_s: float, loss_percent: float, *others: str) -> tuple[str, ...]:
    """Return what keeps a search from being RFC 2544's: trial length (24), loss (26.1), others."""
    found = []
    if shortest_s < TRIAL_SECONDS:
        found.append(f"trials of {shortest_s:g} s, not 60 s (RFC 2544, 24)")
    if loss_percent > 0:
        found.append(f"passes with up to {loss_percent:g} % loss, not 0 (RFC 2544, 26.1)")
    return (*found, *others)
