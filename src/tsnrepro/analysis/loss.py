"""Loss against offered load: ratios, thresholds, places, and FRER against control."""

from dataclasses import replace

import numpy as np
import pandas as pd

from tsnrepro.analysis.missing import difference, known, mean, shared, total, unknown
from tsnrepro.analysis.results import Results
from tsnrepro.records.tables import drop_column
from tsnrepro.stats.comparisons import difference_of_thresholds, ratio_of_thresholds
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate
from tsnrepro.stats.proportions import loss_percent
from tsnrepro.stats.replication import mean_over_runs
from tsnrepro.stats.thresholds import highest_rate_without_loss, penalised_threshold

CONFIGURATIONS = ("control", "frer")
# Ethernet, IPv4 and UDP headers and the FCS: what makes a payload a frame.
FRAME_OVERHEAD_BYTES = 46
LARGEST_PAYLOAD_BYTES = 1472
LARGEST_FRAME_BYTES = LARGEST_PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES
# RFC 2544, 9.1, without 1280, which the documents leave out: each has its results, known or not.
FRAME_BYTES = (64, 128, 256, 512, 1024, 1518)

PLACES = {
    "listener_socket": (
        "listener socket buffer",
        "listener socket, unread when the program closed it",
    ),
    "talker": ("talker socket", "talker queue"),
}


def places(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the lost datagrams of each trial by place.

    Columns: ``listener_socket``, ``talker``, ``switches``, ``other``, counts of datagrams. With
    two paths a frame dropped in one switch queue is lost only if its copy is dropped too, so
    ``switches`` is what was lost there of the stream, not the sum of dropped copies. A trial whose
    counters were not recorded has no places.
    """
    ending = [drop_column(f"listener {part}") for part in ("reassembly", "network stack")]
    columns = {name: [drop_column(place) for place in kinds] for name, kinds in PLACES.items()}
    needed = [c for those in (*columns.values(), ending) for c in those] + ["lost", "unaccounted"]
    recorded = (
        known(trials, *needed) if {*needed} <= {*trials} else trials.reindex(columns=needed)[:0]
    )
    counted = pd.DataFrame({name: recorded[those].sum(axis=1) for name, those in columns.items()})
    counted["other"] = recorded[ending].sum(axis=1) + recorded["unaccounted"].clip(lower=0)
    counted["switches"] = (recorded["lost"] - counted.sum(axis=1)).clip(lower=0)
    return counted.reindex(trials.index)


def main_payload(trials: pd.DataFrame) -> int:
    """Return the payload of the main sweep: 1472 bytes, or else the largest that was tried."""
    payloads = trials["payload_bytes"]
    if payloads.empty or (payloads == LARGEST_PAYLOAD_BYTES).any():
        return LARGEST_PAYLOAD_BYTES
    return int(payloads.max())


def load_mbps(trials: pd.DataFrame) -> pd.Series:
    """Return the offered load, or the target where a trial does not tell what was offered."""
    return trials["offered_mbps"].fillna(trials["target_mbps"])


def target_mbps(trials: pd.DataFrame) -> pd.Series:
    """Return the target load, or what was offered where a trial does not tell its target."""
    return trials["target_mbps"].fillna(trials["offered_mbps"])


def summary(trials: pd.DataFrame, payload_bytes: int | None = None) -> pd.DataFrame:
    """Return one row a configuration and load: offered load, trials that lost, and loss.

    The rows are those of one payload, that of the main sweep unless another is asked for. Counts
    are missing where not every trial of a row has them.

    The interval of ``loss_percent`` is exact binomial where nothing was lost, and otherwise
    Student's over the repetitions, cut at zero: losses come in bursts, so datagrams are no
    independent draws.
    """
    payload = main_payload(trials) if payload_bytes is None else payload_bytes
    chosen = known(trials[trials["payload_bytes"] == payload], "loss_percent")
    rows = []
    for (configuration, target), group in chosen.groupby(["configuration", target_mbps(chosen)]):
        estimate = loss_over_runs(group)
        rows.append(
            {
                "configuration": configuration,
                "target_mbps": target,
                "offered_mbps": load_mbps(group).mean(),
                "trials": len(group),
                "trials_with_loss": int((group["loss_percent"] > 0).sum()),
                "sent": _sum_of_all(group, "sent"),
                "lost": _sum_of_all(group, "lost"),
                "loss_percent": estimate.value,
                "loss_low_percent": estimate.low,
                "loss_high_percent": estimate.high,
            }
        )
    return pd.DataFrame(rows, columns=SUMMARY_COLUMNS)


SUMMARY_COLUMNS = [
    *("configuration", "target_mbps", "offered_mbps", "trials", "trials_with_loss"),
    *("sent", "lost", "loss_percent", "loss_low_percent", "loss_high_percent"),
]


def _sum_of_all(group: pd.DataFrame, column: str) -> int | None:
    return int(group[column].sum()) if group[column].notna().all() else None


def loss_over_runs(group: pd.DataFrame) -> Estimate:
    """Return the mean loss of a group of trials in percent, with its interval."""
    group = known(group, "loss_percent")
    if group.empty:
        return unknown("%")
    if not (group["loss_percent"] > 0).any():
        if (sent := _sum_of_all(group, "sent")) is not None:
            return loss_percent(0, sent)
        method = "no trial lost, and what was sent was not counted"
        return Estimate(0.0, np.nan, np.nan, DEFAULT_LEVEL, method, len(group), "%")
    estimate = mean_over_runs(group["loss_percent"], unit="%")
    low, high = (min(max(limit, 0.0), 100.0) for limit in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high)


def analyse(trials: pd.DataFrame) -> Results:
    """Return all results of a sweep."""
    results = Results("sweep", trials)
    main = trials[trials["payload_bytes"] == main_payload(trials)]
    _thresholds(results, main)
    payloads = {frame - FRAME_OVERHEAD_BYTES for frame in FRAME_BYTES}
    for payload in sorted(payloads | set(trials["payload_bytes"])):
        _frame_size(results, int(payload), trials[trials["payload_bytes"] == payload])
    _shares(results, trials)
    _totals(results, trials)
    return results


def _thresholds(results: Results, trials: pd.DataFrame) -> None:
    found = {}
    for configuration in CONFIGURATIONS:
        group = known(trials[trials["configuration"] == configuration], "loss_percent")
        group = group[load_mbps(group).notna()]
        lossy = group["loss_percent"] > 0
        tried = len(group) > 0
        found[configuration] = (
            penalised_threshold(load_mbps(group), lossy) if tried else unknown("Mb/s")
        )
        key = f"loss.threshold.{configuration}.mbps"
        results.estimate(key, found[configuration], 0, group["trial"])
        results.value(
            f"loss.highest_clean.{configuration}.mbps",
            highest_rate_without_loss(target_mbps(group), lossy) if tried else None,
            group["trial"],
            unit="Mb/s",
            method="highest load at and below which no trial lost a datagram",
        )
    _compare_thresholds(results, found["frer"], found["control"], trials)


def _compare_thresholds(
    results: Results, frer: Estimate, control: Estimate, trials: pd.DataFrame
) -> None:
    nothing = unknown(method="a threshold is unknown")
    located = frer.has_interval and control.has_interval
    ratio = ratio_of_thresholds(frer, control) if located else nothing
    gap = difference_of_thresholds(frer, control) if located else nothing
    results.estimate("loss.threshold.ratio", ratio, 2, trials["trial"])
    results.estimate("loss.threshold.difference.mbps", gap, 0, trials["trial"])
    verdict = "cannot tell"
    if ratio.low > 1:
        verdict = "frer higher"
    elif ratio.high < 1:
        verdict = "control higher"
    method = "whether the ratio's interval excludes 1"
    results.value("loss.threshold.verdict", verdict, trials["trial"], method=method)


def _frame_size(results: Results, payload: int, trials: pd.DataFrame) -> None:
    """Add the loss at the highest load of one payload, named by its frame size."""
    frame = payload + FRAME_OVERHEAD_BYTES
    targets = target_mbps(trials)
    highest = trials[targets == targets.max()]
    target = float(targets.max()) if len(highest) else None
    name, all_trials = f"loss.frame_{frame}", highest["trial"]
    results.value(f"{name}.target_mbps", target, all_trials, unit="Mb/s", method="configuration")
    of = {c: highest[highest["configuration"] == c] for c in CONFIGURATIONS}
    losses = {configuration: loss_over_runs(group) for configuration, group in of.items()}
    for configuration, group in of.items():
        loss = losses[configuration]
        results.estimate(f"{name}.{configuration}.percent", loss, 3, group["trial"])
        offered = mean(group, "offered_mbps", "Mb/s")
        results.estimate(f"{name}.{configuration}.offered_mbps", offered, 1, group["trial"])
    change = difference(of["frer"], of["control"], "loss_percent", "percentage points")
    if losses["frer"].value == losses["control"].value == 0:
        change = _between_limits(losses["frer"], losses["control"])
    results.estimate(f"{name}.difference.percent", change, 3, all_trials)


def _between_limits(frer: Estimate, control: Estimate) -> Estimate:
    """Return a difference of two losses of zero: what the limits of both leave possible."""
    return replace(
        frer,
        low=-control.high,
        high=frer.high,
        method=f"nothing lost in either; limits: {frer.method}",
        n=frer.n + control.n,
        unit="percentage points",
    )


def _shares(results: Results, trials: pd.DataFrame) -> None:
    groups = {"": trials} | {f".{c}": trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for suffix, group in groups.items():
        counted = places(group)
        # A share of all losses is known only where every trial says where it lost.
        lost = int(group["lost"].sum()) if counted.notna().all(axis=None) else 0
        counts = counted.sum()
        for place in ("listener_socket", "talker", "switches", "other"):
            share = 100 * float(counts[place]) / lost if lost else None
            results.value(
                f"loss.share.{place}{suffix}.percent",
                share,
                group["trial"],
                unit="%",
                digits=2,
                method="share of all lost datagrams",
            )


def _totals(results: Results, trials: pd.DataFrame) -> None:
    for name in ("lost", "sent", "eliminated"):
        counted = known(trials, name)
        results.value(f"loss.{name}.total.count", total(counted, name), counted["trial"])
    counted = known(trials, "unaccounted")
    unaccounted = total(counted.assign(unaccounted=counted["unaccounted"].abs()), "unaccounted")
    results.value("loss.unaccounted.total.count", unaccounted, counted["trial"])
    results.value("loss.trials.count", len(trials), trials["trial"])
    payload = main_payload(trials)
    main = trials[trials["payload_bytes"] == payload]
    shared(results, "loss.duration_s", main, "duration_s", "s")
