"""Experiment ``latency``: half round trips of one request at a time (sockperf ping-pong)."""

from dataclasses import asdict, replace

from tsnrepro.config.registry import EMULATED
from tsnrepro.experiments.latency.settings import LatencySettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, full_factorial, in_order_of, planned_in_blocks
from tsnrepro.testbeds.protocol import Testbed

# What further repetitions are measured for.
_MEDIANS = "ratio of medians"
_SET_UP_SECONDS = 0.7
# What sockperf itself waits before its test, where it is left to.
_WAIT_SECONDS = 2.0


def plan(settings: LatencySettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, payload and repetition.

    After them come those of the main payload that are measured until the medians' ratio is known.
    """

    def blocks(payloads: list[int], first: int, last: int) -> list[Planned]:
        trials = full_factorial(
            *("latency", "{configuration}-{payload_bytes}B", settings, ["duration_s"]),
            repetitions=range(first, last + 1),
            configuration=settings.configurations,
            payload_bytes=payloads,
        )
        wait_s = 0.0 if kind == EMULATED else _WAIT_SECONDS
        return planned_in_blocks(trials, seed, kind, _SET_UP_SECONDS + wait_s)

    least, most = settings.repetitions, settings.most_repetitions or 0
    firm = blocks(settings.payloads_bytes, 1, least)
    further = blocks([settings.main_payload_bytes], least + 1, most) if most > least else []
    return in_order_of(
        [*firm, *(replace(item, stopping_rule=_MEDIANS) for item in further)],
        lambda item: (bool(item.stopping_rule), item.order),
    )


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every observation."""
    named = (trial.factors[name] for name in ("configuration", "payload_bytes", "duration_s"))
    found = backend(testbed, trial, measured).round_trips(*named)
    measured.values |= {"result": asdict(found.report), "recovery": found.recovery}
