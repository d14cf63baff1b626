"""Several streams at once: that each has its own sequence numbers, and what each lost."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.analysis.figures import COLOURS, new
from tsnrepro.analysis.missing import mean
from tsnrepro.analysis.results import Results
from tsnrepro.records.tables import open_run


def analyse(trials: pd.DataFrame) -> Results:
    """Return, by number of streams and load of best effort, what was lost and passed."""
    results = Results("streams", trials)
    for (count, load), group in trials.groupby(["streams", "best_effort_mbps"]):
        key = f"streams.n{count}.best_effort_{str(load).removesuffix('.0').replace('.', '_')}"
        own = int(group["own_sequences"].sum())
        results.value(f"{key}.own_sequences.count", own, group["trial"])
        results.value(f"{key}.trials.count", len(group), group["trial"])
        lost = group.assign(lost_percent=100 * group["lost"] / group["sent"])
        estimate = mean(lost, "lost_percent", "%")
        results.estimate(f"{key}.lost.percent", estimate, 4, group["trial"])
    return results


def per_stream(manifest_path: str | Path) -> pd.DataFrame:
    """Return one row a stream of every trial: counts and the counters of its recovery function."""
    store, manifest = open_run(manifest_path)
    rows = []
    for entry in manifest["trials"]:
        document = store.read(store.folder / entry["trial"])
        for stream in document["values"]["streams"]:
            counters = {
                name: value
                for name, value in (stream["recovery"] or {}).items()
                if isinstance(value, int)
            }
            plain = {key: value for key, value in stream.items() if key != "recovery"}
            rows.append({"trial": entry["trial"]} | document["factors"] | plain | counters)
    return pd.DataFrame(rows)


def loss_by_count(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the share of lost datagrams over the number of streams, a mark a trial."""
    figure, axes = new(2.2, testbed)
    loads = sorted(trials["best_effort_mbps"].unique())
    for load, colour, marker in zip(loads, COLOURS.values(), "os", strict=False):
        group = trials[trials["best_effort_mbps"] == load]
        share = 100 * group["lost"] / group["sent"]
        label = f"best effort {load:g} Mb/s" if load else "no best effort"
        axes.plot(group["streams"], share, marker, color=colour, label=label)
    axes.set_yscale("symlog", linthresh=1e-3)
    axes.set_ylim(-2e-4, 110)
    axes.set_xticks(sorted(trials["streams"].unique()))
    axes.set_xlabel("streams at once")
    axes.set_ylabel("lost datagrams of streams (%)")
    axes.legend(loc="upper left")
    return figure
