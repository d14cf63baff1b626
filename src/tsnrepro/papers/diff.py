"""The changes to a paper: latexdiff between two versions with their values written in.

The tarball of an earlier submission is compared in text and numbers. A git revision has no record,
so its text is expanded with the numbers of the present record and only edits are marked.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.common.latex import breakable
from tsnrepro.common.repository import git_in
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.expansion import FIELDS, expand, fields_of
from tsnrepro.papers.manuscript import SUPPLEMENT
from tsnrepro.papers.programs import run
from tsnrepro.papers.submission import compiled, files_of
from tsnrepro.papers.tarball import read_tarball

ARXIV = "-arxiv.tar.gz"
_SHARED = ("tsnrepro.sty", "authors.tex")
_OPTIONS = (
    *("--encoding=utf8", "--graphics-markup=none", "--math-markup=coarse"),
    "--append-textcmd=tablenotes,thanks,koreanabstract",
    "--append-safecmd=note,ensuremath,textmu,textsuperscript,rlap,llap,symbol",
)
# Environments without marks.
_UNMARKED = "picture|tikzpicture|DIFnomarkup"
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
# Labels and page breaks are stable after three runs.
_RUNS = 3
_CHANGED = "changes.tex"
_UNKNOWN = "--"
# The changes to both parts are one document; earlier papers had an appendix.
_PARTS = {
    "\\begin{paper}": "",
    "\\end{paper}": "",
    "\\begin{supplement}": "\\clearpage\n\\onecolumn\n\\appendices\n",
    "\\end{supplement}": "",
}
_FILE_COMMENTS = re.compile(r"^%DIF (?:DEL|ADD) /.*\n", re.M)
_BEGIN = "\\begin{document}"
_TRIMMED_RULE = re.compile(r"\\cmidrule\([lr]+\)")
# Not that of a column specification.
_AT = re.compile(r"@(?!\{)")
_SAME_NUMBERS = r"""\makeatletter\par\medskip\noindent
\tsn@bilingual{The text is compared with commit \texttt{%s}, with the present numbers.}
  {앞선 커밋의 본문과 비교했다. 수치는 양쪽 모두 지금 기록의 것이다.}\makeatother
"""
_NO_CHANGES = r"""\makeatletter\par\medskip\noindent
\tsn@bilingual{No printed numbers changed.}{달라진 수치가 없다.}\makeatother
"""
_UNMARKED_TABLES = r"""\makeatletter\par\medskip\noindent
\tsn@bilingual{The columns of tables changed. Tables are shown as they are now, without marks.}
  {표의 열이 바뀌었다. 표는 지금 것을 표시 없이 보인다.}\makeatother
"""
_CHANGES = r"""\makeatletter\par\medskip\noindent
\tsn@bilingual{Numbers that changed since \texttt{%s}:}{달라진 수치:}
\begin{longtable}{@{}>{\tsn@left}p{.46\textwidth}>{\tsn@left}p{.25\textwidth}>{\tsn@left}p{.25\textwidth}@{}}
\toprule \tsn@bilingual{Value}{값} & \tsn@bilingual{Before}{이전} & \tsn@bilingual{Now}{지금}
  \\ \midrule \endhead
\bottomrule \endfoot
%s\end{longtable}
\makeatother
"""


class _Version:
    """A version of a paper: its files, and the keys of the values that its text prints.

    A git revision has no numbers (``has_numbers``), and is printed with those of the present
    record.
    """

    def __init__(
        self, files: Mapping[str, bytes], label: str = "", *, has_numbers: bool = True
    ) -> None:
        self.files, self.label, self.has_numbers = files, label, has_numbers
        self.fields = fields_of(files)
        self.printed: set[str] = set()

    def text(self, name: str) -> str:
        missing = None if self.has_numbers else _placeholder
        return expand(self.files, name, value=self._record, missing=missing)

    def _record(self, key: str, text: str) -> str:
        self.printed.add(key)
        return text

    def value(self, key: str) -> str:
        """Return a value with interval and unit."""
        text = self.fields.get((key, "interval")) or self.fields.get((key, "print"), _UNKNOWN)
        unit = self.fields.get((key, "unit"))
        return f"{text}\\,{unit}" if unit else text


def write_diff(manuscript: Path, results: Path, against: str, output: Path) -> None:
    """Write a PDF with the changes to a paper.

    ``manuscript``: folder of the manuscript in ``paper/``; ``results``: folder of the built paper.
    ``against``: a tarball of the paper from the target ``arxiv``, a folder with it as
    ``NAME-arxiv.tar.gz``, or a git revision. ``output``: the PDF; the marked LaTeX source is
    written to the same folder. Raises PublishError if the paper is not built; the tarball is of
    another paper or none; the revision is unknown or does not have the paper; or the marked text
    does not compile.
    """
    name, files = manuscript.name, files_of(manuscript, results, "arxiv")
    before, now = _earlier_version(manuscript, against, files), _Version(files)
    texts = before.text(name), now.text(name)
    changes = _changed_numbers(before, now)
    left_out = (*FIELDS, f"{name}{SUPPLEMENT}.aux")
    files = {path: content for path, content in files.items() if path not in left_out}
    files[_CHANGED] = changes.encode()
    try:
        marked, pdf = _compiled(texts, files, name, _UNMARKED)
    except PublishError:
        # The cells of a table cannot be marked where its columns changed.
        files[_CHANGED] = (_UNMARKED_TABLES + changes).encode()
        marked, pdf = _compiled(texts, files, name, f"{_UNMARKED}|tabular")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".tex").write_text(marked, encoding="utf-8")
    output.write_bytes(pdf)


def papers_compared(names: list[str], against: str) -> list[str]:
    """Return the papers that can be compared: the one in a tarball, else all.

    Raises PublishError if ``against`` is empty, or the tarball is of none of the papers.
    """
    if not against:
        raise PublishError(
            "nothing to compare with", "", "Name it: snakemake diff --config against=REVISION"
        )
    path = Path(against)
    if not path.is_file():
        return names
    name = _name_of(read_tarball(path), path)
    if name not in names:
        raise PublishError(
            f"the tarball is of '{name}'", against, f"These are built: {', '.join(names)}"
        )
    return [name]


def files_compared_with(against: str) -> list[str]:
    """Return the tarballs that papers are compared with, none for a git revision."""
    path = Path(against)
    if against and path.is_dir():
        return sorted(map(str, path.glob(f"*{ARXIV}")))
    return [against] if path.is_file() else []


def compared_with(against: str) -> str:
    """Return the commit of a git revision, or a path unchanged."""
    if not against or Path(against).exists():
        return against
    found = _git(Path(), "rev-parse", "--verify", "--quiet", f"{against}^{{commit}}")
    return found.decode().strip() if found else against


def _name_of(files: Mapping[str, bytes], path: Path) -> str:
    for file in files:
        name = file.removesuffix(".bbl")
        if name != file and "/" not in file and f"{name}.tex" in files and FIELDS[0] in files:
            return name
    raise PublishError("not a tarball of a paper", str(path), "Give one from `snakemake arxiv`")


def _compiled(
    texts: tuple[str, str], files: Mapping[str, bytes], name: str, unmarked: str
) -> tuple[str, bytes]:
    """Return the marked source and its PDF, without marks in ``unmarked`` environments."""
    marked = _marked(*texts, unmarked)
    job = {name: _RUNS}
    pdf = compiled({**files, f"{name}.tex": marked.encode()}, job, "the output of latexdiff")[name]
    return marked, pdf


def _changed_numbers(before: _Version, now: _Version) -> str:
    """Return the text that replaces the appendix: the changed numbers."""
    if not before.has_numbers:
        return _SAME_NUMBERS % breakable(before.label)
    keys = sorted(before.printed | now.printed)
    rows = [(key, before.value(key), now.value(key)) for key in keys]
    changed = "".join(
        f"\\texttt{{{breakable(key)}}} & {first} & {second} \\\\\n"
        for key, first, second in rows
        if first != second
    )
    return _CHANGES % (breakable(before.label), changed) if changed else _NO_CHANGES


def _earlier_version(manuscript: Path, against: str, now: Mapping[str, bytes]) -> _Version:
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
        return _Version(files, path.name)
    if against.endswith((".gz", ".tar")):
        raise PublishError("there is no such tarball", against)
    return _Version(*_at_revision(manuscript, against, now), has_numbers=False)


def _at_revision(
    manuscript: Path, revision: str, now: Mapping[str, bytes]
) -> tuple[dict[str, bytes], str]:
    """Return the sources of a revision with the present numbers, and the abbreviated commit."""
    repository, name = manuscript.resolve().parents[1], manuscript.name
    found = _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found is None:
        raise PublishError(
            f"git knows no revision '{revision}', and there is no such file or folder",
            str(repository),
            "Give a commit, branch or tag, or a tarball from `snakemake arxiv`",
        )
    commit, folder = found.decode().strip(), f"paper/{name}"
    listed = _git(repository, "ls-tree", "-r", "--name-only", "-z", commit, "--", f"{folder}/")
    paths = [path for path in (listed or b"").decode().split("\0") if path.endswith(".tex")]
    if f"{folder}/main.tex" not in paths:
        raise PublishError(f"revision '{revision}' has no paper '{name}'", folder)
    files = {path: content for path, content in now.items() if not _is_source(path, name)}
    for path in [*paths, *(f"paper/{shared}" for shared in _SHARED)]:
        content = _git(repository, "show", f"{commit}:{path}")
        if content is not None:
            file = path.removeprefix(f"{folder}/").removeprefix("paper/")
            files[f"{name}.tex" if file == "main.tex" else file] = content
    return files, commit[:12]


def _is_source(path: str, name: str) -> bool:
    return path.startswith("sections/") or path in (f"{name}.tex", "constants.tex")


def _git(repository: Path, *arguments: str) -> bytes | None:
    done = subprocess.run([*git_in(repository), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _placeholder(key: str, field: str) -> str:
    """Return the field of a value that a revision prints and the present record does not have."""
    if field in ("unit", "decimals"):
        return ""
    return "nil" if field.startswith("raw") else f"\\texttt{{{breakable(key)}}}"


def _for_latexdiff(text: str) -> str:
    """Return a text without @ and trimmed rules, which latexdiff does not support."""
    for part, replacement in _PARTS.items():
        text = text.replace(part, replacement)
    before, begin, body = text.replace(_APPENDIX, f"\\input{{{_CHANGED}}}").partition(_BEGIN)
    body = _TRIMMED_RULE.sub(r"\\cmidrule", body)
    return before + begin + _AT.sub(r"\\symbol{64}", body)


def _marked(before: str, now: str, unmarked: str) -> str:
    """Return the source with marked changes; PublishError if latexdiff failed."""
    with temporary_folder() as folder:
        paths = [Path(folder) / name for name in ("before.tex", "now.tex", "preamble.tex")]
        for path, text in zip(paths, (before, now, _PREAMBLE), strict=True):
            path.write_text(_for_latexdiff(text), encoding="utf-8")
        first, second, preamble = map(str, paths)
        environments = f"--config=PICTUREENV=(?:{unmarked})\\*?"
        command = ["latexdiff", *_OPTIONS, environments, f"--preamble={preamble}", first, second]
        marked = run(command).decode()
    # Comments with the names of temporary files and the time.
    return _FILE_COMMENTS.sub("", marked)
