"""Experiment ``streams``: several streams at once, each with its own sequence numbers.

All run at a constant rate from talker to listener; best effort, which is no stream's and goes
untagged over the first path, may run beside them.
"""

from typing import Any

from tsnrepro.common.ethernet import udp_payload
from tsnrepro.experiments.streams.settings import StreamsSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, full_factorial, planned_in_blocks
from tsnrepro.testbeds.protocol import Testbed

_SET_UP_SECONDS = 3.0
_BEST_EFFORT = "best effort"
# A full frame's.
_BEST_EFFORT_PAYLOAD_BYTES = udp_payload(1518)


def plan(settings: StreamsSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every number of streams, load of best effort and repetition."""
    trials = full_factorial(
        *("streams", "{streams}-streams-{best_effort_mbps:g}M", settings),
        ["payload_bytes", "rate_pps", "duration_s"],
        streams=settings.counts,
        best_effort_mbps=settings.best_effort_mbps,
    )
    return planned_in_blocks(trials, seed, kind, _SET_UP_SECONDS)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    loads = _loads_of(trial.factors)
    outcomes = backend(testbed, trial, measured).constant_rate(list(loads.values()))
    per_stream = [
        {
            "stream": name,
            "sent": of.sent,
            "unique": of.unique,
            "duplicates": of.duplicates,
            "reordered": of.reordered,
            "recovery": None if name == _BEST_EFFORT else of.recovery,
            "accounting": of.accounting,
        }
        for name, of in zip(loads, outcomes, strict=True)
    ]
    measured.values |= {"result": result(per_stream), "streams": per_stream}


def _loads_of(factors: dict[str, Any]) -> dict[str, IntendedLoad]:
    """Return the loads of a trial by name: the streams first, best effort, if any, last."""
    duration = factors["duration_s"]
    stream = IntendedLoad("frer", factors["payload_bytes"], factors["rate_pps"], duration)
    loads = {f"stream-{number}": stream for number in range(factors["streams"])}
    if factors["best_effort_mbps"]:
        rate = factors["best_effort_mbps"] * 1e6 / 8 / _BEST_EFFORT_PAYLOAD_BYTES
        loads[_BEST_EFFORT] = IntendedLoad("control", _BEST_EFFORT_PAYLOAD_BYTES, rate, duration)
    return loads


def result(per_stream: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the trial says as a whole.

    ``own_sequences`` tells whether every stream's recovery function passed just the datagrams of
    its talker, once each, and called none a rogue: streams that shared numbers could not.
    """
    frer = [row for row in per_stream if row["recovery"]]
    recoveries = [row["recovery"] for row in frer]
    return {
        "sent": sum(row["sent"] for row in frer),
        "lost": sum(row["sent"] - row["unique"] for row in frer),
        "duplicated": sum(row["duplicates"] for row in frer),
        "reordered": sum(row["reordered"] for row in frer),
        "passed": sum(recovery["passed"] for recovery in recoveries),
        "discarded": sum(recovery["discarded"] for recovery in recoveries),
        "rogue": sum(recovery["rogue"] for recovery in recoveries),
        "own_sequences": all(
            row["recovery"]["passed"] == row["sent"] and not row["recovery"]["rogue"]
            for row in frer
        ),
        "best_effort_sent": sum(row["sent"] for row in per_stream if not row["recovery"]),
        "best_effort_lost": sum(
            row["sent"] - row["unique"] for row in per_stream if not row["recovery"]
        ),
    }
