"""One stored trial of latency (RFC 2544, 26.2): samples, idle or beside the throughput's load."""

from functools import partial
from typing import Any, cast

import numpy as np

from tsnrepro.errors import ToolError
from tsnrepro.experiments.backends import Backend
from tsnrepro.experiments.measurement import Measurement
from tsnrepro.experiments.rfc2544 import latency
from tsnrepro.experiments.rfc2544.latency import Kind, LatencyCase
from tsnrepro.experiments.rfc2544.plan import settings_of_trial
from tsnrepro.experiments.traffic import IntendedLoad
from tsnrepro.records.outputs import ARRIVALS
from tsnrepro.records.store import Trial
from tsnrepro.streams.delivery import one_way
from tsnrepro.streams.log import compress

# Few enough that no datagram waits for another.
IDLE_PPS = 1000.0
# Long enough to tell how fast one request follows another.
SHORT_SECONDS = 1.0


def measure(
    requests: Backend,
    trial: Trial,
    throughput_pps: float | None,
    measured: Measurement,
) -> None:
    """Measure one repetition and keep its samples.

    Where no throughput was found there is no such rate: the record says so and has no samples.
    """
    of, payload_bytes = settings_of_trial(trial.factors), trial.factors["payload_bytes"]
    kind, _, load = trial.factors["method"].rpartition("-")
    if load == "throughput" and throughput_pps is None:
        measured.values |= latency.without_throughput(of, cast(Kind, kind), payload_bytes)
        return
    make_case = partial(latency.case, of, kind, load, payload_bytes)
    sample = _round_trips if kind == "round-trip" else _one_way
    case, found, reasons = sample(requests, trial, throughput_pps, measured, make_case)
    departures = latency.departures(of, cast(Kind, kind))
    measured.values |= latency.record_of_latency(case, found, (*departures, *reasons))


def _round_trips(
    requests: Backend,
    trial: Trial,
    throughput_pps: float | None,
    measured: Measurement,
    make_case: Any,
) -> tuple[LatencyCase, dict[str, latency.LatencySamples | None], tuple[str, ...]]:
    """Return half and whole round trips; the samples' own rate is part of the throughput."""
    loaded = trial.factors["method"].endswith("throughput")
    ends = trial.factors["configuration"], trial.factors["payload_bytes"]
    rate = 0.0
    if loaded:
        idle = requests.round_trips(*ends, SHORT_SECONDS, keep=False)
        rate = min(len(idle.half_us) / idle.report.valid_seconds, throughput_pps or 0.0)
    case = make_case(throughput_pps=throughput_pps if loaded else None, sample_pps=rate)
    found = requests.round_trips(*ends, trial.factors["duration_s"], beside_pps=case.background_pps)
    return case, dict(latency.round_trips(found.half_us)), ()


def _one_way(
    requests: Backend,
    trial: Trial,
    throughput_pps: float | None,
    measured: Measurement,
    make_case: Any,
) -> tuple[LatencyCase, dict[str, latency.LatencySamples | None], tuple[str, ...]]:
    """Return one-way latencies of a stream at the rate itself: every datagram is a sample."""
    loaded = trial.factors["method"].endswith("throughput")
    case = make_case(throughput_pps=throughput_pps if loaded else None)
    rate = throughput_pps if loaded and throughput_pps else IDLE_PPS
    factors = trial.factors
    load = IntendedLoad(
        factors["configuration"], factors["payload_bytes"], rate, factors["duration_s"]
    )
    (outcome,) = requests.constant_rate([load], arrivals=True)
    assert outcome.arrivals is not None
    measured.outputs[ARRIVALS] = compress(outcome.arrivals)
    delays = one_way(outcome.arrivals, "kernel")
    if not len(delays.latency_ns):
        raise ToolError("no datagram arrived with a time stamp", trial.label)
    refused = outcome.why_not_one_way(float(delays.latency_ns.min()))
    reasons = (refused,) if refused else ()
    sent = np.zeros(len(delays.latency_ns))
    found = latency.one_way(sent, delays.latency_ns / 1e9, clocks_agree=not refused)
    return case, {"one_way": found}, reasons
