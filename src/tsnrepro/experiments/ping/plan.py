"""Factors and trials of the experiment ``ping``."""

from dataclasses import dataclass
from typing import ClassVar

from tsnrepro.experiments.ping.settings import PingSettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks

_SET_UP_SECONDS = 0.4


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A run of ping."""

    experiment: ClassVar[str] = "ping"
    payload_bytes: int
    requests: int
    interval_ms: int

    @property
    def label(self) -> str:
        """The ICMP payload."""
        return f"{self.payload_bytes}B"

    @property
    def sending_s(self) -> float:
        """How long requests are sent."""
        return self.requests * self.interval_ms / 1000


def plan(settings: PingSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every payload and repetition."""
    sized = [
        Factors(
            payload_bytes=payload,
            requests=settings.requests,
            interval_ms=settings.interval_ms,
        )
        for payload in settings.payloads_bytes
    ]
    return in_blocks(
        (
            factors.planned(repetition, factors.sending_s + _SET_UP_SECONDS)
            for repetition in range(1, settings.repetitions + 1)
            for factors in sized
        ),
        seed,
    )
