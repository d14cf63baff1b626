"""What the listener's buffer and priority do to the loss, and what FRER does to it.

An intervention changes one thing and leaves the rest: each cell (buffer, priority, load) is
measured under both configurations in every repetition, so that every effect is a difference within
repetitions. What is compared is the share of trials that lost a datagram.
"""

import numpy as np
import pandas as pd

from tsnrepro.analysis.missing import by_repetition, in_pairs, loss, shared, unknown
from tsnrepro.analysis.results import Results
from tsnrepro.records.columns import CONFIGURATIONS
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.losses import difference_of_shares

NAME = "loss.intervention"
POINTS = "percentage points"
# As many buffers as a manuscript has rows for.
SIZES = 5
PRIORITIES = {"ordinary": False, "realtime": True}


def add(results: Results, trials: pd.DataFrame) -> None:
    """Add the results of the trials that ask what a reader's buffer and priority do."""
    cells = cells_of(trials)
    sizes = sorted(cells["buffer_bytes"].unique())
    for number in range(SIZES):
        size = sizes[number] if number < len(sizes) else None
        _size(results, f"{NAME}.size_{number + 1}", cells[cells["buffer_bytes"] == size], size)
    for name, change in _effects(cells, sizes).items():
        results.estimate(f"{NAME}.{name}.difference.percent", change, 1, trials["trial"])
    shared(results, f"{NAME}.duration_s", trials, "duration_s", "s", digits=2)
    highest = float(trials["target_mbps"].max())
    method = "configuration"
    results.value(f"{NAME}.highest.mbps", highest, trials["trial"], unit="Mb/s", method=method)
    results.value(f"{NAME}.trials.count", len(trials), trials["trial"])


def cells_of(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with the columns that tell cells apart, and 100 where a trial lost a datagram.

    They are ``buffer_bytes``, 0 for the kernel's default, ``realtime`` and ``lossy_percent``.
    """
    for column in ("receive_buffer_bytes", "realtime_listener"):
        if column not in trials:
            trials = trials.assign(**{column: None})
    return trials.assign(
        # The kernel's default is no number here, and smaller than what one would ask for.
        buffer_bytes=trials["receive_buffer_bytes"].astype("Float64").fillna(0).astype(float),
        realtime=trials["realtime_listener"].astype("boolean").fillna(False).astype(bool),
        lossy_percent=100.0 * (trials["loss_percent"] > 0),
    )


def _size(results: Results, name: str, cells: pd.DataFrame, size: float | None) -> None:
    """Add what was lost with one buffer: at the highest load, and in how many trials of all."""
    megabytes = size / 1e6 if size else None
    results.value(f"{name}.mb", megabytes, cells["trial"], unit="MB", method="configuration")
    for priority, realtime in PRIORITIES.items():
        for configuration in CONFIGURATIONS:
            group = cells[
                (cells["realtime"] == realtime) & (cells["configuration"] == configuration)
            ]
            top = group[group["target_mbps"] == group["target_mbps"].max()]
            key = f"{name}.{priority}.{configuration}"
            results.estimate(f"{key}.percent", loss(top, "loss_percent"), 2, top["trial"])
            lossy = float(group["lossy_percent"].mean()) if len(group) else None
            results.value(
                f"{key}.lossy.percent",
                lossy,
                group["trial"],
                unit="%",
                method="share of the trials at all loads that lost a datagram",
            )


def _effects(cells: pd.DataFrame, sizes: list[float]) -> dict[str, Estimate]:
    """Return what a large buffer, priority and FRER change, everything else being equal."""
    ordinary = cells[~cells["realtime"]]
    default = cells[cells["buffer_bytes"] == (sizes[0] if sizes else np.nan)]
    largest = ordinary["buffer_bytes"] == (sizes[-1] if len(sizes) > 1 else np.nan)
    return {
        "buffer": _effect(ordinary[largest], default[~default["realtime"]]),
        "realtime": _effect(default[default["realtime"]], default[~default["realtime"]]),
        "frer": _effect(*(cells[cells["configuration"] == c] for c in ("frer", "control"))),
    }


def _effect(with_it: pd.DataFrame, without: pd.DataFrame) -> Estimate:
    if not (len(by_repetition(with_it, "lossy_percent")) and len(without)):
        return unknown(POINTS)
    return difference_of_shares(*in_pairs(with_it, without, "lossy_percent"), POINTS)
