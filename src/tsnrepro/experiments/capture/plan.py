"""Factors and trials of the experiment ``capture``."""

from dataclasses import dataclass
from typing import ClassVar

from tsnrepro.config import Configuration
from tsnrepro.experiments.capture.settings import CaptureSettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds

# Starting and fetching the captures; only the first estimate of time uses it.
_SET_UP_SECONDS = 1.3


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A load of iperf3 and the configuration of the network."""

    experiment: ClassVar[str] = "capture"
    configuration: Configuration
    payload_bytes: int
    rate_mbps: float
    duration_s: int

    @property
    def label(self) -> str:
        """Configuration, payload and rate."""
        return f"{self.configuration}-{self.payload_bytes}B-{self.rate_mbps:g}M"


def plan(settings: CaptureSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, payload, load and repetition."""
    return in_blocks(
        (
            Factors(
                configuration=configuration,
                payload_bytes=part.payload_bytes,
                rate_mbps=rate,
                duration_s=part.duration_s,
            ).planned(repetition, nominal_seconds(kind, part.duration_s, _SET_UP_SECONDS))
            for repetition in range(1, settings.repetitions + 1)
            for part in settings.parts
            for rate in part.rates_mbps
            for configuration in settings.configurations
        ),
        seed,
    )
