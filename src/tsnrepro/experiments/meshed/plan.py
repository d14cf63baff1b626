"""Factors and trials of the experiment ``meshed``."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from tsnrepro.experiments.meshed.settings import MeshedSettings, Pattern
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A pattern of traffic between the ports of one switch or two."""

    experiment: ClassVar[str] = "meshed"
    pattern: Pattern
    uplink_mbps: int | None
    """Wire rate between two devices; None for one."""
    ports: int
    frame_bytes: int
    load_percent: float
    duration_s: float

    @property
    def label(self) -> str:
        """Pattern, ports, frame size and load."""
        uplink = f"-{self.uplink_mbps}M" if self.uplink_mbps else ""
        size = f"{self.frame_bytes}B-{self.load_percent:g}percent"
        return f"{self.pattern}{uplink}-{self.ports}-ports-{size}"


def plan(settings: MeshedSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every pattern, number of ports, frame size, load and repetition."""
    patterns: list[tuple[Pattern, int | None]] = [
        (pattern, uplink)
        for pattern in settings.patterns
        for uplink in (settings.uplinks_mbps if pattern == "two_devices" else [None])
    ]
    return in_blocks(
        (
            Factors(
                pattern=pattern,
                uplink_mbps=uplink,
                ports=ports,
                frame_bytes=frame,
                load_percent=load,
                duration_s=settings.duration_s,
            ).planned(repetition, nominal_seconds(kind, settings.duration_s, 0.0))
            for repetition in range(1, settings.repetitions + 1)
            for (pattern, uplink), ports, frame, load in product(
                patterns, settings.ports, settings.frames_bytes, settings.loads_percent
            )
        ),
        seed,
    )
