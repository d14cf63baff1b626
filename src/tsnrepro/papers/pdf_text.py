"""The text of built papers: word counts, and the pages of numbered tables and figures.

A paper's supplement is the file ``NAME-supplement.pdf`` beside it.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import PublishError
from tsnrepro.config.papers import manuscripts, sources_of
from tsnrepro.papers.manuscript import SUPPLEMENT
from tsnrepro.papers.programs import run
from tsnrepro.published import documents as published

_KOREAN = {"table": "표", "figure": "그림"}
# A heading alone on its line, in both languages.
_REFERENCES = re.compile(r"^\s*(REFERENCES|References|참고문헌)\s*$", re.M)
_WORD = re.compile(r"\w[\w'’-]*")


def pages(pdf: Path) -> list[str]:
    """Return the text of each page of a PDF; PublishError if the PDF cannot be read."""
    return run(["pdftotext", str(pdf), "-"]).decode(errors="replace").split("\f")[:-1]


def without_supplements(pdfs: Iterable[Path]) -> list[Path]:
    """Return the papers of some PDFs, which a pattern may have found with their supplements."""
    return [pdf for pdf in pdfs if not pdf.stem.endswith(SUPPLEMENT)]


def _supplement_pages(pdf: Path) -> list[str]:
    """Return the text of each page of a paper's supplement, none where it has none."""
    supplement = pdf.with_name(f"{pdf.stem}{SUPPLEMENT}.pdf")
    return pages(supplement) if supplement.is_file() else []


# --- length -------------------------------------------------------------------------------------


def word_counts(text: str) -> dict[str, tuple[int, int]]:
    """Return the words, and the characters without spaces, of the text and references of a paper.

    Numbers are words; a Korean word is delimited by spaces.
    """
    references = _REFERENCES.search(text)
    end = references.start() if references else len(text)
    return {"text": _counted(text[:end]), "references": _counted(text[end:])}


def _counted(text: str) -> tuple[int, int]:
    return len(_WORD.findall(text)), len("".join(text.split()))


def word_count_table(pdfs: list[Path]) -> str:
    """Return the word counts of built papers and supplements as the lines of a table, with pages.

    Where ``max_pages`` of a manuscript's data sources limits them, the pages are "7 of 8", and a
    line at the end names each paper that exceeds it. Raises PublishError if a PDF cannot be read.
    """
    lines = [f"{'paper':28}{'part':12}{'words':>8}{'characters':>12}{'pages':>8}"]
    too_long = []
    for pdf in without_supplements(pdfs):
        paper, supplement = pages(pdf), _supplement_pages(pdf)
        counts = word_counts("\n".join(paper)) | {"supplement": _counted("\n".join(supplement))}
        limit = sources_of(pdf.stem).max_pages if pdf.stem in manuscripts() else None
        allowed = f"{len(paper)} of {limit}" if limit else len(paper)
        number = {"text": allowed, "supplement": len(supplement)}
        if limit and len(paper) > limit:
            too_long.append(
                f"{pdf.stem}: {plural(len(paper), 'page')}, {limit} allowed by its venue"
            )
        lines += [
            f"{pdf.stem:28}{part:12}{words:8}{characters:12}{number.get(part, ''):>8}"
            for part, (words, characters) in counts.items()
        ]
    return "\n".join(lines + too_long)


# --- numbered tables and figures ----------------------------------------------------------------


def numbered_items(pdf: Path, document: str) -> dict[str, str | None]:
    """Return the page that has each numbered table and figure of a paper's document.

    A caption names the item: "Table 4.2 of the report", "원 논문의 표 9A, 9B".

    ``pdf``: the built paper. ``document``: name in ``data/published/documents.yaml``, which lists
    the numbered items. Returns the page by ``table 9A`` or ``figure 4``: ``3`` of the paper, ``S3``
    of its supplement, None where no page names the item. Raises PublishError if the PDF cannot be
    read, or there is no such document.
    """
    known = published.documents()
    if document not in known:
        raise PublishError(f"no document '{document}'", "", f"There are: {', '.join(known)}")
    # Korean text may break within a word.
    texts = {
        f"{part}{number}": re.sub(r"\s", "", text)
        for part, found in (("", pages(pdf)), ("S", _supplement_pages(pdf)))
        for number, text in enumerate(found, 1)
    }
    return {item: _first_page(texts, _reference(item)) for item in known[document].numbered}


def _first_page(texts: dict[str, str], reference: re.Pattern[str]) -> str | None:
    return next((page for page, text in texts.items() if reference.search(text)), None)


def _reference(item: str) -> re.Pattern[str]:
    """Return a pattern of references to an item in either language, without spaces."""
    kind, _, number = item.partition(" ")
    listed = rf"(?:[\dA-Z.]+,)*{re.escape(number)}"
    if kind in _KOREAN:
        korean = rf"(?:문서|원논문|보고서)의{_KOREAN[kind]}{listed}(?![\dA-Z]|\.\d)"
    else:
        korean = rf"(?:문서|원논문|보고서)의{listed}절"
    return re.compile(rf"{korean}|(?i:{kind}s?){listed}(?i:ofthereport)")


def numbered_items_table(papers: dict[str, dict[str, str | None]]) -> str:
    """Return the pages of the numbered items of papers as the lines of a table."""
    lines = [f"{'paper':28}{'document has':16}{'page':>6}"]
    for paper, items in papers.items():
        lines += [f"{paper:28}{item:16}{page or 'none':>6}" for item, page in items.items()]
    return "\n".join(lines)
