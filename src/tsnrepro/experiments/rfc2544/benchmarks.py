"""Measure one stored trial: the search or procedure that its factors name."""

import statistics
from collections.abc import Iterable
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.rfc2544 import (
    back_to_back,
    binary_search,
    frame_loss,
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
from tsnrepro.experiments.rfc2544.plan import settings_of_trial
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult, record_of_search
from tsnrepro.records.store import accepted_attempt, canonical

# Whose throughput other benchmarks start from: the first of these that was measured.
_PREFERRED_METHODS = ("mlrsearch-rfc2544", "mlrsearch", "binary-search", "systematic")


def measure_benchmark(
    factors: dict[str, Any],
    measure: Measure,
    link_rate_mbps: float,
    throughput_pps: float | None = None,
    *,
    full_waits: bool = True,
) -> dict[str, Any]:
    """Measure what a trial's factors ask for and return its ``values``.

    Parameters
    ----------
    factors
        Of a trial of :func:`tsnrepro.experiments.rfc2544.plan.plan`, latency excepted: it is not
        made of load trials.
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
        There is no such benchmark or method; see :func:`settings_of_trial`.
    ToolError
        An outcome cannot be, or a search went on for too long.
    """
    sut = SystemUnderTest(factors["configuration"], factors["payload_bytes"], link_rate_mbps)
    shortfall = factors["shortfall_percent"] / 100
    own = settings_of_trial(factors)
    from_line_rate = getattr(own, "from_line_rate", False)
    series = Series(
        *(measure, sut, factors["ceiling_s"], shortfall, full_waits), from_line_rate=from_line_rate
    )
    if factors["benchmark"] == "throughput":
        return record_of_search(_search(series, factors["method"], own))
    if factors["benchmark"] == "frame-loss":
        procedure = {"downward": frame_loss.downward, "at-loads": frame_loss.at_loads}
        return _record(series, procedure[factors["method"]](series, own))
    if factors["benchmark"] == "back-to-back":
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
    documents: Iterable[dict[str, Any]], configuration: str, payload_bytes: int
) -> float | None:
    """Return a throughput in datagrams/s from recorded trials, or None where no load passed.

    It is the median over repetitions of the first goal (zero loss) of one method: the first of
    ``mlrsearch-rfc2544``, ``mlrsearch``, ``binary-search`` and ``systematic`` that has an answer.
    None too where nobody tried to find one: the campaign does not ask for it at this size.

    ``documents`` are recorded trials; those of other benchmarks are passed over.

    Raises
    ------
    ToolError
        It was tried to find one, and no attempt has a result: what starts from it waits for that.
    """
    attempts: dict[bytes, list[dict[str, Any]]] = {}
    for document in documents:
        if _seeks_throughput(document, configuration, payload_bytes):
            trial = canonical([document["factors"], document.get("repetition")])
            attempts.setdefault(trial, []).append(document)
    counted = [each for each in map(accepted_attempt, attempts.values()) if each is not None]
    if attempts and not counted:
        raise ToolError(
            "no throughput trial of this configuration and size has a result",
            f"{configuration}, {payload_bytes} B",
            "Mend what its attempts failed of, which their records say, and run this again",
        )
    found: dict[str, list[float]] = {}
    for document in counted:
        first = next(iter(document["values"]["results"].values()))
        if first["lower_pps"] is not None:
            found.setdefault(document["factors"]["method"], []).append(first["lower_pps"])
    answers = (statistics.median(found[method]) for method in _PREFERRED_METHODS if method in found)
    return next(answers, None)


def _seeks_throughput(document: dict[str, Any], configuration: str, payload_bytes: int) -> bool:
    factors = document["factors"]
    named = tuple(factors.get(name) for name in ("benchmark", "configuration", "payload_bytes"))
    # Repetition 0 warms up, and counts for nothing.
    is_warm_up = document.get("repetition") == 0
    return named == ("throughput", configuration, payload_bytes) and not is_warm_up
