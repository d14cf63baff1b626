"""Experiment ``streams``: several streams at once, each with its own sequence numbers.

All run at a constant rate from talker to listener; best effort, which is no stream's and goes
untagged over the first path, may run beside them.
"""

from typing import Any

from tsnrepro.experiments.measurers import measurer
from tsnrepro.experiments.plan import planned_in_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign

SET_UP_SECONDS = 3.0


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every number of streams, load of best effort and repetition."""
    settings = campaign.streams
    if settings is None:
        return []
    trials = [
        Trial(
            "streams",
            f"{count}-streams-{best_effort:g}M",
            {
                "streams": count,
                "best_effort_mbps": best_effort,
                "payload_bytes": settings.payload_bytes,
                "rate_pps": settings.rate_pps,
                "duration_s": settings.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for count in settings.counts
        for best_effort in settings.best_effort_mbps
    ]
    return planned_in_blocks(trials, campaign.seed, SET_UP_SECONDS)


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    per_stream = measurer(testbed).several(testbed, trial, measured)
    measured.values |= {"result": result(per_stream), "streams": per_stream}


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
