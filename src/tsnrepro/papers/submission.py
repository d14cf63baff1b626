"""A manuscript as a tarball that compiles alone, for a preprint server, a review or a journal.

The tarball has the LaTeX source, the values of one record, the figures and the bibliography, and
the supplement as a PDF with its labels, to which the paper refers. Before it is written, LuaLaTeX
compiles its files outside the repository.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import short_commit
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.assertions import check_assertions, read_assertions
from tsnrepro.papers.expansion import LINK, expand, is_korean, linked
from tsnrepro.papers.latex_source import definitions, uncommented
from tsnrepro.papers.manuscript import SUPPLEMENT
from tsnrepro.papers.programs import run
from tsnrepro.papers.tarball import write_tarball

TARGETS = ("arxiv", "anonymous", "journal")
AUTHORS_FILE = "authors.tex"
KOREAN_CLASS = "korean-journal.cls"
_CLASS = re.compile(r"\\documentclass\[journal\]\{IEEEtran\}")
_RUNNING_HEADS = re.compile(r"\\markboth\{.*?\}\n\\maketitle", re.S)
_LINK = re.compile(rf"\\{LINK}\{{[^{{}}]*\}}\{{([^{{}}]*)\}}")
_PROJECT = "tsnrepro"
# A DOI (ISO 26324), but not that of the example in authors.tex.
_DOI = re.compile(r"\b10\.\d{4,9}/(?!zenodo\.1234567\b)\S")
_STYLE = ("tsnrepro.sty", "tsnrepro.lua")
_INPUTS = ("values.tex", "published.tex", "provenance.tex", "verdicts.tex")
_FOLDERS = ("figures", "tables")
_ANONYMOUS = r"""% For blind review.
\newcommand\paperauthors{Anonymous}
\newcommand\deposit{--}
\newcommand\reportaddress{}
"""
# What stands in an anonymous text for a commit and for the name of this project.
_WITHHELD, _UNNAMED = b"withheld", "record"
_INPUT = re.compile(r"\\input\{([^{}]+)\}")
# By what follows the name of the paper in that of the job, the runs after which labels and page
# breaks are stable: the supplement begins with its labels.
_RUNS = {"": 3, SUPPLEMENT: 2}
# Where a preprint server keeps what it does not compile.
_ANCILLARY = "anc/"


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
        authors, commits and the name of this project. ``journal``: one text with the values written
        in, in the layout of IEEEtran or, for a paper in Korean, of ``korean-journal.cls``.
    output
        The tarball, ``.tar.gz``. Equal sources and results give equal bytes.

    Raises
    ------
    PublishError
        The paper is not built, its record does not carry one of its sentences, the target is
        unknown, the tarball does not compile, the text of an anonymous one names an author, or
        another has no DOI of its deposit.
    """
    if target not in TARGETS:
        raise PublishError(f"unknown target '{target}'", "", f"There are: {', '.join(TARGETS)}")
    check_assertions(read_assertions(results), manuscript.name)
    name = manuscript.name
    files = files_of(manuscript, results, target)
    if target != "anonymous":
        _check_deposit(files)
    pdfs = compiled(files, {f"{name}{end}": runs for end, runs in _RUNS.items()})
    supplement = f"{name}{SUPPLEMENT}"
    place = _ANCILLARY if target == "arxiv" else ""
    files[f"{place}{supplement}.pdf"] = pdfs[supplement]
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as opened:
        write_tarball(opened, {path: files[path] for path in sorted(files)})
    stem = output.name.removesuffix(".tar.gz")
    output.with_name(f"{stem}.pdf").write_bytes(pdfs[name])
    output.with_name(f"{stem}{SUPPLEMENT}.pdf").write_bytes(pdfs[supplement])


def files_of(manuscript: Path, results: Path, target: str) -> dict[str, bytes]:
    """Return the content of the files of a manuscript's tarball by path.

    Raises
    ------
    PublishError
        The paper is not built.
    """
    name, papers = manuscript.name, manuscript.parent
    bibliography = results / f"{name}.bbl"
    cites = "\\bibliography{" in uncommented((manuscript / "main.tex").read_text(encoding="utf-8"))
    if cites and not bibliography.is_file():
        raise PublishError("the paper is not built", str(bibliography), "Run snakemake first")
    labels = f"{name}{SUPPLEMENT}.aux"
    found = {file: papers / file for file in (*_STYLE, AUTHORS_FILE)}
    found |= {file: results / file for file in (*_INPUTS, labels) if (results / file).is_file()}
    for folder in _FOLDERS:
        for path in (results / folder).rglob("*"):
            if path.is_file():
                found[str(path.relative_to(results))] = path
    content = {place: path.read_bytes() for place, path in found.items()}
    content |= _sources(manuscript)
    content[f"{name}.tex"] = content.pop("main.tex")
    content[f"{name}.bbl"] = bibliography.read_bytes() if cites else b""
    if target == "anonymous":
        return _anonymous(content, results)
    elif target == "journal":
        return _for_journal(content, name, papers / KOREAN_CLASS)
    else:
        content["00README.json"] = _instructions(name)
    return content


def _sources(manuscript: Path) -> dict[str, bytes]:
    """Return the sources that the main one reads, whatever the testbed, without comments."""
    found: dict[str, bytes] = {}
    unread = ["main.tex"]
    while unread:
        place = unread.pop()
        path = manuscript / place
        if place not in found and path.is_file():
            text = uncommented(path.read_text(encoding="utf-8"))
            found[place] = text.encode()
            unread += _INPUT.findall(text)
    return found


def _anonymous(files: Mapping[str, bytes], results: Path) -> dict[str, bytes]:
    """Return the files without authors, commits and the name of this project.

    Raises
    ------
    PublishError
        A text names an author.
    """
    authors = definitions(files[AUTHORS_FILE].decode("utf-8"))[0]["paperauthors"].body
    names = [name.strip() for name in re.split(r",|\\and\b", authors) if name.strip()]
    record = json.loads((results / "provenance.json").read_text(encoding="utf-8"))
    commits = {*_commits(record)}
    found = {}
    for place, content in {**files, AUTHORS_FILE: _ANONYMOUS.encode()}.items():
        for name in names:
            if name.encode() in content:
                raise PublishError(f"an anonymous paper names '{name}'", place, "Remove the name")
        if not place.startswith("figures/"):
            for commit in sorted(commits, key=len, reverse=True):
                content = content.replace(commit.encode(), _WITHHELD)  # noqa: PLW2901
            content = content.replace(_PROJECT.encode(), _UNNAMED.encode())  # noqa: PLW2901
        found[place.replace(_PROJECT, _UNNAMED)] = content
    return found


def _check_deposit(files: Mapping[str, bytes]) -> None:
    """Raise an error unless the deposit in the authors' file has a DOI."""
    deposit = definitions(files[AUTHORS_FILE].decode("utf-8"))[0]["deposit"].body
    if not _DOI.search(deposit):
        raise PublishError(
            f"\\deposit is '{deposit}', which has no DOI of the record",
            f"paper/{AUTHORS_FILE}",
            "Deposit the archive of 'snakemake deposit' and write its DOI and SHA-256 there",
        )


def _commits(record: Mapping) -> Iterator[str]:
    """Yield the commits of a record, in full and abbreviated as printed."""
    for commit in (
        record["commit"],
        *(one for item in record["measured"] for one in item["commits"]),
    ):
        yield from (commit, short_commit(commit))


def _for_journal(files: Mapping[str, bytes], name: str, korean: Path) -> dict[str, bytes]:
    """Return the files with one text, with the values written in, instead of all sources."""
    text = expand(files, name, value=linked)
    kept = (AUTHORS_FILE, *_STYLE, "provenance.tex", f"{name}.bbl")
    found = {
        place: content
        for place, content in files.items()
        if place in kept or place.startswith("figures/") or place.endswith(".aux")
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


def compiled(
    files: Mapping[str, bytes], jobs: Mapping[str, int], what: str = "the tarball"
) -> dict[str, bytes]:
    """Return the PDFs that files compile to, by job.

    Parameters
    ----------
    files
        Their content by path.
    jobs
        The jobs in order, with their number of runs. The main source of all is that of the first,
        ``JOB.tex``.
    what
        What they are, for a message.

    Raises
    ------
    PublishError
        They do not compile; the message has the last lines of the output of LuaLaTeX.
    """
    name = next(iter(jobs))
    options = ("-no-shell-escape", "-halt-on-error", "-interaction=nonstopmode")
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
            for job, runs in jobs.items():
                for _ in range(runs):
                    command = ["lualatex", *options, f"-jobname={job}", f"{name}.tex"]
                    run(command, Path(folder), **dates)
        except PublishError as error:
            raise PublishError(f"{what} does not compile alone: {error.what}", name) from error
        return {job: (Path(folder) / f"{job}.pdf").read_bytes() for job in jobs}
