"""What a comparison says alone, and what its campaign could have found.

An analysis gives ``KEY.unadjusted.p`` and ``KEY.unadjusted.verdict``. Whoever shows them has
``KEY.p`` and ``KEY.verdict`` of :mod:`tsnrepro.published.families`, which judges a paper's primary
comparisons together; of others it shows ``KEY.exploratory.p``. ``KEY.power...`` are the effect that
such a campaign finds in 80 % of cases, and how many repetitions would find a smaller one.
"""

import math
from collections.abc import Iterable, Mapping

from tsnrepro.records.values import Result
from tsnrepro.results.results import Results
from tsnrepro.results.runs import shown
from tsnrepro.stats.equivalence import Verdict
from tsnrepro.stats.estimate import SIGNIFICANCE
from tsnrepro.stats.power import (
    POWER,
    Scatter,
    as_student,
    repetitions_for_equivalence,
    repetitions_to_find,
    smallest_change_found,
)

CANNOT_TELL = str(Verdict.CANNOT_TELL)
_SHARE = f"{100 * POWER:g} %"
_DEVIATION = {
    "%": "standard deviation between repetitions of which Student's test finds as much",
    "percentage points": "standard deviation between repetitions, as if trials were independent",
}
_UNKNOWN = "unknown: neither limits nor loads tried show it"


def add_test(
    results: Results,
    key: str,
    p_value: float | None,
    verdict: str | None,
    trials: Iterable[str],
    *,
    beside: tuple[float | None, str] | None = None,
) -> None:
    """Add the p value and the verdict of a comparison as if it were the only one.

    Parameters
    ----------
    results, key
        The verdict's, without its last word.
    p_value, verdict
        None where nothing was compared.
    trials
        Of the comparison.
    beside
        The p value that is shown where the comparison is exploratory, that of the family of its
        table, and its method, or why nothing was compared.
    """
    p_value = None if p_value is None or math.isnan(p_value) else p_value
    method = f"of this comparison alone, at {SIGNIFICANCE:g}"
    found = verdict if p_value is not None and p_value <= SIGNIFICANCE else CANNOT_TELL
    word = None if verdict is None else found
    if beside is not None:
        shown_p, how = beside
        method = method if verdict else how
        results.value(f"{key}.exploratory.p", shown_p, trials, digits=3, method=how)
    results.value(f"{key}.unadjusted.p", p_value, trials, digits=4, method=method)
    results.value(f"{key}.unadjusted.verdict", word, trials, method=method)


def add_power(
    results: Results,
    key: str,
    scatter: Scatter | None,
    trials: Iterable[str],
    *,
    percent: float,
    tests: float = 1,
    equivalence: bool = False,
) -> None:
    """Add what a comparison's campaign finds in 80 % of cases, and what would find more.

    ``results`` and ``key``: the verdict's, without its last word; ``scatter``: between repetitions,
    None where the limits do not show it; ``percent``: change to find, or the margin of equivalence;
    ``tests``: comparisons that share one significance; ``equivalence``: whether the verdict is of
    equivalence within the margin, or of a difference beyond it.
    """
    if scatter is None:
        write_power(results, key, trials, (None, None), seen=(None, None), what=_UNKNOWN)
        return
    alpha = SIGNIFICANCE / tests
    known = as_student(scatter, alpha)
    if equivalence:
        found = smallest_change_found(known, alpha, beyond_percent=percent)
        needed = repetitions_for_equivalence(known, percent, alpha)
        what = f"to show equal ones equivalent within {percent:g} %"
    else:
        found = smallest_change_found(known, alpha)
        needed = repetitions_to_find(known, percent, alpha)
        what = f"to find a change of {percent:g} %"
    seen = 100 * known.deviation, known.repetitions
    # Too few pairs show no tail: one stall more, and a change is not found however large.
    none = "" if scatter.promises else f"or not with {scatter.repetitions} repetitions"
    write_power(results, key, trials, (found, needed), seen=seen, what=what, none=none)


def write_power(
    results: Results,
    key: str,
    trials: Iterable[str],
    power: tuple[float | None, int | None],
    *,
    seen: tuple[float | None, int | None],
    what: str,
    unit: str = "%",
    none: str = "",
    beside: str = "",
) -> None:
    """Add the values of :func:`add_power`.

    ``results``, ``key``, ``trials``: as there; ``power``: the smallest change found, and how many
    repetitions find what is asked for; ``seen``: the scatter, and of how many repetitions;
    ``what``: what is asked for, or why nothing is known; ``unit``: of the changes; ``none``: why
    the smallest change is not promised, if it is not; ``beside``: what else such campaigns find.
    """
    names, how, found = list(trials), what, power[0]
    if found is not None:
        how = f"smallest change found in {_SHARE} of campaigns, from the scatter of this one"
        what += f" in {_SHARE} of campaigns"
        what += "" if power[1] else "; more than any campaign has"
    if none:
        how = none if found is None else f"more than {found:.1f} {unit}, {none}"
        found = None
    what += beside and f"; {beside}"
    for name, value, of, digits, method in (
        ("detectable.percent", found, unit, 1 if found is None or found < 100 else 0, how),
        ("scatter.percent", seen[0], unit, 2, _DEVIATION[unit]),
        ("observed.count", seen[1], "", 0, "repetitions that show the scatter"),
        ("repetitions.count", power[1], "", 0, what),
    ):
        own = f"{key}.power.{name}"
        results.value(own, value, names, unit=of, digits=digits, method=method)


def with_power(item: Result, values: Mapping[str, Result]) -> str:
    """Return a result as the page prints it; "cannot tell" with what would have been found."""
    power = power_beside(item, values)
    return f"{shown(item)} ({power})" if power else shown(item)


def power_beside(item: Result, values: Mapping[str, Result]) -> str:
    """Return beside "cannot tell" what would have been found, beside other results nothing."""
    stem, _, last = item.key.rpartition(".")
    stem = stem.removesuffix(".unadjusted")
    found = values.get(f"{stem}.power.detectable.percent")
    needed = values.get(f"{stem}.power.repetitions.count")
    if item.value != CANNOT_TELL or last != "verdict" or not found or not needed:
        return ""
    if found.value is None and found.method == needed.method:
        return f"power {found.method}"
    change = found.method if found.value is None else shown(found)
    count = "" if needed.value is None else f"{shown(needed)} repetitions "
    return f"{_SHARE} of such campaigns find {change}; {count}{needed.method}"
