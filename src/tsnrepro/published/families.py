"""The verdicts on comparisons, which papers, report, ledger and ``tsnrepro.load`` give alike.

An analysis says of each comparison what it is alone, and has no verdict: that is made here.

A paper declares in ``sources.yaml`` on which comparisons its conclusions rest. In at most 5 % of
papers one of their verdicts is false: Holm's method over all of them, whatever their experiment. A
comparison of several papers is decided where each of them decides it. All others are exploratory:
pages show their limits and p values and no verdict, and no sentence rests on one. A sentence that
does is listed when the paper's inputs are written.
"""

from collections.abc import Iterable, Mapping, Sequence

from tsnrepro.config.papers import manuscripts, sources_of
from tsnrepro.records.values import Result
from tsnrepro.stats.estimate import SIGNIFICANCE

EXPLORATORY = "exploratory"
ALONE = ".unadjusted.p", ".unadjusted.verdict"
_P, _VERDICT, _EXPLORATORY_P = ".p", ".verdict", ".exploratory.p"


def primary_of_papers() -> list[list[str]]:
    """Return the primary comparisons of each paper."""
    return [sources_of(name).primary for name in manuscripts()]


def judged_together(
    values: Mapping[str, Result],
    papers: Iterable[Sequence[str]] | None = None,
    columns: Iterable[str] = (),
) -> dict[str, Result]:
    """Return values with the verdicts of papers' primary comparisons over all of each paper.

    Parameters
    ----------
    values
        By their key in the paper.
    papers
        The primary comparisons of each paper: keys without ``.verdict``; by default those of all
        papers. One that was not measured, or whose record is older than the values that this needs,
        takes no part.
    columns
        Names of columns of other testbeds, whose comparisons are families of their own.

    Returns
    -------
    dict
        With ``KEY.verdict`` and ``KEY.p`` before each ``KEY.unadjusted.p``. Of a primary comparison
        ``KEY.p`` is Holm's, and the verdict follows from it. Every other verdict is "exploratory",
        and its p value is that of the family of its table, if it has one.
    """
    # Not above: they take scipy, which who reads the documents' numbers alone does not need.
    from tsnrepro.stats.comparisons import holm  # noqa: PLC0415
    from tsnrepro.stats.equivalence import Verdict  # noqa: PLC0415

    judged, declared = {}, set()
    families = primary_of_papers() if papers is None else list(papers)
    for prefix in ("", *(f"{column}." for column in columns)):
        for primary in families:
            declared |= {prefix + key for key in primary}
            alone = {prefix + key: _number(values, prefix + key) for key in primary}
            known = {key: number for key, number in alone.items() if number is not None}
            adjusted = holm(list(known.values())) if known else ()
            for key, p_value in zip(known, adjusted, strict=True):
                judged[key] = max(judged.get(key, (0.0, 0)), (float(p_value), len(known)))
    found: dict[str, Result] = {}
    for key, item in values.items():
        stem = key.removesuffix(ALONE[0])
        if stem != key and stem + ALONE[1] in values:
            p, own = (values[stem + name] for name in ALONE)
            if stem in judged:
                p_value, members = judged[stem]
                method = f"Holm over the paper's {members} primary comparisons at {SIGNIFICANCE:g}"
                verdict = own.value if p_value <= SIGNIFICANCE else str(Verdict.CANNOT_TELL)
                found[stem + _P] = _made(stem + _P, p, p_value, method)
                found[stem + _VERDICT] = _made(stem + _VERDICT, own, verdict, method)
            else:
                found |= _alone(stem, values, primary=stem in declared)
        if not key.endswith(_EXPLORATORY_P):
            found.setdefault(key, item)
    return found


def _alone(stem: str, values: Mapping[str, Result], *, primary: bool) -> dict[str, Result]:
    """Return p value and verdict of a comparison that no others are judged with.

    That is a primary one whose p value is not known, and each exploratory one.
    """
    own, beside = values[stem + ALONE[1]], values.get(stem + _EXPLORATORY_P)
    found = {}
    if beside is not None:
        found[stem + _P] = beside.model_copy(update={"key": stem + _P})
    kept = primary or not own.value
    verdict = own.value if kept else EXPLORATORY
    why = own.method if kept else "no conclusion of a paper rests on it"
    return found | {stem + _VERDICT: _made(stem + _VERDICT, own, verdict, why)}


def _made(key: str, like: Result, value: float | str | None, method: str) -> Result:
    return like.model_copy(update={"key": key, "value": value, "method": method})


def judged_by_run(measured: Mapping[str, Mapping[str, Result]]) -> dict[str, dict[str, Result]]:
    """Return the values of each run, by its name, with the verdicts over all of them."""
    judged = judged_together({key: item for own in measured.values() for key, item in own.items()})
    return {
        name: {k: item for k, item in judged.items() if k in own or measured_key(k) in own}
        for name, own in measured.items()
    }


def measured_key(key: str) -> str:
    """Return the key of the result that a verdict, or its p value, is made of; others as they are.

    That key is in the values of an analysis, as no verdict of a test is.
    """
    stem = key.removesuffix(_VERDICT).removesuffix(_P)
    return stem + ALONE[0] if stem != key else key


def _number(values: Mapping[str, Result], key: str) -> float | None:
    """Return the p value of a comparison alone, None where it is not known."""
    there = [values.get(key + name) for name in ALONE]
    if any(item is None or item.value is None for item in there):
        return None
    number = values[key + ALONE[0]].value
    return float(number) if isinstance(number, int | float) else None
