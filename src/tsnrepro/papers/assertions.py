r"""Sentences of a manuscript that draw a conclusion, and whether the record carries them.

The first argument of ``\asserted{condition}{sentence}`` is a statement over results, in the
language of claims: ``measured("latency.p50.verdict") == "higher"``. A sentence whose condition the
results do not show is printed struck, with what they show beside it, and no submission is packed
with it.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tsnrepro.common.errors import PublishError, TsnreproError
from tsnrepro.common.latex import escape
from tsnrepro.papers.latex_source import arguments, uncommented
from tsnrepro.papers.manuscript import place_of, without_comments
from tsnrepro.published.expressions import ExpressionStep, MissingResultError, parse
from tsnrepro.published.families import ALONE
from tsnrepro.records.values import Result

ASSERTIONS_FILE = "assertions.json"
REWRITE = "Rewrite each as the record has it, or measure what it needs"
_COMMAND = re.compile(r"\\asserted(?=\s*\{)")
_RESTS_ON = re.compile(
    r"\\(?:caseval|ifval)\{([^{}]*)\.verdict\}|measured\(\"([^\"]*)\.verdict\"\)"
)


@dataclass(frozen=True)
class Assertion:
    """One sentence that draws a conclusion.

    Attributes
    ----------
    place
        Its file and line.
    condition
        The statement over results, with single blanks.
    sentence
        Its LaTeX source.
    carried
        Whether the results show the condition.
    found
        What they show: its comparisons with their numbers, or what is missing.
    """

    place: str
    condition: str
    sentence: str
    carried: bool
    found: str

    @property
    def text(self) -> str:
        """The assertion in three lines, for a terminal."""
        state = "carried" if self.carried else "not carried"
        sentence = textwrap.shorten(self.sentence, 90, placeholder=" ...")
        return f"{self.place}: {state}: {sentence}\n  {self.condition}\n  {self.found}"


def one_line(condition: str) -> str:
    """Return a condition with single blanks, as TeX reads it."""
    return " ".join(condition.split())


def assertions(manuscript: Path, values: Mapping[str, Result]) -> list[Assertion]:
    """Return the assertions of a manuscript, judged by its values, by file and line.

    Raises PublishError if a condition is no statement in the language of claims; the message has
    its place.
    """
    found = []
    for path in sorted(manuscript.rglob("*.tex")):
        text = without_comments(path.read_text(encoding="utf-8"))
        for match in _COMMAND.finditer(text):
            place = place_of(match, text, path.relative_to(manuscript).as_posix())
            (condition, sentence), _ = arguments(text, match.end(), 2)
            found.append(_judged(place, one_line(condition), one_line(sentence), values))
    return found


def _judged(place: str, condition: str, sentence: str, values: Mapping[str, Result]) -> Assertion:
    # Snakemake reads this module at each start, and the claims take a tenth of that.
    from tsnrepro.published.derived_results import RecordedValues  # noqa: PLC0415

    steps: list[ExpressionStep] = []
    try:
        truth = parse(condition).evaluate(RecordedValues(values, {}), steps)
    except MissingResultError as error:
        return Assertion(place, condition, sentence, carried=False, found=str(error))
    except (TsnreproError, LookupError, TypeError, ValueError) as error:
        raise PublishError(
            f"'{condition}' is no condition: {error}",
            place,
            'Write a statement over results, as measured("latency.p50.verdict") == "higher"',
        ) from error
    found = "; ".join(step.text for step in steps)
    return Assertion(place, condition, sentence, carried=truth is True, found=found)


def assertion_fields(judged: Iterable[Assertion]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the fields of ``values.tex`` from which LaTeX prints each assertion, by key."""
    for one in judged:
        yield (
            f"asserted.{one.condition}",
            {"print": escape(one.found), "raw": "true" if one.carried else "false"},
        )


def as_json(judged: Iterable[Assertion]) -> str:
    """Return assertions as the text of their file."""
    return json.dumps([asdict(one) for one in judged], indent=1, ensure_ascii=False) + "\n"


def read_assertions(results: Path) -> list[Assertion]:
    """Return the assertions of a built paper, from its results folder.

    Raises PublishError if the paper is not built.
    """
    path = results / ASSERTIONS_FILE
    if not path.is_file():
        raise PublishError("the paper is not built", str(path), "Run snakemake first")
    return [Assertion(**one) for one in json.loads(path.read_text(encoding="utf-8"))]


def check_assertions(judged: Iterable[Assertion], paper: str) -> None:
    """Check that the record carries every assertion.

    Raises PublishError if one is not carried; the message lists all of them.
    """
    lacking = [one.text for one in judged if not one.carried]
    if lacking:
        raise PublishError(
            f"the record does not carry {len(lacking)} sentence(s):\n" + "\n".join(lacking),
            paper,
            REWRITE,
        )


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
                if not known and key + ALONE[0] in values:
                    place = f"{path.relative_to(manuscript)}:{number}"
                    yield f"{place}: {key} is exploratory, and no sentence rests on its verdict"
