"""A small manuscript of one value, one figure and one reference, with a supplement."""

import json
import re
import shutil
import subprocess
import zlib

from tsnrepro.common.repository import root, short_commit

MAIN = r"""
\documentclass[journal]{IEEEtran}
\usepackage{graphicx}
\usepackage[hangul]{tsnrepro}
\input{values.tex}
\begin{document}
\title{A Title}\author{\paperauthors}
\begin{paper}
\maketitle
The rate was \unitval{a.rate.mbps}, as others saw~\cite{one}. 두 단어.
\measuredfigure[width=2cm]{loss/a-figure}
\bibliographystyle{IEEEtran}
\bibliography{references}
\end{paper}
\begin{supplement}
\section{More}
\input{provenance.tex}
\end{supplement}
\end{document}
"""
FIELDS = {
    "print": "941.4",
    "unit": "Mb/s",
    "interval": "941.4",
    "bounds": "--",
    "lo": "--",
    "hi": "--",
    "decimals": "1",
    "raw": "941.4",
    "rawlo": "nil",
    "rawhi": "nil",
}
KOREAN = MAIN.replace("[hangul]", "[korean]").replace(
    r"\maketitle",
    "\\markboth{\\val{a.rate.mbps}}{\\val{a.rate.mbps}}\n\\maketitle\n"
    r"\begin{abstract}요약이다.\end{abstract}\begin{IEEEkeywords}낱말\end{IEEEkeywords}"
    r"\begin{englishabstract}In English.\end{englishabstract}\section{서론}",
)
DEPOSITED = r"\deposit{doi:10.5281/zenodo.7654321, SHA-256 \texttt{00ff}}"
COMMIT = "4f0c9a7be1d2" * 3 + "abcd"
BIBLIOGRAPHY = r"""
\begin{thebibliography}{1}
\bibitem{one} A.~Author, ``A paper.''
\end{thebibliography}
"""


def small_paper(folder, number="941.4", main=MAIN):
    """Write a manuscript and its built results; return both folders."""
    papers, results = folder / "paper", folder / "results" / "small"
    manuscript = papers / "small"
    manuscript.mkdir(parents=True)
    (manuscript / "main.tex").write_text(main, encoding="utf-8")
    for name in ("tsnrepro.sty", "tsnrepro.lua", "authors.tex", "korean-journal.cls"):
        shutil.copy(root() / "paper" / name, papers / name)
    authors = papers / "authors.tex"
    deposited = authors.read_text(encoding="utf-8").replace(r"\deposit{--}", DEPOSITED)
    authors.write_text(deposited, encoding="utf-8")
    (results / "figures" / "loss").mkdir(parents=True)
    (results / "assertions.json").write_text("[]")
    fields = "".join(
        f"\\tsnset{{a.rate.mbps}}{{{name}}}{{{text.replace('941.4', number)}}}\n"
        for name, text in FIELDS.items()
    )
    (results / "values.tex").write_text(fields, encoding="utf-8")
    (results / "published.tex").write_text("", encoding="utf-8")
    line = r"\begin{measuredvalues}"
    line += rf"\trialgroup{{loss}}{{1}}{{one}}{{ab12}}{{{short_commit(COMMIT)}}}"
    line += r"\measuredvalue{a.rate.mbps}{a.rate.mbps}{941.4}{mean}"
    (results / "provenance.tex").write_text(line + r"\end{measuredvalues}", encoding="utf-8")
    provenance = {"commit": COMMIT, "measured": [], "published": [], "files": []}
    (results / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")
    (results / "small-supplement.aux").write_text("\\relax\n", encoding="utf-8")
    (results / "small.bbl").write_text(BIBLIOGRAPHY, encoding="utf-8")
    return manuscript, results


def text_of(pdf):
    done = subprocess.run(["pdftotext", str(pdf), "-"], capture_output=True, text=True, check=True)
    return done.stdout


def uncompressed(pdf):
    """Return the bytes of a PDF with its streams uncompressed."""
    return re.sub(rb"stream\r?\n(.*?)endstream", _inflated, pdf, flags=re.S)


def _inflated(stream):
    try:
        return zlib.decompress(stream[1])
    except zlib.error:  # an image or a font
        return stream[0]
