"""A manuscript as a tarball that compiles alone: for a preprint server, or for blind review.

The tarball holds the LaTeX source, the values of one record, the figures and the bibliography. It
is unpacked and compiled with LuaLaTeX, which sees nothing of the repository, before it counts as
made.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.frozen import LINK, frozen, is_korean, linked
from tsnrepro.papers.tarball import write_tarball

TARGETS = ("arxiv", "anonymous", "journal")
AUTHORS_FILE = "authors.tex"
KOREAN_CLASS = "korean-journal.cls"
_CLASS = re.compile(r"\\documentclass\[journal\]\{IEEEtran\}")
_HEADS = re.compile(r"\\markboth\{.*?\}\n\\maketitle", re.S)
_LINK = re.compile(rf"\\{LINK}\{{[^{{}}]*\}}\{{([^{{}}]*)\}}")
_STYLE = ("tsnrepro.sty", "tsnrepro.lua")
# Written for the paper by `paper-inputs`; verdicts only where the audit judges its document.
_INPUTS = ("values.tex", "published.tex", "provenance.tex", "verdicts.tex")
_FOLDERS = ("figures", "tables")
_ANONYMOUS = "% For blind review.\n\\newcommand\\paperauthors{Anonymous}\n"
# Labels, then the appendix's page breaks, settle within three.
_RUNS = 3
_RUN_SECONDS = 300
_TAIL_LINES = 25


def write_submission(manuscript: Path, results: Path, target: str, output: Path) -> None:
    """Write a manuscript's tarball, and beside it the PDF that it compiles to.

    Parameters
    ----------
    manuscript
        Its folder below ``paper/``.
    results
        The folder of its printed results, with values, figures and bibliography.
    target
        ``arxiv``: with the file that names the compiler and the source to start from.
        ``anonymous``: without authors. ``journal``: one text, with the values written in, in a
        journal's layout: IEEEtran's, or for a paper in Korean that of ``korean-journal.cls``.
    output
        The tarball, ``.tar.gz``. Equal sources and results give equal bytes.

    Raises
    ------
    PublishError
        The paper was not printed before, the target is unknown, or the tarball does not compile.
    """
    if target not in TARGETS:
        raise PublishError(f"unknown target '{target}'", "", f"There are: {', '.join(TARGETS)}")
    files = files_of(manuscript, results, target)
    pdf = compiled(files, manuscript.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as opened:
        write_tarball(opened, files)
    output.with_name(output.name.removesuffix(".tar.gz") + ".pdf").write_bytes(pdf)


def files_of(manuscript: Path, results: Path, target: str) -> dict[str, bytes]:
    """Return the content of each file of a manuscript's tarball by its place there.

    Raises
    ------
    PublishError
        The paper was not printed before.
    """
    name, style = manuscript.name, manuscript.parent
    bibliography = results / f"{name}.bbl"
    if not bibliography.is_file():
        raise PublishError(
            "the paper was not printed yet", str(bibliography), "Run snakemake first"
        )
    sources = {path.relative_to(manuscript): path for path in manuscript.rglob("*.tex")}
    found = {str(place): path for place, path in sources.items()}
    found[f"{name}.tex"] = found.pop("main.tex")
    found |= {file: style / file for file in (*_STYLE, AUTHORS_FILE)}
    found |= {file: results / file for file in _INPUTS if (results / file).is_file()}
    for folder in _FOLDERS:
        for path in (results / folder).rglob("*"):
            if path.is_file():
                found[str(path.relative_to(results))] = path
    content = {place: path.read_bytes() for place, path in found.items()}
    content[f"{name}.bbl"] = bibliography.read_bytes()
    if target == "anonymous":
        content[AUTHORS_FILE] = _ANONYMOUS.encode()
    elif target == "journal":
        return _for_journal(content, name, style / KOREAN_CLASS)
    else:
        content["00README.json"] = _instructions(name)
    return content


def _for_journal(files: Mapping[str, bytes], name: str, korean: Path) -> dict[str, bytes]:
    """Return the files with one text, with the values written in, in the place of all sources."""
    text = frozen(files, name, value=linked)
    kept = (AUTHORS_FILE, *_STYLE, "provenance.tex", f"{name}.bbl")
    found = {
        place: content
        for place, content in files.items()
        if place in kept or place.startswith("figures/")
    }
    if is_korean(text):
        text = _CLASS.sub(rf"\\documentclass{{{korean.stem}}}", text)
        found[korean.name] = korean.read_bytes()
    # A running head is set in capitals, a link's target with it.
    text = _HEADS.sub(lambda head: _LINK.sub(r"\1", head[0]), text)
    return found | {f"{name}.tex": text.encode()}


def _instructions(name: str) -> bytes:
    """Return what tells arXiv how to compile (its help on the 00README file format)."""
    said = {
        "process": {"compiler": "lualatex"},
        "sources": [{"filename": f"{name}.tex", "usage": "toplevel"}],
    }
    return (json.dumps(said, indent=1) + "\n").encode()


def compiled(files: Mapping[str, bytes], name: str, what: str = "the tarball") -> bytes:
    """Return the PDF of files alone, of which ``NAME.tex`` is the one to start from.

    Raises
    ------
    PublishError
        They do not compile; with the end of what LuaLaTeX said.
    """
    with temporary_folder() as folder:
        for place, content in files.items():
            path = Path(folder) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        arguments = ["lualatex", "-halt-on-error", "-interaction=nonstopmode", f"{name}.tex"]
        # Nothing of the repository is found by TeX, and the date is no part of the bytes.
        environment = {key: value for key, value in os.environ.items() if key != "TEXINPUTS"}
        environment |= {"FORCE_SOURCE_DATE": "1"}
        environment.setdefault("SOURCE_DATE_EPOCH", "0")
        for _ in range(_RUNS):
            done = subprocess.run(
                arguments,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_RUN_SECONDS,
                check=False,
            )
            if done.returncode:
                said = done.stdout.decode(errors="replace").splitlines()[-_TAIL_LINES:]
                raise PublishError(f"{what} does not compile alone:\n" + "\n".join(said), name)
        return (Path(folder) / f"{name}.pdf").read_bytes()
