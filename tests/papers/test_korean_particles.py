"""Korean particles after numbers, units and words."""

import pytest

from tsnrepro.papers.korean_particles import particle
from tsnrepro.papers.pandoc_source import Numbering, pandoc_source


@pytest.mark.parametrize(
    ("before", "form"),
    [
        # 영, 일, 이, 삼, ..., 구
        *zip("0123456789", "은은는은는는은은은는", strict=True),
        *(("단말", "은"), ("스위치", "는"), ("95 %", "는"), ("941.4 Mb/s", "는"), ("P99.9", "는")),
        *(("12 [10, 13]", "은"), ("값(2)", "는"), ("FRER 없음", "은"), ("경로 M", "은")),
    ],
)
def test_the_topic_depends_on_the_pronunciation(before, form):
    assert particle("은", before) == particle("는", before) == form


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("이", "가 이 이"),
        ("을", "를 을 을"),
        ("과", "와 과 과"),
        ("로", "로 로 으로"),
        ("라", "라 이라 이라"),
    ],
)
def test_each_particle_has_its_forms(word, forms):
    assert [particle(word, number) for number in ("2", "1", "3")] == forms.split()


def test_the_copula_is_dropped_after_a_vowel():
    assert [particle("이", number, "다") for number in "213"] == ["", "이", "이"]


def test_particles_of_an_html_page_follow_its_numbers():
    link = r"\hyperlink{tsn:a.b}{%s}"
    body = f"{link % 12}\\은 {link % 3}\\,Mb/s\\로, {link % '[5, 6]'}\\이다. "
    body += r"\textbf{값}\이 있다."
    text = pandoc_source(f"\\begin{{document}}{body}\\end{{document}}", Numbering(), "", True).text
    for part in ("{12}는 ", "Mb/s로,", "{[5, 6]}이다.", "값}이 있다"):
        assert part in text
