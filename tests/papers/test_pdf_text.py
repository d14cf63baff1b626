"""Word counts of built papers, and their pages with numbered tables and figures."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root
from tsnrepro.papers import pdf_text
from tsnrepro.published import documents as published


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("table 9A", "부하별 손실률(문서의 표 9A, 9B, 9C)"),
        ("table 9C", "부하별 손실률(문서의 표 9A, 9B,\n9C)"),
        ("table 8", "지연(원 논문의\n표 8)"),
        ("table 10B", "같은 층에서(문서의 표 5, 7, 10B와 6.1.2절)"),
        ("figure 2", "주기 안의 위치(보고서의 그림 1, 2)"),
        ("table 4.2", "UDP load without loss (Table 4.2 of the report)"),
        ("table A.3", "Latency (TABLE A.3 OF THE\nREPORT)"),
        ("section 2.4", "Latency by size (Section 2.4 of the report)"),
    ],
)
def test_an_item_is_found_by_its_caption(monkeypatch, item, text):
    assert page_of(monkeypatch, item, ["nothing here", text]) == "2"


def test_an_item_may_be_in_the_supplement(monkeypatch, tmp_path):
    (tmp_path / "a-supplement.pdf").touch()
    document = next(iter(published.documents().values()))
    one = {document.name: document.model_copy(update={"numbered": ["table 1"]})}
    monkeypatch.setattr(published, "documents", lambda: one)
    found = {"a": ["Table 2 of the report"], "a-supplement": ["", "Table 1 of the report"]}
    monkeypatch.setattr(pdf_text, "pages", lambda pdf: found[pdf.stem])
    assert pdf_text.numbered_items(tmp_path / "a.pdf", document.name) == {"table 1": "S2"}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("table 9", "부하별 손실률(문서의 표 9A, 9B)"),
        ("table 1", "mausezahn(문서의 표 10)"),
        ("table 10", "(문서의 표 10A)"),
        ("figure 4", "(문서의 표 4)"),
        ("table 4.2", "(Table 4.21 of the report)"),
        ("table 4.2", "see Table 4.2"),
        ("section 2.4", "(Section 2.4.1 of the report)"),
    ],
)
def test_another_item_is_not_found(monkeypatch, item, text):
    assert page_of(monkeypatch, item, [text]) is None


def page_of(monkeypatch, item, texts):
    document = next(iter(published.documents().values()))
    one = {document.name: document.model_copy(update={"numbered": [item]})}
    monkeypatch.setattr(published, "documents", lambda: one)
    monkeypatch.setattr(pdf_text, "pages", lambda pdf: texts)
    return pdf_text.numbered_items(Path("a.pdf"), document.name)[item]


def test_an_unknown_document_is_an_error(tmp_path):
    with pytest.raises(PublishError, match="no document 'frer'"):
        pdf_text.numbered_items(tmp_path / "a.pdf", "frer")


def test_an_invalid_pdf_is_an_error(tmp_path):
    (tmp_path / "a.pdf").write_text("text")
    with pytest.raises(PublishError, match=r"a\.pdf"):
        pdf_text.pages(tmp_path / "a.pdf")


def test_every_published_table_is_a_numbered_item():
    documents = published.documents()
    package = json.loads((root() / "data/published/datapackage.json").read_text(encoding="utf-8"))
    for resource in package["resources"]:
        document, table = resource["name"].split(".")
        if match := re.fullmatch(r"(table|figure)-(a-\d|\d+(?:-\d+)?[a-d]?)", table):
            number = match[2].upper().replace("-", ".")
            assert f"{match[1]} {number}" in documents[document].numbered


def test_the_table_has_missing_items():
    assert pdf_text.numbered_items_table({"a": {"table 1": "S3", "figure 2": None}}).splitlines()[
        1:
    ] == [
        f"{'a':28}{'table 1':16}{'S3':>6}",
        f"{'a':28}{'figure 2':16}{'none':>6}",
    ]


def test_words_are_counted_by_part(tmp_path, monkeypatch):
    texts = {"a": ["one two\nREFERENCES\n[1] three four"], "a-supplement": ["five", "six seven"]}
    monkeypatch.setattr(pdf_text, "pages", lambda pdf: texts[pdf.stem])
    pdfs = [tmp_path / f"{name}.pdf" for name in texts]
    pdfs[1].touch()
    rows = [line.split() for line in pdf_text.word_count_table(pdfs).splitlines()]
    assert rows == [
        ["paper", "part", "words", "characters", "pages"],
        ["a", "text", "2", "6", "1"],
        ["a", "references", "4", "22"],
        ["a", "supplement", "3", "12", "2"],
    ]


def test_pages_are_counted_against_those_that_the_venue_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf_text, "pages", lambda pdf: ["one"] * (3 if pdf.stem == "a" else 2))
    monkeypatch.setattr(pdf_text, "manuscripts", lambda: ("a", "b"))
    limited = SimpleNamespace(max_pages=2)
    monkeypatch.setattr(pdf_text, "sources_of", lambda name: limited)
    lines = pdf_text.word_count_table([tmp_path / "a.pdf", tmp_path / "b.pdf"]).splitlines()
    texts = [line for line in lines if " text " in line]
    assert [line.split("  ")[-1].strip() for line in texts] == [
        "3 of 2",
        "2 of 2",
    ]
    assert lines[-1] == "a: 3 pages, 2 allowed by its venue"
    limited.max_pages = None
    lines = pdf_text.word_count_table([tmp_path / "a.pdf"]).splitlines()
    assert "of" not in " ".join(lines).split()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("one two\nthree", [3, 0]),
        ("국문 초록\n참고문헌\n하나", [2, 2]),
        ("a reference to References in a line\n", [7, 0]),
    ],
)
def test_parts_begin_at_headings_alone_on_their_line(page, expected):
    assert [words for words, _ in pdf_text.word_counts(page).values()] == expected
