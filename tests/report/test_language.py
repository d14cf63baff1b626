"""A report in Korean: all texts of its pages are translated, with their fields, in our terms."""

import re
import string
from pathlib import Path

import pytest

import tsnrepro.report
from tsnrepro.config.registry import experiments
from tsnrepro.papers.glossary import glossary
from tsnrepro.report import overview, provenance_graph, questions, site, trial_pages
from tsnrepro.results.figures import PLACE_LABELS
from tsnrepro.results.language import korean, translator
from tsnrepro.results.testbed import _LABELS

FOLDER = Path(tsnrepro.report.__file__).parent
LITERAL = re.compile(r"""(?:\b_|heading)\("((?:[^"\\]|\\.)+)\"""")
HANGUL = re.compile("[가-힣]")
# The same in both languages.
SAME = {"FRER"}


def texts():
    """Return what pages print: of the templates, the experiments, the questions and the rows."""
    found = set(site._SCRIPT_TEXTS) | {*PLACE_LABELS.values(), *_LABELS.values()}
    for path in (FOLDER / "templates").glob("*.j2"):
        found |= {*LITERAL.findall(path.read_text(encoding="utf-8"))}
    for path in (site, provenance_graph):
        found |= {*re.findall(r'self\.text\(\s*f?"([^"{]+)"', Path(path.__file__).read_text())}
    for experiment in experiments().values():
        found |= {experiment.title, *experiment.figures.values()}
    for question in questions.QUESTIONS:
        found |= {question.text, *question.answers.values(), *question.measured}
    found |= {row.label for row in overview._COMPARED} | {*overview.LATENCIES.values()}
    found |= {*trial_pages._MADE.values(), *trial_pages._ENDED.values()}
    return found - SAME


@pytest.mark.parametrize("text", sorted(texts()))
def test_a_text_of_the_pages_has_its_korean(text):
    assert HANGUL.search(korean()[text]), text


def test_translations_keep_the_fields():
    def fields(text):
        return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)

    for english, text in korean().items():
        assert fields(text) == fields(english), english


def test_translations_use_the_terms_of_the_glossary():
    avoided = {word: term.korean for term in glossary() for word in term.never}
    for text in korean().values():
        assert not [word for word in avoided if word in text], text


def test_a_text_is_escaped_with_its_fields_and_not_without():
    translate = translator("ko")
    assert translate("campaign {name}", name="<b>") == "캠페인 &lt;b&gt;"
    assert translate("loss.threshold") == "loss.threshold"
    assert translator("en")("Results") == "Results"
