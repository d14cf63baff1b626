"""Experiment ``loss``: UDP frame loss against offered load (RFC 2544, 26.3).

Sent and received by iperf3 or by our own talker and listener. How the receiving program reads is a
factor: its socket's buffer and its priority.
"""

from itertools import product

from tsnrepro.experiments.backends import backend
from tsnrepro.experiments.measurement import Measurement
from tsnrepro.experiments.plan import Planned, planned_in_blocks
from tsnrepro.experiments.traffic import IntendedLoad
from tsnrepro.records.store import Trial
from tsnrepro.settings.loss import LossSettings
from tsnrepro.testbed.protocol import Testbed

# Configuring, counters, server and connection; only the first estimate of time uses it.
SET_UP_SECONDS = 1.5


def plan(settings: LossSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, payload, load and repetition."""
    return planned_in_blocks(_trials(settings), seed, kind, SET_UP_SECONDS)


def _trials(settings: LossSettings) -> list[Trial]:
    readers = list(product(settings.receive_buffers_bytes, settings.realtime_listeners))
    return [
        Trial(
            "loss",
            f"{configuration}-{part.payload_bytes}B-{rate:g}M{_label(*reader)}",
            {
                "configuration": configuration,
                "payload_bytes": part.payload_bytes,
                "rate_mbps": rate,
                "duration_s": part.duration_s,
                "generator": settings.generator,
                "receive_buffer_bytes": reader[0],
                "realtime_listener": reader[1],
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for part in settings.parts
        for rate in part.rates_mbps
        for reader in readers
        for configuration in settings.configurations
    ]


def _label(receive_buffer_bytes: int | None, realtime: bool | None) -> str:
    buffer = f"-buffer{receive_buffer_bytes}" if receive_buffer_bytes else ""
    return buffer + {None: "", False: "-ordinary", True: "-realtime"}[realtime]


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: send, count what arrived, and say where the rest went."""
    load, requests = IntendedLoad.of_factors(trial.factors), backend(testbed, trial, measured)
    if trial.factors.get("generator", "iperf3") == "iperf3":
        outcome = requests.udp(load)
    else:
        (outcome,) = requests.constant_rate([load])
    measured.values |= outcome.values(load.payload_bytes)
