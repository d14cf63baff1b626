"""Comparisons of modes of shaping: by difference and ratio, and by equivalence.

The unit is the run. Runs of one repetition are a block of the campaign's random order, so what
drifts, or is uncertain of a model, falls on both sides of a pair alike: repetitions that both sides
have are paired. Times from the launch (``etf``) are no latencies and are compared
against none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsnrepro.experiments.shaping.analysis import IDLE, Run, not_located
from tsnrepro.experiments.shaping.media import check_same_medium
from tsnrepro.experiments.shaping.settings import LAUNCHED, Kind, Mode, ShapingPart
from tsnrepro.results.estimates import in_pairs
from tsnrepro.results.verdicts import SIGNIFICANCE
from tsnrepro.stats.comparisons import holm, median_difference, relative_difference, signed_rank
from tsnrepro.stats.equivalence import equivalence
from tsnrepro.stats.estimate import Estimate, Limits
from tsnrepro.stats.power import Scatter, in_percent, scatter_of_pairs, smallest_change_found

COMPARED = ("mean", "p50", "p99", "p99_9")
HELD_AGAINST: tuple[tuple[Mode, Mode, Kind, tuple[str, ...]], ...] = (
    ("tas", "prio", "end-station", ("p50", "p95", "p99", "max")),
    ("cbs", "tas", "bridge", ("p90", "p99", "p99_9")),
)
"""Modes compared, in which kind of part, and by which statistics."""
ALIKE_MARGIN_PERCENT = 5.0
"""Mean latencies that differ by less count as alike, whatever was measured."""
RANKED_FROM = 9
"""Repetitions from which signed ranks can be significant after Holm's correction of twelve rows."""


@dataclass(frozen=True)
class _Pair:
    """Two (mode, load) of a part, of which the first is compared with the second."""

    part: str
    one: tuple[str, str]
    other: tuple[str, str]
    statistics: tuple[str, ...]


def compared(run: Run, pairs: Iterable[_Pair]) -> pd.DataFrame:
    """Return the pairs that were measured, one row a statistic, as one family of tests.

    ``ratio`` with its 95 % limits, and ``difference_us``, the median over repetitions, with limits
    where they are enough; ``limits`` names their kind. ``p_value`` is of a ratio of one,
    ``p_adjusted`` Holm's over all rows. A quantile with too few frames beyond it has no numbers, as
    ``method`` has it.
    ``detectable_percent`` is the smallest rise that as many repetitions find in 80 % of campaigns,
    by the ``scatter`` of their ratios.

    Raises DifferentMediaError if two sides were measured on different media.
    """
    rows = [row for pair in pairs for row in _rows(run, pair)]
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    tested = table["p_value"].notna()
    adjusted = pd.Series(np.nan, index=table.index)
    if tested.any():
        adjusted[tested] = holm(table.loc[tested, "p_value"])
    found = table.assign(p_adjusted=adjusted, tests=int(tested.sum()))
    return found.assign(detectable_percent=[_detectable(row) for row in found.to_dict("records")])


def _detectable(row: dict) -> float:
    scatter: Scatter | None = row["scatter"]
    if scatter is None or not scatter.promises:
        return np.nan
    return smallest_change_found(scatter, SIGNIFICANCE / row["tests"])


def _rows(run: Run, pair: _Pair) -> Iterator[dict]:
    sides = [run.rows(pair.part, mode, load) for mode, load in (pair.one, pair.other)]
    if any(rows.empty for rows in sides) or {pair.one[0], pair.other[0]} & {*LAUNCHED}:
        return
    names = [" ".join(side) for side in (pair.one, pair.other)]
    media = {name: _medium(rows) for name, rows in zip(names, sides, strict=True)}
    check_same_medium(media)
    for statistic in pair.statistics:
        if why := not_located(sides[0], statistic) or not_located(sides[1], statistic):
            yield _identity(pair, statistic) | _nothing(why, len(sides[0]))
            continue
        first, second, paired = in_pairs(sides[0], sides[1], f"{statistic}_us")
        if not len(first) or not len(second) or min(first.min(), second.min()) <= 0:
            continue
        ranked = paired and len(first) >= RANKED_FROM
        difference, ratio, p_value = _difference_and_ratio(
            first, second, paired=paired, ranked=ranked
        )
        yield {
            **_identity(pair, statistic),
            "difference_us": difference.value,
            "difference_low_us": difference.low,
            "difference_high_us": difference.high,
            "difference_method": difference.method,
            "difference_limits": str(difference.limits),
            "ratio": ratio.value,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "p_value": p_value,
            "method": ratio.method,
            "limits": str(ratio.limits),
            "runs": min(len(first), len(second)),
            "scatter": scatter_of_pairs(
                in_percent(ratio), first, second, paired=paired, ranked=ranked
            ),
            "note": "",
        }


def _difference_and_ratio(
    first: pd.Series, second: pd.Series, *, paired: bool, ranked: bool
) -> tuple[Estimate, Estimate, float]:
    """Return the difference in microseconds, the ratio, and the p value of no difference.

    Of few repetitions ranks decide nothing after Holm's correction: then the test is Student's of
    the logarithms.
    """
    if ranked:
        shift = signed_rank(first, second, unit="us")
        logs = signed_rank(np.log(first), np.log(second)).estimate
        times = {name: float(np.exp(getattr(logs, name))) for name in ("value", "low", "high")}
        return shift.estimate, replace(logs, **times), shift.p_value
    relative = relative_difference(first, second, paired=paired)
    found = relative.estimate
    times = {name: 1 + getattr(found, name) / 100 for name in ("value", "low", "high")}
    difference = median_difference(first, second, unit="us", paired=paired)
    return difference, replace(found, **times), relative.p_value


def _identity(pair: _Pair, statistic: str) -> dict:
    return {
        **{"part": pair.part, "mode": pair.one[0], "load": pair.one[1]},
        **{"other_mode": pair.other[0], "other_load": pair.other[1], "statistic": statistic},
    }


def _nothing(why: str, runs: int) -> dict:
    numbers = ("difference_us", "difference_low_us", "difference_high_us")
    ratios = ("ratio", "ratio_low", "ratio_high", "p_value")
    return {
        **dict.fromkeys((*numbers, *ratios), np.nan),
        **dict.fromkeys(("difference_method", "method"), why),
        **dict.fromkeys(("difference_limits", "limits"), str(Limits.NONE)),
        "runs": runs,
        "scatter": None,
        "note": "",
    }


def _medium(group: pd.DataFrame) -> str | None:
    return " and ".join(sorted(set(group["medium"]))) or None


# --- what is compared -------------------------------------------------------------------------


def _reference_mode(part: ShapingPart) -> str:
    """Return the mode that a part's modes are compared with: no shaping where that was measured."""
    return next((mode for mode in ("fifo", "prio", "direct") if mode in part.modes), part.modes[0])


def against_reference(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return each mode against the reference under the same load, a family a part."""
    reference = _reference_mode(part)
    pairs = [
        _Pair(part.name, (mode, load), (reference, load), COMPARED)
        for mode, load in run.groups(part)
        if mode not in (reference, "direct")
    ]
    return compared(run, pairs)


def mode_against_mode(run: Run, one: str, other: str) -> pd.DataFrame:
    """Return a pair of :data:`HELD_AGAINST` in every part and under every load, as one family."""
    (found,) = (entry for entry in HELD_AGAINST if entry[:2] == (one, other))
    pairs = [
        _Pair(part.name, (one, load), (other, load), found[3])
        for part in run.parts(found[2])
        for mode, load in run.groups(part)
        if mode == one
    ]
    return compared(run, pairs)


def load_effect(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return what the load adds to each mode's latency, a family a part."""
    pairs = [
        _Pair(part.name, (mode, load), (mode, IDLE), COMPARED)
        for mode, load in run.groups(part)
        if load != IDLE
    ]
    return compared(run, pairs)


def bridge_cost(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return what the switch adds to the direct link's mean latency, idle, one row a mode."""
    pairs = [
        _Pair(part.name, (mode, IDLE), ("direct", IDLE), ("mean",))
        for mode, load in run.groups(part)
        if load == IDLE and mode != "direct"
    ]
    return compared(run, pairs)


def idle_alike(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return whether each mode's mean latency without load is that of the reference.

    By equivalence within :data:`ALIKE_MARGIN_PERCENT`, so that "alike" is shown and not merely
    not refuted: ``alone`` is the verdict of this test alone.
    """
    reference, rows = _reference_mode(part), []
    for mode, load in run.groups(part):
        other = run.rows(part.name, reference, IDLE)
        if load != IDLE or other.empty or mode in (reference, "direct", *LAUNCHED):
            continue
        first, second, paired = in_pairs(run.rows(part.name, mode, IDLE), other, "mean_us")
        if not len(first) or not len(second) or min(first.min(), second.min()) <= 0:
            continue
        found = equivalence(first, second, ALIKE_MARGIN_PERCENT, paired=paired)
        rows.append(
            {
                **{"part": part.name, "mode": mode, "reference": reference},
                "difference_percent": found.difference.value,
                "low_percent": found.difference.low,
                "high_percent": found.difference.high,
                "p_value": found.p_value,
                "p_verdict": found.p_verdict,
                "scatter": scatter_of_pairs(found.difference, first, second, paired=paired),
                "method": found.difference.method,
                "limits": str(found.difference.limits),
                "alone": str(found.verdict),
            }
        )
    return pd.DataFrame(rows)
