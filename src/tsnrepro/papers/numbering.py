"""Where a printed paper has the numbered tables and figures of its document."""

import re
import subprocess
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.published import documents as published

_KOREAN = {"table": "표", "figure": "그림"}


def pages(pdf: Path) -> list[str]:
    """Return the text of each page of a PDF.

    Raises
    ------
    PublishError
        The PDF cannot be read.
    """
    done = subprocess.run(["pdftotext", str(pdf), "-"], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise PublishError(f"a PDF without text: {said}", str(pdf))
    return done.stdout.decode(errors="replace").split("\f")[:-1]


def places(pdf: Path, document: str) -> dict[str, int | None]:
    """Return the page on which a paper names each numbered table and figure of its document.

    A paper names it as its readers look for it: "Table 4.2 of the report", "문서의 표 9A, 9B".

    Parameters
    ----------
    pdf
        The printed paper.
    document
        The document's name in ``data/published/documents.yaml``, which lists what it numbers.

    Returns
    -------
    dict
        Pages from 1 by ``table 9A`` or ``figure 4``; None where no page names it.

    Raises
    ------
    PublishError
        The PDF cannot be read, or there is no such document.
    """
    known = published.documents()
    if document not in known:
        raise PublishError(f"no document '{document}'", "", f"There are: {', '.join(known)}")
    # A line of Korean may break anywhere.
    texts = [re.sub(r"\s", "", text) for text in pages(pdf)]
    return {item: _page(texts, _named(item)) for item in known[document].numbered}


def _page(texts: list[str], named: re.Pattern[str]) -> int | None:
    return next((number for number, text in enumerate(texts, 1) if named.search(text)), None)


def _named(item: str) -> re.Pattern[str]:
    """Return how a page without spaces names an item of its document, in either language."""
    kind, _, number = item.partition(" ")
    exactly = rf"(?:[\dA-Z.]+,)*{re.escape(number)}"
    if kind in _KOREAN:
        korean = rf"(?:문서|보고서)의{_KOREAN[kind]}{exactly}(?![\dA-Z]|\.\d)"
    else:
        korean = rf"(?:문서|보고서)의{exactly}절"
    return re.compile(rf"{korean}|(?i:{kind}s?){exactly}(?i:ofthereport)")


def as_table(found: dict[str, dict[str, int | None]]) -> str:
    """Return where papers have their documents' items, as lines of a table."""
    lines = [f"{'paper':28}{'document has':16}{'page':>6}"]
    for paper, items in found.items():
        lines += [f"{paper:28}{item:16}{page or 'none':>6}" for item, page in items.items()]
    return "\n".join(lines)
