"""The verdicts on comparisons, which papers, report and ledger print alike.

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
_VERDICT = ".verdict"
ALONE = ".unadjusted.p", ".unadjusted.verdict"


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
        ``KEY.p`` of a primary comparison is Holm's, and ``KEY.verdict`` follows from it. Every
        other verdict that a test gives is "exploratory", whatever it was.
    """
    # Not above: they take scipy, which who reads the documents' numbers alone does not need.
    from tsnrepro.stats.comparisons import holm  # noqa: PLC0415
    from tsnrepro.stats.equivalence import Verdict  # noqa: PLC0415

    found, judged, declared = dict(values), {}, set()
    families = primary_of_papers() if papers is None else list(papers)
    for prefix in ("", *(f"{column}." for column in columns)):
        for primary in families:
            declared |= {prefix + key for key in primary}
            alone = {prefix + key: _number(values, prefix + key) for key in primary}
            known = {key: number for key, number in alone.items() if number is not None}
            adjusted = holm(list(known.values())) if known else ()
            for key, p_value in zip(known, adjusted, strict=True):
                judged[key] = max(judged.get(key, (0.0, 0)), (float(p_value), len(known)))
    for key, (p_value, members) in judged.items():
        p, own = (values[key + name] for name in ALONE)
        verdict = own.value if p_value <= SIGNIFICANCE else str(Verdict.CANNOT_TELL)
        method = f"Holm over the paper's {members} primary comparisons at {SIGNIFICANCE:g}"
        for name, like, value in ((".p", p, p_value), (_VERDICT, own, verdict)):
            new = {"key": key + name, "value": value, "method": method}
            found[key + name] = like.model_copy(update=new)
    for key, item in values.items():
        stem = key.removesuffix(_VERDICT)
        if stem != key and item.value and stem + ALONE[0] in values and stem not in declared:
            method = "no conclusion of a paper rests on it"
            found[key] = item.model_copy(update={"value": EXPLORATORY, "method": method})
    return found


def _number(values: Mapping[str, Result], key: str) -> float | None:
    """Return the p value of a comparison alone, None where it is not known."""
    there = [values.get(key + name) for name in (*ALONE, _VERDICT)]
    if any(item is None or item.value is None for item in there):
        return None
    number = values[key + ALONE[0]].value
    return float(number) if isinstance(number, int | float) else None
