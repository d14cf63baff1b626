"""Measure a trial of ``latency``: half round trips of one request at a time (sockperf)."""

from dataclasses import asdict

from tsnrepro.experiments.latency.plan import Factors
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every observation."""
    factors = Factors.of(trial)
    found = backend(testbed, trial, measured).round_trips(
        factors.configuration, factors.payload_bytes, factors.duration_s
    )
    measured.values |= {"result": asdict(found.report), "recovery": found.recovery}
