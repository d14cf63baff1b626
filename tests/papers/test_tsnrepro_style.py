"""The LaTeX commands of paper/tsnrepro.sty."""

import os
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

PAPERS = Path(__file__).resolve().parents[2] / "paper"
SECONDS = 60
VALUES = r"""
\tsnset{a.b}{print}{12.5}\tsnset{a.b}{raw}{12.5}\tsnset{a.b}{unit}{Mb/s}
\tsnset{a.b}{interval}{12.5 [11, 14]}\tsnset{a.b}{rawlo}{11}\tsnset{a.b}{rawhi}{14}
\tsnset{a.b}{decimals}{1}
\tsnset{a.no}{print}{--}\tsnset{a.no}{raw}{nil}\tsnset{a.no}{unit}{s}
\tsnset{a.no}{rawlo}{700}\tsnset{a.no}{rawhi}{nil}\tsnset{a.no}{decimals}{0}
\tsnset{a.low}{print}{\ensuremath{-}3}\tsnset{a.low}{raw}{(-3)}
\tsnset{a.word}{print}{cannot tell}\tsnset{a.word}{raw}{cannot tell}
\tsnset{a.word}{unit}{}\tsnset{a.word}{decimals}{0}
\tsnset{testbed.kind}{print}{model}\tsnset{testbed.kind}{raw}{model}
\tsnset{a.chance}{unit}{}\tsnset{a.chance}{print}{0.0000}\tsnset{a.chance}{raw}{2e-05}
\tsnset{t-1/r/c_d}{print}{941.0}\tsnset{t-1/r/c_d}{raw}{941.0}\tsnset{t-1/r/c_d}{unit}{\%}
"""
RULED_ROWS = r"\ifknown{a.b}{\hline x\\}{}\ifknown{a.no}{\hline y\\}{}"
DOCUMENT = r"""
\documentclass{article}\usepackage{tsnrepro}%s\begin{document}\pagestyle{empty}%s\end{document}
"""

pytestmark = [
    pytest.mark.latex,
    pytest.mark.skipif(
        not shutil.which("lualatex") and not os.environ.get("CI"),
        reason="lualatex is not installed",
    ),
]


def compiled(folder, body, preamble=""):
    (folder / "one.tex").write_text(DOCUMENT % (VALUES + preamble, body), encoding="utf-8")
    return subprocess.run(
        ["lualatex", "-halt-on-error", "-interaction=nonstopmode", "one.tex"],
        cwd=folder,
        env=os.environ | {"TEXINPUTS": f".:{PAPERS}:", "max_print_line": "1000"},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )


def test_every_command_prints_its_text(tmp_path):
    lines = {
        r"\val{a.b}": "12.5",
        r"\unitval{a.b}": "12.5 Mb/s",
        r"\unitinterval{a.b}": "12.5 [11, 14] Mb/s",
        r"\unitval{a.word}": "cannot tell",
        r"\pub{t-1/r/c_d}": "941.0",
        r"\unitpub{t-1/r/c_d}": "941.0 %",
        r"\publink{t-1/r/c_d}{failed}": "failed",
        r"\calc{2}{100*(\rawpub{t-1/r/c_d}/\rawval{a.b}-1)}": "7428.00",
        r"\calc{1}{1-\rawval{a.low}}": "4.0",
        r"\calc{1}{2*\rawval{a.no}}": "–",
        r"\calc{0}{-1234567.4}": "−1 234 567",
        r"\ifcalc{\rawhi{a.b} < 15}{below}{above}": "below",
        r"\ifcalc{\rawlo{a.b} < 11}{below}{above}": "above",
        r"\ifknown{a.b}{known}{unknown}": "known",
        r"\ifknown{a.no}{known}{unknown}": "unknown",
        r"\ifbounded{a.b}{bounded}{open}": "bounded",
        r"\ifbounded{a.no}{bounded}{open}": "open",
        r"\ifval{a.word}{cannot tell}{yes}{no}": "yes",
        r"\ifval{a.word}{lower}{yes}{no}": "no",
        r"\caseval{a.word}{{lower}{one}{cannot tell}{two}}": "two",
        r"\wordval{a.word}\wordval{a.no}": "cannot tell–",
        r"\pvalue{a.b}, \pvalue{a.chance}": "p = 12.5, p < 0.0001",
        r"\pubus{t-1/r/c_d}": "0.94",
        r"\ours\unlessmodel{ and more}": "Simulated",
        r"\begin{tabular}{ll}\cells{a.{b,no}}\end{tabular}": "12.5 –",
        # A rule in a row may follow expandable commands only.
        rf"\begin{{tabular}}{{l}}{RULED_ROWS}\end{{tabular}}": "x",
        r"\begin{tabular}{l}\cells[interval]{a.{b}}\end{tabular}": "12.5 [11, 14]",
    }
    done = compiled(tmp_path, "\n\n".join(lines))
    assert done.returncode == 0, done.stdout[-2000:]
    text = subprocess.run(
        ["pdftotext", "-layout", "one.pdf", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Letters of formulae are of a block of their own.
    text = unicodedata.normalize("NFKC", text)
    printed = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert printed == list(lines.values())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (r"\val{a.c}", "There is no value `a.c'"),
        (r"\pub{t-1/r/x_y}", "There is no value `t-1/r/x_y'"),
        (r"\hi{t-1/r/c_d}", "The value `t-1/r/c_d' has no `hi'"),
        (r"\ifval{a.c}{x}{y}{z}", "There is no value `a.c'"),
        (r"\publink{a.c}{text}", "There is no value `a.c'"),
        (r"\caseval{a.word}{{lower}{one}}", "No case for `cannot tell' of `a.word'"),
        (r"\ifcalc{\rawhi{a.no} < 1}{y}{n}", "cannot calculate nil < 1"),
        (r"\calc{1}{\rawval{a.c}}", "cannot calculate"),
        (r"\calc{1}{1 +}", "cannot calculate"),
        (r"\cells{a.b}", "cannot calculate a.b"),
        (r"\cells{a.{c}}", "There is no value `a.c'"),
    ],
)
def test_an_invalid_command_is_an_error(tmp_path, body, says):
    done = compiled(tmp_path, body)
    assert done.returncode != 0
    assert says in done.stdout


def test_an_unknown_key_names_those_near_it(tmp_path):
    (tmp_path / "values.tex").write_text(
        VALUES.replace(r"}\tsnset", "}\n\\tsnset"), encoding="utf-8"
    )
    done = compiled(tmp_path, r"\val{a.wrod}")
    assert done.returncode != 0
    assert "There is no value `a.wrod'. Near: a.word, a.low, a.no" in done.stdout


def test_a_figure_that_is_not_copied_is_read_from_the_record(tmp_path):
    (tmp_path / "record").mkdir()
    figure = compiled(tmp_path, "A figure")
    assert figure.returncode == 0
    (tmp_path / "one.pdf").rename(tmp_path / "record/one.pdf")
    field = r"\tsnset{loss/one}{figure}{record/one.pdf}"
    preamble = rf"\usepackage{{graphicx}}{field}"
    done = compiled(tmp_path, r"\measuredfigure{loss/one}", preamble)
    assert done.returncode == 0
    assert "record/one.pdf" in done.stdout


def test_every_command_is_explained():
    style = (PAPERS / "tsnrepro.sty").read_text(encoding="utf-8")
    defining = r"(?:newcommand|NewDocumentCommand|let|newenvironment|NewDocumentEnvironment)"
    names = {*re.findall(rf"(?m)^ *\\{defining}\{{?\\?([A-Za-z]+)(?![A-Za-z@])", style)}
    assert {"val", "caseval", "supplement", "measuredvalues"} <= names
    page = (PAPERS / "macros.md").read_text(encoding="utf-8")
    explained = {*re.findall(r"[A-Za-z]+", " ".join(re.findall(r"`([^`]*)`", page)))}
    assert names <= explained, names - explained
