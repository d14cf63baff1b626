"""Each term of the field is translated once, in every Korean text of the repository."""

import re

import pytest
from tracked_files import tracked

from tsnrepro.common.repository import root
from tsnrepro.papers.glossary import glossary
from tsnrepro.papers.manuscript import without_comments

TERMS = glossary()
# A Korean word of the text may begin with a term, and end with a particle.
TEXTS = {
    str(path.relative_to(root())): without_comments(path.read_text(encoding="utf-8"))
    for path in [
        *tracked("paper/**/*.tex"),
        root() / "paper" / "tsnrepro.sty",
        root() / "README.ko.md",
    ]
}


def second_translations(texts):
    """Return where a text has another translation of a term than the one."""
    return [
        f"{place}: '{other}' for {term.english}, which is '{term.korean}'"
        for place, text in texts.items()
        for term in TERMS
        for other in term.never
        if re.sub(r"\s+", " ", other) in re.sub(r"\s+", " ", text)
    ]


def test_no_text_has_a_second_translation():
    assert second_translations(TEXTS) == []


@pytest.mark.parametrize("text", ["TCP 처리율은 같다.", "시간 인식\n셰이퍼는"])
def test_a_second_translation_would_be_found(text):
    assert len(second_translations({"a.tex": text})) == 1


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.english)
def test_a_term_is_used(term):
    assert any(term.korean in text for text in TEXTS.values())


def test_a_word_stands_for_one_term():
    for names in ([t.english for t in TERMS], [t.korean for t in TERMS]):
        assert len(names) == len({*names})
    translations = {t.korean for t in TERMS}
    others = [other for t in TERMS for other in t.never]
    assert len(others) == len({*others})
    assert not [(o, t) for o in others for t in translations if o in t]
