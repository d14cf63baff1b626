"""TCP goodput: each configuration, and whether they are equivalent."""

import math

import pandas as pd

from tsnrepro.common.ethernet import tcp_limit_mbps
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.results.estimates import (
    column_of,
    in_pairs,
    known,
    mean,
    recorded,
    relative,
    shared,
    total,
    unknown,
)
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import add_power, add_test
from tsnrepro.stats.equivalence import Verdict, equivalence
from tsnrepro.stats.power import scatter_of_pairs

DURATIONS = ("short", "middle", "long")
# Chosen before measuring: the R-TAG alone takes 0.39 % of the line, five times that would matter.
MARGIN_PERCENT = 2.0
_WINDOW = "largest_window_bytes"


def line_limit_mbps(configuration: str, link_rate_mbps: float) -> float:
    """Return the highest TCP goodput that the line allows, in Mb/s."""
    return tcp_limit_mbps(tagged=configuration == "frer", rate_mbps=link_rate_mbps)


def analyse(trials: pd.DataFrame, link_rate_mbps: float | None) -> Results:
    """Return all results of the experiment ``tcp``; without a link rate no limit of the line."""
    results = Results("tcp", trials)
    own_rate = column_of(trials, "link_rate_mbps").notna()
    _as_configured(results, trials[~own_rate], link_rate_mbps)
    _over_links_that_hosts_fill(results, trials[own_rate])
    return results


def _over_links_that_hosts_fill(results: Results, trials: pd.DataFrame) -> None:
    """Add what TCP reaches where the links are slow enough to be the limit."""
    rates = trials["link_rate_mbps"].unique() if len(trials) else ()
    if len(rates) != 1:  # of several rates no one limit can be stated
        return
    rate = float(rates[0])
    names, method = trials["trial"], "configuration"
    results.value("tcp.limit.link_rate.mbps", rate, names, unit="Mb/s", method=method)
    shared(results, "tcp.limit.duration.s", trials, "duration_s", "s")
    limits: dict[str, float | None] = {c: line_limit_mbps(c, rate) for c in CONFIGURATIONS}
    of = _goodput(results, trials, "tcp.limit.goodput.{}.mbps", limits)
    for configuration, limit in limits.items():
        key, method = f"tcp.limit.line_limit.{configuration}.mbps", "closed form"
        results.value(key, limit, [], unit="Mb/s", digits=2, method=method)
    counted = min(len(group) for group in of.values())
    results.value("tcp.limit.trials.count", counted or None, names)
    add_comparison(results, "tcp.limit", of, trials)


def _as_configured(results: Results, trials: pd.DataFrame, link_rate_mbps: float | None) -> None:
    """Add what TCP reaches over the testbed's links, by duration too."""
    limits = {
        c: line_limit_mbps(c, link_rate_mbps) if link_rate_mbps else None for c in CONFIGURATIONS
    }
    of = _goodput(results, trials, "tcp.goodput.{}.mbps", limits)
    for configuration, group in of.items():
        counted = known(group, "retransmits")
        retransmits = total(counted, "retransmits")
        results.value(f"tcp.retransmits.{configuration}.count", retransmits, counted["trial"])
        key, limit = f"tcp.line_limit.{configuration}.mbps", limits[configuration]
        results.value(key, limit, [], unit="Mb/s", digits=2, method="closed form")
    for name, duration in _durations(trials).items():
        chosen = trials[trials["duration_s"] == duration]
        key, method = f"tcp.duration.{name}.s", "configuration"
        results.value(key, duration, chosen["trial"], unit="s", method=method)
        alike = _goodput(results, chosen, f"tcp.goodput.{{}}.{name}.mbps", limits)
        change = relative(alike["frer"], alike["control"], "goodput_mbps")
        results.estimate(f"tcp.difference.{name}.percent", change.estimate, 2, chosen["trial"])
        # Each configuration alike.
        counted = min(len(group) for group in alike.values())
        results.value(f"tcp.trials.{name}.count", counted or None, chosen["trial"])
        for configuration, group in alike.items():
            _sender(results, f"{configuration}.{name}", group)
            efficiencies = {"line": link_rate_mbps, "limit": limits[configuration]}
            _efficiency(results, f"{configuration}.{name}", group, efficiencies)
    add_comparison(results, "tcp", of, trials)
    key, method = "tcp.equivalence.margin.percent", "chosen before measuring"
    results.value(key, MARGIN_PERCENT, [], unit="%", method=method)


def _sender(results: Results, name: str, trials: pd.DataFrame) -> None:
    """Add what the sender repeated, and its largest congestion window."""
    counted = known(trials, "retransmits")
    resent = total(counted, "retransmits")
    results.value(f"tcp.retransmits.{name}.count", resent, counted["trial"])
    shown = recorded(trials, _WINDOW)
    windows = shown.assign(kb=shown[_WINDOW].astype(float) / 1e3)
    results.estimate(f"tcp.window.{name}.kb", mean(windows, "kb", "kB"), 0, shown["trial"])


def _efficiency(
    results: Results, name: str, trials: pd.DataFrame, rates: dict[str, float | None]
) -> None:
    """Add goodput as a share of the line's rate, and of what the line leaves to payload."""
    for of, rate in rates.items():
        found = unknown("%", "the line's rate is not known")
        if rate:
            goodput = mean(trials, "goodput_mbps", "Mb/s", rates["limit"])
            found = goodput.scaled(100 / rate, "%")
        results.estimate(f"tcp.efficiency.{name}.{of}.percent", found, 1, trials["trial"])


def _goodput(
    results: Results, trials: pd.DataFrame, key: str, limits: dict[str, float | None]
) -> dict[str, pd.DataFrame]:
    """Add the mean goodput of each configuration, which ``{}`` in the key is; return its trials."""
    of = {c: trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for configuration, group in of.items():
        goodput = mean(group, "goodput_mbps", "Mb/s", limits[configuration])
        results.estimate(key.format(configuration), goodput, 1, group["trial"])
    return of


def _durations(trials: pd.DataFrame) -> dict[str, float | None]:
    """Return the shortest, a middle and the longest duration; of fewer than three some are none."""
    tried = sorted(float(seconds) for seconds in trials["duration_s"].dropna().unique())
    short, long = (tried[0], tried[-1]) if len(tried) > 1 else ([*tried, None][0], None)
    middle = tried[len(tried) // 2] if len(tried) > 2 else None
    return dict(zip(DURATIONS, (short, middle, long), strict=True))


def add_comparison(
    results: Results, name: str, of: dict[str, pd.DataFrame], trials: pd.DataFrame
) -> None:
    """Add the change of goodput under ``name``, and whether the configurations are equivalent."""
    frer, control = of["frer"], of["control"]
    change = relative(frer, control, "goodput_mbps")
    results.estimate(f"{name}.difference.percent", change.estimate, 2, trials["trial"])
    verdict, p_value, alone, scatter = Verdict.CANNOT_TELL, math.nan, math.nan, None
    values, against, paired = in_pairs(frer, control, "goodput_mbps")
    if len(values) and len(against):
        tested = equivalence(values, against, MARGIN_PERCENT, paired=paired)
        verdict, p_value, alone = tested.verdict, tested.p_value, tested.p_verdict
        scatter = scatter_of_pairs(tested.difference, values, against, paired=paired)
    key, names = f"{name}.equivalence", trials["trial"]
    beside = p_value, "two one-sided t tests on logarithms, by repetition"
    add_test(results, key, alone, str(verdict), names, beside=beside)
    add_power(results, key, scatter, names, percent=MARGIN_PERCENT, equivalence=True)
