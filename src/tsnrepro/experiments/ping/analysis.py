"""Round trips by ping: quantiles over trials, by payload."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tsnrepro.results.estimates import mean
from tsnrepro.results.figures import new
from tsnrepro.results.results import Results


def analyse(trials: pd.DataFrame) -> Results:
    """Return median and P99 of each payload over trials, and how many replies are missing."""
    results = Results("ping", trials)
    for payload, group in trials.groupby("payload_bytes"):
        for name in ("median", "p99"):
            estimate = mean(group, f"{name}_us", "us")
            results.estimate(f"ping.payload_{payload}.{name}.us", estimate, 1, group["trial"])
    results.value("ping.sent.count", int(trials["sent"].sum()), trials["trial"])
    lost = int((trials["sent"] - trials["received"]).sum())
    results.value("ping.lost.count", lost, trials["trial"])
    results.value("ping.trials.count", len(trials), trials["trial"])
    return results


def round_trips(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw median and P99 of every trial against the payload."""
    figure, axes = new(2.2, testbed)
    shown = trials.melt("payload_bytes", ["median_us", "p99_us"], "statistic", "us")
    shown["statistic"] = shown["statistic"].map({"median_us": "median", "p99_us": "P99"})
    sns.scatterplot(shown, x="payload_bytes", y="us", hue="statistic", style="statistic", ax=axes)
    axes.set(xlabel="ICMP payload (bytes)", ylabel="round trip (µs)", ylim=(0, None))
    axes.legend(title=None)
    return figure
