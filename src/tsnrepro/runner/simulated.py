"""One run of the model for a trial: how it is seeded, and what its record keeps."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tsnrepro.model.engine import simulate
from tsnrepro.model.network import Listed, Network, TrafficStream
from tsnrepro.model.result import SimulationResult
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.model import ModelTestbed


def run_network(
    testbed: ModelTestbed,
    trial: Trial,
    measured: Measurement,
    network: Network,
    duration_s: float,
    **options: Any,
) -> SimulationResult:
    """Simulate a trial's network; the record keeps the network, the seed and all counts.

    ``options`` are those of :func:`tsnrepro.model.engine.simulate`.
    """
    seed = int(trial.digest, 16) ^ testbed.seed
    result = simulate(network, duration_s=duration_s, seed=seed, **options)
    measured.values |= {
        "parameters": asdict(testbed.parameters(trial.repetition)),
        "seed": seed,
    }
    plain = network.model_copy(update={"streams": _summaries(network.streams)})
    measured.outputs["network.json.gz"] = plain.model_dump_json(indent=1)
    measured.outputs["counts.json.gz"] = json.dumps(counts_of(result), indent=1)
    return result


def _summaries(streams: Sequence[TrafficStream]) -> list[TrafficStream]:
    """Return streams without long lists of times, which seed and factors give again."""
    return [
        stream.model_copy(update={"send": Listed(times_ns=stream.send.times_ns[:1])})
        if isinstance(stream.send, Listed)
        else stream
        for stream in streams
    ]


def counts_of(result: SimulationResult) -> dict[str, Any]:
    """Return the counts of every port, stream and recovery function."""
    return {
        "ended_s": result.ended_s,
        "streams": {name: asdict(s.frames) for name, s in result.streams.items()},
        "ports": {
            name: {
                "busy_ps": port.busy_ps,
                "peak_queue_bytes": port.peak_queue_bytes,
                "streams": [asdict(part) for part in port.streams],
            }
            for name, port in result.ports.items()
        },
        "recoveries": [asdict(recovery) for recovery in result.recoveries],
    }
