"""Experiment ``tcp``: the goodput of one TCP connection (iperf3)."""

from dataclasses import asdict
from typing import Any

from tsnrepro.experiments.tcp.settings import TcpSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import (
    Planned,
    full_factorial,
    grouped_by_testbed,
    in_blocks,
    nominal_seconds,
)
from tsnrepro.testbeds.protocol import Testbed

_SET_UP_SECONDS = 0.7


def plan(settings: TcpSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, duration and repetition.

    Those over links of another rate come last: the testbed is brought up anew for them.
    """
    trials = full_factorial(
        *("tcp", "{configuration}-{duration_s}s", settings),
        configuration=settings.configurations,
        duration_s=settings.durations_s,
    )

    def seconds(trial: Trial) -> float:
        return nominal_seconds(kind, trial.factors["duration_s"], _SET_UP_SECONDS)

    planned = in_blocks([*trials, *_limit_trials(settings)], seed, seconds, _testbed)
    return grouped_by_testbed(planned)


def _limit_trials(settings: TcpSettings) -> list[Trial]:
    if settings.limit is None:
        return []
    return full_factorial(
        *("tcp", "limit-{configuration}-{duration_s}s", settings.limit),
        configuration=settings.configurations,
        duration_s=[settings.limit.duration_s],
        link_rate_mbps=[settings.limit.link_rate_mbps],
    )


def _testbed(trial: Trial) -> dict[str, Any]:
    """Return the settings of the testbed that a trial needs otherwise than configured."""
    rate = trial.factors.get("link_rate_mbps")
    return {"link_rate_mbps": rate} if rate else {}


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    requests = backend(testbed, trial, measured)
    transfer, recovery = requests.tcp(trial.factors["configuration"], trial.factors["duration_s"])
    measured.values |= {"result": asdict(transfer), "recovery": recovery}
