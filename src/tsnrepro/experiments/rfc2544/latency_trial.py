"""One stored trial of latency (RFC 2544, 26.2): samples, idle or beside the throughput's load."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.config import Configuration
from tsnrepro.experiments.rfc2544 import latency
from tsnrepro.experiments.rfc2544.latency import LatencySamples
from tsnrepro.experiments.rfc2544.plan import settings_of_trial
from tsnrepro.native.streams.delivery import one_way
from tsnrepro.native.streams.log import compress
from tsnrepro.records.outputs import ARRIVALS
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import Backend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement

# Few enough that no datagram waits for another.
_IDLE_PPS = 1000.0
# Long enough to tell how fast one request follows another.
_SHORT_SECONDS = 1.0


def measure(
    requests: Backend,
    trial: Trial,
    throughput_pps: float | None,
    measured: Measurement,
    *,
    at_rest: bool,
) -> None:
    """Measure one repetition and keep its samples.

    Where no throughput was found there is no such rate: the record says so and has no samples.
    ``at_rest`` tells that the network is at rest when a trial begins, and knows every address.
    """
    factors = trial.factors
    of = settings_of_trial(factors)
    kind, _, load = factors["method"].rpartition("-")
    # A ping-pong has none of them, whatever the campaign asks for.
    waits = at_rest or (kind == "one-way" and factors.get("full_waits", False))
    reasons = latency.departures(of, kind, full_waits=waits)
    if load != "throughput":
        throughput_pps = None
    elif throughput_pps is None:
        measured.values |= latency.without_throughput(of, kind, factors["payload_bytes"], reasons)
        return
    make_case = partial(
        latency.case, of, kind, load, factors["payload_bytes"], throughput_pps=throughput_pps
    )
    if kind == "round-trip":
        # The samples' own rate is part of the throughput.
        rate = 0.0 if throughput_pps is None else min(_fastest(requests, factors), throughput_pps)
        case = make_case(sample_pps=rate)
        samples = requests.round_trips(
            *_ends(factors), factors["duration_s"], beside_pps=case.background_pps or 0.0
        )
        found = latency.round_trips(samples.half_us)
    else:
        case = make_case()
        found, refused = _one_way(requests, trial, throughput_pps or _IDLE_PPS, measured)
        reasons = (*reasons, refused) if refused else reasons
    measured.values |= latency.record_of_latency(case, found, reasons)


def _ends(factors: dict[str, Any]) -> tuple[Configuration, int]:
    return factors["configuration"], factors["payload_bytes"]


def _fastest(requests: Backend, factors: dict[str, Any]) -> float:
    """Return how fast one request follows another, in requests a second."""
    idle = requests.round_trips(*_ends(factors), _SHORT_SECONDS, keep=False)
    return len(idle.half_us) / idle.report.valid_seconds


def _one_way(
    requests: Backend, trial: Trial, rate_pps: float, measured: Measurement
) -> tuple[Mapping[str, LatencySamples | None], str | None]:
    """Return the latencies of a stream, every datagram a sample, or None and why there are none."""
    factors = trial.factors
    load = IntendedLoad(
        *_ends(factors),
        rate_pps,
        factors["duration_s"],
        full_waits=factors.get("full_waits", False),
    )
    (outcome,) = requests.constant_rate([load], arrivals=True)
    assert outcome.arrivals is not None
    measured.outputs[ARRIVALS] = compress(outcome.arrivals)
    delays_ns = one_way(outcome.arrivals, "kernel").latency_ns
    if not len(delays_ns):
        raise ToolError("no datagram arrived with a time stamp", trial.label)
    refused = outcome.why_not_one_way(float(delays_ns.min()))
    return {"one_way": None} if refused else latency.one_way(delays_ns / 1e3), refused
