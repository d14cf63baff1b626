"""Experiment ``tcp``: the goodput of one TCP connection (iperf3)."""

from dataclasses import asdict

from tsnrepro.experiments.backends import backend
from tsnrepro.experiments.measurement import Measurement
from tsnrepro.experiments.plan import Planned, planned_in_blocks
from tsnrepro.records.store import Trial
from tsnrepro.settings.tcp import TcpSettings
from tsnrepro.testbed.protocol import Testbed

SET_UP_SECONDS = 0.7


def plan(settings: TcpSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, duration and repetition."""
    trials = [
        Trial(
            "tcp",
            f"{configuration}-{duration}s",
            {"configuration": configuration, "duration_s": duration},
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for duration in settings.durations_s
        for configuration in settings.configurations
    ]
    return planned_in_blocks(trials, seed, kind, SET_UP_SECONDS)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    requests = backend(testbed, trial, measured)
    transfer, recovery = requests.tcp(trial.factors["configuration"], trial.factors["duration_s"])
    measured.values |= {"result": asdict(transfer), "recovery": recovery}
