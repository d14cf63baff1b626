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
from tsnrepro.results.language import korean, korean_methods, method_in, translator
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

    for english, text in (korean() | korean_methods()).items():
        assert fields(text) == fields(english), english


def test_translations_use_the_terms_of_the_glossary():
    avoided = {word: term.korean for term in glossary() for word in term.never}
    for text in [*korean().values(), *korean_methods().values()]:
        assert not [word for word in avoided if word in text], text


def test_a_text_is_escaped_with_its_fields_and_not_without():
    translate = translator("ko")
    assert translate("campaign {name}", name="<b>") == "캠페인 &lt;b&gt;"
    assert translate("loss.threshold") == "loss.threshold"
    assert translator("en")("Results") == "Results"


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("count", "개수"),
        ("no interval: no trial gives it", "구간 없음: 값이 있는 시행 없음"),
        (
            "range over 3 runs, no interval: too few for the median's",
            "시행 3회의 범위, 구간 없음: 중앙값의 구간을 구하기에는 시행이 부족함",
        ),
        (
            "bound: Student t of differences by repetition of logarithms",
            "보수적 한계: 로그값의 반복별 차이의 Student t",
        ),
        (
            "no interval: 0 of 3 trials lost; the chance that one loses is at most 63 % (95 %, "
            "one-sided)",
            "구간 없음: 시행 3회 중 0회 손실, 손실 확률은 최대 63 %(단측 95 %)",
        ),
        ("no interval: the cable was {loose}", "구간 없음: the cable was {loose}"),
        ("a method of one's own", "a method of one's own"),
    ],
)
def test_a_method_is_translated_with_its_parts(method, text):
    assert method_in("ko", method) == text
    assert method_in("en", method) == method


def test_every_method_is_found_by_its_own_pattern():
    for english, text in korean_methods().items():
        filled = {name: "7" for _, name, _, _ in string.Formatter().parse(english) if name}
        assert method_in("ko", english.format(**filled)) == text.format(**filled)
