"""Recorded RFC 2544 trials of networks whose capacity is known, made in simulated time."""

import hashlib

from rfc2544_networks import KnownNetwork

from tsnrepro.experiments.rfc2544 import latency
from tsnrepro.experiments.rfc2544.measure import measure_benchmark, throughput_of
from tsnrepro.experiments.rfc2544.plan import Factors, plan
from tsnrepro.experiments.rfc2544.rates import limit_pps

# A limit a datagram, as the documents' numbers show one, and less with FRER.
CAPACITY_PPS = {"control": 150_000.0, "frer": 120_000.0}
BUFFER = {"control": 250, "frer": 200}


def capacity_pps(configuration, payload_bytes, link_rate_mbps=1000.0):
    tagged = configuration == "frer"
    line = limit_pps(payload_bytes, link_rate_mbps, tagged=tagged)
    return min(CAPACITY_PPS[configuration], line)


def record(settings, *, seed=1, **options):
    """Return the documents of a campaign, measured in its order."""
    documents = []
    for item in plan(settings, seed, "emulated"):
        factors = item.trial.factors
        place = (factors["configuration"], factors["payload_bytes"])
        name = item.trial.name(1)
        known = throughput_of(documents, *place)
        if factors["benchmark"] == "latency":
            values = _latency(factors, settings, known)
        else:
            link = factors.get("link_rate_mbps", 1000.0)
            network = KnownNetwork(
                capacity_pps(*place, link),
                buffer=BUFFER[place[0]],
                seed=seed + item.order,
                **options,
            )
            values = measure_benchmark(Factors.of(item.trial), network, link, known)
        documents.append(
            {
                "trial": name,
                "sha256": hashlib.sha256(name.encode()).hexdigest(),
                "repetition": item.trial.repetition,
                "status": "measured",
                "factors": factors,
                "values": values,
            }
        )
    return documents


def _latency(factors, settings, throughput_pps):
    kind, load = factors["method"].rsplit("-", 1)
    of = latency.case(
        settings.latency, kind, load, factors["payload_bytes"], throughput_pps=throughput_pps
    )
    samples = [10.0 + number for number in range(100)]
    found = latency.round_trips(samples) if kind == "round-trip" else {"one_way": None}
    reasons = latency.departures(settings.latency, kind)
    return latency.record_of_latency(of, found, reasons)
