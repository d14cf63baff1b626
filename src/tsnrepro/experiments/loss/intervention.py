"""What the listener's buffer and priority do to the loss, and what FRER does to it.

An intervention changes one thing and leaves the rest: each cell (buffer, priority, load) is
measured under both configurations in every repetition, so that every effect is a difference within
repetitions. What is compared is the share of trials that lost a datagram: how much it changes, over
repetitions, and whether it does at all, within blocks of trials that are alike in everything else.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.results.estimates import difference_of_share, known, loss, shared
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import SIGNIFICANCE, add_test, write_power
from tsnrepro.stats.comparisons import holm
from tsnrepro.stats.power import rise_of_share_found
from tsnrepro.stats.proportions import StratifiedComparison, compare_within_strata

NAME = "loss.intervention"
POINTS = "percentage points"
# As many buffers as a manuscript has rows for.
SIZES = 5
# Change of the share of lossy trials whose repetitions are counted.
_CHANGE_POINTS = 20.0
PRIORITIES = {"ordinary": False, "realtime": True}
# What trials differ by; one changes between the trials of a block.
_CONDITIONS = ("buffer_bytes", "realtime", "configuration", "target_mbps", "repetition")


class Change(NamedTuple):
    """One change: the column in which it lies, and the trials with it and without."""

    column: str
    after: pd.DataFrame
    before: pd.DataFrame


def add(results: Results, trials: pd.DataFrame) -> None:
    """Add the results of the trials that ask what a reader's buffer and priority do."""
    cells = cells_of(trials)
    sizes = sorted(cells["buffer_bytes"].unique())
    for number in range(SIZES):
        size = sizes[number] if number < len(sizes) else None
        _size(results, f"{NAME}.size_{number + 1}", cells[cells["buffer_bytes"] == size], size)
    changes = add_verdicts(results, trials)
    for name, change in changes.items():
        effect = difference_of_share(change.after, change.before, "lossy_percent", POINTS)
        results.estimate(f"{NAME}.{name}.difference.percent", effect, 1, trials["trial"])
    shared(results, f"{NAME}.duration_s", trials, "duration_s", "s")
    highest = float(trials["target_mbps"].max())
    method = "configuration"
    results.value(f"{NAME}.highest.mbps", highest, trials["trial"], unit="Mb/s", method=method)
    results.value(f"{NAME}.trials.count", len(trials), trials["trial"])


def cells_of(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with the columns that cells differ by, and 100 where a trial lost a datagram.

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


def _changes(cells: pd.DataFrame, sizes: list[float]) -> dict[str, Change]:
    """Return the trials with a larger buffer, priority and FRER, and those without it."""
    ordinary = cells[~cells["realtime"]]
    default = cells[cells["buffer_bytes"] == (sizes[0] if sizes else np.nan)]
    larger = ordinary["buffer_bytes"] > (sizes[0] if sizes else np.nan)
    before = default[~default["realtime"]]
    frer, control = (cells[cells["configuration"] == c] for c in ("frer", "control"))
    return {
        "buffer": Change("buffer_bytes", ordinary[larger], before),
        "realtime": Change("realtime", default[default["realtime"]], before),
        "frer": Change("configuration", frer, control),
    }


def add_verdicts(results: Results, trials_of: pd.DataFrame) -> dict[str, Change]:
    """Add how many trials with and without a change lost, and the exact test within blocks.

    Returns
    -------
    dict
        The changes, by their name.

    The order of trials is random within each repetition. If a change does nothing, which trials of
    a block meet a stall is therefore chance, whatever the hour does to all of them.
    """
    cells, trials = cells_of(trials_of), trials_of["trial"]
    changes = _changes(cells, sorted(cells["buffer_bytes"].unique()))
    both = {name: _in_blocks(change) for name, change in changes.items()}
    found = {name: _compared(compared) for name, compared in both.items()}
    there = {name: each for name, each in found.items() if each is not None}
    p_values = holm([each.p_value for each in there.values()]) if there else []
    adjusted = dict(zip(there, p_values, strict=True))
    method = f"exact test within blocks of trials alike, Holm's adjustment over {len(there)}"
    for name, each in found.items():
        p_value = float(adjusted.get(name, math.nan))
        for place, side in enumerate(("with", "without")):
            key = f"{NAME}.{name}.{side}"
            results.value(f"{key}.trials.count", each and each.trials[place], trials)
            results.value(f"{key}.lossy.count", each and each.outcomes[place], trials)
        alone = None if each is None else each.p_value
        beside = p_value, method
        add_test(results, f"{NAME}.{name}", alone, _direction(each), trials, beside=beside)
        power = _power(each, both[name], len(there))
        write_power(results, f"{NAME}.{name}", trials, **power)
    return changes


def _in_blocks(change: Change) -> pd.DataFrame:
    """Return the trials with and without a change, and the ``block`` of each."""
    same = [column for column in _CONDITIONS if column != change.column]
    # Trials without a repetition would all be one block.
    after, before = known(change.after, *same), known(change.before, *same)
    both = pd.concat([after.assign(changed=True), before.assign(changed=False)])
    return both.assign(block=both.groupby(same).ngroup())


def _compared(both: pd.DataFrame) -> StratifiedComparison | None:
    """Compare the trials with and without a change; None where no block has both."""
    found = compare_within_strata(both["lossy_percent"] > 0, both["changed"], both["block"])
    return found if found.trials[0] else None


def _direction(found: StratifiedComparison | None) -> str | None:
    if found is None:
        return None
    (changed, unchanged), (lossy, before) = found.trials, found.outcomes
    return "lower" if lossy / changed < before / unchanged else "higher"


def _power(found: StratifiedComparison | None, both: pd.DataFrame, tests: int) -> dict[str, Any]:
    """Return what is written of which rise of the share of lossy trials this many find."""
    lossy = sum(found.outcomes) / sum(found.trials) if found else 0.0
    if found is None or not 0 < lossy < 1:
        why = "unknown: all trials lost, or none"
        return {"power": (None, None), "seen": (None, None), "what": why, "unit": POINTS}
    both = both.assign(number=pd.factorize(both["repetition"])[0], unchanged=~both["changed"])
    block = {"number": "first", "changed": "sum", "unchanged": "sum"}
    blocks = both.groupby("block").agg(block).to_numpy()
    lost = (both["lossy_percent"] > 0).groupby(both["number"]).agg(["sum", "count"]).to_numpy()
    rise = rise_of_share_found(blocks, lost, SIGNIFICANCE / tests)
    repetitions = len(lost)
    error = 100 * math.sqrt(lossy * (1 - lossy) * sum(1 / count for count in found.trials))
    change = None if rise.smallest is None else 100 * rise.smallest
    needed = change and math.ceil(repetitions * (change / _CHANGE_POINTS) ** 2)
    return {
        "power": (change, needed),
        "seen": (error * math.sqrt(repetitions), repetitions),
        "what": f"to find a rise of {_CHANGE_POINTS:g} percentage points",
        "none": "" if change else f"no rise: not with {repetitions} repetitions",
        "beside": f"the end of all losses is found in {100 * rise.end_found:.0f} %",
        "unit": POINTS,
    }
