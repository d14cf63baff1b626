"""One load trial: what is asked of the network, what came of it, and the series of a search."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from tsnrepro.errors import ToolError
from tsnrepro.experiments.rfc2544 import rates
from tsnrepro.settings import Configuration

LimitedBy = Literal["network", "generator", "line"]
# A throughput this near to the line's limit is the line's: searches stop 0.5 % below it.
NEAR_THE_LINE = 0.99
CEILING_TRIALS = 3


@dataclass(frozen=True)
class RateStep:
    """What follows the first part of a load without a pause: rate (datagrams/s) and duration."""

    rate_pps: float
    duration_s: float


@dataclass(frozen=True)
class Load:
    """What a trial asks for: datagrams of one payload at a constant rate.

    ``rate_pps`` is datagrams a second. ``burst`` asks for exactly that many datagrams, as close
    together as the rate says, once. ``then`` is a second rate right after ``duration_s``.
    """

    configuration: Configuration
    payload_bytes: int
    rate_pps: float
    duration_s: float
    burst: int | None = None
    then: RateStep | None = None


@dataclass(frozen=True)
class LoadOutcome:
    """What a trial gave.

    Attributes
    ----------
    offered
        Datagrams that really left the talker; those it could not send are not among them.
    received
        Of these, how many the listener read, repeats not counted.
    duration_s
        Real sending time, a gap for every datagram: offered / duration_s is the offered rate.
    generator_limited
        Whether the measurer knows that the generator fell behind; the rate shows it as well.
    elapsed_s
        Time of the whole trial with set-up and waiting; the sending time where it is not known.
    accounting
        Where the datagrams went, for the record.
    stepped_s, last_lost_s
        For a load with ``then``: when the rate changed, and the sending time of the last
        datagram that was lost (none: nothing was), both in seconds after the first datagram.
    """

    offered: int
    received: int
    duration_s: float
    generator_limited: bool = False
    elapsed_s: float | None = None
    accounting: dict[str, Any] | None = None
    stepped_s: float | None = None
    last_lost_s: float | None = None


Measure = Callable[[Load], LoadOutcome]


@dataclass(frozen=True)
class LoadTrial:
    """A load, its outcome, and why it was tried; ``short`` tells that the generator fell behind."""

    load: Load
    outcome: LoadOutcome
    purpose: str
    short: bool

    @property
    def achieved_pps(self) -> float:
        """Offered rate that was reached, in datagrams a second."""
        return self.outcome.offered / self.outcome.duration_s

    @property
    def rate_pps(self) -> float:
        """Rate that the trial stands for: the one asked for, unless the generator fell behind."""
        return self.achieved_pps if self.short else self.load.rate_pps

    @property
    def lost(self) -> int:
        """Datagrams offered and not received."""
        return self.outcome.offered - self.outcome.received

    @property
    def loss_percent(self) -> float:
        """Lost of offered (RFC 2544, 26.3); what was never sent is no loss."""
        return 100 * self.lost / self.outcome.offered

    def as_record(self) -> dict[str, Any]:
        """Return the trial as plain values."""
        load = {key: value for key, value in asdict(self.load).items() if value is not None}
        return load | {
            "purpose": self.purpose,
            "offered": self.outcome.offered,
            "received": self.outcome.received,
            "lost": self.lost,
            "loss_percent": self.loss_percent,
            "sending_s": self.outcome.duration_s,
            "achieved_pps": self.achieved_pps,
            "generator_limited": self.short,
            "accounting": self.outcome.accounting,
        }


@dataclass(frozen=True)
class Subject:
    """What is searched: a configuration and payload on links of one wire rate."""

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


@dataclass(frozen=True)
class Ceiling:
    """The highest load that can be offered, and what keeps it from being higher."""

    pps: float
    limited_by: Literal["line", "generator"]


@dataclass
class Series:
    """The load trials of one subject, in order.

    Parameters
    ----------
    measure
        Runs one load trial.
    subject
        Configuration, payload and link rate of all its trials.
    ceiling_s
        Length of the trial that shows what the generator can do.
    shortfall
        A trial that offers less than (1 - shortfall) of its rate is the generator's limit.
    """

    measure: Measure
    subject: Subject
    ceiling_s: float = 1.0
    shortfall: float = 0.01
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
        subject = self.subject
        load = Load(subject.configuration, subject.payload_bytes, rate_pps, duration_s, burst, then)
        outcome = self.measure(load)
        _check(load, outcome)
        # Of a load with two rates only the measurer can tell.
        behind = then is None and (
            outcome.offered / outcome.duration_s < (1 - self.shortfall) * rate_pps
        )
        trial = LoadTrial(load, outcome, purpose, outcome.generator_limited or behind)
        self.trials.append(trial)
        return trial

    @cached_property
    def ceiling(self) -> Ceiling:
        """The highest load that can be offered, from trials at the line's limit.

        One is enough where the generator reaches the limit; else it is the best of three.

        A search must not go beyond what the generator can send: a clean trial there would credit
        the network with a rate it never saw, and a frame that was not sent is not a lost one.
        """
        line = self.subject.line_pps
        best = 0.0
        for _ in range(CEILING_TRIALS):
            trial = self.run(line, self.ceiling_s, purpose="ceiling")
            if not trial.short:
                return Ceiling(line, "line")
            best = max(best, trial.achieved_pps)
        return Ceiling(best, "generator")

    @property
    def sending_s(self) -> float:
        """Seconds of sending, over all trials."""
        return sum(trial.outcome.duration_s for trial in self.trials)

    @property
    def search_s(self) -> float:
        """Seconds that the trials took with set-up and waiting, as far as these are known."""
        outcomes = [trial.outcome for trial in self.trials]
        return sum(o.duration_s if o.elapsed_s is None else o.elapsed_s for o in outcomes)

    def limited_by(self, lower_pps: float | None, *, lossy_above: bool) -> LimitedBy:
        """Return what keeps a throughput from being higher.

        ``lossy_above`` tells that a trial above it lost datagrams that had been offered.
        """
        if lower_pps is not None and lower_pps >= NEAR_THE_LINE * self.subject.path_pps:
            return "line"
        return "network" if lossy_above else self.ceiling.limited_by


def _check(load: Load, outcome: LoadOutcome) -> None:
    where = f"{load.configuration}, {load.payload_bytes} B, {load.rate_pps:.1f} datagrams/s"
    if outcome.offered < 1 or outcome.duration_s <= 0:
        raise ToolError(
            f"{outcome.offered} datagrams were sent in {outcome.duration_s} s",
            where,
            "Look at the talker's output in the record",
        )
    if not 0 <= outcome.received <= outcome.offered:
        raise ToolError(
            f"{outcome.received} datagrams received of {outcome.offered} sent",
            where,
            "Repeats must not be counted as received",
        )
