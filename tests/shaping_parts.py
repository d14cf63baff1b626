"""Parts of the experiment ``shaping`` for tests: small, and with schedules of round numbers."""

from typing import Any

from gate_lists import two_windows

from tsnrepro.experiments.shaping import on_hosts
from tsnrepro.experiments.shaping.plan import repeated
from tsnrepro.experiments.shaping.settings import ShapingPart
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement


def part(kind: str = "end-station", **changes: Any) -> ShapingPart:
    """Return a part with a window of 20 us in 100 us for class 5."""
    values = {
        "name": "test",
        "kind": kind,
        "modes": ["tas", "prio", "fifo"],
        "gates": two_windows(20_000, 80_000, scheduled=5, others=[0]),
        "payload_bytes": 256,
        "packets": 500,
        "interval_us": 300.0,
        "interval_spread_us": 100.0,
        "loads_mbps": [0.0],
        "load_payload_bytes": 1472 if kind == "end-station" else 1460,
    }
    return ShapingPart.model_validate(values | changes)


def trials_of(settings: ShapingPart, repetitions: int) -> list[Trial]:
    """Return the trials of a part, mode by mode."""
    return [factors.trial(number) for factors, number in repeated(settings, repetitions)]


def measured_on_hosts(testbed, settings: ShapingPart) -> Measurement:
    """Measure the first trial of a part by commands on hosts."""
    trial = trials_of(settings, 1)[0]
    measurement = Measurement()
    on_hosts.measure(testbed, trial, measurement)
    return measurement
