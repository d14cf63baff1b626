"""Factors and trials of the experiment ``mausezahn``."""

from dataclasses import dataclass, field
from typing import ClassVar

from tsnrepro.config import Configuration
from tsnrepro.experiments.mausezahn.settings import MausezahnSettings
from tsnrepro.runner.design import OMITTED, Planned, TrialFactors, in_blocks, nominal_seconds
from tsnrepro.tools.mausezahn import PORT

_SET_UP_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A share of the line's rate in frames of one size, and when a run is ended."""

    experiment: ClassVar[str] = "mausezahn"
    configuration: Configuration
    frame_bytes: int
    load_percent: float
    duration_s: float
    deadline_s: float
    port: int = field(default=PORT, metadata=OMITTED)
    """UDP port, source and destination."""
    link_rate_mbps: int | None = field(default=None, metadata=OMITTED)
    """Wire rate of all links where it is not the testbed's."""

    @property
    def label(self) -> str:
        """Configuration, frame size and load."""
        return f"{self.configuration}-{self.frame_bytes}B-{self.load_percent:g}%"


def plan(settings: MausezahnSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, frame size, share of line rate and repetition.

    Repetitions take the ports in turn.
    """
    rate = settings.link_rate_mbps
    testbed = {} if rate is None else {"link_rate_mbps": rate}
    nominal_s = nominal_seconds(kind, settings.duration_s, _SET_UP_SECONDS)
    return in_blocks(
        (
            Factors(
                configuration=configuration,
                frame_bytes=frame,
                load_percent=load,
                duration_s=settings.duration_s,
                deadline_s=settings.deadline_s,
                port=settings.ports[(repetition - 1) % len(settings.ports)],
                link_rate_mbps=rate,
            ).planned(repetition, nominal_s, testbed=testbed)
            for repetition in range(1, settings.repetitions + 1)
            for configuration in settings.configurations
            for frame in settings.frames_bytes
            for load in settings.loads_percent
        ),
        seed,
    )
