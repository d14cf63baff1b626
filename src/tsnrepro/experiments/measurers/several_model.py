"""Several streams at once on the model testbed."""

from dataclasses import asdict
from typing import Any

from tsnrepro.experiments.measurers.model_terms import recovery_of, seed_of
from tsnrepro.experiments.measurers.several import Sent, sendings
from tsnrepro.experiments.run import Measurement
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, Stream
from tsnrepro.records.store import Trial
from tsnrepro.testbed.model import LISTENER, TALKER, ModelTestbed


def several(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> list[dict[str, Any]]:
    """Simulate a trial's streams together and return one row each."""
    factors = trial.factors
    duration = float(factors["duration_s"])
    streams = [
        Stream(
            name=name.replace(" ", "-"),
            talker=TALKER,
            listener=LISTENER,
            payload_bytes=payload,
            send=ConstantRate(rate_mbps=rate * payload * 8 / 1e6),
            route=testbed.route("control" if name == "best effort" else "frer"),
            datagrams=round(rate * duration),
        )
        for name, _, payload, rate in sendings(factors)
    ]
    network = testbed.network(testbed.parameters(trial.repetition), streams)
    measured.outputs["network.json.gz"] = network.model_dump_json(indent=1)
    result = simulate(network, duration_s=1.2 * duration + 1, seed=seed_of(testbed, trial))
    rows = []
    for stream in streams:
        of = result.streams[stream.name]
        counts = (of.entered, of.unique, of.duplicates, of.out_of_order)
        rows.append(asdict(Sent(stream.name, *counts, recovery_of(result, stream.name))))
    return rows
