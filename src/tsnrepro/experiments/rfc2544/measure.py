"""Measure a trial of ``rfc2544``: a whole search or procedure, with all its load trials."""

import statistics
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.config import Configuration
from tsnrepro.experiments.rfc2544 import (
    back_to_back,
    binary_search,
    frame_loss,
    latency,
    mlr,
    system_recovery,
    systematic,
)
from tsnrepro.experiments.rfc2544.load_trial import (
    BenchmarkResult,
    Measure,
    Series,
    SystemUnderTest,
)
from tsnrepro.experiments.rfc2544.plan import Factors
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult, record_of_search
from tsnrepro.records.files import canonical_json
from tsnrepro.records.store import Trial, accepted_attempt
from tsnrepro.runner.backends import Backend, backend
from tsnrepro.runner.load import HostOptions, IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed

# The method whose throughput other benchmarks start from: the first of these that was measured.
_PREFERRED_METHODS = ("mlrsearch-rfc2544", "mlrsearch", "binary-search", "systematic")


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    factors = Factors.of(trial)
    options = HostOptions(factors.receive_buffer_bytes, send_buffer_bytes=factors.send_buffer_bytes)
    requests = backend(testbed, trial, measured, options)
    throughput = None
    if factors.starts_from_throughput:
        throughput = throughput_of(
            measured.earlier(),
            factors.configuration,
            factors.payload_bytes,
            factors.link_rate_mbps,
        )
    # The model's network is at rest when a trial begins, and has learned every address.
    at_rest = testbed.kind == "model"
    if factors.benchmark == "latency":
        latency.measure(requests, factors, throughput, measured, at_rest=at_rest)
        return
    send = {"talker": load_trial, "iperf3": iperf3_trial}[factors.generator]
    measured.values |= measure_benchmark(
        factors,
        lambda load: send(requests, load),
        requests.link_rate_mbps,
        throughput,
        full_waits=at_rest or factors.full_waits,
    )


def load_trial(requests: Backend, load: IntendedLoad) -> LoadOutcome:
    """Run one load trial by our own talker and listener."""
    # The datagram that was lost last matters only where the rate changes.
    (outcome,) = requests.constant_rate([load], arrivals=load.then is not None)
    return outcome


def iperf3_trial(requests: Backend, load: IntendedLoad) -> LoadOutcome:
    """Run one load trial by iperf3.

    A datagram that waited in its socket when it ended has arrived: where the counters show it, it
    is not lost. At low rates one such datagram is more than a search may lose.
    """
    outcome = requests.udp(load)
    unread = (outcome.accounting or {}).get("unread", 0)
    received = min(outcome.sent, outcome.received_unique + unread)
    return replace(outcome, received_unique=received)


def measure_benchmark(
    factors: Factors,
    measure: Measure,
    link_rate_mbps: float,
    throughput_pps: float | None = None,
    *,
    full_waits: bool = True,
) -> dict[str, Any]:
    """Run the search or procedure of a trial and return its ``values``.

    Parameters
    ----------
    factors
        Of a trial of another benchmark than latency, which is not made of load trials.
    measure
        Runs one load trial on the testbed.
    link_rate_mbps
        Wire rate of the links.
    throughput_pps
        Throughput of the same configuration and payload, for what starts from it; see
        :func:`throughput_of`.
    full_waits
        Whether the load trials have the learning frames and waits of RFC 2544, 23.

    Returns
    -------
    dict
        ``result`` (of throughput: :func:`record_of_search`; else the result and its load trials).

    Raises
    ------
    ConfigurationError
        There is no such benchmark or method, see :attr:`Factors.method_settings`.
    ToolError
        An outcome cannot be, or a search went on for too long.
    """
    sut = SystemUnderTest(factors.configuration, factors.payload_bytes, link_rate_mbps)
    shortfall = factors.shortfall_percent / 100
    own = factors.method_settings
    from_line_rate = getattr(own, "from_line_rate", False)
    series = Series(
        *(measure, sut, factors.ceiling_s, shortfall, full_waits), from_line_rate=from_line_rate
    )
    if factors.benchmark == "throughput":
        return record_of_search(_search(series, factors.method, own))
    if factors.benchmark == "frame-loss":
        procedure = {"downward": frame_loss.downward, "at-loads": frame_loss.at_loads}
        return _record(series, procedure[factors.method](series, own))
    if factors.benchmark == "back-to-back":
        return _record(series, back_to_back.search(series, own, throughput_pps))
    if throughput_pps is None:
        return _record(series, system_recovery.without_throughput())
    return _record(series, system_recovery.measure(series, own, throughput_pps))


def _search(series: Series, method: str, own: Any) -> list[ThroughputResult]:
    if method == "binary-search":
        return [binary_search.search(series, own)]
    if method == "systematic":
        return [systematic.search(series, own)]
    return mlr.search(series, own, method)


def _record(series: Series, result: BenchmarkResult) -> dict[str, Any]:
    return series.as_record() | {"line_pps": series.sut.line_pps, "result": result.as_record()}


def throughput_of(
    documents: Iterable[dict[str, Any]],
    configuration: Configuration,
    payload_bytes: int,
    link_rate_mbps: int | None = None,
) -> float | None:
    """Return a throughput in datagrams/s from recorded trials, or None where no load passed.

    It is the median over repetitions of the first goal (zero loss) of one method: the first of
    ``mlrsearch-rfc2544``, ``mlrsearch``, ``binary-search`` and ``systematic`` that has an answer.
    None too where the campaign does not search for it at this size.

    ``documents`` are recorded trials; those of other benchmarks, and over links of another rate
    than ``link_rate_mbps`` (None is the testbed's), are ignored.

    Raises
    ------
    ToolError
        It was searched for, and no attempt has a result: what starts from it waits for that.
    """
    attempts: dict[bytes, list[dict[str, Any]]] = {}
    methods: dict[bytes, str] = {}
    for document in documents:
        factors, repetition = Factors.read(document["factors"]), document.get("repetition")
        place = (factors.benchmark, factors.configuration, factors.payload_bytes)
        place += (factors.link_rate_mbps,)
        # Repetition 0 is a warm-up, which does not count.
        wanted = ("throughput", configuration, payload_bytes, link_rate_mbps)
        if place == wanted and repetition != 0:
            trial = canonical_json([factors.stored(), repetition])
            attempts.setdefault(trial, []).append(document)
            methods[trial] = factors.method
    counted = {trial: accepted_attempt(made) for trial, made in attempts.items()}
    if attempts and not any(counted.values()):
        raise ToolError(
            "no throughput trial of this configuration and size has a result",
            f"{configuration}, {payload_bytes} B",
            "Remove the cause of the failures, which the records name, and run this again",
        )
    found: dict[str, list[float]] = {}
    for trial, document in counted.items():
        first = next(iter(document["values"]["results"].values())) if document else {}
        if first.get("lower_pps") is not None:
            found.setdefault(methods[trial], []).append(first["lower_pps"])
    answers = (statistics.median(found[method]) for method in _PREFERRED_METHODS if method in found)
    return next(answers, None)
