"""Measure one stored trial: the search or procedure that its factors name."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from tsnrepro.errors import ConfigurationError, RecordError
from tsnrepro.experiments.rfc2544 import (
    back_to_back,
    binary_search,
    frame_loss,
    mlr,
    system_recovery,
    systematic,
)
from tsnrepro.experiments.rfc2544.load_trial import Measure, Series, Subject
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult, record_of_search
from tsnrepro.settings.rfc2544 import Rfc2544Settings, ThroughputSettings

# Whose throughput other benchmarks start from: the first of these that was measured.
PREFERRED_METHODS = ("mlrsearch-rfc2544", "mlrsearch", "binary-search", "systematic")

Search = Callable[[Series, ThroughputSettings], list[ThroughputResult]]
SEARCHES: dict[str, Search] = {
    "binary-search": lambda series, s: [binary_search.search(series, s.binary_search)],
    "mlrsearch": lambda series, s: mlr.search(series, s.mlrsearch),
    "mlrsearch-rfc2544": lambda series, s: mlr.search(
        series, s.mlrsearch_rfc2544, "mlrsearch-rfc2544"
    ),
    "systematic": lambda series, s: [systematic.search(series, s.systematic)],
}


def measure_benchmark(
    factors: dict[str, Any],
    settings: Rfc2544Settings,
    measure: Measure,
    link_rate_mbps: float,
    throughput_pps: float | None = None,
) -> dict[str, Any]:
    """Measure what a trial's factors ask for and return its ``values``.

    Parameters
    ----------
    factors
        Of a trial of :func:`tsnrepro.experiments.rfc2544.plan.plan`, latency excepted: it is not
        made of load trials.
    settings
        Of the campaign that planned the trial.
    measure
        Runs one load trial on the testbed.
    link_rate_mbps
        Wire rate of the links.
    throughput_pps
        Throughput of the same configuration and payload, for what starts from it; see
        :func:`throughput_of`.

    Returns
    -------
    dict
        ``result`` (of throughput: :func:`record_of_search`; else the result and its load trials).

    Raises
    ------
    ConfigurationError
        The campaign does not have the benchmark, or it cannot be measured by load trials.
    ToolError
        An outcome cannot be, or a search went on for too long.
    RecordError
        A throughput is needed and not known.
    """
    subject = Subject(factors["configuration"], factors["payload_bytes"], link_rate_mbps)
    series = Series(measure, subject, settings.ceiling_s, settings.shortfall_percent / 100)
    part = getattr(settings, factors["benchmark"].replace("-", "_"), None)
    if part is None or factors["benchmark"] == "latency":
        raise ConfigurationError(
            f"benchmark '{factors['benchmark']}' is no part of this campaign's load trials",
            "rfc2544",
        )
    if factors["benchmark"] == "throughput":
        return record_of_search(SEARCHES[factors["method"]](series, part))
    if factors["benchmark"] == "frame-loss":
        procedure = {"downward": frame_loss.downward, "at-loads": frame_loss.at_loads}
        return _record(series, procedure[factors["method"]](series, part))
    if factors["benchmark"] == "back-to-back":
        return _record(series, back_to_back.search(series, part, throughput_pps))
    if throughput_pps is None:
        raise RecordError(
            "system recovery starts from a throughput that was not found",
            f"{subject.configuration}, {subject.payload_bytes} B",
            "Measure throughput for the same configuration and size",
        )
    return _record(series, system_recovery.measure(series, part, throughput_pps))


def _record(series: Series, result: Any) -> dict[str, Any]:
    return {
        "configuration": series.subject.configuration,
        "payload_bytes": series.subject.payload_bytes,
        "link_rate_mbps": series.subject.link_rate_mbps,
        "line_pps": series.subject.line_pps,
        "load_trials": len(series.trials),
        "sending_s": series.sending_s,
        "search_s": series.search_s,
        "result": result.as_record(),
        "trials": [trial.as_record() for trial in series.trials],
    }


def throughput_of(
    documents: Iterable[dict[str, Any]], configuration: str, payload_bytes: int
) -> float | None:
    """Return a throughput in datagrams/s from recorded trials, or None where none is known.

    It is the median over repetitions of the first goal (zero loss) of one method: the first of
    ``PREFERRED_METHODS`` that has an answer.

    Parameters
    ----------
    documents
        Recorded trials with ``status``, ``factors`` and ``values``; other benchmarks' are ignored.
    configuration, payload_bytes
        Of the throughput that is asked for.
    """
    wanted = {
        "benchmark": "throughput",
        "configuration": configuration,
        "payload_bytes": payload_bytes,
    }
    found: dict[str, list[float]] = {}
    for document in documents:
        factors = document["factors"]
        if document["status"] != "measured" or any(
            factors.get(key) != value for key, value in wanted.items()
        ):
            continue
        first = next(iter(document["values"]["results"].values()))
        if first["lower_pps"] is not None:
            found.setdefault(factors["method"], []).append(first["lower_pps"])
    for method in PREFERRED_METHODS:
        if method in found:
            return statistics.median(found[method])
    return None
