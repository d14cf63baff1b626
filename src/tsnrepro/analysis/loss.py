"""Loss against offered load: ratios, thresholds, places, and FRER against control."""

from dataclasses import replace

import numpy as np
import pandas as pd

from tsnrepro.analysis.results import Results
from tsnrepro.records.tables import drop_column
from tsnrepro.stats.comparisons import (
    difference_of_means,
    difference_of_thresholds,
    ratio_of_thresholds,
)
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.proportions import loss_percent
from tsnrepro.stats.replication import mean_over_runs
from tsnrepro.stats.thresholds import highest_rate_without_loss, penalised_threshold

CONFIGURATIONS = ("control", "frer")
# Ethernet, IPv4 and UDP headers and the FCS: what makes a payload a frame.
FRAME_OVERHEAD_BYTES = 46
LARGEST_PAYLOAD_BYTES = 1472
LARGEST_FRAME_BYTES = LARGEST_PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES

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
    ``switches`` is what was lost there of the stream, not the sum of dropped copies.
    """
    counted = pd.DataFrame(
        {
            name: trials[[drop_column(place) for place in kinds]].sum(axis=1)
            for name, kinds in PLACES.items()
        }
    )
    ending = [drop_column(f"listener {part}") for part in ("reassembly", "network stack")]
    counted["other"] = trials[ending].sum(axis=1) + trials["unaccounted"].clip(lower=0)
    counted["switches"] = (trials["lost"] - counted.sum(axis=1)).clip(lower=0)
    return counted


def summary(trials: pd.DataFrame, payload_bytes: int = LARGEST_PAYLOAD_BYTES) -> pd.DataFrame:
    """Return one row a configuration and load: offered load, trials that lost, and loss.

    The interval of ``loss_percent`` is exact binomial where nothing was lost, and otherwise
    Student's over the repetitions, cut at zero: losses come in bursts, so datagrams are no
    independent draws.
    """
    chosen = trials[trials["payload_bytes"] == payload_bytes]
    rows = []
    for (configuration, target), group in chosen.groupby(["configuration", "target_mbps"]):
        estimate = loss_over_runs(group)
        rows.append(
            {
                "configuration": configuration,
                "target_mbps": target,
                "offered_mbps": group["offered_mbps"].mean(),
                "trials": len(group),
                "trials_with_loss": int((group["lost"] > 0).sum()),
                "sent": int(group["sent"].sum()),
                "lost": int(group["lost"].sum()),
                "loss_percent": estimate.value,
                "loss_low_percent": estimate.low,
                "loss_high_percent": estimate.high,
            }
        )
    return pd.DataFrame(rows)


def loss_over_runs(group: pd.DataFrame) -> Estimate:
    """Return the mean loss of a group of trials in percent, with its interval."""
    if not group["lost"].any():
        return loss_percent(0, int(group["sent"].sum()))
    estimate = mean_over_runs(group["loss_percent"], unit="%")
    low, high = (min(max(limit, 0.0), 100.0) for limit in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high)


def analyse(trials: pd.DataFrame) -> Results:
    """Return all results of a sweep."""
    results = Results("sweep", trials)
    _thresholds(results, trials[trials["payload_bytes"] == LARGEST_PAYLOAD_BYTES])
    for payload in sorted(trials["payload_bytes"].unique()):
        _frame_size(results, int(payload), trials[trials["payload_bytes"] == payload])
    _shares(results, trials)
    _totals(results, trials)
    return results


def _thresholds(results: Results, trials: pd.DataFrame) -> None:
    found = {}
    for configuration in CONFIGURATIONS:
        group = trials[trials["configuration"] == configuration]
        lossy = group["lost"] > 0
        found[configuration] = penalised_threshold(group["offered_mbps"], lossy)
        key = f"loss.threshold.{configuration}.mbps"
        results.estimate(key, found[configuration], 0, group["trial"])
        results.value(
            f"loss.highest_clean.{configuration}.mbps",
            highest_rate_without_loss(group["target_mbps"], lossy),
            group["trial"],
            unit="Mb/s",
            method="highest load at and below which no trial lost a datagram",
        )
    _compare_thresholds(results, found["frer"], found["control"], trials)


def _compare_thresholds(
    results: Results, frer: Estimate, control: Estimate, trials: pd.DataFrame
) -> None:
    nothing = Estimate(np.nan, np.nan, np.nan, 0.95, "a threshold is unknown", len(trials))
    known = frer.has_interval and control.has_interval
    ratio = ratio_of_thresholds(frer, control) if known else nothing
    difference = difference_of_thresholds(frer, control) if known else nothing
    results.estimate("loss.threshold.ratio", ratio, 2, trials["trial"])
    results.estimate("loss.threshold.difference.mbps", difference, 0, trials["trial"])
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
    highest = trials[trials["target_mbps"] == trials["target_mbps"].max()]
    target = float(highest["target_mbps"].iloc[0])
    name, all_trials = f"loss.frame_{frame}", highest["trial"]
    results.value(f"{name}.target_mbps", target, all_trials, unit="Mb/s", method="configuration")
    of = {c: highest[highest["configuration"] == c] for c in CONFIGURATIONS}
    for configuration, group in of.items():
        results.estimate(
            f"{name}.{configuration}.percent", loss_over_runs(group), 3, group["trial"]
        )
        offered = mean_over_runs(group["offered_mbps"], unit="Mb/s")
        results.estimate(f"{name}.{configuration}.offered_mbps", offered, 1, group["trial"])
    difference = difference_of_means(
        of["frer"]["loss_percent"], of["control"]["loss_percent"], unit="percentage points"
    )
    results.estimate(f"{name}.difference.percent", difference.estimate, 3, all_trials)


def _shares(results: Results, trials: pd.DataFrame) -> None:
    groups = {"": trials} | {f".{c}": trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for suffix, group in groups.items():
        counts = places(group).sum()
        lost = int(group["lost"].sum())
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
        results.value(f"loss.{name}.total.count", int(trials[name].sum()), trials["trial"])
    unaccounted = int(trials["unaccounted"].abs().sum())
    results.value("loss.unaccounted.total.count", unaccounted, trials["trial"])
    results.value("loss.trials.count", len(trials), trials["trial"])
    largest = trials[trials["payload_bytes"] == LARGEST_PAYLOAD_BYTES]
    duration = float(largest["duration_s"].iloc[0])
    results.value("loss.duration_s", duration, largest["trial"], unit="s", method="configuration")
