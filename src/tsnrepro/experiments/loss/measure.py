"""Measure a trial of ``loss``: UDP frame loss at an offered load (RFC 2544, 26.3)."""

from tsnrepro.experiments.loss.plan import Factors
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import HostOptions, IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: send, count what arrived, and account for the rest."""
    factors = Factors.of(trial)
    load = IntendedLoad.at_mbps(
        factors.configuration, factors.payload_bytes, factors.rate_mbps, factors.duration_s
    )
    options = HostOptions(
        factors.receive_buffer_bytes, factors.realtime_listener, factors.send_buffer_bytes
    )
    requests = backend(testbed, trial, measured, options)
    if factors.generator == "iperf3":
        outcome = requests.udp(load)
    else:
        (outcome,) = requests.constant_rate([load])
    measured.values |= outcome.values(load.payload_bytes)
