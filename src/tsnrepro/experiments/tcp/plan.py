"""Factors and trials of the experiment ``tcp``."""

from dataclasses import dataclass, field
from typing import ClassVar

from tsnrepro.config import Configuration
from tsnrepro.experiments.tcp.settings import TcpSettings
from tsnrepro.runner.design import (
    OMITTED,
    Planned,
    TrialFactors,
    grouped_by_testbed,
    in_blocks,
    nominal_seconds,
)

_SET_UP_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """One transfer of TCP, and the wire rate of all links where it is not the testbed's."""

    experiment: ClassVar[str] = "tcp"
    configuration: Configuration
    duration_s: int
    link_rate_mbps: int | None = field(default=None, metadata=OMITTED)

    @property
    def label(self) -> str:
        """Configuration and duration."""
        limit = "" if self.link_rate_mbps is None else "limit-"
        return f"{limit}{self.configuration}-{self.duration_s}s"

    def repeated(self, repetitions: int, kind: str) -> list[Planned]:
        """Return the planned repetitions of the trial."""
        nominal_s = nominal_seconds(kind, self.duration_s, _SET_UP_SECONDS)
        rate = self.link_rate_mbps
        testbed = {} if rate is None else {"link_rate_mbps": rate}
        numbers = range(1, repetitions + 1)
        return [self.planned(number, nominal_s, testbed=testbed) for number in numbers]


def plan(settings: TcpSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, duration and repetition.

    Those over links of another rate come last: the testbed is brought up anew for them.
    """
    planned = [
        item
        for configuration in settings.configurations
        for duration in settings.durations_s
        for item in Factors(configuration=configuration, duration_s=duration).repeated(
            settings.repetitions, kind
        )
    ]
    if (limit := settings.limit) is not None:
        planned += [
            item
            for configuration in settings.configurations
            for item in Factors(
                configuration=configuration,
                duration_s=limit.duration_s,
                link_rate_mbps=limit.link_rate_mbps,
            ).repeated(limit.repetitions, kind)
        ]
    return grouped_by_testbed(in_blocks(planned, seed))
