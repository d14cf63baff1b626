"""The expanded text has the values and sentences that LuaLaTeX prints."""

import re

import pytest
from manuscript_checks import latex
from small_paper import small_paper
from test_frer_udp_manuscript import PAPER as ENGLISH
from test_frer_udp_manuscript import prepared as english
from test_tas_evaluation_manuscript import PAPER as KOREAN
from test_tas_evaluation_manuscript import TestPages as KoreanPages

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.expansion import expand, linked
from tsnrepro.papers.latex_source import definitions, groups, uncommented
from tsnrepro.papers.pdf_text import pages
from tsnrepro.papers.submission import compiled, files_of

pytestmark = latex

STYLE = "paper/tsnrepro.sty"
VALUES = r"""
\tsnset{a.b}{print}{12.5}\tsnset{a.b}{unit}{Mb/s}\tsnset{a.b}{decimals}{1}
\tsnset{a.b}{interval}{12.5 [11,~14]}\tsnset{a.b}{bounds}{[11,~14]}
\tsnset{a.b}{raw}{12.5}\tsnset{a.b}{rawlo}{11.0}\tsnset{a.b}{rawhi}{14.0}
\tsnset{a.no}{print}{--}\tsnset{a.no}{raw}{nil}\tsnset{a.no}{rawlo}{nil}\tsnset{a.no}{rawhi}{nil}
\tsnset{a.word}{print}{cannot tell}\tsnset{a.word}{raw}{cannot tell}
\tsnset{testbed.kind}{raw}{model}\tsnset{testbed.kind}{print}{model}
\tsnset{a.chance}{print}{0.0000}\tsnset{a.chance}{raw}{2e-05}
\tsnset{p/1/x}{print}{500}\tsnset{p/1/x}{raw}{500.0}\tsnset{p/2/x}{print}{530}\tsnset{p/2/x}{raw}{530.0}
"""


def expanded(folder, body, korean=False, **options):
    """Return the expanded body of a manuscript."""
    files = files_of(*small_paper(folder), "arxiv")
    option = "korean" if korean else "hangul"
    main = f"\\usepackage[{option}]{{tsnrepro}}\n\\newcommand\\both[2]{{#2 and #1}}\n%\n{body}"
    files |= {"small.tex": main.encode(), "values.tex": VALUES.encode()}
    return expand(files, "small", **options).partition("{tsnrepro}")[2].strip()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"a \unitval{a.b}.", r"a 12.5\,Mb/s."),
        (r"\interval{a.b} and \bounds{a.b}", "12.5 [11,~14] and [11,~14]"),
        (r"\valto{3}{a.b}", r"12.5\phantom{00}"),
        (r"\calc{0}{1e3*\rawval{a.b}}", r"12\,500"),
        (r"\calc{1}{2*\rawval{a.no}}", "--"),
        (r"\calc{1}{1.0}", "1.0"),
        (r"\ifcalc{\rawhi{a.b} < 15}{below}{above}", "below"),
        (r"\ifknown{a.no}{known}{unknown}", "unknown"),
        (r"\ifbounded{a.b}{bounded}{open}", "bounded"),
        ("one\n\\caseval{a.word}{\n  {lower}{x}\n  {cannot tell}{two}}\nthree", "one\ntwo\nthree"),
        ("one\n\\ifval{a.word}{lower}{x}{}\nthree", "one\nthree"),
        ("one \\ifknown{a.b}{\n  two\n}{}\nthree", "one  two \nthree"),
        (r"\cells{a.{b,no}} \\ next", r"12.5 & -- \\ next"),
        (r"\pubrange{p/1/x}{p/2/x}, \pubrange{p/1/x}{p/1/x}", "500--530, 500"),
        (r"\pvalue{a.b}, \pvalue{a.chance}", "$p=12.5$, $p<0.0001$"),
        (r"\ours\unlessmodel{ and more} x", "Simulated x"),
        (r"\ours\sidebyside{} x", "Simulated x"),
        (r"\ours{} on \units{}", "Simulated on Mb/s"),
        (r"\both{\val{a.b}}{\val{a.no}}", "-- and 12.5"),
        ("5\\,\\% of % a comment\n  all", "5\\,\\% of all"),
        (r"\measuredfigure[width=2cm]{loss/none}", r"\measuredfigure[width=2cm]{loss/none}"),
    ],
)
def test_a_command_expands_to_its_printed_text(tmp_path, body, text):
    assert expanded(tmp_path, body) == text


def test_words_of_a_korean_paper_are_korean(tmp_path):
    assert expanded(tmp_path, r"\wordval{a.word}, \ours", korean=True) == "판단 불가, 시뮬레이션"


def test_values_may_be_links(tmp_path):
    text = expanded(tmp_path, r"\unitval{a.b}", value=linked)
    assert text == r"\valuelink{a.b}{12.5\,Mb/s}"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (r"\val{a.c}", r"no value 'a\.c'"),
        (r"\caseval{a.word}{{lower}{x}}", "no case for 'cannot tell' of 'a.word'"),
        (r"\calc{1}{1 +}", "cannot calculate"),
        (r"\verdict{a-claim}", "no claim 'a-claim'"),
        (r"\input{sections/none}", r"no file sections/none\.tex"),
        (r"\val{a.b", "a group does not end"),
    ],
)
def test_an_invalid_text_is_an_error(tmp_path, body, says):
    with pytest.raises(PublishError, match=says):
        expanded(tmp_path, body)


def test_the_parser_reads_source_like_tex():
    assert uncommented("a % b\n  c\n  % d\ne 5\\% \\\\% f\ng") == "a c\ne 5\\% \\\\g"
    assert [*groups("{a}\n {b{c}} d")] == ["a", "b{c}", "d"]
    found, rest = definitions(r"\newcommand\a{b}x\newcommand{\c}[2]{#2#1}\newcommand\d[1][o]{#1}")
    assert {name: macro.arguments for name, macro in found.items()} == {"a": 0, "c": 2}
    assert rest == r"x\newcommand\d[1][o]{#1}"


def characters(pdf):
    """Return the letters of a PDF in lower case, since running heads are in capitals."""
    text = "".join(pages(pdf)).replace("-\n", "").lower()
    return sorted(re.sub(r"\s|-", "", text))


@pytest.mark.long
@pytest.mark.parametrize("paper", [ENGLISH, KOREAN], ids=["English", "Korean"])
def test_the_expanded_text_compiles_to_the_same_pages(tmp_path, paper):
    results = english(tmp_path) if paper is ENGLISH else KoreanPages.prepared(tmp_path)
    paper.built(results)
    files = files_of(paper.folder, results / "paper", "arxiv")
    text = expand(files, paper.name)
    for command in (r"\val{", r"\caseval", r"\ifcalc", r"\calc", r"\pub{", r"\interval"):
        assert command not in text
    (tmp_path / "expanded.pdf").write_bytes(
        compiled(files | {f"{paper.name}.tex": text.encode()}, paper.name)
    )
    assert characters(tmp_path / "expanded.pdf") == characters(paper.pdf(results))
