"""Round trips beside a load on the model testbed."""

import io

import numpy as np
from numpy.random import SeedSequence

from tsnrepro.errors import ToolError
from tsnrepro.experiments.measurers.model_terms import seed_of
from tsnrepro.experiments.measurers.round_trips import HALF_ROUND_TRIPS, SHORT_SECONDS, RoundTrips
from tsnrepro.experiments.run import Measurement
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, PingPong, Stream
from tsnrepro.records.store import Trial
from tsnrepro.testbed.model import LISTENER, TALKER, ModelTestbed


def round_trips(
    testbed: ModelTestbed,
    trial: Trial,
    background_pps: float,
    measured: Measurement,
    *,
    short: bool = False,
) -> RoundTrips:
    """Simulate a ping-pong beside a load of ``background_pps`` of the same payload.

    ``short`` takes a second only, and is not kept.

    Raises
    ------
    ToolError
        No request was answered.
    """
    factors = trial.factors
    duration = SHORT_SECONDS if short else float(factors["duration_s"])
    route, payload = testbed.route(factors["configuration"]), factors["payload_bytes"]
    back = testbed.route(factors["configuration"], back=True)
    ends = {"talker": TALKER, "listener": LISTENER, "route": route, "payload_bytes": payload}
    streams = [Stream(name="samples", send=PingPong(answer_route=back), **ends)]
    if background_pps >= 1:
        rate = ConstantRate(rate_mbps=background_pps * payload * 8 / 1e6)
        streams.append(Stream(name="load", send=rate, **ends))
    network = testbed.network(testbed.parameters(trial.repetition), streams)
    seed = SeedSequence((seed_of(testbed, trial), int(short)))
    answers = simulate(network, duration_s=duration, seed=seed, record=["samples"]).logs.answers
    if answers is None or not len(answers):
        raise ToolError("no request was answered", f"model, trial {trial.label}")
    half_ps = (answers["answered_ps"] - answers["sent_ps"]) // 2
    if not short:
        file = io.BytesIO()
        np.save(file, half_ps)
        measured.outputs[HALF_ROUND_TRIPS] = file.getvalue()
    return RoundTrips(half_ps / 1e6, duration)
