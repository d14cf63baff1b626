"""Measure a trial of ``streams``: several streams at once, each with its own sequence numbers.

All run at a constant rate from talker to listener. Best effort may run beside them: it is no
stream, and goes untagged over the first path.
"""

from typing import Any

from tsnrepro.common.ethernet import udp_payload
from tsnrepro.experiments.streams.plan import Factors
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed

_BEST_EFFORT = "best effort"
# That of a full frame.
_BEST_EFFORT_PAYLOAD_BYTES = udp_payload(1518)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    loads = _loads_of(Factors.of(trial))
    outcomes = backend(testbed, trial, measured).constant_rate(list(loads.values()))
    per_stream = [
        {
            "stream": name,
            "sent": outcome.sent,
            "unique": outcome.received_unique,
            "duplicates": outcome.duplicates,
            "reordered": outcome.reordered,
            "recovery": None if name == _BEST_EFFORT else outcome.recovery,
            "accounting": outcome.accounting,
        }
        for name, outcome in zip(loads, outcomes, strict=True)
    ]
    measured.values |= {"result": result(per_stream), "streams": per_stream}


def _loads_of(factors: Factors) -> dict[str, IntendedLoad]:
    """Return the loads of a trial by name: the streams first, best effort, if any, last."""
    duration_s = factors.duration_s
    stream = IntendedLoad("frer", factors.payload_bytes, factors.rate_pps, duration_s)
    loads = {f"stream-{number}": stream for number in range(factors.streams)}
    if factors.best_effort_mbps:
        loads[_BEST_EFFORT] = IntendedLoad.at_mbps(
            "control", _BEST_EFFORT_PAYLOAD_BYTES, factors.best_effort_mbps, duration_s
        )
    return loads


def result(per_stream: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of the trial as a whole.

    ``own_sequences`` is whether every stream's recovery function passed exactly the datagrams of
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
