"""Failure: what a stream lost in each scenario, FRER beside control, and when."""

from typing import Any

import pandas as pd

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.results.estimates import column_of, count, mean, shared, total
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import DEFAULT_LEVEL
from tsnrepro.stats.proportions import upper_bound_when_none_lost

_QUANTITIES = {
    "lost": ("1", 0),
    "duplicated": ("1", 0),
    "reordered": ("1", 0),
    "longest_silence_ms": ("ms", 1),
    "alarms": ("1", 0),
}
FAILOVER = "failover"
# What records of former versions do not have.
_LATER = ("as_long_percent", "as_long_windows_percent", "sent_while_cut")


def prepared(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with their variant's name and the longest silence, at the end included."""
    delay = trials["delay_ms"].map(lambda ms: "" if pd.isna(ms) else f" {ms:g} ms")
    silence = trials[["longest_gap_ms", "silent_at_end_ms"]].max(axis=1)
    return trials.assign(variant=trials["scenario"] + delay, longest_silence_ms=silence)


def analyse(trials: pd.DataFrame) -> Results:
    """Return, by scenario and configuration, what was lost, repeated, out of order and silent."""
    results = Results("failure", trials)
    table = prepared(trials)
    for (variant, configuration), group in table.groupby(["variant", "configuration"]):
        for quantity, (unit, digits) in _QUANTITIES.items():
            key = f"failure.{_word(variant)}.{configuration}.{quantity}"
            found = count(group, quantity) if unit == "1" else mean(group, quantity, unit)
            results.estimate(key, found, digits, group["trial"])
    for variant, group in table[table["delay_ms"].notna()].groupby("variant"):
        shared(results, f"failure.{_word(variant)}.delay.ms", group, "delay_ms", "ms")
    _failover(results, trials[trials["scenario"] == FAILOVER])
    results.value("failure.trials.count", len(trials), trials["trial"])
    return results


def _word(variant: Any) -> str:
    """Return a variant as a word of a key."""
    return str(variant).replace("-", "_").replace(" ", "_").replace(".", "_")


def _failover(results: Results, trials: pd.DataFrame) -> None:
    """Add what a path's cut under load did to the rate and the gaps at the listener."""
    if trials.empty:
        return
    name = f"failure.{FAILOVER}"
    loads = trials.assign(
        **{name: column_of(trials, name).astype(float) for name in _LATER},
        target=trials["rate_pps"] * trials["payload_bytes"] * 8 / 1e6,
        buffer_mb=trials["receive_buffer_bytes"].astype(float) / 1e6,
    )
    shared(results, f"{name}.target.mbps", loads, "target", "Mb/s")
    shared(results, f"{name}.payload_bytes", loads, "payload_bytes", "bytes")
    shared(results, f"{name}.duration_s", loads, "duration_s", "s")
    shared(results, f"{name}.receive_buffer.mb", loads, "buffer_mb", "MB")
    for configuration in CONFIGURATIONS:
        group = loads[loads["configuration"] == configuration]
        _of_failover(results, f"{name}.{configuration}", group)


def _of_failover(results: Results, name: str, group: pd.DataFrame) -> None:
    names = group["trial"]
    results.value(f"{name}.trials.count", len(group), names)
    offered = group.assign(mbps=group["achieved_pps"] * group["payload_bytes"] * 8 / 1e6)
    results.estimate(f"{name}.offered.mbps", mean(offered, "mbps", "Mb/s"), 1, names)
    for phase in ("before", "during", "after"):
        rate = mean(group, f"{phase}_mbps", "Mb/s")
        results.estimate(f"{name}.{phase}.mbps", rate, 1, names)
    share = group.assign(share=100 * group["during_mbps"] / group["before_mbps"])
    results.estimate(f"{name}.during_share.percent", mean(share, "share", "%"), 1, names)
    _gap(results, name, group)
    _loss(results, name, group)


def _gap(results: Results, name: str, group: pd.DataFrame) -> None:
    """Add how long the gap at the cut is, among those that the hosts make elsewhere."""
    names = group["trial"]
    results.estimate(f"{name}.gap.ms", mean(group, "recovery_ms", "ms"), 2, names)
    results.estimate(f"{name}.elsewhere.ms", mean(group, "elsewhere_ms", "ms"), 2, names)
    # By whole nanoseconds, as logs have them.
    within = (group["recovery_ms"] - group["elsewhere_ms"]).round(6) <= 0
    word = None if group.empty else "all" if within.all() else "some" if within.any() else "none"
    method = "trials whose gap at the cut is no longer than their longest elsewhere"
    results.value(f"{name}.no_longer", word, names, method=method)
    as_long = count(group, "as_long_percent", "%")
    results.estimate(f"{name}.as_long.percent", as_long, 4, names)
    windows = count(group, "as_long_windows_percent", "%")
    results.estimate(f"{name}.as_long_windows.percent", windows, 2, names)


def _loss(results: Results, name: str, group: pd.DataFrame) -> None:
    """Add what was lost from the cut to the repair and, of nothing, the bound of its share."""
    names = group["trial"]
    results.estimate(f"{name}.lost_while_cut", count(group, "lost_while_cut"), 0, names)
    sent = total(group, "sent_while_cut")
    results.value(f"{name}.sent_while_cut.count", sent, names)
    bound, method = None, "no trial gives it"
    if group["lost_while_cut"].any():
        method = "unknown: datagrams were lost, and losses come in bursts"
    elif sent:
        bound = 100 * upper_bound_when_none_lost(sent)
        level = f"{100 * DEFAULT_LEVEL:g} %, one-sided"
        method = f"upper limit of 0 of {sent} ({level}), if datagrams are lost independently"
    results.value(f"{name}.loss_bound.percent", bound, names, unit="%", digits=5, method=method)


def summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row a variant and configuration: means over repetitions.

    ``lost`` and the like are datagrams of ``sent``; ``first_alarm_s`` is when the first latent
    error was reported, in seconds after the first datagram.
    """
    columns = ["sent", *_QUANTITIES, "first_alarm_s"]
    groups = prepared(trials).groupby(["variant", "configuration"])
    return groups[columns].mean().assign(trials=groups.size()).reset_index()
