"""Changes since an earlier version are marked, and the marked text compiles."""

import re
import shutil
import subprocess

import pytest
from small_paper import MAIN, small_paper, text_of

from tsnrepro.common.errors import PublishError
from tsnrepro.papers import diff
from tsnrepro.papers.diff import compared_with, papers_compared, write_diff
from tsnrepro.papers.submission import files_of
from tsnrepro.papers.tarball import write_tarball

pytestmark = [
    pytest.mark.latex,
    pytest.mark.skipif(not shutil.which("latexdiff"), reason="latexdiff is not installed"),
]
KOREAN = MAIN.replace("[hangul]", "[korean]").replace("The rate was", "전송률은")


def packed(paper, path):
    with path.open("wb") as opened:
        write_tarball(opened, files_of(*paper, "arxiv"))
    return path


def repository_with(paper):
    """Make a paper's folder a git repository with one commit."""
    folder = paper[0].parents[1]
    identity = "-c user.name=A -c user.email=a@example.org"
    for words in ("init -q", "add paper", f"{identity} commit -q -m One"):
        subprocess.run(["git", "-C", folder, *words.split()], check=True)
    return folder


def test_a_changed_number_is_marked_and_listed(tmp_path):
    before = packed(small_paper(tmp_path / "a", number="937.8"), tmp_path / "small-arxiv.tar.gz")
    now = small_paper(tmp_path / "b", main=MAIN.replace("as others saw", "as we saw"))
    write_diff(*now, str(before), tmp_path / "diff.pdf")
    source = (tmp_path / "diff.tex").read_text(encoding="utf-8")
    assert re.search(r"\\DIFdel\{937\.8", source)
    assert re.search(r"\\DIFadd\{941\.4", source)
    assert re.search(r"\\DIFdel\{others", source)
    text = " ".join(text_of(tmp_path / "diff.pdf").split())
    assert re.search(r"Numbers that changed.*a\.rate\.mbps.* 937\.8 Mb/s 941\.4 Mb/s", text)


def test_a_korean_paper_is_compared_too(tmp_path):
    before = small_paper(tmp_path / "a", number="937.8", main=KOREAN)
    packed(before, tmp_path / "small-arxiv.tar.gz")
    now = small_paper(tmp_path / "b", main=KOREAN.replace("두 단어", "새 단어"))
    # A folder of tarballs, one a paper.
    write_diff(*now, str(tmp_path), tmp_path / "diff.pdf")
    text = re.sub(r"\s", "", text_of(tmp_path / "diff.pdf"))
    assert "두새단어" in text
    assert re.search(r"달라진수치:.*a\.rate\.mbps937\.8Mb/s941\.4Mb/s", text)


def test_a_revision_has_its_text_and_the_present_numbers(tmp_path):
    old = MAIN.replace("as others saw", r"beside \val{a.gone.count} others")
    paper = small_paper(tmp_path, main=old)
    repository_with(paper)
    (paper[0] / "main.tex").write_text(MAIN, encoding="utf-8")
    write_diff(*paper, "HEAD", tmp_path / "diff.pdf")
    source = (tmp_path / "diff.tex").read_text(encoding="utf-8")
    assert re.search(r"\\DIFdel\{beside", source)
    assert r"\texttt{a.\allowbreak{}gone" in source
    assert not re.search(r"\\DIF\w+\{[^}]*941", source)
    assert "with the present numbers" in " ".join(text_of(tmp_path / "diff.pdf").split())


def test_tables_with_other_columns_are_not_marked(tmp_path, monkeypatch):
    tried = []

    def compiled(files, jobs, what):
        tried.append(files)
        if len(tried) == 1:
            raise PublishError(what)
        return dict.fromkeys(jobs, b"PDF")

    monkeypatch.setattr(diff, "compiled", compiled)
    table = "\\begin{tabular}{l}\n%s \\\\\n\\end{tabular}\n\\bibliographystyle"
    papers = [
        small_paper(tmp_path / word, main=MAIN.replace(r"\bibliographystyle", table % word))
        for word in ("one", "two")
    ]
    packed(papers[0], tmp_path / "small-arxiv.tar.gz")
    write_diff(*papers[1], str(tmp_path), tmp_path / "diff.pdf")
    assert "The columns of tables changed" in tried[1]["changes.tex"].decode()
    marked = tried[1]["small.tex"].decode()
    assert re.search(r"(?m)^two \\\\", marked)
    assert "two" not in re.findall(r"\\DIFadd\w*\{([^}]*)", marked)


@pytest.mark.parametrize(
    ("against", "says"),
    [
        ("no-such-branch", r"git knows no revision 'no-such-branch', and there is no such file"),
        ("other.tar.gz", r"no such tarball .*other\.tar\.gz"),
        ("broken.tar.gz", r"not a tarball: .*broken\.tar\.gz"),
        ("strange.tar.gz", r"the tarball is of 'strange', not of 'small'"),
        ("empty.tar.gz", r"not a tarball of a paper .*empty\.tar\.gz"),
        ("folder", r"the folder has no tarball of small .*small-arxiv\.tar\.gz"),
        ("HEAD", r"revision 'HEAD' has no paper 'small'"),
    ],
)
def test_an_invalid_version_is_an_error(tmp_path, monkeypatch, against, says):
    paper = small_paper(tmp_path)
    shutil.copytree(paper[0], tmp_path / "kept")
    shutil.rmtree(paper[0])
    repository_with(paper)
    shutil.copytree(tmp_path / "kept", paper[0])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.tar.gz").write_bytes(b"no gzip")
    of_another = {"strange.tex": b"", "strange.bbl": b"", "values.tex": b""}
    for name, files in (("strange", of_another), ("empty", {"a.txt": b""})):
        with (tmp_path / f"{name}.tar.gz").open("wb") as opened:
            write_tarball(opened, files)
    with pytest.raises(PublishError, match=says):
        write_diff(*paper, against, tmp_path / "diff.pdf")
    assert not (tmp_path / "diff.pdf").exists()


def test_a_tarball_selects_its_paper(tmp_path):
    tarball = str(packed(small_paper(tmp_path), tmp_path / "any-name.tar.gz"))
    assert papers_compared(["other", "small"], tarball) == ["small"]
    assert papers_compared(["other", "small"], "v1.0") == ["other", "small"]
    with pytest.raises(PublishError, match=r"is of 'small' .*These are built: other"):
        papers_compared(["other"], tarball)
    with pytest.raises(PublishError, match="--config against=REVISION"):
        papers_compared(["other"], "")


def test_a_revision_is_compared_by_its_commit(tmp_path, monkeypatch):
    folder = repository_with(small_paper(tmp_path))
    monkeypatch.chdir(folder)
    assert re.fullmatch(r"[0-9a-f]{40}", compared_with("HEAD"))
    assert compared_with("paper") == "paper"
    assert compared_with("unknown") == "unknown"
