"""Factors and trials of the experiment ``streams``."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from tsnrepro.experiments.streams.settings import StreamsSettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds

_SET_UP_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """Equal streams at once, and the best effort beside them."""

    experiment: ClassVar[str] = "streams"
    streams: int
    best_effort_mbps: float
    duration_s: float
    rate_pps: float
    payload_bytes: int

    @property
    def label(self) -> str:
        """The number of streams and the rate of best effort."""
        return f"{self.streams}-streams-{self.best_effort_mbps:g}M"


def plan(settings: StreamsSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every number of streams, load of best effort and repetition."""
    return in_blocks(
        (
            Factors(
                streams=count,
                best_effort_mbps=best_effort,
                duration_s=settings.duration_s,
                rate_pps=settings.rate_pps,
                payload_bytes=settings.payload_bytes,
            ).planned(repetition, nominal_seconds(kind, settings.duration_s, _SET_UP_SECONDS))
            for repetition in range(1, settings.repetitions + 1)
            for count, best_effort in product(settings.counts, settings.best_effort_mbps)
        ),
        seed,
    )
