"""Experiment ``topologies``: FRER and control over lines, rings and meshes of switches."""

from itertools import product
from typing import TYPE_CHECKING, Any, cast

from tsnrepro.experiments.topologies.settings import TopologiesSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, planned_in_blocks
from tsnrepro.testbeds.protocol import Testbed

if TYPE_CHECKING:
    from tsnrepro.testbeds.model import ModelTestbed


def plan(settings: TopologiesSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every topology, configuration, loss of a link, load and repetition."""
    shapes = [("line", size, False) for size in settings.lines]
    shapes += [("ring", size, cut) for size, cut in product(settings.rings, settings.ring_cuts)]
    shapes += [("mesh", size, False) for size in settings.meshes]
    varied = product(
        shapes, settings.configurations, settings.link_loss_percents, settings.rates_mbps
    )
    same = settings.model_dump(include={"payload_bytes", "duration_s"})
    factors = [_factors(*values) | same for values in varied]
    trials = [
        Trial("topologies", _label(each), each, repetition)
        for repetition in range(1, settings.repetitions + 1)
        for each in factors
    ]
    return planned_in_blocks(trials, seed, kind, 0.0)


def _factors(
    shape: tuple[str, int, bool], configuration: str, link_loss_percent: float, rate_mbps: float
) -> dict[str, Any]:
    return {
        **dict(zip(("shape", "size", "cut"), shape, strict=True)),
        "configuration": configuration,
        "link_loss_percent": link_loss_percent,
        "rate_mbps": rate_mbps,
    }


def _label(factors: dict[str, Any]) -> str:
    words = "{shape}-{size}{end}-{configuration}-{link_loss_percent:g}percent-{rate_mbps:g}M"
    return words.format(**factors, end="-cut" if factors["cut"] else "")


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial."""
    from tsnrepro.experiments.topologies import simulated as topologies  # noqa: PLC0415 - compiled code

    topologies.measure(cast("ModelTestbed", testbed), trial, measured)
