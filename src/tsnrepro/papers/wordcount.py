"""How long a printed paper is, as journals ask: words and characters of text and appendix."""

import re
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.papers.numbering import pages

# Headings alone on their line, as the papers of both languages have them.
_REFERENCES = re.compile(r"^\s*(REFERENCES|References|참고문헌)\s*$", re.M)
_APPENDIX = re.compile(r"^\s*(APPENDIX|Appendix|부록)(\s+[A-Z])?\s*$", re.M)
_WORD = re.compile(r"\w[\w'’-]*")


@dataclass(frozen=True)
class Length:
    """Words, and characters without spaces, of one part of a paper.

    A Korean word is what stands between two spaces. Numbers count as words, since they are printed.
    """

    part: str
    words: int
    characters: int


def lengths(pdf: Path) -> list[Length]:
    """Return the lengths of a paper's text, its references and its appendix.

    Raises
    ------
    PublishError
        The PDF cannot be read.
    """
    return lengths_of_text("\n".join(pages(pdf)))


def lengths_of_text(text: str) -> list[Length]:
    """Return the lengths of the three parts of a paper's text."""
    references = _REFERENCES.search(text)
    text_end = references.start() if references else len(text)
    appendix = _APPENDIX.search(text, text_end)
    references_end = appendix.start() if appendix else len(text)
    parts = {
        "text": text[:text_end],
        "references": text[text_end:references_end],
        "appendix": text[references_end:],
    }
    return [
        Length(part, len(_WORD.findall(content)), len(re.sub(r"\s", "", content)))
        for part, content in parts.items()
    ]


def as_table(papers: dict[str, list[Length]]) -> str:
    """Return the lengths of papers as lines of a table."""
    lines = [f"{'paper':28}{'part':12}{'words':>8}{'characters':>12}"]
    for name, parts in papers.items():
        lines += [f"{name:28}{p.part:12}{p.words:8}{p.characters:12}" for p in parts]
    return "\n".join(lines)
