"""What a path carries, from the trials of ``loss``: sweeps, lines, FRER against control.

A trial has two losses. The one to the program is what was sent less what the program read; the one
to the socket leaves out what the program closed its socket on, unread, which had arrived there.

Whether further repetitions are needed is decided by the same numbers that are printed later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tsnrepro.common.ethernet import payload_limit_mbps
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.records.accounting import SOCKET_CLOSED
from tsnrepro.records.tables import drop_column, repetitions
from tsnrepro.stats.thresholds import Sweep, ThresholdComparison, compare_thresholds

if TYPE_CHECKING:
    import pandas as pd

UNREAD = drop_column(SOCKET_CLOSED)
"""Column of the datagrams that waited in the listener's socket when it was closed."""


def loss_to_program(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with ``lost`` and ``loss_percent`` of the path to the program.

    These are the losses as recorded: what was sent less what the program read. Trials without a
    loss in percent are left out.
    """
    return trials[trials["loss_percent"].notna()]


def loss_to_socket(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with ``lost`` and ``loss_percent`` of the path to the program's socket.

    A datagram that waits in the socket when the program closes it has arrived there: where the
    counters tell, it is taken off, once however often this is called. Trials without a loss in
    percent are left out.
    """
    trials = loss_to_program(trials)
    if UNREAD not in trials:
        return trials
    unread = trials[UNREAD].fillna(0).where(trials["lost"].notna(), 0)
    lost = (trials["lost"] - unread).clip(lower=0)
    percent = 100 * lost / trials["sent"]
    loss_percent = trials["loss_percent"].where(unread == 0, percent)
    taken_off = {UNREAD: trials[UNREAD].where(trials["lost"].isna(), 0)}
    return trials.assign(lost=lost, loss_percent=loss_percent, **taken_off)


def load_mbps(trials: pd.DataFrame) -> pd.Series:
    """Return the offered load, or the target where a trial does not have what was offered."""
    return trials["offered_mbps"].fillna(trials["target_mbps"])


def line_limits(payload_bytes: int, link_rate_mbps: float | None) -> dict[str, float | None]:
    """Return the highest payload rate that the line carries, with the R-TAG for FRER.

    By configuration; None where the line's rate is not known.
    """
    return {
        configuration: payload_limit_mbps(
            payload_bytes, tagged=configuration == "frer", rate_mbps=link_rate_mbps
        )
        if link_rate_mbps
        else None
        for configuration in CONFIGURATIONS
    }


def sweeps(trials: pd.DataFrame, lossy: pd.Series) -> dict[str, list[Sweep]]:
    """Return a sweep a repetition by configuration, those first that both configurations have.

    ``trials``: the trials of one question; ``lossy``: which of them count as lossy.
    """
    # Tables of trials are wide, and a sweep needs little of them.
    needed = trials[["configuration", "repetition", "offered_mbps", "target_mbps"]]
    groups = {c: needed[needed["configuration"] == c] for c in CONFIGURATIONS}
    both = set(repetitions(groups["control"])) & set(repetitions(groups["frer"]))
    return {c: sweeps_of(group, lossy, both) for c, group in groups.items()}


def sweeps_of(group: pd.DataFrame, lossy: pd.Series, first: set[int]) -> list[Sweep]:
    """Return a sweep a repetition, those of some repetitions before others."""
    numbers = repetitions(group).to_numpy()
    ordered = sorted(set(numbers.tolist()), key=lambda number: (number not in first, number))
    loads, lost = load_mbps(group).to_numpy(), lossy[group.index].to_numpy()
    own = {number: numbers == number for number in ordered}
    return [Sweep(loads[rows], lost[rows], number) for number, rows in own.items()]


def ceilings(limits: dict[str, float | None]) -> dict[str, float]:
    """Return the highest thresholds that there can be: the line's limits, where they are known."""
    return {c: math.inf if limit is None else limit for c, limit in limits.items()}


def frer_against_control(
    swept: dict[str, list[Sweep]], highest: dict[str, float]
) -> ThresholdComparison | None:
    """Return the comparison of both thresholds, None where a configuration was not measured."""
    if not all(swept.values()):
        return None
    return compare_thresholds(
        swept["frer"], swept["control"], ceilings=(highest["frer"], highest["control"])
    )
