"""Experiment ``rfc2544``: the benchmarks of RFC 2544 as stored trials on any testbed."""

from dataclasses import replace

from tsnrepro.experiments.rfc2544 import benchmarks, latency_trial
from tsnrepro.experiments.rfc2544.plan import generator_of, plan, starts_from_throughput
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import Backend, backend
from tsnrepro.runner.load import IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed

__all__ = ["measure", "plan"]


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: a whole search or procedure, of which every load trial is kept."""
    factors, requests = trial.factors, backend(testbed, trial, measured)
    throughput = None
    if starts_from_throughput(factors):
        throughput = benchmarks.throughput_of(
            measured.earlier(), factors["configuration"], factors["payload_bytes"]
        )
    # The model's network is at rest when a trial begins, and knows every address.
    at_rest = testbed.kind == "model"
    if factors["benchmark"] == "latency":
        latency_trial.measure(requests, trial, throughput, measured, at_rest=at_rest)
        return
    full_waits = at_rest or factors.get("full_waits", False)
    send = {"talker": load_trial, "iperf3": iperf3_trial}[generator_of(factors)]
    measured.values |= benchmarks.measure_benchmark(
        factors,
        lambda load: send(requests, load),
        requests.link_rate_mbps,
        throughput,
        full_waits=full_waits,
    )


def load_trial(requests: Backend, load: IntendedLoad) -> LoadOutcome:
    """Run one load trial by our own talker and listener."""
    # Which datagram was lost last matters only where the rate changes.
    (outcome,) = requests.constant_rate([load], arrivals=load.then is not None)
    return outcome


def iperf3_trial(requests: Backend, load: IntendedLoad) -> LoadOutcome:
    """Run one load trial by iperf3.

    What waited in its socket when it ended had come all the same: where the counters tell, it is
    not lost. At low rates one such datagram is more than a search may lose.
    """
    outcome = requests.udp(load)
    unread = (outcome.accounting or {}).get("unread", 0)
    return replace(outcome, unique=min(outcome.sent, outcome.unique + unread))
