"""Several streams at once: that each has its own sequence numbers, and what each lost."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.config.frer import HISTORY_LENGTH
from tsnrepro.model.recovery import lost_before_start
from tsnrepro.records.store import recorded_trials
from tsnrepro.results.estimates import loss
from tsnrepro.results.figures import COLOURS, count_shown, loss_axis, new
from tsnrepro.results.results import Results
from tsnrepro.results.testbed import settings_of


def analyse(trials: pd.DataFrame) -> Results:
    """Return, by number of streams and load of best effort, what was lost and passed.

    Lost is what the talker sent and the listener did not count, whatever recovery counts.
    """
    results = Results("streams", trials)
    for (count, load), group in trials.groupby(["streams", "best_effort_mbps"]):
        key = f"streams.n{count}.best_effort_{str(load).removesuffix('.0').replace('.', '_')}"
        own = int(group["own_sequences"].sum())
        results.value(f"{key}.own_sequences.count", own, group["trial"])
        results.value(f"{key}.trials.count", len(group), group["trial"])
        lost = group.assign(lost_percent=100 * group["lost"] / group["sent"])
        found = loss(lost, "lost_percent")
        results.estimate(f"{key}.lost.percent", found, 4, group["trial"])
    return results


def per_stream(manifest_path: str | Path) -> pd.DataFrame:
    """Return one row a stream of every trial: counts and the counters of its recovery function.

    ``lost`` is what the listener did not count of what was sent. The counters of clause 10 have
    names of their own, ``recovery_lost`` without the numbers that only precede the first frame.
    """
    frer = settings_of(manifest_path).get("frer") or {}
    history = frer.get("history_length", HISTORY_LENGTH)
    rows = []
    for document in recorded_trials(manifest_path):
        for stream in document["values"]["streams"]:
            plain = {key: value for key, value in stream.items() if key != "recovery"}
            plain["lost"] = stream["sent"] - stream["unique"]
            counters = _counters(stream["recovery"] or {}, stream["sent"], history)
            rows.append({"trial": document["trial"]} | document["factors"] | plain | counters)
    return pd.DataFrame(rows)


def _counters(recovery: dict[str, Any], sent: int, history_length: int) -> dict[str, int]:
    """Return the counters of a recovery function by their names in a table."""
    counted = {f"recovery_{name}": n for name, n in recovery.items() if isinstance(n, int)}
    if lost := counted.get("recovery_lost"):
        before = lost_before_start(history_length, sent - 1)
        counted["recovery_lost"] = max(0, lost - before)
    return counted


def loss_by_count(trials: pd.DataFrame, testbed: str) -> Figure:
    """Draw the share of lost datagrams over the number of streams, a mark a trial."""
    figure, axes = new(2.2, testbed)
    count_shown(figure, int((trials["sent"] > 0).sum()), len(trials))
    loads = sorted(trials["best_effort_mbps"].unique())
    for load, colour, marker in zip(loads, COLOURS.values(), "os", strict=False):
        group = trials[trials["best_effort_mbps"] == load]
        share = 100 * group["lost"] / group["sent"]
        label = f"best effort {load:g} Mb/s" if load else "no best effort"
        axes.plot(group["streams"], share, marker, color=colour, label=label, clip_on=False)
    loss_axis(axes)
    axes.set_xticks(sorted(trials["streams"].unique()))
    axes.set_xlabel("streams at once")
    axes.set_ylabel("lost datagrams of streams (%)")
    figure.legend(loc="outside upper left")
    return figure
