"""What changed in a paper: latexdiff between two printings of it, with their numbers written in.

Against the tarball of an earlier submission both text and numbers are compared. A git revision has
the text alone: the record of that day is not in git, so its sentences are written with the numbers
of the present record, and only what was edited is marked.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.common.latex import breakable
from tsnrepro.common.repository import git_in
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.frozen import FIELDS, fields_of, frozen
from tsnrepro.papers.submission import compiled, files_of
from tsnrepro.papers.tarball import read_tarball

ARXIV = "-arxiv.tar.gz"
_SHARED = ("tsnrepro.sty", "authors.tex")
_SECONDS = 120
# Drawings have no text that could be marked; what follows a number or stands in a note is text.
_OPTIONS = (
    *("--encoding=utf8", "--graphics-markup=none", "--math-markup=coarse"),
    "--append-textcmd=tablenotes,thanks,koreanabstract",
    "--append-safecmd=note,ensuremath,textmu,textsuperscript,rlap,llap,symbol",
)
_DRAWINGS = "picture|tikzpicture|DIFnomarkup"
_PREAMBLE = r"""
%DIF PREAMBLE EXTENSION ADDED BY LATEXDIFF
\RequirePackage{xcolor,lua-ul}
\providecommand{\DIFadd}[1]{{\protect\color{blue}\underLine{#1}}}
\providecommand{\DIFdel}[1]{{\protect\color{red}\strikeThrough{#1}}}
\providecommand{\DIFaddbegin}{}
\providecommand{\DIFaddend}{}
\providecommand{\DIFdelbegin}{}
\providecommand{\DIFdelend}{}
\providecommand{\DIFmodbegin}{}
\providecommand{\DIFmodend}{}
\providecommand{\DIFaddFL}[1]{\DIFadd{#1}}
\providecommand{\DIFdelFL}[1]{\DIFdel{#1}}
\providecommand{\DIFaddbeginFL}{}
\providecommand{\DIFaddendFL}{}
\providecommand{\DIFdelbeginFL}{}
\providecommand{\DIFdelendFL}{}
"""
_APPENDIX = "\\input{provenance.tex}"
_MOVED = "moved.tex"
_NOTHING = "--"
_FILES_NAMED = re.compile(r"^%DIF (?:DEL|ADD) /.*\n", re.M)
_BEGIN = "\\begin{document}"
# Not that of a table's columns.
_TRIMMED = re.compile(r"\\cmidrule\([lr]+\)")
_AT = re.compile(r"@(?!\{)")
_SAME_NUMBERS = r"""\makeatletter\par\medskip\noindent
\tsn@say{Text is compared with that of commit \texttt{%s}; both have the present record's numbers.}
  {앞선 커밋의 본문과 비교했다. 수치는 양쪽 모두 지금 기록의 것이다.}\makeatother
"""
_NONE_MOVED = r"""\makeatletter\par\medskip\noindent
\tsn@say{No printed number moved.}{달라진 수치가 없다.}\makeatother
"""
_TABLES_AS_NOW = r"""\makeatletter\par\medskip\noindent
\tsn@say{Tables changed in their columns. They are shown as they are now, without marks.}
  {표의 열이 바뀌었다. 표는 지금 것을 표시 없이 보인다.}\makeatother
"""
_TABLE = r"""\makeatletter\par\medskip\noindent
\tsn@say{Numbers that moved since \texttt{%s}:}{달라진 수치:}
\begin{longtable}{@{}>{\tsn@left}p{.46\textwidth}>{\tsn@left}p{.25\textwidth}>{\tsn@left}p{.25\textwidth}@{}}
\toprule \tsn@say{Value}{값} & \tsn@say{Before}{이전} & \tsn@say{Now}{지금} \\ \midrule \endhead
\bottomrule \endfoot
%s\end{longtable}
\makeatother
"""


@dataclass(frozen=True)
class _Before:
    """An earlier printing: its files, and whether its numbers are its own."""

    files: Mapping[str, bytes]
    label: str
    own_numbers: bool


def write_difference(manuscript: Path, results: Path, against: str, output: Path) -> None:
    """Write a PDF that marks what a paper says otherwise than before.

    Parameters
    ----------
    manuscript
        Its folder below ``paper/``.
    results
        The folder of its printed results.
    against
        A tarball that the target ``arxiv`` made of the same paper, a folder that holds it as
        ``NAME-arxiv.tar.gz``, or a git revision.
    output
        The PDF; the marked LaTeX source lies beside it.

    Raises
    ------
    PublishError
        The paper was not printed yet; the tarball is of another paper or none; the revision is
        unknown or lacks the paper; or the marked text does not compile.
    """
    name, now = manuscript.name, files_of(manuscript, results, "arxiv")
    before = _before(manuscript, against, now)
    first, second = _Printing(before), _Printing(_Before(now, "", own_numbers=True))
    texts = first.text(name), second.text(name)
    files = {place: content for place, content in now.items() if place not in FIELDS}
    moved = _appendix(first, second)
    try:
        marked, pdf = _printed(texts, files | {_MOVED: moved.encode()}, name, _DRAWINGS)
    except PublishError:
        # Tables of other columns than before cannot hold the marks of their cells.
        files[_MOVED] = (_TABLES_AS_NOW + moved).encode()
        marked, pdf = _printed(texts, files, name, f"{_DRAWINGS}|tabular")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".tex").write_text(marked, encoding="utf-8")
    output.write_bytes(pdf)


def papers_compared(names: list[str], against: str) -> list[str]:
    """Return those papers that can be compared: the one that a tarball holds, else all.

    Raises
    ------
    PublishError
        Nothing is said to compare with, or the tarball is of none of them.
    """
    if not against:
        raise PublishError(
            "nothing to compare with", "", "Say it: snakemake diff --config against=REVISION"
        )
    path = Path(against)
    if not path.is_file():
        return names
    name = _name_of(read_tarball(path), path)
    if name not in names:
        raise PublishError(
            f"the tarball is of '{name}'", against, f"These are printed: {', '.join(names)}"
        )
    return [name]


def files_compared_with(against: str) -> list[str]:
    """Return the tarballs that papers are compared with, none where it is a git revision."""
    path = Path(against)
    if against and path.is_dir():
        return sorted(map(str, path.glob(f"*{ARXIV}")))
    return [against] if path.is_file() else []


def compared_with(against: str) -> str:
    """Return a path as it is, and of a revision its commit: branches go on."""
    if not against or Path(against).exists():
        return against
    found = _git(Path(), "rev-parse", "--verify", "--quiet", f"{against}^{{commit}}")
    return found.decode().strip() if found else against


def _name_of(files: Mapping[str, bytes], path: Path) -> str:
    for place in files:
        name = place.removesuffix(".bbl")
        if name != place and "/" not in place and f"{name}.tex" in files and FIELDS[0] in files:
            return name
    raise PublishError(
        "no tarball of a paper", str(path), "Give one that `snakemake arxiv` has written"
    )


def _printed(
    texts: tuple[str, str], files: Mapping[str, bytes], name: str, unmarked: str
) -> tuple[str, bytes]:
    """Return the marked source, and its PDF; ``unmarked`` environments are as they are now."""
    marked = _marked(*texts, unmarked)
    return marked, compiled({**files, f"{name}.tex": marked.encode()}, name, "what latexdiff made")


class _Printing:
    """A paper's text with its values, and which of them it prints."""

    def __init__(self, before: _Before) -> None:
        self.before = before
        self.fields = fields_of(before.files)
        self.printed: set[str] = set()

    def text(self, name: str) -> str:
        missing = None if self.before.own_numbers else _unknown
        return frozen(self.before.files, name, value=self._noted, missing=missing)

    def _noted(self, key: str, text: str) -> str:
        self.printed.add(key)
        return text

    def value(self, key: str) -> str:
        """Return a value as the list of what moved has it: with interval and unit."""
        text = self.fields.get((key, "interval")) or self.fields.get((key, "print"), _NOTHING)
        unit = self.fields.get((key, "unit"))
        return f"{text}\\,{unit}" if unit else text


def _appendix(before: _Printing, now: _Printing) -> str:
    """Return what stands in the place of the appendix: the numbers that moved."""
    if not before.before.own_numbers:
        return _SAME_NUMBERS % breakable(before.before.label)
    keys = sorted(before.printed | now.printed)
    rows = [(key, before.value(key), now.value(key)) for key in keys]
    moved = "".join(
        f"\\texttt{{{breakable(key)}}} & {first} & {second} \\\\\n"
        for key, first, second in rows
        if first != second
    )
    return _TABLE % (breakable(before.before.label), moved) if moved else _NONE_MOVED


def _before(manuscript: Path, against: str, now: Mapping[str, bytes]) -> _Before:
    name, path = manuscript.name, Path(against)
    if path.is_dir():
        path = path / f"{name}{ARXIV}"
        if not path.is_file():
            raise PublishError(f"the folder has no tarball of {name}", str(path))
    if path.is_file():
        files = read_tarball(path)
        found = _name_of(files, path)
        if found != name:
            raise PublishError(f"the tarball is of '{found}', not of '{name}'", str(path))
        return _Before(files, path.name, own_numbers=True)
    if against.endswith((".gz", ".tar")):
        raise PublishError("there is no such tarball", against)
    return _Before(*_at_revision(manuscript, against, now), own_numbers=False)


def _at_revision(
    manuscript: Path, revision: str, now: Mapping[str, bytes]
) -> tuple[dict[str, bytes], str]:
    """Return a paper's sources of a revision with the present numbers, and the commit's digits."""
    repository, name = manuscript.resolve().parents[1], manuscript.name
    found = _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found is None:
        raise PublishError(
            f"git knows no revision '{revision}', and there is no such file or folder",
            str(repository),
            "Give a commit, branch or tag, or a tarball of `snakemake arxiv`",
        )
    commit, folder = found.decode().strip(), f"paper/{name}"
    listed = _git(repository, "ls-tree", "-r", "--name-only", "-z", commit, "--", f"{folder}/")
    places = [place for place in (listed or b"").decode().split("\0") if place.endswith(".tex")]
    if f"{folder}/main.tex" not in places:
        raise PublishError(f"revision '{revision}' has no paper '{name}'", folder)
    files = {place: content for place, content in now.items() if not _is_source(place, name)}
    for place in [*places, *(f"paper/{shared}" for shared in _SHARED)]:
        content = _git(repository, "show", f"{commit}:{place}")
        if content is not None:
            own = place.removeprefix(f"{folder}/").removeprefix("paper/")
            files[f"{name}.tex" if own == "main.tex" else own] = content
    return files, commit[:12]


def _is_source(place: str, name: str) -> bool:
    return place.startswith("sections/") or place in (f"{name}.tex", "constants.tex")


def _git(repository: Path, *words: str) -> bytes | None:
    done = subprocess.run([*git_in(repository), *words], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _unknown(key: str, field: str) -> str:
    """Return what stands for a value that a revision names and the present record lacks."""
    if field in ("unit", "decimals"):
        return ""
    return "nil" if field.startswith("raw") else f"\\texttt{{{breakable(key)}}}"


def _readable(text: str) -> str:
    """Return a text as latexdiff reads it whole: without @, and without brackets of rules."""
    before, begin, body = text.replace(_APPENDIX, f"\\input{{{_MOVED}}}").partition(_BEGIN)
    body = _TRIMMED.sub(r"\\cmidrule", body)
    return before + begin + _AT.sub(r"\\symbol{64}", body)


def _marked(before: str, now: str, unmarked: str) -> str:
    """Return the marked source.

    Raises
    ------
    PublishError
        latexdiff cannot read it; with what it said.
    """
    with temporary_folder() as folder:
        places = [Path(folder) / name for name in ("before.tex", "now.tex", "preamble.tex")]
        for place, text in zip(places, (before, now, _PREAMBLE), strict=True):
            place.write_text(_readable(text), encoding="utf-8")
        first, second, preamble = map(str, places)
        done = subprocess.run(
            [
                "latexdiff",
                *_OPTIONS,
                f"--config=PICTUREENV=(?:{unmarked})\\*?",
                f"--preamble={preamble}",
                first,
                second,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise PublishError(f"latexdiff failed: {done.stderr.decode(errors='replace').strip()}")
    # Its comments name temporary files and the time.
    return _FILES_NAMED.sub("", done.stdout.decode())
