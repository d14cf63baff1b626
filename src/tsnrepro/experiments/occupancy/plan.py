"""Factors and trials of the experiment ``occupancy``."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from tsnrepro.config import Configuration
from tsnrepro.experiments.occupancy.settings import BufferAllocation, OccupancySettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A load over narrow member links, and the buffer in front of them."""

    experiment: ClassVar[str] = "occupancy"
    configuration: Configuration
    memory: BufferAllocation
    buffer_bytes: int
    rate_mbps: float
    duration_s: float
    payload_bytes: int
    member_link_rate_mbps: int

    @property
    def label(self) -> str:
        """Configuration, memory, buffer and rate."""
        buffer = f"{self.memory}-{self.buffer_bytes}B"
        return f"{self.configuration}-{buffer}-{self.rate_mbps:g}M"


def plan(settings: OccupancySettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, buffer, memory, load and repetition."""
    return in_blocks(
        (
            Factors(
                configuration=configuration,
                memory=memory,
                buffer_bytes=buffer,
                rate_mbps=rate,
                duration_s=settings.duration_s,
                payload_bytes=settings.payload_bytes,
                member_link_rate_mbps=settings.member_link_rate_mbps,
            ).planned(repetition, nominal_seconds(kind, settings.duration_s, 0.0))
            for repetition in range(1, settings.repetitions + 1)
            for configuration, memory, buffer, rate in product(
                settings.configurations,
                settings.buffer_allocation,
                settings.buffers_bytes,
                settings.rates_mbps,
            )
        ),
        seed,
    )
