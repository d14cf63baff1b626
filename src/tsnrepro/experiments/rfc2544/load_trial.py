"""Load trials: a load, what came of it and why it was tried, in the series of a search."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from tsnrepro.common.errors import ToolError
from tsnrepro.config import Configuration
from tsnrepro.experiments.rfc2544 import rates
from tsnrepro.runner.load import IntendedLoad, LoadOutcome, RateStep

LimitedBy = Literal["network", "host", "generator", "line"]
# A throughput this near to the line's limit is the line's: searches stop 0.5 % below it.
NEAR_THE_LINE = 0.99
TRIES = 3
"""How often a load is tried that the generator does not reach: its host may have stood still."""
NO_WAITS = "no learning frames, nor waits of 2 s and 5 s around a trial (RFC 2544, 23)"
"""Why no result is compliant whose load trials stand close together."""


Measure = Callable[[IntendedLoad], LoadOutcome]


@dataclass(frozen=True)
class LoadTrial:
    """A load, its outcome, and why it was tried; ``short``: the generator fell behind."""

    load: IntendedLoad
    outcome: LoadOutcome
    purpose: str
    short: bool

    @property
    def rate_pps(self) -> float:
        """The trial's rate: its target, unless the generator fell behind."""
        return self.outcome.offered_pps if self.short else self.load.rate_pps

    def as_record(self) -> dict[str, Any]:
        """Return the trial as plain values."""
        load = {key: value for key, value in asdict(self.load).items() if value is not None}
        return load | {
            "purpose": self.purpose,
            "offered": self.outcome.sent,
            "received": self.outcome.received_unique,
            "lost": self.outcome.lost,
            "loss_percent": self.outcome.loss_percent,
            "sending_s": self.outcome.sending_s,
            "achieved_pps": self.outcome.offered_pps,
            "generator_limited": self.short,
            "accounting": self.outcome.accounting,
        }


@dataclass(frozen=True)
class BenchmarkResult:
    """What every result has: the reasons, if any, why it is not what RFC 2544 asks for."""

    reasons: tuple[str, ...] = field(kw_only=True)

    @property
    def compliant(self) -> bool:
        """Whether nothing keeps the result from being one of RFC 2544 (as updated by RFC 9004)."""
        return not self.reasons

    def as_record(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self) | {"compliant": self.compliant}


@dataclass(frozen=True)
class SystemUnderTest:
    """What is benchmarked: a configuration and payload on links of one wire rate."""

    configuration: Configuration
    payload_bytes: int
    link_rate_mbps: float

    @cached_property
    def line_pps(self) -> float:
        """Limit of the talker's link, where frames carry no R-TAG: 100 % of RFC 2544."""
        return rates.limit_pps(self.payload_bytes, self.link_rate_mbps)

    @cached_property
    def path_pps(self) -> float:
        """Limit of the member paths, where FRER's frames carry an R-TAG."""
        tagged = self.configuration == "frer"
        return rates.limit_pps(self.payload_bytes, self.link_rate_mbps, tagged=tagged)


class _Ceiling(NamedTuple):
    """The highest load that can be offered, and what keeps it from being higher."""

    pps: float
    limited_by: Literal["line", "generator"]


@dataclass
class Series:
    """The load trials of one system under test, in order.

    Parameters
    ----------
    measure
        Runs one load trial.
    sut
        Configuration, payload and link rate of all its trials.
    ceiling_s
        Length of the trial that shows what the generator can do.
    shortfall
        A trial that offers less than (1 - shortfall) of its rate is the generator's limit.
    full_waits
        Whether each trial has the learning frames and waits of RFC 2544, 23.
    from_line_rate
        Whether loads up to the line's limit are tried, whatever the generator can send there.
    """

    measure: Measure
    sut: SystemUnderTest
    ceiling_s: float = 1.0
    shortfall: float = 0.01
    full_waits: bool = True
    from_line_rate: bool = False
    trials: list[LoadTrial] = field(default_factory=list)

    def run(
        self,
        rate_pps: float,
        duration_s: float,
        *,
        purpose: str = "search",
        burst: int | None = None,
        then: RateStep | None = None,
    ) -> LoadTrial:
        """Run one trial and keep it.

        Raises
        ------
        ToolError
            The outcome cannot be: nothing was sent, or more was received than sent.
        """
        sut = self.sut
        load = IntendedLoad(
            *(sut.configuration, sut.payload_bytes, rate_pps, duration_s),
            burst=burst,
            then=then,
            full_waits=self.full_waits,
        )
        outcome = self.measure(load)
        _check(load, outcome)
        behind = self._reached(load, outcome) < (1 - self.shortfall) * rate_pps
        trial = LoadTrial(load, outcome, purpose, behind)
        self.trials.append(trial)
        return trial

    def run_again_if_short(self, rate_pps: float, duration_s: float) -> LoadTrial:
        """Run a trial of a search, again where the generator has sent that rate before.

        Its host stood still then, and nothing is known of the load. Of three such trials the one
        that offered most counts.

        Raises
        ------
        ToolError
            An outcome cannot be, see :meth:`run`.
        """
        trial = self.run(rate_pps, duration_s)
        for _ in range(TRIES - 1):
            if not trial.short or self.from_line_rate or rate_pps > self.ceiling.pps:
                break
            again = self.run(rate_pps, duration_s, purpose="repeat")
            trial = max(trial, again, key=lambda one: one.outcome.offered_pps)
        return trial

    @staticmethod
    def _reached(load: IntendedLoad, outcome: LoadOutcome) -> float:
        """Return the rate that was reached at a load; of one with two rates, at the first."""
        if load.then is None or outcome.arrivals is None:
            return outcome.offered_pps
        stepped_s = outcome.step_s(load)
        return min(outcome.sent, load.before_step) / stepped_s if stepped_s > 0 else 0.0

    @property
    def departures(self) -> tuple[str, ...]:
        """What keeps the load trials themselves from being those of RFC 2544, 23."""
        return () if self.full_waits else (NO_WAITS,)

    @cached_property
    def ceiling(self) -> _Ceiling:
        """The highest load that can be offered, from trials at the line's limit.

        One is enough where the generator reaches the limit; else it is the best of three. A series
        from the line's rate has none: what the generator cannot send shows in its trials.

        A search must not go beyond what the generator can send: a clean trial there would credit
        the network with a rate it never saw, and a frame that was not sent is not a lost one.
        """
        line = self.sut.line_pps
        if self.from_line_rate:
            return _Ceiling(line, "line")
        best = 0.0
        for _ in range(TRIES):
            trial = self.run(line, self.ceiling_s, purpose="ceiling")
            if not trial.short:
                return _Ceiling(line, "line")
            best = max(best, trial.outcome.offered_pps)
        return _Ceiling(best, "generator")

    @property
    def sending_s(self) -> float:
        """Seconds of sending, over all trials."""
        return sum(trial.outcome.sending_s for trial in self.trials)

    @property
    def search_s(self) -> float:
        """Seconds that the trials took with set-up and waiting, as far as these are known."""
        outcomes = [trial.outcome for trial in self.trials]
        return sum(o.sending_s if o.elapsed_s is None else o.elapsed_s for o in outcomes)

    def as_record(self) -> dict[str, Any]:
        """Return what was benchmarked and all load trials as plain values."""
        return asdict(self.sut) | {
            "load_trials": len(self.trials),
            "sending_s": self.sending_s,
            "search_s": self.search_s,
            "trials": [trial.as_record() for trial in self.trials],
        }

    def limited_by(
        self, lower_pps: float | None, *, lossy_above: bool, short_above: bool = False
    ) -> LimitedBy:
        """Return what keeps a throughput from being higher.

        ``lossy_above`` tells that a trial above it lost datagrams that had been offered,
        ``short_above`` that the generator fell behind there without a loss. Of lost datagrams the
        accounting tells whether most were lost in the network or in the hosts, by their sockets.
        """
        if lower_pps is not None and lower_pps >= NEAR_THE_LINE * self.sut.path_pps:
            return "line"
        if lossy_above:
            return self._loser_above(lower_pps or 0.0)
        return "generator" if short_above else self.ceiling.limited_by

    def _loser_above(self, lower_pps: float) -> Literal["network", "host"]:
        """Return which lost more of what was offered in the trials above a rate."""
        above = [trial.outcome for trial in self.trials if trial.rate_pps > lower_pps]
        accounts = [outcome.accounting for outcome in above if outcome.accounting]
        by_host = sum(account.get("host_lost", 0) for account in accounts)
        by_network = sum(account.get("network_lost", 0) for account in accounts)
        return "host" if by_host > by_network else "network"


def _check(load: IntendedLoad, outcome: LoadOutcome) -> None:
    where = f"{load.configuration}, {load.payload_bytes} B, {load.rate_pps:.1f} datagrams/s"
    if outcome.sent < 1 or outcome.sending_s <= 0:
        raise ToolError(
            f"{outcome.sent} datagrams were sent in {outcome.sending_s} s",
            where,
            "Look at the talker's output in the record",
        )
    if not 0 <= outcome.received_unique <= outcome.sent:
        raise ToolError(
            f"{outcome.received_unique} datagrams received of {outcome.sent} sent",
            where,
            "Repeats must not be counted as received",
        )
