"""The language of a report: English as it is written here, or Korean by ``korean.yaml``."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

from markupsafe import Markup, escape

from tsnrepro.config.yaml_files import read_yaml

Translate = Callable[..., str]
"""Returns an English text in the language of a report, with values for its fields."""


@cache
def korean() -> dict[str, str]:
    """Return the Korean of each English text."""
    return cast(dict[str, str], read_yaml(Path(__file__).with_name("korean.yaml")))


def translator(language: str) -> Translate:
    """Return the function that gives a text in a language, ``en`` or ``ko``.

    A text without a translation stays as it is: keys of results, names of factors, and what a
    record says are the same in both.
    """
    known = korean() if language == "ko" else {}

    def translate(text: str, **fields: object) -> str:
        found = known.get(text, text)
        return Markup(escape(found)).format(**fields) if fields else found

    return translate
