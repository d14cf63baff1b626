"""Factors and trials of the experiment ``traffic``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tsnrepro.config import Configuration
from tsnrepro.experiments.traffic.settings import Mix, Source, TrafficSettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds

_SET_UP_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """The sources of a mix, and the configuration of the network."""

    experiment: ClassVar[str] = "traffic"
    mix: str
    configuration: Configuration
    duration_s: float
    receive_buffer_bytes: int | None = None
    sources: list[Source]

    @property
    def label(self) -> str:
        """Mix and configuration."""
        return f"{self.mix}-{self.configuration}"

    def stored(self) -> dict[str, Any]:
        """Return the factors as a record stores them."""
        return super().stored() | {"sources": [s.recorded() for s in self.sources]}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the factors that a record stores."""
        mix = Mix.model_validate({"name": stored["mix"], "sources": stored["sources"]})
        return super().read({**stored, "sources": mix.sources})


def plan(settings: TrafficSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every mix, configuration and repetition."""
    return in_blocks(
        (
            Factors(
                mix=mix.name,
                configuration=configuration,
                duration_s=settings.duration_s,
                receive_buffer_bytes=settings.receive_buffer_bytes,
                sources=mix.sources,
            ).planned(repetition, nominal_seconds(kind, settings.duration_s, _SET_UP_SECONDS))
            for mix in settings.mixes
            for repetition in range(1, (mix.repetitions or settings.repetitions) + 1)
            for configuration in settings.configurations
        ),
        seed,
    )
