"""What FRER carries over different numbers of member paths, beside control at the same loads.

Every path carries the whole stream, so a further one adds to what arrives only as far as the paths
lose different frames. Told are the loss and the delivered rate, by load and number of paths, and
how the delivered rate with the most paths compares to that with the fewest.
"""

import pandas as pd

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.loss.path_thresholds import line_limits
from tsnrepro.results.estimates import (
    difference,
    loss,
    mean,
    recorded,
    relative,
    scatter_of_groups,
    shared,
    total,
    unknown,
)
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import add_power
from tsnrepro.stats.estimate import Estimate

NAME = "loss.paths"
# As many loads as a manuscript has columns for.
LOADS = 2


def add(
    results: Results,
    trials: pd.DataFrame,
    narrowest_mbps: float | None,
    *,
    margin_percent: float,
    same_load_percent: float,
) -> None:
    """Add the results of the trials over different numbers of member paths.

    ``results``: where they are added; ``trials``: with the losses of the path; ``narrowest_mbps``:
    rate of the narrowest link, None where it is not known; ``margin_percent``: delivered rates that
    differ by less are equivalent; ``same_load_percent``: offered loads that differ by more are not
    compared.
    """
    names, payload = trials["trial"], int(trials["payload_bytes"].max())
    for configuration, limit in line_limits(payload, narrowest_mbps).items():
        key, method = f"{NAME}.line_limit.{configuration}.mbps", "payload rate of the line"
        results.value(key, limit, [], unit="Mb/s", digits=1, method=f"{method}, arithmetic")
    series = _series(trials)
    targets = sorted(trials["target_mbps"].unique())
    for number in range(LOADS):
        target = targets[number] if number < len(targets) else None
        at_load = {name: own[own["target_mbps"] == target] for name, own in series.items()}
        name, tried = f"{NAME}.load_{number + 1}", trials[trials["target_mbps"] == target]
        _load(results, name, at_load, tried, target)
        _compared(
            results,
            name,
            *_most_and_fewest(at_load, tried),
            margin_percent=margin_percent,
            same_load_percent=same_load_percent,
        )
    for key, counts in (("fewest", trials["paths"].min()), ("most", trials["paths"].max())):
        results.value(f"{NAME}.{key}.count", int(counts), names, method="configuration")
    for key in ("lost", "network_lost"):
        counted = recorded(trials, key)
        results.value(f"{NAME}.{key}.total.count", total(counted, key), counted["trial"])
    shared(results, f"{NAME}.member_link_rate_mbps", trials, "member_link_rate_mbps", "Mb/s")
    shared(results, f"{NAME}.duration_s", trials, "duration_s", "s")
    shared(results, f"{NAME}.payload_bytes", trials, "payload_bytes", "bytes")
    results.value(f"{NAME}.trials.count", len(trials), names)


def _series(trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the trials of control, and of FRER by its number of paths: ``frer_2``, ``frer_3``."""
    control, frer = (trials[trials["configuration"] == name] for name in CONFIGURATIONS)
    by_paths = {f"frer_{paths}": own for paths, own in frer.groupby("paths")}
    return {"control": control, **by_paths}


def _load(
    results: Results,
    name: str,
    series: dict[str, pd.DataFrame],
    tried: pd.DataFrame,
    target_mbps: float | None,
) -> None:
    """Add what was offered, delivered and lost at one load."""
    results.value(
        f"{name}.target_mbps",
        target_mbps,
        tried["trial"],
        unit="Mb/s",
        digits=0,
        method="configuration",
    )
    for which, group in series.items():
        for rate in ("offered_mbps", "delivered_mbps"):
            found = mean(group, rate, "Mb/s")
            results.estimate(f"{name}.{which}.{rate}", found, 1, group["trial"])
        lost = loss(group, "loss_percent")
        results.estimate(f"{name}.{which}.percent", lost, 2, group["trial"])


def _most_and_fewest(
    series: dict[str, pd.DataFrame], tried: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return FRER's trials over the most member paths, and over the fewest."""
    numbers = tried.loc[tried["configuration"] == "frer", "paths"]
    if numbers.nunique() <= 1:
        return tried.head(0), tried.head(0)
    return series[f"frer_{numbers.max()}"], series[f"frer_{numbers.min()}"]


def _compared(
    results: Results,
    name: str,
    most: pd.DataFrame,
    fewest: pd.DataFrame,
    *,
    margin_percent: float,
    same_load_percent: float,
) -> None:
    """Add how the most member paths change the delivered rate and the loss, and the verdict."""
    names = pd.concat([most["trial"], fewest["trial"]])
    apart = _why_apart(most, fewest, same_load_percent)
    change, points = unknown("%", apart), unknown("percentage points", apart)
    if not apart:
        change = relative(most, fewest, "delivered_mbps").estimate
        points = difference(most, fewest, "loss_percent", points.unit)
    results.estimate(f"{name}.delivered.difference.percent", change, 2, names)
    results.estimate(f"{name}.loss.difference.percent", points, 2, names)
    method = f"limits of the delivered rate's change; equivalent within {margin_percent:g} %"
    results.value(f"{name}.verdict", _verdict(change, margin_percent), names, method=method)
    scatter = scatter_of_groups(change, most, fewest, "delivered_mbps")
    add_power(results, name, scatter, names, percent=margin_percent)


def _why_apart(most: pd.DataFrame, fewest: pd.DataFrame, same_load_percent: float) -> str:
    """Return why two groups are not compared; empty if they are."""
    if most.empty or fewest.empty:
        return "FRER was not measured over several numbers of member paths"
    loads = most["offered_mbps"].mean(), fewest["offered_mbps"].mean()
    if abs(loads[0] / loads[1] - 1) > same_load_percent / 100:
        return f"offered loads of {loads[0]:.1f} and {loads[1]:.1f} Mb/s are not compared"
    return ""


def _verdict(change: Estimate, margin_percent: float) -> str:
    """Return what the most paths do to the delivered rate, as far as its limits decide."""
    if not change.decides:
        # Without spread there are no limits: what is computed may repeat to the last datagram.
        return "none" if change.value == 0 else "cannot tell"
    if -margin_percent <= change.low and change.high <= margin_percent:
        return "equivalent"
    if change.low > 0 or change.high < 0:
        return "higher" if change.low > 0 else "lower"
    return "cannot tell"
