"""The field's terms in both languages: ``paper/glossary.yaml``, and its printed form."""

from typing import Annotated

from pydantic import Field

from tsnrepro.common.repository import root
from tsnrepro.config.base import ConfigModel, Distinct, load

GLOSSARY, PRINTED = "paper/glossary.yaml", "docs/glossary.md"
Word = Annotated[str, Field(min_length=1)]
_HEAD = """# Terms in English and Korean

Each term of the field is translated once. This page is written from
[paper/glossary.yaml](../paper/glossary.yaml) by `scripts/schemas`; a test holds the manuscripts and
the Korean README to it.

| English | Korean | not |
| --- | --- | --- |
"""


class Term(ConfigModel):
    """A term of the field."""

    english: Word
    korean: Word
    """Its translation."""
    never: Distinct[Word] = []
    """Other translations, which no text uses."""


class Glossary(ConfigModel):
    """All terms."""

    terms: Annotated[list[Term], Field(min_length=1)]


def glossary() -> list[Term]:
    """Return the terms in the order of their English.

    Raises
    ------
    ConfigurationError
        The file does not fit.
    """
    return sorted(load(Glossary, root() / GLOSSARY).terms, key=lambda term: term.english)


def as_page(terms: list[Term]) -> str:
    """Return the terms as a page in Markdown."""
    rows = (f"| {t.english} | {t.korean} | {', '.join(t.never)} |\n" for t in terms)
    return _HEAD + "".join(rows)
