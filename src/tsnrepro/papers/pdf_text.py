"""The text of built papers: word counts, and the pages of numbered tables and figures."""

import re
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.programs import run
from tsnrepro.published import documents as published

_KOREAN = {"table": "표", "figure": "그림"}
# Headings alone on their line, in both languages.
_REFERENCES = re.compile(r"^\s*(REFERENCES|References|참고문헌)\s*$", re.M)
_APPENDIX = re.compile(r"^\s*(APPENDIX|Appendix|부록)(\s+[A-Z])?\s*$", re.M)
_WORD = re.compile(r"\w[\w'’-]*")


def pages(pdf: Path) -> list[str]:
    """Return the text of each page of a PDF.

    Raises
    ------
    PublishError
        The PDF cannot be read.
    """
    return run(["pdftotext", str(pdf), "-"]).decode(errors="replace").split("\f")[:-1]


# --- length -------------------------------------------------------------------------------------


def word_counts(text: str) -> dict[str, tuple[int, int]]:
    """Return the words, and the characters without spaces, of the parts of a paper.

    The parts are ``text``, ``references`` and ``appendix``. Numbers are words; a Korean word is
    delimited by spaces.
    """
    references = _REFERENCES.search(text)
    end = references.start() if references else len(text)
    appendix = _APPENDIX.search(text, end)
    start = appendix.start() if appendix else len(text)
    parts = {"text": text[:end], "references": text[end:start], "appendix": text[start:]}
    return {
        part: (len(_WORD.findall(content)), len("".join(content.split())))
        for part, content in parts.items()
    }


def word_count_table(pdfs: list[Path]) -> str:
    """Return the word counts of built papers as the lines of a table.

    Raises
    ------
    PublishError
        A PDF cannot be read.
    """
    lines = [f"{'paper':28}{'part':12}{'words':>8}{'characters':>12}"]
    for pdf in pdfs:
        counts = word_counts("\n".join(pages(pdf)))
        lines += [f"{pdf.stem:28}{part:12}{w:8}{c:12}" for part, (w, c) in counts.items()]
    return "\n".join(lines)


# --- numbered tables and figures ----------------------------------------------------------------


def numbered_items(pdf: Path, document: str) -> dict[str, int | None]:
    """Return the page of a paper that has each numbered table and figure of its document.

    A caption names the item: "Table 4.2 of the report", "원 논문의 표 9A, 9B".

    Parameters
    ----------
    pdf
        The built paper.
    document
        Name in ``data/published/documents.yaml``, which lists the numbered items.

    Returns
    -------
    dict
        The page, from 1, by ``table 9A`` or ``figure 4``; None where no page names the item.

    Raises
    ------
    PublishError
        The PDF cannot be read, or there is no such document.
    """
    known = published.documents()
    if document not in known:
        raise PublishError(f"no document '{document}'", "", f"There are: {', '.join(known)}")
    # Korean text may break within a word.
    texts = [re.sub(r"\s", "", text) for text in pages(pdf)]
    return {item: _first_page(texts, _reference(item)) for item in known[document].numbered}


def _first_page(texts: list[str], reference: re.Pattern[str]) -> int | None:
    return next((number for number, text in enumerate(texts, 1) if reference.search(text)), None)


def _reference(item: str) -> re.Pattern[str]:
    """Return a pattern of references to an item in either language, without spaces."""
    kind, _, number = item.partition(" ")
    listed = rf"(?:[\dA-Z.]+,)*{re.escape(number)}"
    if kind in _KOREAN:
        korean = rf"(?:문서|원논문|보고서)의{_KOREAN[kind]}{listed}(?![\dA-Z]|\.\d)"
    else:
        korean = rf"(?:문서|원논문|보고서)의{listed}절"
    return re.compile(rf"{korean}|(?i:{kind}s?){listed}(?i:ofthereport)")


def numbered_items_table(papers: dict[str, dict[str, int | None]]) -> str:
    """Return the pages of the numbered items of papers as the lines of a table."""
    lines = [f"{'paper':28}{'document has':16}{'page':>6}"]
    for paper, items in papers.items():
        lines += [f"{paper:28}{item:16}{page or 'none':>6}" for item, page in items.items()]
    return "\n".join(lines)
