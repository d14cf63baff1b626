"""TCP goodput: each configuration, and whether they are equivalent."""

import pandas as pd

from tsnrepro.analysis.results import Results
from tsnrepro.stats.comparisons import relative_difference
from tsnrepro.stats.equivalence import equivalence
from tsnrepro.stats.replication import mean_over_runs

CONFIGURATIONS = ("control", "frer")
DURATIONS = ("short", "middle", "long")
# Chosen before measuring: the R-TAG alone takes 0.39 % of the line, ten times that would matter.
MARGIN_PERCENT = 4.0

# One segment with time stamps on the wire: payload, then TCP/IP with options, Ethernet with FCS,
# preamble and gap; the R-TAG adds 6 bytes (IEEE 802.1CB-2017, 7.8).
SEGMENT_BYTES, OVERHEAD_BYTES, TAG_BYTES = 1448, 52 + 18 + 20, 6


def line_limit_mbps(configuration: str, link_rate_mbps: float) -> float:
    """Return the highest TCP goodput that the line allows, in Mb/s."""
    tag = TAG_BYTES if configuration == "frer" else 0
    return link_rate_mbps * SEGMENT_BYTES / (SEGMENT_BYTES + OVERHEAD_BYTES + tag)


def analyse(trials: pd.DataFrame, link_rate_mbps: float) -> Results:
    """Return all results of the experiment ``tcp``."""
    results = Results("tcp", trials)
    of = {c: trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for configuration, group in of.items():
        goodput = mean_over_runs(group["goodput_mbps"], unit="Mb/s")
        results.estimate(f"tcp.goodput.{configuration}.mbps", goodput, 1, group["trial"])
        retransmits = int(group["retransmits"].sum())
        results.value(f"tcp.retransmits.{configuration}.count", retransmits, group["trial"])
        results.value(
            f"tcp.line_limit.{configuration}.mbps",
            line_limit_mbps(configuration, link_rate_mbps),
            [],
            unit="Mb/s",
            digits=2,
            method="closed form",
        )
    for name, duration in zip(DURATIONS, sorted(trials["duration_s"].unique()), strict=True):
        _duration(results, name, duration, trials[trials["duration_s"] == duration])
    _compare(results, of["frer"], of["control"], trials)
    return results


def _duration(results: Results, name: str, duration: float, trials: pd.DataFrame) -> None:
    of = {c: trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for configuration, group in of.items():
        goodput = mean_over_runs(group["goodput_mbps"], unit="Mb/s")
        results.estimate(f"tcp.goodput.{configuration}.{name}.mbps", goodput, 1, group["trial"])
    results.value(
        f"tcp.duration.{name}.s", duration, trials["trial"], unit="s", method="configuration"
    )
    change = relative_difference(of["frer"]["goodput_mbps"], of["control"]["goodput_mbps"])
    results.estimate(f"tcp.difference.{name}.percent", change.estimate, 2, trials["trial"])


def _compare(
    results: Results, frer: pd.DataFrame, control: pd.DataFrame, trials: pd.DataFrame
) -> None:
    change = relative_difference(frer["goodput_mbps"], control["goodput_mbps"])
    results.estimate("tcp.difference.percent", change.estimate, 2, trials["trial"])
    margin = control["goodput_mbps"].mean() * MARGIN_PERCENT / 100
    tested = equivalence(frer["goodput_mbps"], control["goodput_mbps"], margin, unit="Mb/s")
    method = "two one-sided Welch tests"
    results.value("tcp.equivalence.verdict", str(tested.verdict), trials["trial"], method=method)
    results.value("tcp.equivalence.p", tested.p_value, trials["trial"], digits=4, method=method)
    results.value(
        "tcp.equivalence.margin.percent",
        MARGIN_PERCENT,
        [],
        unit="%",
        digits=0,
        method="chosen before measuring",
    )
