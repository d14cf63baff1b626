r"""A paper's primary comparisons, which are judged together, and its exploratory ones.

A paper declares in ``sources.yaml`` on which comparisons its conclusions rest. In at most 5 % of
papers one of their verdicts is false: Holm's method over all of them, whatever their experiment.
The others are exploratory. Tables show them with the verdict of their experiment, and no sentence
rests on one: a sentence that does is listed when the paper's inputs are written.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tsnrepro.papers.latex_source import uncommented
from tsnrepro.records.values import Result
from tsnrepro.results.verdicts import CANNOT_TELL, SIGNIFICANCE
from tsnrepro.stats.comparisons import holm

EXPLORATORY = "exploratory"
_VERDICT = ".verdict"
_ALONE = ".unadjusted.p", ".unadjusted.verdict"
_RESTS_ON = re.compile(
    r"\\(?:caseval|ifval)\{([^{}]*)\.verdict\}|measured\(\"([^\"]*)\.verdict\"\)"
)


def judged_together(values: Mapping[str, Result], primary: Sequence[str]) -> dict[str, Result]:
    """Return a paper's values with the verdicts of its primary comparisons over all of them.

    Parameters
    ----------
    values
        By their key in the paper.
    primary
        Keys of the primary comparisons without ``.verdict``. One that was not measured, or whose
        record is older than the values that this needs, takes no part.

    Returns
    -------
    dict
        ``KEY.p`` of a primary comparison is Holm's over them, and ``KEY.verdict`` follows from it.
        The method of every other verdict begins with "exploratory".
    """
    found = dict(values)
    alone = {key: _number(values, key) for key in primary}
    known = {key: number for key, number in alone.items() if number is not None}
    members = list(known)
    adjusted = holm(list(known.values())) if known else ()
    method = f"Holm over the paper's {len(members)} primary comparisons at {SIGNIFICANCE:g}"
    for key, p_value in zip(members, adjusted, strict=True):
        p, own = (values[key + name] for name in _ALONE)
        verdict = own.value if p_value <= SIGNIFICANCE else CANNOT_TELL
        for name, like, value in ((".p", p, float(p_value)), (_VERDICT, own, verdict)):
            new = {"key": key + name, "value": value, "method": method}
            found[key + name] = like.model_copy(update=new)
    for key, item in values.items():
        stem = key.removesuffix(_VERDICT)
        if stem != key and stem + _ALONE[0] in values and stem not in members:
            found[key] = item.model_copy(update={"method": f"{EXPLORATORY}: {item.method}"})
    return found


def _number(values: Mapping[str, Result], key: str) -> float | None:
    """Return the p value of a comparison alone, None where it is not known."""
    there = [values.get(key + name) for name in (*_ALONE, _VERDICT)]
    if any(item is None or item.value is None for item in there):
        return None
    number = values[key + _ALONE[0]].value
    return float(number) if isinstance(number, int | float) else None


def exploratory_sentences(
    manuscript: Path, values: Mapping[str, Result], primary: Sequence[str]
) -> Iterator[str]:
    """Yield each place at which a text depends on the verdict of an exploratory comparison."""
    for path in sorted(manuscript.rglob("*.tex")):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            named = _RESTS_ON.findall(uncommented(line))
            for key in filter(None, (name for pair in named for name in pair)):
                # Of another column's comparison the one here decides whether it is primary.
                known = {key, key.partition(".")[2]} & {*primary}
                if not known and key + _ALONE[0] in values:
                    place = f"{path.relative_to(manuscript)}:{number}"
                    yield f"{place}: {key} is exploratory, and no sentence rests on its verdict"
