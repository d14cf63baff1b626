"""Tarballs compile outside the repository and name the authors as the target requires."""

import os
import re
import socket
import tarfile

import pytest
import yaml
from small_paper import COMMIT, DEPOSITED, KOREAN, MAIN, small_paper, text_of, uncompressed

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root, short_commit
from tsnrepro.papers.submission import files_of, write_submission
from tsnrepro.papers.tarball import read_tarball

AUTHORS = "The tsnrepro authors"

pytestmark = pytest.mark.latex


@pytest.fixture
def built(tmp_path):
    """Return the folders of a small manuscript and of the built paper."""
    return small_paper(tmp_path)


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    """Return the folder of both tarballs with their PDFs."""
    folder = tmp_path_factory.mktemp("submitted")
    for target in ("arxiv", "anonymous"):
        write_submission(*small_paper(folder / target), target, folder / f"{target}.tar.gz")
    return folder


def test_the_tarball_compiles_alone(submitted):
    text = text_of(submitted / "arxiv.pdf")
    assert "941.4" in text
    assert AUTHORS in text
    with tarfile.open(submitted / "arxiv.tar.gz") as archive:
        names = set(archive.getnames())
    assert {"small.tex", "small.bbl", "values.tex", "tsnrepro.sty", "00README.json"} <= names
    assert "anc/small-supplement.pdf" in names
    assert "main.tex" not in names


def test_the_supplement_has_the_provenance(submitted):
    supplement = text_of(submitted / "arxiv-supplement.pdf")
    assert "Supplement" in supplement
    assert "a.rate.mbps" in supplement
    assert "a.rate.mbps" not in text_of(submitted / "arxiv.pdf")


def test_a_number_of_the_paper_leads_into_the_supplement(submitted):
    links = uncompressed((submitted / "arxiv.pdf").read_bytes()).decode("latin-1")
    assert "small-supplement.pdf" in links
    assert "tsn:a.rate.mbps" in links


def test_the_sources_have_no_comments_and_no_strays(built):
    manuscript, _ = built
    main = manuscript / "main.tex"
    main.write_text(main.read_text(encoding="utf-8") + "% a comment\n", encoding="utf-8")
    (manuscript / "stray.tex").write_text("text", encoding="utf-8")
    files = files_of(*built, "arxiv")
    assert b"a comment" not in files["small.tex"]
    assert "stray.tex" not in files


def test_equal_sources_give_equal_bytes(built, submitted, tmp_path):
    write_submission(*built, "arxiv", tmp_path / "again.tar.gz")
    again = (tmp_path / "again.tar.gz").read_bytes()
    assert again == (submitted / "arxiv.tar.gz").read_bytes()


def test_the_tarball_for_blind_review_is_anonymous(submitted, tmp_path):
    text = text_of(submitted / "anonymous.pdf")
    assert "Anonymous" in text
    assert AUTHORS not in text
    leaks = (AUTHORS, "tsnrepro", short_commit(COMMIT), os.getcwd(), socket.gethostname())
    for path, content in read_tarball(submitted / "anonymous.tar.gz").items():
        shown = content
        if path.endswith(".pdf") and path.startswith("small"):
            (tmp_path / "a.pdf").write_bytes(content)
            shown = uncompressed(content) + text_of(tmp_path / "a.pdf").encode()
        for leak in leaks:
            assert leak not in path
            assert leak.encode() not in shown, (leak, path)


def test_a_name_in_the_text_of_an_anonymous_paper_is_an_error(tmp_path):
    paper = small_paper(tmp_path, main=MAIN.replace("두 단어", AUTHORS))
    with pytest.raises(PublishError, match=rf"names '{AUTHORS}'.*small\.tex"):
        files_of(*paper, "anonymous")


def test_a_journal_has_one_text_with_values(tmp_path):
    files = files_of(*small_paper(tmp_path), "journal")
    source = files["small.tex"].decode()
    assert r"was \valuelink{a.rate.mbps}{941.4\,Mb/s}," in source
    assert r"\documentclass[journal]{IEEEtran}" in source
    assert not {"values.tex", "published.tex", "00README.json"} & {*files}


def test_a_korean_journal_has_its_own_layout(tmp_path):
    write_submission(*small_paper(tmp_path, main=KOREAN), "journal", tmp_path / "j.tar.gz")
    files = read_tarball(tmp_path / "j.tar.gz")
    assert "korean-journal.cls" in files
    # In a running head a value is no link.
    assert r"\markboth{941.4}{941.4}" in files["small.tex"].decode()
    text = "".join(text_of(tmp_path / "j.pdf").split())
    assert re.search("초록요약이다.*주제어낱말.*Abstract.*InEnglish.*서론", text)
    assert "was941.4Mb/s,asotherssaw[1]" in text


@pytest.mark.parametrize(
    "deposit", ["--", "", "in preparation", r"doi:10.5281/zenodo.1234567, SHA-256 \texttt{01}"]
)
@pytest.mark.parametrize("target", ["arxiv", "journal"])
def test_a_paper_without_the_doi_of_its_deposit_is_refused(built, tmp_path, target, deposit):
    authors = built[0].parent / "authors.tex"
    text = authors.read_text(encoding="utf-8").replace(DEPOSITED, rf"\deposit{{{deposit}}}")
    authors.write_text(text, encoding="utf-8")
    with pytest.raises(PublishError, match=r"no DOI .*authors\.tex.*snakemake deposit"):
        write_submission(*built, target, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_a_number_leads_to_the_report_on_the_web_where_that_has_an_address(tmp_path):
    manuscript, results = small_paper(tmp_path)
    authors = manuscript.parent / "authors.tex"
    text = authors.read_text(encoding="utf-8")
    address = r"\newcommand\reportaddress{https://example.org/report/}"
    authors.write_text(text.replace(r"\newcommand\reportaddress{}", address), encoding="utf-8")
    write_submission(manuscript, results, "arxiv", tmp_path / "a.tar.gz")
    shown = uncompressed((tmp_path / "a-supplement.pdf").read_bytes()).decode("latin-1")
    assert "https://example.org/report/papers/small/small.html#tsn:a.rate.mbps" in shown


def test_a_paper_has_to_be_built(built, tmp_path):
    (built[1] / "small.bbl").unlink()
    with pytest.raises(PublishError, match=r"not built .*small\.bbl.* Run snakemake first"):
        write_submission(*built, "arxiv", tmp_path / "a.tar.gz")


def test_a_paper_need_not_cite(tmp_path):
    cites = ("~\\cite{one}", "\\bibliographystyle{IEEEtran}\n\\bibliography{references}\n")
    main = MAIN
    for part in cites:
        assert part in main
        main = main.replace(part, "")
    manuscript, results = small_paper(tmp_path, main=main)
    (results / "small.bbl").unlink()
    assert files_of(manuscript, results, "arxiv")["small.bbl"] == b""


def test_a_tarball_that_does_not_compile_is_not_written(built, tmp_path):
    (built[1] / "values.tex").write_text("", encoding="utf-8")
    with pytest.raises(PublishError, match=r"does not compile alone:[\s\S]*a\.rate\.mbps"):
        write_submission(*built, "arxiv", tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_an_unknown_target_is_an_error(built, tmp_path):
    with pytest.raises(PublishError, match=r"unknown target 'letter'.*arxiv, anonymous, journal"):
        write_submission(*built, "letter", tmp_path / "a.tar.gz")


def test_the_authors_are_those_of_the_citation():
    cited = yaml.safe_load((root() / "CITATION.cff").read_text(encoding="utf-8"))["authors"]
    names = ", ".join(author["name"] for author in cited)
    macro = rf"\newcommand\paperauthors{{{names}}}"
    assert macro in (root() / "paper" / "authors.tex").read_text(encoding="utf-8")
