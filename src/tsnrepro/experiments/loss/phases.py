"""The sweep in phases of their own length, where the path collapses, and how well results repeat.

The methodology's document sweeps in four phases (5, 10, 30 and 10 s a trial). Trials of different
length are different experiments: in half a minute a rare stall is met six times as often as in
five seconds. So each phase is a series of its own.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.loss.analysis import (
    SWEEP,
    add_highest_clean,
    by_load,
    main_payload,
    phased,
    target_mbps,
    trials_of_objective,
)
from tsnrepro.experiments.loss.path_thresholds import loss_to_program, sweeps_of
from tsnrepro.published.documents import load_table
from tsnrepro.results.estimates import (
    by_repetition,
    count,
    known,
    loss,
    mean,
    recorded,
    shared,
    unknown,
)
from tsnrepro.results.results import Results, key_part
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.replication import spread_over_runs, variation_over_runs
from tsnrepro.stats.thresholds import threshold

_DOCUMENT = "methodology"
# A network that loses at its limit still delivers nearly its limit; the document's collapse is to a
# fifth. Half is far from both.
COLLAPSED_SHARE = 0.5
# What is needed of a trial to know how much of its load was delivered.
_DELIVERED = ("target_mbps", "delivered_mbps")


def published_phases(root: Path | None = None) -> pd.DataFrame:
    """Return the document's phases, one row a load that it tried.

    Columns: ``phase``; ``target_mbps``; ``published_duration_s``; and of loads that it gives a
    result for ``published_loss_percent``, ``published_lost`` (datagrams), ``published_outcome``.
    """
    phases = load_table(_DOCUMENT, "section-2-3-phases", root)[["phase", "duration_s"]]
    loads = load_table(_DOCUMENT, "section-2-3-rates", root)[["phase", "rate_mbps"]]
    found = load_table(_DOCUMENT, "section-2-3-results", root)
    single = found[found["rate_low_mbps"] == found["rate_high_mbps"]]
    single = single[single["phase"].str.startswith("phase ")]
    single = single.assign(phase=single["phase"].str.removeprefix("phase ").astype(int))
    results = single.rename(
        columns={
            "rate_low_mbps": "rate_mbps",
            "loss_low_percent": "published_loss_percent",
            "packets_lost": "published_lost",
            "outcome": "published_outcome",
        }
    )
    kept = [str(name) for name in results if str(name).startswith("published_")]
    table = loads.merge(phases, on="phase").astype({"phase": int, "rate_mbps": float})
    table = table.merge(
        results[["phase", "rate_mbps", *kept]].astype({"rate_mbps": float}),
        on=["phase", "rate_mbps"],
        how="left",
    )
    return table.rename(
        columns={"rate_mbps": "target_mbps", "duration_s": "published_duration_s"}
    ).sort_values(["phase", "target_mbps"], ignore_index=True)


def by_phase(trials: pd.DataFrame, root: Path | None = None) -> pd.DataFrame:
    """Return one row a phase, configuration and load, ours beside the document's.

    Columns as of :func:`tsnrepro.experiments.loss.analysis.by_load`, with ``delivered_mbps``, and
    of :func:`published_phases`. Loads that only one side tried have the other's cells empty.
    """
    chosen = phased(trials)
    table = by_load(chosen, ["phase", "duration_s"])
    places = ["phase", "configuration", "target_mbps"]
    delivered = chosen.groupby(places, as_index=False)["delivered_mbps"].mean()
    ours = table.merge(delivered, on=places, how="left") if len(table) else table
    ours = ours.astype({"phase": "Int64", "target_mbps": float})
    printed = published_phases(root).astype({"phase": "Int64"})
    return ours.merge(printed, on=["phase", "target_mbps"], how="outer").sort_values(
        ["phase", "target_mbps", "configuration"], ignore_index=True
    )


def add(results: Results, trials: pd.DataFrame) -> None:
    """Add the phases, the collapse, the variation by region and the precision of counts."""
    for number, group in phased(trials).groupby("phase"):
        _phase(results, f"loss.phase_{int(str(number))}", group)
    sweep = trials_of_objective(trials, SWEEP)
    _collapse(results, "loss.collapse", sweep[sweep["payload_bytes"] == main_payload(sweep)])
    _variation(results, trials)
    _precision(results, trials)
    _jitter(results, trials)


def _phase(results: Results, name: str, trials: pd.DataFrame) -> None:
    shared(results, f"{name}.duration_s", trials, "duration_s", "s")
    results.value(f"{name}.trials.count", len(trials), trials["trial"])
    path = loss_to_program(trials)
    for configuration in CONFIGURATIONS:
        group = path[path["configuration"] == configuration]
        add_highest_clean(results, f"{name}.highest_clean.{configuration}.mbps", group)
        onset = unknown("Mb/s")
        if len(group):
            onset = threshold(sweeps_of(group, group["loss_percent"] > 0, set()), unit="Mb/s")
        results.estimate(f"{name}.threshold.{configuration}.mbps", onset, 0, group["trial"])
        for rate, of in group.groupby("target_mbps"):
            _load(results, f"{name}.{key_part('rate', float(str(rate)))}.{configuration}", of)
    _collapse(results, f"{name}.collapse", trials)


def _load(results: Results, name: str, trials: pd.DataFrame) -> None:
    own = trials["trial"]
    results.estimate(f"{name}.percent", loss(trials, "loss_percent"), 3, own)
    results.estimate(f"{name}.lost.count", count(trials, "lost"), 0, own)
    for key in ("offered_mbps", "delivered_mbps"):
        results.estimate(f"{name}.{key}", mean(trials, key, "Mb/s"), 1, own)


def _collapse(results: Results, name: str, trials: pd.DataFrame) -> None:
    """Add the load from which on less than half of the target load is delivered."""
    complete = recorded(trials, *_DELIVERED)
    share = 100 * complete["delivered_mbps"] / complete["target_mbps"]
    complete = complete.assign(load_mbps=complete["target_mbps"], share=share)
    for configuration in CONFIGURATIONS:
        group = complete[complete["configuration"] == configuration]
        results.estimate(f"{name}.{configuration}.mbps", _collapse_of(group), 0, group["trial"])
        lowest = float(group["share"].min()) if len(group) else None
        method = "smallest share of the target that a trial delivered"
        key = f"{name}.{configuration}.lowest_share.percent"
        results.value(key, lowest, group["trial"], unit="%", digits=1, method=method)


def _collapse_of(trials: pd.DataFrame) -> Estimate:
    collapsed = trials["share"] < 100 * COLLAPSED_SHARE
    if not len(trials):
        return unknown("Mb/s")
    if not collapsed.any():
        half = f"{100 * COLLAPSED_SHARE:g} %"
        why = f"none of {len(trials)} trials delivered less than {half} of its target"
        return unknown("Mb/s", why)
    # The load is the target: a sender that stalls does not offer it.
    by_target = trials.assign(offered_mbps=trials["target_mbps"])
    found = threshold(sweeps_of(by_target, collapsed, set()), unit="Mb/s")
    return replace(found, method=f"{found.method}; a trial delivers below half of its target")


def _regions(root: Path | None = None) -> Iterator[tuple[str, float, float]]:
    """Yield the document's regions of reproducibility: word, lowest and highest load in Mb/s."""
    table = load_table(_DOCUMENT, "section-3-2-reproducibility", root)
    for row in table.to_dict("records"):
        word = row["row"].replace("-", "_")
        yield word, float(row["rate_low_mbps"]), float(row["rate_high_mbps"])


def _variation(results: Results, trials: pd.DataFrame) -> None:
    """Add how delivered rate and loss vary between runs, in each region of the document.

    Only the scatter is pooled over loads, never the loads themselves, so trials of different
    length are not mixed.
    """
    bursts = partial(spread_over_runs, why="losses come in bursts, which few runs do not tell")
    for region, low, high in _regions():
        inside, where = _repeated_series(trials, low, high)
        inside = loss_to_program(inside)
        for configuration in CONFIGURATIONS:
            group = inside[inside["configuration"] == configuration]
            name = f"loss.variation.{region}.{configuration}"
            for key, column, of in (
                ("delivered.percent", "delivered_mbps", variation_over_runs),
                ("loss.percent", "loss_percent", bursts),
            ):
                found = unknown("%", f"no load of the region was tried more than once, {where}")
                if loads := _repeated_loads(group, column):
                    found = of(loads)
                    found = replace(found, method=f"{found.method}; {where}")
                results.estimate(f"{name}.{key}", found, 3, group["trial"])


def _repeated_series(trials: pd.DataFrame, low: float, high: float) -> tuple[pd.DataFrame, str]:
    """Return the trials that show how results repeat in a region, and a description of them.

    Those of the phases, or of the main sweep where no load of a phase was repeated there: the two
    differ in length, so they never stand together.
    """
    phases = _between(phased(trials), low, high)
    if _repeated_loads(phases, "loss_percent"):
        return phases, "of the phases"
    sweep = trials_of_objective(trials, SWEEP)
    main = sweep[sweep["payload_bytes"] == main_payload(sweep)]
    return _between(main.assign(phase=0), low, high), "of the main sweep"


def _between(trials: pd.DataFrame, low: float, high: float) -> pd.DataFrame:
    targets = target_mbps(trials)
    return trials[(targets >= low) & (targets <= high)]


def _repeated_loads(trials: pd.DataFrame, column: str) -> list[pd.Series]:
    """Return a column by repetition, a series a phase and load that has several."""
    complete = known(trials, column)
    groups = complete.groupby([complete["phase"].astype(int), target_mbps(complete)])
    loads = [by_repetition(group, column) for _, group in groups]
    return [values for values in loads if len(values) > 1]


def _precision(results: Results, trials: pd.DataFrame) -> None:
    """Add the resolution of rates and losses, and how far programs and counters disagree.

    The programs' counts and those of every hop are independent; what these leave unexplained is
    the error of the count, and over the time of sending that of the rate.
    """
    path = loss_to_program(known(trials, "sent", "send_seconds", "unaccounted"))
    path = path[path["sent"] > 0]
    one = path["payload_bytes"] * 8 / path["send_seconds"].astype(float) / 1e6
    strange = path["unaccounted"].astype(float).abs()
    for key, values, unit, digits, method in (
        ("resolution.percent", 100 / path["sent"].astype(float), "%", 4, "one datagram, of"),
        ("resolution.mbps", one, "Mb/s", 4, "one datagram over the time of sending, of"),
        ("accuracy.percent", 100 * strange / path["sent"], "%", 4, _DISAGREE),
        ("accuracy.mbps", strange * one, "Mb/s", 4, f"as a rate, {_DISAGREE}"),
    ):
        largest = float(values.max()) if len(values) else None
        text = f"{method} {len(values)} trials, the largest"
        results.value(
            f"loss.precision.{key}", largest, path["trial"], unit=unit, digits=digits, method=text
        )


def _jitter(results: Results, trials: pd.DataFrame) -> None:
    """Add the jitter that iperf3 smooths over a trial (RFC 3550, 6.4.1), over all loads."""
    sweep = recorded(trials_of_objective(trials, SWEEP), "jitter_ms")
    sweep = sweep[(sweep["payload_bytes"] == main_payload(sweep)) & (sweep["jitter_ms"] > 0)]
    sweep = sweep.assign(jitter_us=1000 * sweep["jitter_ms"].astype(float))
    for configuration in CONFIGURATIONS:
        group = sweep[sweep["configuration"] == configuration]
        found = mean(group, "jitter_us", "us")
        results.estimate(f"loss.jitter.{configuration}.us", found, 1, group["trial"])


_DISAGREE = "programs' counts against the counters of every hop, in"
