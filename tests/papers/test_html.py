"""The HTML page of a paper has the content of the PDF, and every number links to its entry."""

import html
import json
import re
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from browser_tabs import CHROMIUM
from manuscript_checks import latex
from small_paper import MAIN, small_paper
from synthetic_results import write_figures
from test_frer_udp_manuscript import PAPER as ENGLISH
from test_frer_udp_manuscript import prepared as english
from test_tas_evaluation_manuscript import PAPER as KOREAN
from test_tas_evaluation_manuscript import TestPages as KoreanPages

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.html import write_html
from tsnrepro.papers.pandoc_source import Numbering, pandoc_source

pytestmark = [
    *latex,
    pytest.mark.skipif(not shutil.which("pandoc"), reason="pandoc is not installed"),
]

AUX = r"""
\newlabel{sec:one}{{\mbox  {I-A}}{1}{First}{subsection.1.1}{}}
\newlabel{tab:one}{{II}{1}{Rates}{table.2}{}}
\newlabel{fig:one}{{1}{1}{A figure}{figure.1}{}}
\@writefile{toc}{\contentsline {section}{\numberline {I}First}{1}{section.1}\protected@file@percent }
\@writefile{toc}{\contentsline {subsection}{\numberline {\mbox  {I-A}}Second}{1}{subsection.1.1}\protected@file@percent }
\@writefile{toc}{\contentsline {section}{References}{6}{section*.2}\protected@file@percent }
\@writefile{toc}{\contentsline {section}{Appendix\nobreakspace  A: More}{8}{section*.3}\protected@file@percent }
"""  # noqa: E501
BIBLIOGRAPHY = r"\bibitem{b} B. Author, \emph{B}. \bibitem{a} A, ``A.'' \end{thebibliography}"
TABLE = r"""
\begin{table}[t]
  \caption{Rates}\label{%s}
  \begin{tabular}{@{}lr@{}}
    \toprule & \multicolumn{1}{c@{}}{Rate} \\ \cmidrule(l){2-2} Path & (Mb/s) \\
    \midrule one & 941.4 \\[2pt] \bottomrule
  \end{tabular}
  \tablenotes{A note.}
\end{table}
"""


FIGURE = {
    **{"path": "loss/a-figure.pdf", "sha256": "0" * 64},
    "made": {
        **{"rule": "analyse", "program": "loss.ipynb", "code": "0123", "experiment": "loss"},
        **{"trials": 2, "run": "4" * 64},
    },
}


def converted(body, korean=False, aux=AUX):
    text = f"\\begin{{document}}{body}\\end{{document}}"
    return pandoc_source(text, Numbering.from_aux(aux), BIBLIOGRAPHY, korean)


def small_page(folder, language="hangul"):
    """Return the HTML page of a small paper with a table and a picture."""
    table = TABLE.replace("941.4", r"\val{a.rate.mbps}") % "tab:two"
    drawing = r"\begin{figure}\begin{picture}(40,20)\put(0,0){\framebox(40,20){두}}\end{picture}"
    drawing += r"\caption{A box of \val{a.rate.mbps}}\label{fig:one}\end{figure}"
    main = MAIN.replace("\\begin{document}", "\\hypersetup{pdftitle={A Title}}\n\\begin{document}")
    main = main.replace(
        r"\bibliographystyle",
        f"{drawing}{table}\\measuredfigure{{loss/none}}\n\\bibliographystyle",
        1,
    )
    main = main.replace("[hangul]", f"[{language}]")
    manuscript, results = small_paper(folder, main=main)
    aux = re.sub(r"(?m)^.*(?:numberline|tab:one).*\n", "", AUX)
    aux = aux.replace("Appendix", "부록") if language == "korean" else aux
    (results / "small.aux").write_text(aux, encoding="utf-8")
    value = {"key": "a.rate.mbps", "value": 941.4, "low": None, "high": None, "unit": "Mb/s"}
    value |= {"digits": 1, "method": "mean", "run": "tcp", "trials": ["one", "two"]}
    value |= {"sha256": "ab" * 32, "printed_at": [], "commits": ["c0ffee" * 6 + "abcd"]}
    record = {"commit": "0" * 40, "measured": [value]}
    (results / "provenance.json").write_text(
        json.dumps(record | {"published": [], "files": [FIGURE]}), encoding="utf-8"
    )
    write_figures(results / "figures" / "loss", ["a-figure"])
    with chdir(folder):
        write_html(manuscript, results.relative_to(folder), Path("small.html"))
    return folder / "small.html"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_page(tmp_path_factory.mktemp("html"))


def links(page):
    """Return the text of each link within a page, by where it leads."""
    found = re.findall(r'<a\s+href="#([^"]*)"[^>]*>(.*?)</a>', page, re.S)
    return [(html.unescape(place), squeezed(text)) for place, text in found]


def squeezed(text):
    """Return the words of a piece of HTML without spaces."""
    text = re.sub(r"<annotation.*?</annotation>|<[^>]*>", "", text, flags=re.S)
    return re.sub(r"\s", "", html.unescape(text))


def test_the_numbering_is_that_of_the_pdf():
    body = r"\section{First}\subsection{Second}\ref{sec:one}, \cite{a,b}\appendices\section{More}"
    text = converted(body + r"\section*{Not numbered}").text
    assert r"\section{I. First}\subsection{I-A. Second}" in text
    assert r"\hyperlink{sec:one}{I-A}, \hyperlink{bib:a}{[2]}, \hyperlink{bib:b}{[1]}" in text
    assert r"\section{Appendix A. More}\section*{Not numbered}" in text


def test_a_formula_of_one_value_is_its_link():
    text = converted(
        r"$\hyperlink{tsn:a}{68}\times$, a $-$ b and $\hyperlink{tsn:a}{1}+\hyperlink{tsn:b}{2}$"
    )
    assert text.text == r"\hyperlink{tsn:a}{68×}, a − b and $1+2$"


def test_captions_are_counted_and_checked():
    first, second = TABLE % "tab:none", TABLE % "tab:one"
    text = converted(first + second).text
    assert [*re.findall(r"\\textbf\{(Table \w+)\.\}", text)] == ["Table I", "Table II"]
    with pytest.raises(PublishError, match=r"table I is II in the PDF .*tab:one"):
        converted(second)
    with pytest.raises(PublishError, match=r"table 1 is II in the PDF"):
        converted(second, korean=True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (r"\ref{sec:none}", "no number for a reference .*sec:none"),
        (r"\cite{a,c}", "a citation has no reference .*c"),
        (r"\section{One}" * 4, "no number for a section .*One"),
    ],
)
def test_what_the_pdf_does_not_number_is_an_error(body, says):
    with pytest.raises(PublishError, match=says):
        converted(body)


def test_a_page_is_self_contained(small):
    page = small.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "default-src 'none'" in html.unescape(page)
    assert set(re.findall(r'(?:src|href)="([a-z]+):', page)) == {"data"}
    assert "<title>A Title</title>" in page
    assert '<html lang="en">' in page


def test_every_link_has_a_target(small):
    page = small.read_text(encoding="utf-8")
    there = re.findall(r'\bid="([^"]*)"', page)
    assert len(there) == len({*there})
    assert {place for place, _ in links(page)} <= {*map(html.unescape, there)}
    assert {("tsn:a.rate.mbps", "941.4Mb/s"), ("tsn:loss/a-figure", "")} <= {*links(page)}
    assert "Experiment tcp, 2 trials" in page
    assert "<code>c0ffeec0ffee</code>" in page


def test_the_appendix_of_a_korean_paper_is_in_korean(tmp_path):
    page = small_page(tmp_path, "korean").read_text(encoding="utf-8")
    appendix = html.unescape(page.partition('class="provenance"')[2])
    assert "실험 tcp, 시행 2회" in appendix
    assert re.findall(r'<th scope="col">([^<]*)', appendix)[:3] == [
        "값",
        "추정값, 95 % 구간",
        "방법",
    ]
    assert "loss의 시행 2회" in appendix
    assert "Experiment" not in appendix


def test_a_table_has_a_head_and_a_picture_its_caption(small):
    page = small.read_text(encoding="utf-8")
    head, rows = re.search(r"<thead>(.*?)</thead>\s*<tbody>(.*?)</tbody>", page, re.S).groups()
    assert squeezed(head) == "RatePath(Mb/s)"
    assert squeezed(rows) == "one941.4"
    assert squeezed(re.search(r"<figcaption>(.*?)</figcaption>", page, re.S)[1]) == (
        "Figure1.Aboxof941.4"
    )
    assert re.search(
        r'<img\s+src="data:image/svg\+xml[^"]*"\s+alt="Figure 1. A box of 941.4"', page
    )
    assert "Not measured in this campaign." in page


def test_a_paper_has_to_be_built(tmp_path):
    with pytest.raises(PublishError, match=r"not built .*small\.aux.* Run snakemake first"):
        write_html(*small_paper(tmp_path), tmp_path / "small.html")


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_on_a_small_screen(small, tab, scheme):
    page = tab(small, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("link", name="941.4 Mb/s").click()
    page.wait_for_function("document.querySelector(':target')?.id === 'tsn:a.rate.mbps'")
    assert page.evaluate("document.images[0].naturalWidth") > 40
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options={"preload": False}).response["violations"]
    assert [item["id"] for item in found] == []


@pytest.mark.long
@pytest.mark.parametrize("paper", [ENGLISH, KOREAN], ids=["English", "Korean"])
def test_a_paper_has_the_content_of_its_pdf(tmp_path, paper):
    results = english(tmp_path) if paper is ENGLISH else KoreanPages.prepared(tmp_path)
    paper.built(results)
    write_html(paper.folder, results / "paper", tmp_path / "paper.html")
    page = (tmp_path / "paper.html").read_text(encoding="utf-8")
    there = {html.unescape(place) for place in re.findall(r'\bid="([^"]*)"', page)}
    shown = links(page)
    assert {place for place, _ in shown} <= there
    # Hyphens at line ends and capitals of heads are the PDF's alone.
    printed = re.sub(r"\s|-", "", paper.text(results)).lower()
    body = page.partition('<div class="provenance"')[0]
    values = {text for place, text in shown if place.startswith("tsn:")}
    assert len(values) > 60
    assert [text for text in values if text.replace("-", "").lower() not in printed] == []
    captions = [
        squeezed(text) for text in re.findall(r"<figcaption>(.*?)</figcaption>", body, re.S)
    ]
    assert len(captions) > 10
    for caption in captions:
        number, _, text = caption.partition(".")
        number = number.replace("Figure", "Fig.")
        wanted = [f"{number}{point}{text}".replace("-", "").lower() for point in ("", ".")]
        assert any(each in printed for each in wanted), caption
    headings = [squeezed(text) for text in re.findall(r"<h[23][^>]*>(.*?)</h[23]>", body, re.S)]
    assert len(headings) > 8
    for heading in headings:
        last = re.sub(r"^[IVX]+-(?=[A-Z]\.)", "", heading).replace("AppendixA.", "AppendixA")
        last = re.sub(r"^(Appendix|부록)([A-Z])\.", r"\1\2", last)
        assert last.replace("-", "").lower() in printed, heading
