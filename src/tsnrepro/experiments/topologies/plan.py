"""Factors and trials of the experiment ``topologies``."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal

from tsnrepro.config import Configuration
from tsnrepro.experiments.topologies.settings import TopologiesSettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds

Shape = Literal["line", "ring", "mesh"]


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A topology, the loss of its links, and the load over it."""

    experiment: ClassVar[str] = "topologies"
    shape: Shape
    size: int
    cut: bool
    configuration: Configuration
    link_loss_percent: float
    rate_mbps: float
    duration_s: float
    payload_bytes: int

    @property
    def label(self) -> str:
        """Topology, configuration, loss of a link and rate."""
        topology = f"{self.shape}-{self.size}{'-cut' if self.cut else ''}"
        load = f"{self.link_loss_percent:g}percent-{self.rate_mbps:g}M"
        return f"{topology}-{self.configuration}-{load}"


def plan(settings: TopologiesSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every topology, configuration, loss of a link, load and repetition."""
    topologies: list[tuple[Shape, int, bool]] = [
        *(("line", size, False) for size in settings.lines),
        *(("ring", size, cut) for size, cut in product(settings.rings, settings.ring_cuts)),
        *(("mesh", size, False) for size in settings.meshes),
    ]
    return in_blocks(
        (
            Factors(
                shape=shape,
                size=size,
                cut=cut,
                configuration=configuration,
                link_loss_percent=link_loss,
                rate_mbps=rate,
                duration_s=settings.duration_s,
                payload_bytes=settings.payload_bytes,
            ).planned(repetition, nominal_seconds(kind, settings.duration_s, 0.0))
            for repetition in range(1, settings.repetitions + 1)
            for (shape, size, cut), configuration, link_loss, rate in product(
                topologies,
                settings.configurations,
                settings.link_loss_percents,
                settings.rates_mbps,
            )
        ),
        seed,
    )
