"""RFC 2544 benchmarks: tables from the recorded trials, and their results.

Rates in datagrams a second stand beside payload, frame and wire rates; sizes are payloads, with
the frame size (with FCS) where the campaign has one.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.common.errors import RecordError
from tsnrepro.common.repository import resolve_path
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.rfc2544 import rates
from tsnrepro.experiments.rfc2544.loads import (
    NARROW_SHARE,
    add_loads,
    add_search,
    bracket_mbps,
    efficiency,
    loss_of_offered,
    offered,
)
from tsnrepro.experiments.rfc2544.plan import Factors
from tsnrepro.experiments.rfc2544.settings import (
    DOCUMENT_PAYLOADS_BYTES,
    FRAME_BYTES,
    LATENCY_REPETITIONS,
)
from tsnrepro.published import documents as published
from tsnrepro.results.estimates import count, difference, mean, mean_of_all, shared, unknown
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.proportions import share

_EXPERIMENT = "rfc2544"
# Goals of the searches: their part of a key, and their label in tables and figures.
ANSWERS = {
    "binary_search": "bisection",
    "zero_loss": "MLRsearch, zero loss",
    "half_percent": "MLRsearch, 0.5 %",
    "rfc2544": "MLRsearch, RFC 2544",
    "systematic": "sweep, none lost below",
}
_SIZE = ["configuration", "frame_bytes", "payload_bytes"]
THROUGHPUT_COLUMNS = [
    *("trial", "sha256", "repetition", "method", "generator", "goal", "configuration"),
    *("frame_bytes", "payload_bytes", "lower_pps", "upper_pps", "offered_payload_mbps"),
    *("offered_frame_mbps", "offered_wire_mbps", "delivered_payload_mbps", "limited_by"),
    *("threshold_pps", "threshold_low_pps", "threshold_high_pps"),
    *("ceiling_pps", "line_pps", "path_pps"),
    *("load_trials", "iterations", "bracket_mbps", "converged", "sending_s", "search_s"),
    *("compliant", "reasons"),
]
LOSS_COLUMNS = [
    *("trial", "sha256", "repetition", "procedure", "configuration", "frame_bytes"),
    *("payload_bytes", "asked_percent", "offered_percent", "asked_payload_mbps"),
    *("offered_payload_mbps", "offered_frame_mbps", "offered_wire_mbps", "offered", "lost"),
    *("loss_percent", "generator_limited", "compliant", "reasons"),
]
_BURST_COLUMNS = [
    *("trial", "sha256", "repetition", "configuration", "frame_bytes", "payload_bytes"),
    "searches",
    *("mean_burst", "sd_burst", "min_burst", "max_burst", "unbounded", "achieved_pps"),
    *("throughput_pps", "implied_buffer_us", "corrected_buffer_us", "buffer_datagrams"),
    *("compliant", "reasons"),
]
_RECOVERY_COLUMNS = [
    *("trial", "sha256", "repetition", "configuration", "frame_bytes", "payload_bytes"),
    *("overload_pps", "lost", "recovery_ms", "at_least", "compliant", "reasons"),
]
_LATENCY_COLUMNS = [
    *("trial", "sha256", "repetition", "configuration", "frame_bytes", "payload_bytes", "load"),
    *("quantity", "background_pps", "samples", "mean_us", "sd_us", "min_us", "p50_us", "p90_us"),
    *("p99_us", "p99_9_us", "max_us", "compliant", "reasons"),
]


def trials_of(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return ``trial`` and ``sha256`` of all trials: what results are traced to."""
    rows = [{name: d[name] for name in ("trial", "sha256")} for d in documents]
    return pd.DataFrame(rows, columns=["trial", "sha256"])


def link_rate_mbps(documents: Iterable[dict[str, Any]]) -> float:
    """Return the wire rate of the links that the load trials ran on.

    Those of frame loss may have links of their own, and count only where there are no others.

    Raises
    ------
    RecordError
        No trial has it (latency's do not), or they differ: one figure cannot show both.
    """
    found = set(_link_rates(documents)["mbps"])
    if len(found) != 1:
        raise RecordError(f"the load trials name {len(found)} link rates: {sorted(found)}")
    return found.pop()


def _link_rates(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return trials and the wire rate of their links, without frame loss if there are others."""
    named = [d for d in documents if "link_rate_mbps" in d["values"]]
    others = [d for d in named if d["factors"]["benchmark"] != "frame-loss"]
    rows = [{"trial": d["trial"], "mbps": d["values"]["link_rate_mbps"]} for d in others or named]
    return pd.DataFrame(rows, columns=["trial", "mbps"]).astype({"mbps": float})


def _of(documents: Iterable[dict[str, Any]], benchmark: str) -> Iterable[dict[str, Any]]:
    return (d for d in documents if d["factors"]["benchmark"] == benchmark)


def _common(document: dict[str, Any]) -> dict[str, Any]:
    factors = document["factors"]
    names = ("configuration", "frame_bytes", "payload_bytes")
    return {name: document[name] for name in ("trial", "sha256", "repetition")} | {
        name: factors[name] for name in names
    }


def _table(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(frame_bytes=table["frame_bytes"].astype("Int64"))


def _judged(result: dict[str, Any]) -> dict[str, Any]:
    return {"compliant": result["compliant"], "reasons": "; ".join(result["reasons"])}


def throughput_table(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return the throughputs: one row a trial and goal, columns ``THROUGHPUT_COLUMNS``.

    ``lower_pps`` is the answer; ``threshold_*`` the other one of the sweep. ``search_s`` counts
    set-up and waiting, and of a search with several goals it is that of all of them.
    """
    rows = []
    for document in _of(documents, "throughput"):
        values = document["values"]
        for goal, result in values["results"].items():
            delivered = result["delivered"] or {}
            threshold = result["threshold"] or {}
            rows.append(
                _common(document)
                | {name: result.get(name) for name in ("method", "lower_pps", "upper_pps")}
                | {name: result[name] for name in ("ceiling_pps", "line_pps", "path_pps")}
                | _offered_of_line(result)
                | {name: values[name] for name in ("load_trials", "sending_s", "search_s")}
                | _ended(document, result)
                | {
                    "goal": goal,
                    "generator": _generator(document),
                    "delivered_payload_mbps": delivered.get("payload_mbps"),
                    "limited_by": result["limited_by"],
                    "threshold_pps": threshold.get("value"),
                    "threshold_low_pps": threshold.get("low"),
                    "threshold_high_pps": threshold.get("high"),
                }
                | _judged(result)
            )
    return _floats(_table(rows, THROUGHPUT_COLUMNS))


def _offered_of_line(result: dict[str, Any]) -> dict[str, float | None]:
    """Return the offered rates by layer; what a stalled talker then hands over faster waits."""
    rate = result["offered"] or {}
    of_line = min(1.0, result["line_pps"] / result["offered_pps"]) if rate else 1.0
    return {f"offered_{at}_mbps": rate[f"{at}_mbps"] * of_line if rate else None for at in _LAYERS}


def _ended(document: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return how many loads a search tried, and how far it narrowed its answer down.

    Older records do not list their load trials.
    """
    tried, link_mbps = document["values"].get("trials"), document["values"]["link_rate_mbps"]
    bracket = bracket_mbps(
        document["factors"]["payload_bytes"],
        *(result[name] for name in ("lower_pps", "upper_pps", "ceiling_pps")),
    )
    return {
        "iterations": None if tried is None else sum(t["purpose"] == "search" for t in tried),
        "bracket_mbps": bracket,
        "converged": bracket <= NARROW_SHARE * link_mbps,
    }


_LAYERS = ("payload", "frame", "wire")


def _floats(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with rates that may be missing as numbers."""
    numbers = [name for name in table if str(name).endswith(("_pps", "_mbps", "_us", "_ms"))]
    return table.astype(dict.fromkeys(numbers, float))


def loss_table(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return the frame loss: one row a load trial, columns ``LOSS_COLUMNS``.

    Percentages of load are relative to the line's limit for the size; a target above it
    stands beside what was offered. Results and figures leave points out that are
    ``generator_limited``.
    """
    rows = []
    for document in _of(documents, "frame-loss"):
        result = document["values"]["result"]
        head = _common(document) | {"procedure": result["procedure"]} | _judged(result)
        rows += [head | point for point in result["points"]]
    return _table(rows, LOSS_COLUMNS)


def burst_table(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return the back-to-back bursts, in datagrams: one row a trial, columns ``_BURST_COLUMNS``."""
    rows = []
    for document in _of(documents, "back-to-back"):
        result = document["values"]["result"]
        buffer = result["buffer"] or {}
        rows.append(
            _common(document)
            | {name: result[name] for name in ("unbounded", "achieved_pps", "throughput_pps")}
            | {
                "searches": len(result["bursts"]),
                "mean_burst": result["mean"],
                "sd_burst": result["sd"],
                "min_burst": result["low"],
                "max_burst": result["high"],
                "implied_buffer_us": _micro(buffer.get("implied_s")),
                "corrected_buffer_us": _micro(buffer.get("corrected_s")),
                "buffer_datagrams": buffer.get("datagrams"),
            }
            | _judged(result)
        )
    table = _floats(_table(rows, _BURST_COLUMNS))
    return table.astype({"buffer_datagrams": float, "sd_burst": float})


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def recovery_table(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return the system recoveries: one row a trial, columns ``_RECOVERY_COLUMNS``."""
    rows = []
    for document in _of(documents, "system-recovery"):
        result = document["values"]["result"]
        recovery = result["recovery_s"]
        rows.append(
            _common(document)
            | {name: result[name] for name in ("overload_pps", "lost")}
            | {"recovery_ms": None if recovery is None else recovery * 1e3}
            | {"at_least": bool(result.get("at_least"))}
            | _judged(result)
        )
    return _floats(_table(rows, _RECOVERY_COLUMNS))


def latency_table(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return the latencies: one row a trial and quantity, columns ``_LATENCY_COLUMNS``.

    A quantity that could not be measured (no throughput to load with, clocks that do not agree) has
    no numbers, and its reasons.
    """
    rows = []
    for document in _of(documents, "latency"):
        values = document["values"]
        head = _common(document) | {
            name: values["case"][name] for name in ("load", "background_pps")
        }
        rows += [
            head | {"quantity": name} | (found or {}) | _judged(values)
            for name, found in values["latencies"].items()
        ]
    table = _floats(_table(rows, _LATENCY_COLUMNS)).astype({"samples": "Int64"})
    case = ["configuration", "payload_bytes", "load", "quantity"]
    repetitions = table.groupby(case)["repetition"].transform("nunique")
    few = repetitions < LATENCY_REPETITIONS
    reason = f" repetitions, not {LATENCY_REPETITIONS} (RFC 2544, 26.2)"
    reasons = (table["reasons"] + "; " + repetitions.astype(str) + reason).str.removeprefix("; ")
    return table.assign(
        compliant=table["compliant"].astype(bool) & ~few,
        reasons=table["reasons"].mask(few, reasons),
    )


def published_throughput() -> pd.DataFrame:
    """Return what two documents print as throughput, with the line's limits by layer.

    Columns: ``document``; ``printed_size_bytes``; ``payload_bytes``, which is the printed size for
    fail-operational (its counts show payloads) and the methodology's own list for the other;
    ``zero_loss_mbps`` as printed; ``zero_loss_pps``, what that is for the payload.
    """
    operational = published.load_table("frer-fail-operational", "table-7a")
    method = published.load_table("methodology", "section-2-2-results")
    sizes = published.load_table("methodology", "section-2-2-sizes")
    method = method.merge(sizes[["frame_size_bytes", "payload_bytes"]], on="frame_size_bytes")
    operational = operational.assign(payload_bytes=operational["frame_size_bytes"])
    parts = [
        part.assign(document=document)
        for document, part in (("frer-fail-operational", operational), ("methodology", method))
    ]
    table = pd.concat(parts, ignore_index=True).rename(
        columns={"frame_size_bytes": "printed_size_bytes"}
    )
    pps = [
        rates.pps_of_payload_rate(int(payload), rate)
        for payload, rate in zip(table["payload_bytes"], table["zero_loss_mbps"], strict=True)
    ]
    names = ["document", "printed_size_bytes", "payload_bytes", "zero_loss_mbps"]
    return table[names].assign(zero_loss_pps=pps)


def limits_table(payloads_bytes: Iterable[int], link_rate_mbps: float = 1000.0) -> pd.DataFrame:
    """Return the line's limits by payload: datagrams/s, and Mb/s of payload and frames.

    ``plain`` is a line without tags (the talker's and the listener's), ``tagged`` a member path.
    """
    rows = []
    for payload in sorted(set(payloads_bytes)):
        row: dict[str, float] = {"payload_bytes": payload}
        for name, tagged in (("plain", False), ("tagged", True)):
            pps = rates.limit_pps(payload, link_rate_mbps, tagged=tagged)
            at = rates.at_layers(payload, pps, tagged=tagged)
            row |= {
                f"{name}_pps": pps,
                f"{name}_payload_mbps": at.payload_mbps,
                f"{name}_frame_mbps": at.frame_mbps,
            }
        rows.append(row)
    return pd.DataFrame(rows)


def throughput_beside_published(
    throughput: pd.DataFrame, link_rate_mbps: float = 1000.0
) -> pd.DataFrame:
    """Return throughput by payload and method beside the documents' and the line's limits.

    One row a payload; columns are ``payload_bytes``, ``frame_bytes``, the limits of
    :func:`limits_table`, each ``<goal>_<configuration>_mbps`` (payload rate, mean over
    repetitions), ``<document>_mbps`` where one printed a value for that payload, and
    ``binary_search_generator``, who sent in the search that the documents ran too.
    """
    means = throughput.pivot_table(
        index="payload_bytes",
        columns=["goal", "configuration"],
        values="offered_payload_mbps",
        aggfunc="mean",
    )
    means.columns = ["_".join([*map(str, column), "mbps"]) for column in means.columns]
    printed = published_throughput().pivot_table(
        index="payload_bytes", columns="document", values="zero_loss_mbps"
    )
    printed.columns = [f"{str(name).replace('-', '_')}_mbps" for name in printed.columns]
    frames = throughput.groupby("payload_bytes")["frame_bytes"].max()
    bisections = throughput[throughput["goal"] == "binary_search"]
    senders = bisections.groupby("payload_bytes")["generator"].agg(_joined)
    limits = limits_table(throughput["payload_bytes"], link_rate_mbps)
    joined = limits.set_index("payload_bytes") if len(limits) else pd.DataFrame()
    joined = joined.join([means, printed.reindex(joined.index), frames])
    return joined.join(senders.rename("binary_search_generator")).reset_index()


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def analyse(documents: list[dict[str, Any]]) -> Results:
    """Return all results of a run but accuracy's: see :func:`add_accuracy`."""
    trials = trials_of(documents)
    results = Results(_EXPERIMENT, trials)
    throughput = throughput_table(documents)
    for frame in FRAME_BYTES:
        _throughput(results, f"frame_{frame}", throughput[throughput["frame_bytes"] == frame])
    as_payload = throughput[throughput["frame_bytes"].isna()]
    for payload in DOCUMENT_PAYLOADS_BYTES:
        chosen = as_payload[as_payload["payload_bytes"] == payload]
        _throughput(results, f"payload_{payload}", chosen)
    bursts, recoveries = burst_table(documents), recovery_table(documents)
    losses, latencies = loss_table(documents), latency_table(documents)
    for frame in FRAME_BYTES:
        for configuration in CONFIGURATIONS:
            place = (frame, configuration)
            _loss(results, *place, _at(losses, *place))
            _buffer(results, *place, _at(bursts, *place))
            _recovery(results, *place, _at(recoveries, *place))
            _latency(results, *place, _at(latencies, *place))
    add_loads(results, losses, throughput)
    _lengths(results, documents)
    _link_rate(results, documents)
    results.value(f"{_EXPERIMENT}.trials.count", len(trials), trials["trial"])
    judged = pd.concat(
        [t[["trial", "compliant"]] for t in (throughput, losses, bursts, recoveries, latencies)]
    )
    compliant = judged.groupby("trial")["compliant"].all()
    results.value(
        f"{_EXPERIMENT}.compliant.count",
        int(compliant.sum()),
        trials["trial"],
        method="trials that are RFC 2544's in every respect",
    )
    return results


def _link_rate(results: Results, documents: list[dict[str, Any]]) -> None:
    """Add the wire rate of the links, and of those of frame loss; of several there is none."""
    for name, chosen in (("", documents), (".frame_loss", _of(documents, "frame-loss"))):
        key = f"{_EXPERIMENT}{name}.link_rate.mbps"
        shared(results, key, _link_rates(chosen), "mbps", "Mb/s")


def _lengths(results: Results, documents: list[dict[str, Any]]) -> None:
    """Add how long the load trials of two benchmarks were, and how often one size was searched."""
    bisections = [
        d for d in _of(documents, "throughput") if d["factors"]["method"] == "binary-search"
    ]
    for name, chosen in (
        ("throughput.binary_search", bisections),
        ("frame_loss", _of(documents, "frame-loss")),
    ):
        rows = [_common(d) | {"duration_s": d["factors"]["duration_s"]} for d in chosen]
        table = _table(rows, ["trial", *_SIZE, "duration_s"]).astype({"duration_s": float})
        key = f"{_EXPERIMENT}.{name}.duration_s"
        shared(results, key, table, "duration_s", "s")
    table = _table([_common(d) for d in bisections], ["trial", *_SIZE])
    number = table.groupby(_SIZE, dropna=False)["trial"].transform("size")
    key = f"{_EXPERIMENT}.throughput.binary_search.searches.count"
    shared(results, key, table.assign(searches=number), "searches", "")
    results.value(
        f"{_EXPERIMENT}.throughput.binary_search.generator",
        _joined(map(_generator, bisections)) or None,
        table["trial"],
        method="configuration",
    )


def _generator(document: dict[str, Any]) -> str:
    return Factors.read(document["factors"]).generator


def _at(table: pd.DataFrame, frame: int, configuration: str) -> pd.DataFrame:
    chosen = table["frame_bytes"].eq(frame).fillna(False).astype(bool)
    return table[chosen & (table["configuration"] == configuration)]


def _throughput(results: Results, size: str, table: pd.DataFrame) -> None:
    for goal in ANSWERS:
        found = table[table["goal"] == goal]
        of = {c: found[found["configuration"] == c] for c in CONFIGURATIONS}
        name = f"{_EXPERIMENT}.throughput.{goal}.{size}"
        for configuration, group in of.items():
            key, own = f"{name}.{configuration}", group["trial"].unique()
            limit = _line_limit(group)
            for layer in _LAYERS:
                ceiling = getattr(limit, f"{layer}_mbps") if limit else None
                rate = _of_searches(group, f"offered_{layer}_mbps", "Mb/s", ceiling)
                results.estimate(f"{key}.{layer}_mbps", rate, 1, own)
            highest = limit.datagrams_per_s if limit else None
            pps = _of_searches(group, "lower_pps", "1/s", highest)
            results.estimate(f"{key}.pps", pps, 0, own)
            payload = limit and limit.payload_mbps
            own_rate = _of_searches(group, "offered_payload_mbps", "Mb/s", payload)
            share = efficiency(own_rate, limit and limit.payload_mbps)
            results.estimate(f"{key}.efficiency_percent", share, 1, own)
            results.value(
                f"{key}.path_limit_percent",
                float(100 * (group["path_pps"] / group["line_pps"]).max()) if len(group) else None,
                own,
                unit="%",
                digits=1,
                method="what the member paths carry of the size, of what the talker's line does",
            )
            add_search(results, key, group)
            results.estimate(f"{key}.search_s", mean(group, "search_s", "s"), 0, own)
            results.estimate(f"{key}.load_trials.count", count(group, "load_trials"), 0, own)
            limits = _joined(group["limited_by"]) or None
            method = "what keeps the throughput from being higher"
            results.value(f"{key}.limited_by", limits, own, method=method)
        change = unknown("Mb/s", "a search found no load that passed")
        if found["lower_pps"].notna().all():
            change = difference(of["frer"], of["control"], "offered_payload_mbps", "Mb/s")
        results.estimate(f"{name}.difference.payload_mbps", change, 1, found["trial"].unique())
    _threshold(results, size, table)


def _of_searches(table: pd.DataFrame, column: str, unit: str, ceiling: float | None) -> Estimate:
    lacking = table["lower_pps"].isna(), "searches found no load that passed"
    return mean_of_all(table, column, unit, lacking, ceiling)


def _line_limit(throughputs: pd.DataFrame) -> rates.Rates | None:
    """Return what the talker's line carries of the one payload of some throughputs."""
    if throughputs.empty:
        return None
    return rates.at_layers(int(throughputs["payload_bytes"].iloc[0]), throughputs["line_pps"].max())


def _threshold(results: Results, size: str, table: pd.DataFrame) -> None:
    found = table[table["goal"] == "systematic"]
    for configuration in CONFIGURATIONS:
        group = found[found["configuration"] == configuration]
        mbps = group["threshold_pps"] * group["payload_bytes"] * 8 / 1e6
        limit = _line_limit(group)
        ceiling = limit.payload_mbps if limit else None
        beyond = mbps.isna(), "lie beyond the loads tried"
        estimate = mean_of_all(group.assign(mbps=mbps), "mbps", "Mb/s", beyond, ceiling)
        key = f"{_EXPERIMENT}.throughput.threshold.{size}.{configuration}.payload_mbps"
        results.estimate(key, estimate, 1, group["trial"].unique())


def _loss(results: Results, frame: int, configuration: str, table: pd.DataFrame) -> None:
    full = table[(table["procedure"] == "downward") & (table["asked_percent"].round(6) == 100)]
    name = f"{_EXPERIMENT}.frame_loss.frame_{frame}.{configuration}"
    own = full["trial"].unique()
    results.estimate(f"{name}.full_load.percent", loss_of_offered(full), 3, own)
    share = mean(offered(full), "offered_percent", "%", 100.0)
    results.estimate(f"{name}.full_load.offered_percent", share, 1, own)


def _buffer(results: Results, frame: int, configuration: str, table: pd.DataFrame) -> None:
    name = f"{_EXPERIMENT}.back_to_back.frame_{frame}.{configuration}"
    for column, key, unit, digits in (
        ("mean_burst", "burst.count", "", 0),
        ("corrected_buffer_us", "buffer_us", "µs", 0),
        ("buffer_datagrams", "buffer.count", "", 0),
    ):
        beyond = table["unbounded"] > 0, "trials passed the longest burst: the buffer is larger"
        burst = mean_of_all(table, column, unit, beyond)
        results.estimate(f"{name}.{key}", burst, digits, table["trial"])


def _recovery(results: Results, frame: int, configuration: str, table: pd.DataFrame) -> None:
    key = f"{_EXPERIMENT}.system_recovery.frame_{frame}.{configuration}.ms"
    which = table["at_least"].astype(bool) | table["recovery_ms"].isna()
    lacking = which, "trials lost to their end, or lost nothing under overload"
    recovery = mean_of_all(table, "recovery_ms", "ms", lacking)
    results.estimate(key, recovery, 1, table["trial"])


def _latency(results: Results, frame: int, configuration: str, table: pd.DataFrame) -> None:
    for load in ("idle", "throughput"):
        for quantity in ("half_round_trip", "round_trip", "one_way"):
            chosen = table[(table["load"] == load) & (table["quantity"] == quantity)]
            name = f"{_EXPERIMENT}.latency.frame_{frame}.{configuration}.{load}.{quantity}"
            for statistic in ("mean", "p50", "p99"):
                estimate = mean(chosen, f"{statistic}_us", "µs")
                results.estimate(f"{name}.{statistic}_us", estimate, 1, chosen["trial"])


def load_accuracy(path: str | Path) -> pd.DataFrame:
    """Return the table of searches for a known truth that ``tsnrepro study accuracy`` wrote.

    A relative path counts from the repository's root where the working directory does not have it.

    Raises
    ------
    RecordError
        There is no such table.
    """
    found = resolve_path(path)
    if not found.is_file():
        raise RecordError(
            "the searches for a known truth were not computed yet",
            str(path),
            f"Run: tsnrepro study accuracy {path}",
        )
    return pd.read_csv(found)


def summarise_accuracy(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a method, answer and kind: the share within the tolerance, and the cost.

    ``within_low_percent`` and ``within_high_percent`` are the exact binomial limits (Clopper and
    Pearson) at 95 %; ``ratio`` columns are of result to truth, over the runs with an answer.
    """
    rows = table.groupby(["method", "answer", "stalls"], sort=False, as_index=False).agg(
        runs=("run", "size"),
        within=("within", "sum"),
        ratio_median=("ratio", "median"),
        ratio_min=("ratio", "min"),
        ratio_max=("ratio", "max"),
        load_trials=("load_trials", "mean"),
        sending_s=("sending_s", "mean"),
        search_s=("search_s", "mean"),
    )
    shares = [share(k, n).scaled(100.0, "%") for k, n in rows[["within", "runs"]].to_numpy()]
    after = list(rows).index("within") + 1
    for name, limit in (("high_", "high"), ("low_", "low"), ("", "value")):
        rows.insert(after, f"within_{name}percent", [getattr(found, limit) for found in shares])
    return rows


def add_accuracy(results: Results, accuracy: pd.DataFrame) -> None:
    """Add how often each search landed on the model's truth, from ``run_accuracy``'s table.

    Simulated: no trial stands behind these.
    """
    for (method, answer, stalls), group in accuracy.groupby(["method", "answer", "stalls"]):
        search = f"{str(method).replace('-', '_')}.{answer}" if method != answer else str(answer)
        name = f"{_EXPERIMENT}.accuracy.{search}.{'stalls' if stalls else 'calm'}"
        found = share(int(group["within"].sum()), len(group)).scaled(100.0, "%")
        found = replace(found, method=f"{found.method} on the model, whose truth is known")
        results.estimate(f"{name}.within_percent", found, 0, [])
        results.value(
            f"{name}.median_ratio_percent",
            float(100 * group["ratio"].median()),
            [],
            unit="%",
            digits=1,
            method="median of result over truth, on the model",
        )
