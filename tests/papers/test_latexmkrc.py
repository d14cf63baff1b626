"""How latexmk builds a manuscript: after a run that was ended, and without running programs."""

import os
import shutil
import subprocess

import pytest
from manuscript_checks import latex
from small_paper import text_of

from tsnrepro.common.repository import root

pytestmark = latex

# LuaLaTeX that is killed once, while it writes the .aux.
_KILLED_ONCE = """#!/bin/sh
if [ ! -e killed ]; then
  touch killed
  printf '\\\\relax\\n\\\\newlabel{one}{{1}{' > "$TSNREPRO_PAPER/small.aux"
  kill -KILL $$
fi
exec {lualatex} "$@"
"""
_PARTS = r"""
\documentclass[journal]{IEEEtran}
\usepackage{tsnrepro}
\begin{document}
\title{A Title}\author{\paperauthors}
\begin{paper}
\maketitle
\section{Text}\label{text}
The rest is in \ref{rest}.
\end{paper}
\begin{supplement}
\section{Rest}\label{rest}
The text is in Section~\ref{text}.%s
\end{supplement}
\end{document}
"""
_MAIN = r"""
\documentclass{article}
\begin{document}
\section{One}\label{one}
See \ref{one}. %s
\end{document}
"""


@pytest.fixture
def manuscript(tmp_path):
    """Return a function that builds a small manuscript with the repository's latexmkrc."""
    folder, results = tmp_path / "small", tmp_path / "results"
    folder.mkdir()
    results.mkdir()
    shutil.copy(root() / "paper" / "latexmkrc", folder)
    (results / "values.tex").touch()

    for name in ("tsnrepro.sty", "tsnrepro.lua", "authors.tex"):
        shutil.copy(root() / "paper" / name, tmp_path)

    def build(body="", path="", main=_MAIN):
        (folder / "main.tex").write_text(main % body, encoding="utf-8")
        environment = {"TSNREPRO_PAPER": str(results), "PATH": f"{path}:{os.environ['PATH']}"}
        return subprocess.run(
            ["latexmk"],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return build


def test_the_run_after_one_that_was_killed_builds_the_paper(manuscript, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    lualatex = programs / "lualatex"
    lualatex.write_text(_KILLED_ONCE.replace("{lualatex}", shutil.which("lualatex")))
    lualatex.chmod(0o755)
    assert manuscript(path=programs).returncode != 0
    done = manuscript(path=programs)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "results" / "small.pdf").is_file()


def test_after_a_finished_run_there_is_nothing_to_do(manuscript):
    assert manuscript().returncode == 0
    assert "Nothing to do" in manuscript().stdout + manuscript().stderr


def test_a_manuscript_runs_no_programs(manuscript):
    done = manuscript(r"\directlua{tex.print(os.execute('kpsewhich --version') or 'none')}")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "system commands enabled" not in done.stdout


def test_a_paper_and_its_supplement_refer_to_each_other(manuscript, tmp_path):
    done = manuscript(main=_PARTS)
    assert done.returncode == 0, done.stdout[-2000:]
    results = tmp_path / "results"
    assert "The rest is in S1." in text_of(results / "small.pdf")
    assert "The text is in Section I." in text_of(results / "small-supplement.pdf")


def test_a_reference_of_the_supplement_to_nothing_is_an_error(manuscript):
    assert manuscript(r"See \ref{none}.", main=_PARTS).returncode != 0
