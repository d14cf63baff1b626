"""What is lost where the listener eliminates, so that one link carries all copies to it.

Above the line's rate over the number of copies that link drops frames, but not yet datagrams: one
is lost only where none of its copies got through. So both are given, by load: the datagrams that
were lost, and the frames that the last link dropped beside those that it cannot carry.
"""

import pandas as pd

from tsnrepro.common.ethernet import payload_limit_mbps
from tsnrepro.common.topology import HOST_PORT, SWITCHES
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.records.tables import drop_column
from tsnrepro.results.estimates import loss, mean, recorded, shared
from tsnrepro.results.results import Results

NAME = "loss.elimination"
# As many loads as a manuscript has rows for.
LOADS = 4
_LAST_QUEUE = drop_column(f"{SWITCHES[1]} queue {HOST_PORT}")


def add(results: Results, trials: pd.DataFrame, link_rate_mbps: float | None) -> None:
    """Add the results of the trials whose listener eliminated.

    ``results``: where they are added; ``trials``: with the losses of the path; ``link_rate_mbps``:
    of the link to the listener, None where it is not known.
    """
    frames = trials["sent"] + trials["copies"]
    trials = trials.assign(dropped_percent=100 * trials[_LAST_QUEUE] / frames)
    payload = int(trials["payload_bytes"].max())
    frer = trials[trials["configuration"] == "frer"]
    limits = _limits(frer, payload, link_rate_mbps)
    for name, limit in limits.items():
        method = "payload rate of a tagged line, arithmetic"
        results.value(f"{NAME}.{name}.mbps", limit, [], unit="Mb/s", digits=1, method=method)
    targets = sorted(trials["target_mbps"].unique())
    for number in range(LOADS):
        target = targets[number] if number < len(targets) else None
        name, tried = f"{NAME}.load_{number + 1}", trials[trials["target_mbps"] == target]
        _load(results, name, tried, target, limits["both_copies"])
    _between(results, frer, limits)
    results.value(
        f"{NAME}.link_rate_mbps",
        link_rate_mbps,
        trials["trial"],
        unit="Mb/s",
        digits=0,
        method="configuration",
    )
    shared(results, f"{NAME}.duration_s", trials, "duration_s", "s")
    shared(results, f"{NAME}.payload_bytes", trials, "payload_bytes", "bytes")
    results.value(f"{NAME}.trials.count", len(trials), trials["trial"])


def _limits(
    frer: pd.DataFrame, payload_bytes: int, link_rate_mbps: float | None
) -> dict[str, float | None]:
    """Return the payload rates up to which the last link carries all copies, and one of each."""
    if link_rate_mbps is None or frer.empty:
        return {"both_copies": None, "one_copy": None}
    copies = round(1 + frer["copies"].sum() / frer["sent"].sum())
    return {
        name: payload_limit_mbps(payload_bytes, tagged=True, rate_mbps=link_rate_mbps, copies=many)
        for name, many in (("both_copies", copies), ("one_copy", 1))
    }


def _between(results: Results, frer: pd.DataFrame, limits: dict[str, float | None]) -> None:
    """Tell whether the network lost datagrams at loads of which it carries one copy each."""
    both, one = limits["both_copies"], limits["one_copy"]
    tried = frer[frer["offered_mbps"].between(both, one)] if both and one else frer.head(0)
    found = "not tried"
    lost = recorded(tried, "network_lost")["network_lost"]
    if len(lost):
        found = "lost" if (lost > 0).any() else "none lost"
    method = "datagrams lost in the network at offered loads between the two limits"
    results.value(f"{NAME}.between.verdict", found, tried["trial"], method=method)


def _load(
    results: Results,
    name: str,
    trials: pd.DataFrame,
    target_mbps: float | None,
    limit_mbps: float | None,
) -> None:
    """Add what was lost of one load, and of FRER the frames that the last link dropped."""
    method = "configuration"
    results.value(
        f"{name}.target_mbps", target_mbps, trials["trial"], unit="Mb/s", digits=0, method=method
    )
    for configuration in CONFIGURATIONS:
        group = trials[trials["configuration"] == configuration]
        lost, offered = loss(group, "loss_percent"), mean(group, "offered_mbps", "Mb/s")
        results.estimate(f"{name}.{configuration}.percent", lost, 3, group["trial"])
        results.estimate(f"{name}.{configuration}.offered_mbps", offered, 1, group["trial"])
    frer = trials[trials["configuration"] == "frer"]
    dropped = loss(frer, "dropped_percent")
    results.estimate(f"{name}.frer.dropped.percent", dropped, 2, frer["trial"])
    excess = None
    if limit_mbps is not None and len(frer):
        excess = 100 * max(0.0, 1 - limit_mbps / frer["offered_mbps"].mean())
    results.value(
        f"{name}.frer.excess.percent",
        excess,
        frer["trial"],
        unit="%",
        digits=2,
        method="share of the offered frames that the line does not carry, arithmetic",
    )
