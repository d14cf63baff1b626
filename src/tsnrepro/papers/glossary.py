"""The terms of the field in both languages: ``paper/glossary.yaml``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.common.repository import root
from tsnrepro.config.base import ConfigModel, Distinct, load

GLOSSARY = "paper/glossary.yaml"
Word = Annotated[str, Field(min_length=1)]


class Term(ConfigModel):
    """A term of the field."""

    english: Word
    """The English term."""
    korean: Word
    """Its translation."""
    never: Distinct[Word] = []
    """Other translations, which no text uses."""


class Glossary(ConfigModel):
    """All terms."""

    terms: Annotated[list[Term], Field(min_length=1)]
    """Each once, in any order."""


def glossary() -> list[Term]:
    """Return the terms in the order of their English.

    Raises ConfigurationError if the file does not fit.
    """
    return sorted(load(Glossary, root() / GLOSSARY).terms, key=lambda term: term.english)
