"""A report in Korean: all texts of its pages are translated, with their fields, in our terms."""

import re
import string
from pathlib import Path

import pytest

import tsnrepro.report
from tsnrepro.common.repository import root
from tsnrepro.config.registry import experiments
from tsnrepro.papers.glossary import glossary
from tsnrepro.published import documents, ledger
from tsnrepro.published.audit import run_audit
from tsnrepro.published.audit_findings import Severity
from tsnrepro.published.claims import Verdict, load_claims
from tsnrepro.report import overview, provenance_graph, questions, site, trial_pages
from tsnrepro.results.figures import PLACE_LABELS
from tsnrepro.results.language import korean, korean_methods, method_in, translator
from tsnrepro.results.testbed import _LABELS

FOLDER = Path(tsnrepro.report.__file__).parent
LITERAL = re.compile(r"""(?:\b_|heading)\("((?:[^"\\]|\\.)+)\"[,)]""")
HANGUL = re.compile("[가-힣]")
CLAIMS = load_claims(root() / "data" / "published" / "claims.yaml")
# The same in both languages.
SAME = {"FRER"}


def texts():
    """Return what pages print: of the templates, the experiments, the questions and the rows."""
    found = set(site._SCRIPT_TEXTS) | {*PLACE_LABELS.values(), *_LABELS.values()}
    ledger_page = Path(ledger.__file__).parent / "templates" / "ledger.html.j2"
    for path in (*(FOLDER / "templates").glob("*.j2"), ledger_page):
        found |= {*LITERAL.findall(path.read_text(encoding="utf-8"))}
    for path in (site, provenance_graph):
        found |= {*re.findall(r'self\.text\(\s*f?"([^"{]+)"', Path(path.__file__).read_text())}
    for experiment in experiments().values():
        found |= {experiment.title, *experiment.figures.values()}
    for question in questions.QUESTIONS:
        found |= {question.text, *question.answers.values(), *question.measured}
    found |= {row.label for row in overview._COMPARED} | {*overview.LATENCIES.values()}
    found |= {*trial_pages._MADE.values(), *trial_pages._ENDED.values()}
    found |= {*Severity, *Verdict, *ledger._SEVERITIES.values(), *ledger._VERDICTS.values()}
    found |= {claim.text for claim in CLAIMS} | {
        one.short for one in documents.documents().values()
    }
    return found - SAME


def test_a_ledger_says_in_korean_what_each_claim_is_where_it_stands_and_how_it_was_judged():
    result = run_audit({})
    text = translator("ko", composed=True)
    for judgement in result.judgements:
        assert not re.search("[a-z]", text(judgement.claim.location)), judgement.claim.location
        assert HANGUL.search(text(judgement.ground or judgement.reason))
        assert HANGUL.search(
            text(f"not decided by these experiments; it needs {judgement.claim.needs}")
        )
        assert method_in("ko", judgement.claim.needs) != judgement.claim.needs
    page = ledger.html_ledger(result, "index.html", "ko", text)
    assert '<html lang="ko">' in page
    assert "한 경로가 단절되어도 패킷 손실이 없다." in page
    for english in ("Numbers and formula", "any verdict", "cannot tell</span>", "By the record"):
        assert english not in page


@pytest.mark.parametrize(
    ("text", "korean_text"),
    [
        ("Abstract; Section 4.1, Table 4.1", "초록; 4.1절, 표 4.1"),
        ("44 checks, 3 had no rows to compare", "검사 44건, 비교할 행이 없는 검사 3건"),
        (
            "interval: a.b (3 [2, 4]), open whether within 5 % of c (3); d (1), not > 2",
            "구간: a.b (3 [2, 4]): c (3)의 5 % 이내 여부 판단 불가; d (1): > 2 아님",
        ),
        (
            "not decided by these experiments; it needs datagrams sent and received",
            "이 실험으로는 판정할 수 없음. 필요한 자료: 송신한 데이터그램과 수신한 데이터그램의 수",
        ),
        (
            "Simulated: what the model's queues do, not what Intel i210 does.",
            "시뮬레이션: 모델의 큐에서 얻은 결과이며 Intel i210의 성능이 아니다.",
        ),
    ],
)
def test_a_text_of_the_ledger_is_put_together_of_others(text, korean_text):
    assert translator("ko", composed=True)(text) == korean_text
    assert translator("en", composed=True)(text) == text


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
