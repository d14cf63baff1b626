"""Experiment ``meshed``: forwarding between many ports (RFC 2889, sections 5.1 to 5.3)."""

from itertools import product
from typing import TYPE_CHECKING, cast

from tsnrepro.experiments.meshed.settings import MeshedSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, planned_in_blocks
from tsnrepro.testbeds.protocol import Testbed

if TYPE_CHECKING:
    from tsnrepro.testbeds.model import ModelTestbed


def plan(settings: MeshedSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every pattern, number of ports, frame size, load and repetition."""
    kinds = [
        (pattern, uplink)
        for pattern in settings.patterns
        for uplink in (settings.uplinks_mbps if pattern == "two_devices" else [None])
    ]
    trials = [
        Trial(
            "meshed",
            f"{pattern}{f'-{uplink}M' if uplink else ''}-{ports}-ports-{frame}B-{load:g}percent",
            {
                "pattern": pattern,
                "uplink_mbps": uplink,
                "ports": ports,
                "frame_bytes": frame,
                "load_percent": load,
                "duration_s": settings.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for (pattern, uplink), ports, frame, load in product(
            kinds, settings.ports, settings.frames_bytes, settings.loads_percent
        )
    ]
    return planned_in_blocks(trials, seed, kind, 0.0)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial."""
    from tsnrepro.experiments.meshed import simulated as meshed  # noqa: PLC0415 - compiled code

    meshed.measure(cast("ModelTestbed", testbed), trial, measured)
