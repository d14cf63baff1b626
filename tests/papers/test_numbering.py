import json
import re

import pytest

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root
from tsnrepro.papers import numbering as numbered
from tsnrepro.published import documents as published


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("table 9A", "부하별 손실률(문서의 표 9A, 9B, 9C)"),
        ("table 9C", "부하별 손실률(문서의 표 9A, 9B,\n9C)"),
        ("table 10B", "같은 층에서(문서의 표 5, 7, 10B와 6.1.2절)"),
        ("figure 2", "주기 안의 위치(보고서의 그림 1, 2)"),
        ("table 4.2", "UDP load without loss (Table 4.2 of the report)"),
        ("table A.3", "Latency (TABLE A.3 OF THE\nREPORT)"),
        ("section 2.4", "Latency by size (Section 2.4 of the report)"),
    ],
)
def test_an_item_is_found_as_captions_name_it(monkeypatch, item, text):
    assert place_of(monkeypatch, item, ["nothing here", text]) == 2


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
def test_another_item_is_not_taken_for_it(monkeypatch, item, text):
    assert place_of(monkeypatch, item, [text]) is None


def place_of(monkeypatch, item, texts):
    document = next(iter(published.documents().values()))
    one = {document.name: document.model_copy(update={"numbered": [item]})}
    monkeypatch.setattr(published, "documents", lambda: one)
    monkeypatch.setattr(numbered, "pages", lambda pdf: texts)
    return numbered.places("a.pdf", document.name)[item]


def test_a_document_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PublishError, match="no document 'frer'"):
        numbered.places(tmp_path / "a.pdf", "frer")


def test_what_is_no_pdf_is_named(tmp_path):
    (tmp_path / "a.pdf").write_text("text")
    with pytest.raises(PublishError, match=r"a\.pdf"):
        numbered.pages(tmp_path / "a.pdf")


def test_every_table_of_the_published_numbers_is_one_that_a_paper_has_to_print():
    documents = published.documents()
    package = json.loads((root() / "data/published/datapackage.json").read_text(encoding="utf-8"))
    for resource in package["resources"]:
        document, table = resource["name"].split(".")
        if match := re.fullmatch(r"(table|figure)-(a-\d|\d+(?:-\d+)?[a-d]?)", table):
            number = match[2].upper().replace("-", ".")
            assert f"{match[1]} {number}" in documents[document].numbered


def test_the_table_tells_what_is_missing():
    assert numbered.as_table({"a": {"table 1": 3, "figure 2": None}}).splitlines()[1:] == [
        f"{'a':28}{'table 1':16}{3:>6}",
        f"{'a':28}{'figure 2':16}{'none':>6}",
    ]
