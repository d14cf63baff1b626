"""Measure a trial of ``tcp``: the goodput of one TCP connection (iperf3)."""

from dataclasses import asdict

from tsnrepro.experiments.tcp.plan import Factors
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    factors = Factors.of(trial)
    requests = backend(testbed, trial, measured)
    transfer, recovery = requests.tcp(factors.configuration, factors.duration_s)
    measured.values |= {"result": asdict(transfer), "recovery": recovery}
