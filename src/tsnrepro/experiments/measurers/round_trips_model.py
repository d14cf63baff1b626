"""Round trips beside a load on the model testbed."""

import io

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.errors import ToolError
from tsnrepro.experiments.measurers.model_terms import seed_of
from tsnrepro.experiments.measurers.round_trips import HALF_ROUND_TRIPS, SHORT_SECONDS, RoundTrips
from tsnrepro.experiments.run import Measurement
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, PingPong, Stream
from tsnrepro.model.result import Result
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
    result = simulate(network, duration_s=duration, seed=seed, record=["samples"])
    half_ps = half_round_trips_ps(result, trial)
    if not short:
        keep(half_ps, measured)
    return RoundTrips(half_ps / 1e6, duration)


def half_round_trips_ps(result: Result, trial: Trial) -> npt.NDArray[np.int64]:
    """Return the half round trips that a run logged, in picoseconds, in order.

    Raises
    ------
    ToolError
        No request was answered.
    """
    answers = result.logs.answers
    if answers is None or not len(answers):
        raise ToolError("no request was answered", f"model, trial {trial.label}")
    return (answers["answered_ps"] - answers["sent_ps"]) // 2


def keep(half_ps: npt.NDArray[np.int64], measured: Measurement) -> None:
    """Keep every half round trip in the record."""
    file = io.BytesIO()
    np.save(file, half_ps)
    measured.outputs[HALF_ROUND_TRIPS] = file.getvalue()
