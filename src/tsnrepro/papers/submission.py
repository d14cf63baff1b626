"""A manuscript as a tarball that compiles alone, for a preprint server, a review or a journal.

The tarball has the LaTeX source, the values of one record, the figures and the bibliography. Before
it is written, LuaLaTeX compiles its files outside the repository.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.assertions import check_assertions, read_assertions
from tsnrepro.papers.expansion import LINK, expand, is_korean, linked
from tsnrepro.papers.manuscript import without_comments
from tsnrepro.papers.programs import run
from tsnrepro.papers.tarball import write_tarball

TARGETS = ("arxiv", "anonymous", "journal")
AUTHORS_FILE = "authors.tex"
KOREAN_CLASS = "korean-journal.cls"
_CLASS = re.compile(r"\\documentclass\[journal\]\{IEEEtran\}")
_RUNNING_HEADS = re.compile(r"\\markboth\{.*?\}\n\\maketitle", re.S)
_LINK = re.compile(rf"\\{LINK}\{{[^{{}}]*\}}\{{([^{{}}]*)\}}")
_STYLE = ("tsnrepro.sty", "tsnrepro.lua")
_INPUTS = ("values.tex", "published.tex", "provenance.tex", "verdicts.tex")
_FOLDERS = ("figures", "tables")
_ANONYMOUS = "% For blind review.\n\\newcommand\\paperauthors{Anonymous}\n"
# Labels and page breaks are stable after three runs.
_RUNS = 3


def write_submission(manuscript: Path, results: Path, target: str, output: Path) -> None:
    """Write the tarball of a manuscript, and the PDF that it compiles to in the same folder.

    Parameters
    ----------
    manuscript
        Folder of the manuscript in ``paper/``.
    results
        Folder of the built paper, with values, figures and bibliography.
    target
        ``arxiv``: with the file that names the compiler and the main source. ``anonymous``: without
        authors. ``journal``: one text with the values written in, in the layout of IEEEtran or, for
        a paper in Korean, of ``korean-journal.cls``.
    output
        The tarball, ``.tar.gz``. Equal sources and results give equal bytes.

    Raises
    ------
    PublishError
        The paper is not built, its record does not carry one of its sentences, the target is
        unknown, or the tarball does not compile.
    """
    if target not in TARGETS:
        raise PublishError(f"unknown target '{target}'", "", f"There are: {', '.join(TARGETS)}")
    check_assertions(read_assertions(results), manuscript.name)
    files = files_of(manuscript, results, target)
    pdf = compiled(files, manuscript.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as opened:
        write_tarball(opened, {path: files[path] for path in sorted(files)})
    output.with_name(output.name.removesuffix(".tar.gz") + ".pdf").write_bytes(pdf)


def files_of(manuscript: Path, results: Path, target: str) -> dict[str, bytes]:
    """Return the content of the files of a manuscript's tarball by path.

    Raises
    ------
    PublishError
        The paper is not built.
    """
    name, papers = manuscript.name, manuscript.parent
    bibliography = results / f"{name}.bbl"
    main = (manuscript / "main.tex").read_text(encoding="utf-8")
    cites = "\\bibliography{" in without_comments(main)
    if cites and not bibliography.is_file():
        raise PublishError("the paper is not built", str(bibliography), "Run snakemake first")
    found = {str(path.relative_to(manuscript)): path for path in manuscript.rglob("*.tex")}
    found[f"{name}.tex"] = found.pop("main.tex")
    found |= {file: papers / file for file in (*_STYLE, AUTHORS_FILE)}
    found |= {file: results / file for file in _INPUTS if (results / file).is_file()}
    for folder in _FOLDERS:
        for path in (results / folder).rglob("*"):
            if path.is_file():
                found[str(path.relative_to(results))] = path
    content = {place: path.read_bytes() for place, path in found.items()}
    content[f"{name}.bbl"] = bibliography.read_bytes() if cites else b""
    if target == "anonymous":
        content[AUTHORS_FILE] = _ANONYMOUS.encode()
    elif target == "journal":
        return _for_journal(content, name, papers / KOREAN_CLASS)
    else:
        content["00README.json"] = _instructions(name)
    return content


def _for_journal(files: Mapping[str, bytes], name: str, korean: Path) -> dict[str, bytes]:
    """Return the files with one text, with the values written in, instead of all sources."""
    text = expand(files, name, value=linked)
    kept = (AUTHORS_FILE, *_STYLE, "provenance.tex", f"{name}.bbl")
    found = {
        place: content
        for place, content in files.items()
        if place in kept or place.startswith("figures/")
    }
    if is_korean(text):
        text = _CLASS.sub(rf"\\documentclass{{{korean.stem}}}", text)
        found[korean.name] = korean.read_bytes()
    # A running head is set in capitals, which would change the target of a link.
    text = _RUNNING_HEADS.sub(lambda head: _LINK.sub(r"\1", head[0]), text)
    return found | {f"{name}.tex": text.encode()}


def _instructions(name: str) -> bytes:
    """Return the instructions of how to compile for arXiv (its 00README file format)."""
    instructions = {
        "process": {"compiler": "lualatex"},
        "sources": [{"filename": f"{name}.tex", "usage": "toplevel"}],
    }
    return (json.dumps(instructions, indent=1) + "\n").encode()


def compiled(files: Mapping[str, bytes], name: str, what: str = "the tarball") -> bytes:
    """Return the PDF that files compile to; ``NAME.tex`` is the main source.

    Raises
    ------
    PublishError
        They do not compile; the message has the last lines of the output of LuaLaTeX.
    """
    command = [
        "lualatex",
        "-no-shell-escape",
        "-halt-on-error",
        "-interaction=nonstopmode",
        f"{name}.tex",
    ]
    # The date is not part of the PDF.
    dates = {
        "FORCE_SOURCE_DATE": "1",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0"),
    }
    with temporary_folder() as folder:
        for place, content in files.items():
            path = Path(folder) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            for _ in range(_RUNS):
                run(command, Path(folder), **dates)
        except PublishError as error:
            raise PublishError(f"{what} does not compile alone: {error.what}", name) from error
        return (Path(folder) / f"{name}.pdf").read_bytes()
