"""Experiment ``latency``: half round trips of one request at a time (sockperf ping-pong)."""

from dataclasses import asdict

from tsnrepro.experiments.backends import backend
from tsnrepro.experiments.measurement import Measurement
from tsnrepro.experiments.plan import Planned, crossed, planned_in_blocks
from tsnrepro.records.store import Trial
from tsnrepro.settings.latency import LatencySettings
from tsnrepro.testbed.protocol import Testbed

# sockperf itself waits for two seconds before its test.
_SET_UP_SECONDS = 2.6


def plan(settings: LatencySettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, payload and repetition."""
    trials = crossed(
        *("latency", "{configuration}-{payload_bytes}B", settings, ["duration_s"]),
        configuration=settings.configurations,
        payload_bytes=settings.payloads_bytes,
    )
    return planned_in_blocks(trials, seed, kind, _SET_UP_SECONDS)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every observation."""
    named = (trial.factors[name] for name in ("configuration", "payload_bytes", "duration_s"))
    found = backend(testbed, trial, measured).round_trips(*named)
    measured.values |= {"result": asdict(found.report), "recovery": found.recovery}
